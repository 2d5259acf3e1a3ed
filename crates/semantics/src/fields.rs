//! Hop-by-hop fields, and the fields in which each hop leaves its name (RFC 9110, section 7.6; RFC
//! 8586).

use crate::lists;
use bytes::Bytes;
use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, COOKIE, DATE, EXPIRES, Entry, HOST,
    SET_COOKIE, VARY, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use shoal_core::{FieldLines, Fields};

/// CDN-Loop (RFC 8586).
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Removes the fields meant for this hop or this proxy: Connection and the fields that it names,
/// framing, upgrades, and the proxy's own authentication.
///
/// RFC 9110, section 7.6.1: "Intermediaries MUST parse a received Connection header field before a
/// message is forwarded and, for each connection-option in this field, remove any header or trailer
/// field(s) from the message with the same name as the connection-option […] Furthermore,
/// intermediaries SHOULD remove or replace fields that are known to require removal before
/// forwarding, whether or not they appear as a connection-option".
///
/// RFC 9111, section 3.1, excepts the same fields from storage, and the proxy fields with them.
pub fn remove_hop_by_hop(fields: &mut HeaderMap) {
    nominated(fields).iter().for_each(|name| drop(fields.remove(name)));
    // Few messages have such fields. Comparing names costs less than ten lookups of absent names.
    while let Some(name) = fields.keys().find(|name| is_hop_by_hop(name.as_str().as_bytes())).cloned() {
        fields.remove(name);
    }
}

/// Returns the fields without those that Connection names and that would otherwise be forwarded.
/// The next hop does not see these fields, so they must not select a response here. A response
/// chosen without the field would be stored as the variant of the field's value.
pub fn without_nominated(fields: FieldLines) -> FieldLines {
    let mut taken = nominated(&fields);
    taken.retain(|name| !is_hop_by_hop(name.as_str().as_bytes()));
    match taken.is_empty() {
        true => fields,
        false => fields
            .lines()
            .filter(|(name, _)| !taken.iter().any(|it| it.as_str().as_bytes() == *name))
            .collect(),
    }
}

/// Returns the fields that Connection names and may remove.
pub(crate) fn nominated(fields: &impl Fields) -> Vec<HeaderName> {
    // Most messages have no Connection, or one that names only fields that are removed anyway.
    let names_nothing =
        |value: &[u8]| value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close");
    if fields.values(&CONNECTION).all(names_nothing) {
        return Vec::new();
    }
    lists::field_members(fields, &CONNECTION)
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        .filter(|name| !is_end_to_end(name))
        .collect()
}

/// Returns `true` if the field of this name, in lower case, never passes this hop, regardless of
/// Connection.
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection"
            | b"proxy-authenticate"
            | b"proxy-authorization"
            | b"te"
            | b"transfer-encoding"
            | b"upgrade"
            | b"keep-alive"
            | b"proxy-authentication-info"
            | b"proxy-connection"
            | b"http2-settings"
    )
}

/// Returns `true` if Connection cannot remove the field.
///
/// RFC 9110, section 7.6.1: "A sender MUST NOT send a connection option corresponding to a field
/// that is intended for all recipients of the content. For example, Cache-Control is never
/// appropriate as a connection option". A peer that does so anyway would make the next hop see
/// another message than the sender meant. That message would lack credentials, cache rules, or its
/// loop marks.
fn is_end_to_end(name: &HeaderName) -> bool {
    END_TO_END.contains(name)
        || *name == CDN_LOOP
        || name.as_str().starts_with("x-forwarded-")
        || name == "forwarded"
}

/// Adds this hop to Via (RFC 9110, section 7.6.3): `1.1 shoal`.
///
/// A pseudonym that is not a token, or a Via that would not fit a field, leaves the fields
/// unchanged.
pub fn append_via(fields: &mut HeaderMap, version: Version, pseudonym: &str) {
    let mut member = Vec::with_capacity(pseudonym.len() + 4);
    write_via(version, pseudonym, &mut member);
    append_shared_member(fields, &VIA, member.into());
}

/// Writes the member that this hop adds to Via.
pub fn write_via(version: Version, pseudonym: &str, out: &mut Vec<u8>) {
    let version: &[u8] = match version {
        Version::HTTP_09 => b"0.9 ",
        Version::HTTP_10 => b"1.0 ",
        Version::HTTP_2 => b"2 ",
        Version::HTTP_3 => b"3 ",
        _ => b"1.1 ",
    };
    out.extend_from_slice(version);
    out.extend_from_slice(pseudonym.as_bytes());
}

/// Returns `true` if Via names a hop with this pseudonym. Comments are not names.
pub fn via_contains(fields: &impl Fields, pseudonym: &str) -> bool {
    lists::field_members(fields, &VIA).any(|member| {
        let mut words = member.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let received_by = words.nth(1).unwrap_or_default();
        received_by.eq_ignore_ascii_case(pseudonym.as_bytes())
    })
}

/// Returns `true` if CDN-Loop names this cache, with or without parameters.
pub fn cdn_loop_contains(fields: &impl Fields, id: &str) -> bool {
    lists::field_members(fields, &CDN_LOOP).any(|member| {
        let end = member.iter().position(|byte| *byte == b';').unwrap_or(member.len());
        lists::trim(&member[..end]).eq_ignore_ascii_case(id.as_bytes())
    })
}

/// Adds a member at the end of a list field and joins all members into one line. A member that is
/// not a field value leaves the fields unchanged.
pub fn append_shared_member(fields: &mut HeaderMap, name: &HeaderName, member: Bytes) {
    match fields.entry(name) {
        Entry::Vacant(entry) => {
            if let Ok(value) = HeaderValue::from_maybe_shared(member) {
                entry.insert(value);
            }
        }
        Entry::Occupied(mut entry) => {
            let lines: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
            let mut value = lines.join(&b", "[..]);
            if !lists::trim(&value).is_empty() {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(&member);
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
                entry.insert(value);
            }
        }
    }
}

const END_TO_END: [HeaderName; 11] =
    [AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, COOKIE, DATE, EXPIRES, HOST, SET_COOKIE, VARY, VIA];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        fields
    }

    fn left(lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut fields = fields(lines);
        remove_hop_by_hop(&mut fields);
        let mut names: Vec<String> = fields.keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn nominated_fields_are_removed() {
        assert_eq!(left(&[("connection", "a, b"), ("a", "1"), ("b", "2"), ("c", "3")]), ["c"]);
        assert_eq!(
            left(&[("connection", "A"), ("connection", "close,B"), ("a", "1"), ("b", "2"), ("c", "3")]),
            ["c"]
        );
    }

    #[test]
    fn fields_of_the_hop_are_removed_unasked() {
        for name in [
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authentication-info",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "transfer-encoding",
            "upgrade",
        ] {
            assert!(left(&[(name, "x")]).is_empty(), "{name}");
            assert!(is_hop_by_hop(name.as_bytes()));
        }
        assert_eq!(left(&[("trailer", "x"), ("content-type", "y")]), ["content-type", "trailer"]);
    }

    #[test]
    fn nominated_fields_select_nothing() {
        let names = |lines: &[(&'static str, &'static str)]| {
            let left = without_nominated(fields(lines).lines().collect());
            left.lines().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[("a", "1"), ("connection", "keep-alive, A"), ("b", "2")]), ["connection", "b"]);
        let kept = [("connection", "Upgrade, host"), ("upgrade", "x"), ("host", "y")];
        assert_eq!(names(&kept), ["connection", "upgrade", "host"]);
    }

    #[test]
    fn connection_cannot_remove_end_to_end_fields() {
        for name in
            ["cache-control", "content-length", "host", "authorization", "x-forwarded-for", "cdn-loop", "via"]
        {
            let mut fields = fields(&[(name, "x")]);
            fields.insert(CONNECTION, HeaderValue::from_static(name));
            remove_hop_by_hop(&mut fields);
            assert!(fields.contains_key(name), "{name}");
        }
    }

    #[test]
    fn each_hop_adds_itself_to_via() {
        let mut request = fields(&[("via", "1.0 fred"), ("via", "1.1 p.example.net (Apache, 1.1 shoal)")]);
        assert!(via_contains(&request, "Fred") && !via_contains(&request, "shoal"));
        append_via(&mut request, Version::HTTP_11, "shoal");
        append_via(&mut request, Version::HTTP_2, "other");
        assert!(via_contains(&request, "shoal"));
        assert_eq!(request[VIA], "1.0 fred, 1.1 p.example.net (Apache, 1.1 shoal), 1.1 shoal, 2 other");
    }

    #[test]
    fn loops_are_seen_in_cdn_loop() {
        let mut request = fields(&[("cdn-loop", "foo123.foocdn.example, barcdn.example; trace=\"a,b\"")]);
        assert!(cdn_loop_contains(&request, "BARCDN.example"));
        assert!(!cdn_loop_contains(&request, "foocdn.example"));
        append_shared_member(&mut request, &CDN_LOOP, Bytes::from_static(b"shoal"));
        assert!(cdn_loop_contains(&request, "shoal"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut fields = HeaderMap::new();
                for name in [CONNECTION, VIA, CDN_LOOP] {
                    fields.insert(name, value.clone());
                }
                let _ = (via_contains(&fields, "shoal"), cdn_loop_contains(&fields, "shoal"));
                append_via(&mut fields, Version::HTTP_11, "shoal");
                remove_hop_by_hop(&mut fields);
                prop_assert!(!fields.contains_key(CONNECTION));
            }
        }
    }
}
