//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209) values, read strictly: what the registries
//! do not allow panics with the value seen.

use crate::fields::Fields;
use sfv::{BareItem, Item, List, ListEntry, Parser};

/// One member of a Cache-Status or Proxy-Status list: a cache's name and its parameters.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name of the cache or proxy.
    pub name: String,
    item: Item,
}

impl Member {
    /// Whether the boolean parameter `key` is present and true.
    pub fn is(&self, key: &str) -> bool {
        matches!(self.parameter(key), Some(BareItem::Boolean(true)))
    }

    /// A parameter's token or string.
    pub fn word(&self, key: &str) -> Option<String> {
        match self.parameter(key)? {
            BareItem::Token(token) => Some(token.as_str().into()),
            BareItem::String(string) => Some(string.as_str().into()),
            _ => None,
        }
    }

    /// A parameter's integer.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.parameter(key)? {
            BareItem::Integer(number) => Some(i64::from(*number)),
            _ => None,
        }
    }

    /// Whether the parameter is present, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        self.parameter(key).is_some()
    }

    fn parameter(&self, key: &str) -> Option<&BareItem> {
        self.item.params.iter().find(|(name, _)| name.as_str() == key).map(|(_, value)| value)
    }
}

/// The members of Cache-Status, the one nearest the origin first.
///
/// RFC 9211 section 2: "each member of the list represents a cache that has handled the request.
/// The first member represents the cache closest to the origin server, and the last member
/// represents the cache closest to the user".
pub fn cache_status(fields: &Fields) -> Vec<Member> {
    let members = list(fields, "cache-status");
    members.iter().for_each(check_cache_member);
    members
}

/// The members of Proxy-Status, the one nearest the origin first.
pub fn proxy_status(fields: &Fields) -> Vec<Member> {
    let members = list(fields, "proxy-status");
    members.iter().for_each(check_proxy_member);
    members
}

/// RFC 9211 section 2.1: "hit" and "fwd" are exclusive; "fwd-status" only "when fwd is present";
/// "stored" and "collapsed" too.
fn check_cache_member(member: &Member) {
    for (name, value) in &member.item.params {
        let fits = match name.as_str() {
            "hit" | "stored" | "collapsed" => matches!(value, BareItem::Boolean(_)),
            "fwd" => matches!(value, BareItem::Token(token) if FORWARD_REASONS.contains(&token.as_str())),
            "fwd-status" => {
                matches!(value, BareItem::Integer(status) if (100..=599).contains(&i64::from(*status)))
            }
            "ttl" => matches!(value, BareItem::Integer(_)),
            "key" => matches!(value, BareItem::String(_)),
            "detail" => matches!(value, BareItem::Token(_) | BareItem::String(_)),
            _ => false,
        };
        assert!(fits, "Cache-Status parameter {}={value:?} does not fit RFC 9211", name.as_str());
    }
    assert!(
        !(member.is("hit") && member.has("fwd")),
        "RFC 9211 section 2.2: fwd MUST NOT be used with hit: {member:?}"
    );
    for dependent in ["fwd-status", "stored", "collapsed"] {
        assert!(!member.has(dependent) || member.has("fwd"), "{dependent} without fwd: {member:?}");
    }
}

fn check_proxy_member(member: &Member) {
    for (name, value) in &member.item.params {
        let fits = match name.as_str() {
            "error" => matches!(value, BareItem::Token(token) if PROXY_ERRORS.contains(&token.as_str())),
            "next-hop" => matches!(value, BareItem::Token(_) | BareItem::String(_)),
            "next-protocol" => matches!(value, BareItem::Token(_) | BareItem::ByteSequence(_)),
            "received-status" => matches!(value, BareItem::Integer(_)),
            "details" | "rcode" => matches!(value, BareItem::String(_)),
            "status-code"
            | "info-code"
            | "alert-id"
            | "header-section-size"
            | "header-size"
            | "trailer-section-size"
            | "trailer-size"
            | "body-size" => matches!(value, BareItem::Integer(_)),
            "alert-message" | "header-name" | "trailer-name" | "coding" => {
                matches!(value, BareItem::Token(_) | BareItem::String(_))
            }
            _ => false,
        };
        assert!(fits, "Proxy-Status parameter {}={value:?} does not fit RFC 9209", name.as_str());
    }
}

fn list(fields: &Fields, name: &str) -> Vec<Member> {
    let value = fields.joined(name);
    if value.is_empty() {
        return Vec::new();
    }
    let parsed = Parser::new(&value).parse::<List>();
    let list = parsed.unwrap_or_else(|error| panic!("{name} is not a structured list: {error}: {value}"));
    list.into_iter().map(|entry| member(entry, &value)).collect()
}

fn member(entry: ListEntry, value: &str) -> Member {
    let ListEntry::Item(item) = entry else { panic!("an inner list in {value}") };
    let name = match &item.bare_item {
        BareItem::Token(token) => token.as_str().to_string(),
        BareItem::String(string) => string.as_str().to_string(),
        other => panic!("a member named {other:?} in {value}"),
    };
    Member { name, item }
}

/// RFC 9211 section 2.2.
const FORWARD_REASONS: [&str; 8] =
    ["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"];

/// RFC 9209 section 2.3.
const PROXY_ERRORS: [&str; 32] = [
    "dns_timeout",
    "dns_error",
    "destination_not_found",
    "destination_unavailable",
    "destination_ip_prohibited",
    "destination_ip_unroutable",
    "connection_refused",
    "connection_terminated",
    "connection_timeout",
    "connection_read_timeout",
    "connection_write_timeout",
    "connection_limit_reached",
    "tls_protocol_error",
    "tls_certificate_error",
    "tls_alert_received",
    "http_request_error",
    "http_request_denied",
    "http_response_incomplete",
    "http_response_header_section_size",
    "http_response_header_size",
    "http_response_body_size",
    "http_response_trailer_section_size",
    "http_response_trailer_size",
    "http_response_transfer_coding",
    "http_response_content_coding",
    "http_response_timeout",
    "http_upgrade_failed",
    "http_protocol_error",
    "proxy_internal_response",
    "proxy_internal_error",
    "proxy_configuration_error",
    "proxy_loop_detected",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, value: &str) -> Fields {
        Fields(vec![(name.into(), value.into())])
    }

    #[test]
    fn members_are_read() {
        let status =
            cache_status(&fields("Cache-Status", "far; hit; ttl=-3, \"near by\"; fwd=stale; fwd-status=304"));
        assert!(status[0].is("hit"));
        assert_eq!(status[0].number("ttl"), Some(-3));
        assert_eq!((status[1].name.as_str(), status[1].word("fwd")), ("near by", Some("stale".into())));
    }

    #[test]
    #[should_panic(expected = "MUST NOT be used with hit")]
    fn a_hit_that_was_forwarded_is_refused() {
        cache_status(&fields("cache-status", "a; hit; fwd=miss"));
    }

    #[test]
    #[should_panic(expected = "does not fit RFC 9209")]
    fn an_unknown_error_is_refused() {
        proxy_status(&fields("proxy-status", "a; error=bad_luck"));
    }
}
