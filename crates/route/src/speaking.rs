//! Names of fields that speak for a client or its request: identity, original target, or method.
//!
//! Origins trust these fields, and no cache key contains them. A client that could send them would
//! choose responses that other clients get. The names have several spellings. CGI, WSGI and Rack
//! map both `X-Forwarded-For` and `X_Forwarded_For` to `HTTP_X_FORWARDED_FOR`, and some servers map
//! `X.Forwarded.For` too. The comparison therefore treats every character other than a letter or
//! digit as a hyphen. Cost: the first two letters rule out nearly every name.

/// Statement of a field that only this node may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStatement {
    /// The client's address.
    Address,
    /// Scheme, host, port or path of the client's original request, or the path of the request to
    /// this node.
    Request,
    /// Facts that a proxy in front found out about the client, such as the user's name.
    Identity,
    /// A method other than the request's own.
    Method,
    /// A field spelt to be mistaken for another field, which this node has already checked.
    Disguise,
}

/// Table of bytes that origins leave unchanged in the names of fields. A table is fast, since every
/// name is checked.
static IS_PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = byte == b'-' as usize || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    plain
};

impl FieldStatement {
    /// Returns the kind of a field with this name, in lower case; `None` for fields that may pass.
    pub fn of(name: &[u8]) -> Option<Self> {
        let is_disguised = name.iter().any(|byte| !IS_PLAIN[usize::from(*byte)]);
        let may_speak = matches!(
            name,
            [b'x', ..]
                | [b'c', b'f' | b'l', ..]
                | [b't', b'r', ..]
                | [b'f', b'o' | b'a' | b'l' | b'r', ..]
                | [b'p', b'r', ..]
                | [b'w', b'l', ..]
                | [b'r', b'e', ..]
                | [b's', b'u', ..]
        );
        if !may_speak && !is_disguised || name.len() > NAME_MAX && !name.starts_with(b"x") {
            return None;
        }
        let mut folded = [0; NAME_MAX];
        let length = name.len().min(NAME_MAX);
        for (to, byte) in folded.iter_mut().zip(&name[..length]) {
            *to = if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
        }
        Self::of_folded(std::str::from_utf8(&folded[..length]).ok()?, is_disguised)
    }

    fn of_folded(name: &str, is_disguised: bool) -> Option<Self> {
        let said = if ADDRESS.contains(&name) {
            Self::Address
        } else if METHOD.contains(&name) {
            Self::Method
        } else if REQUEST.contains(&name) {
            Self::Request
        } else if name == "x-forwarded" || name.starts_with("x-forwarded-") {
            Self::Identity
        } else if is_disguised && DISGUISED.contains(&name) {
            Self::Disguise
        } else {
            return None;
        };
        Some(if is_disguised { Self::Disguise } else { said })
    }
}

/// Longer than any name below; of longer names only the beginning is compared.
const NAME_MAX: usize = 40;

const ADDRESS: &[&str] = &[
    "x-forwarded-for",
    "x-real-ip",
    "true-client-ip",
    "x-true-client-ip",
    "x-client-ip",
    "client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
    "x-cluster-client-ip",
    "x-remote-ip",
    "x-remote-addr",
    "remote-addr",
    "x-originating-ip",
    "proxy-client-ip",
    "wl-proxy-client-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-envoy-external-address",
    "x-original-forwarded-for",
    "forwarded-for",
];

const REQUEST: &[&str] = &[
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-by",
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-rewrite-url",
    "x-host",
    "x-http-host-override",
    "x-host-override",
    "x-scheme",
    "x-url-scheme",
    "x-envoy-original-path",
    "front-end-https",
    "cf-visitor",
    "cloudfront-forwarded-proto",
    // Announces a surrogate in front that supports ESI. The answer is meant for surrogates alone.
    "surrogate-capability",
    // Becomes HTTP_PROXY, which programs read as a setting (CVE-2016-5385).
    "proxy",
];

const METHOD: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];

/// Fields of more than one word that the node uses, replaces, or has in keys.
const DISGUISED: &[&str] = &[
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "cdn-loop",
    "content-encoding",
    "content-length",
    "content-type",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "user-agent",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_known() {
        for (name, said) in [
            ("x-forwarded-for", Some(FieldStatement::Address)),
            ("x_forwarded_for", Some(FieldStatement::Disguise)),
            ("x-forwarded_for", Some(FieldStatement::Disguise)),
            ("x.forwarded.proto", Some(FieldStatement::Disguise)),
            ("true_client_ip", Some(FieldStatement::Disguise)),
            ("accept_encoding", Some(FieldStatement::Disguise)),
            ("if_none_match", Some(FieldStatement::Disguise)),
            ("forwarded", Some(FieldStatement::Request)),
            ("proxy", Some(FieldStatement::Request)),
            ("x-original-url", Some(FieldStatement::Request)),
            ("x-forwarded-user", Some(FieldStatement::Identity)),
            ("x-forwarded-prefix", Some(FieldStatement::Identity)),
            ("x-forwarded-this-name-is-longer-than-any-of-those-known", Some(FieldStatement::Identity)),
            ("x-http-method-override", Some(FieldStatement::Method)),
            ("accept-encoding", None),
            ("api_key", None),
            ("x-requested-with", None),
            ("x-forwardedness", None),
            ("proxy-authorization", None),
            ("cookie", None),
            ("", None),
        ] {
            assert_eq!(FieldStatement::of(name.as_bytes()), said, "{name}");
        }
    }

    #[test]
    fn every_name_listed_is_reached() {
        for name in [ADDRESS, REQUEST, METHOD].concat() {
            assert!(name.len() <= NAME_MAX && FieldStatement::of(name.as_bytes()).is_some(), "{name}");
        }
        for name in [ADDRESS, REQUEST, METHOD, DISGUISED].concat().iter().filter(|name| name.contains('-')) {
            let spelt = name.replace('-', "_");
            assert_eq!(FieldStatement::of(spelt.as_bytes()), Some(FieldStatement::Disguise), "{spelt}");
        }
    }
}
