//! What an upstream is told about the client: `X-Forwarded-*` and `Forwarded` (RFC 7239).
//!
//! The chains (`X-Forwarded-For`, `Forwarded`) are appended to, so that a trusted proxy before this one keeps its word;
//! an upstream that wants the address this node saw takes the last entry. `X-Forwarded-Proto` and
//! `X-Forwarded-Host` describe the request as it reached this node and replace what the client sent.

use crate::ip_text::push_address;
use crate::message::Client;
use http::header::{FORWARDED, HeaderName};
use shoal_semantics::Onward;
use std::net::IpAddr;

/// Whether [`add_forwarded`] takes the place of a field of this name, in lower case.
pub fn is_forwarded(name: &[u8]) -> bool {
    matches!(name, b"forwarded" | b"x-forwarded-for" | b"x-forwarded-proto" | b"x-forwarded-host")
}

/// Whether a field of this name, in lower case, tells the client's address when it goes on.
pub fn tells_client(name: &[u8]) -> bool {
    matches!(name, b"forwarded" | b"x-forwarded-for")
}

/// Adds to the lines of a request, from which the fields of [`is_forwarded`] were left out, how it reached this node; `host` is
/// the Host that the client sent.
pub fn add_forwarded(onward: &mut Onward<'_>, client: &Client, host: Option<&[u8]>) {
    let address = client.address.ip().to_canonical();
    let scheme = if client.tls { "https" } else { "http" };
    onward.member(&X_FORWARDED_FOR, |out| push_address(out, address));
    onward.member(&FORWARDED, |out| push_element(out, address, host, scheme));
    onward.field(&X_FORWARDED_PROTO, scheme.as_bytes());
    if let Some(host) = host {
        onward.field(&X_FORWARDED_HOST, host);
    }
}

/// One `forwarded-element` (RFC 7239, 4). Section 6: "Note that an IPv6 address is always enclosed in square
/// brackets", and then quoted, as is a host with a port, since neither is a token.
fn push_element(out: &mut Vec<u8>, address: IpAddr, host: Option<&[u8]>, scheme: &str) {
    out.extend_from_slice(b"for=");
    match address.is_ipv6() {
        true => {
            out.extend_from_slice(b"\"[");
            push_address(out, address);
            out.extend_from_slice(b"]\"");
        }
        false => push_address(out, address),
    }
    // A host that would end the quoted string early is left out; no valid Host does.
    let quotable = |byte: &u8| matches!(byte, b'\t' | b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
    if let Some(host) = host.filter(|host| host.iter().all(quotable)) {
        for part in [b";host=\"", host, b"\""] {
            out.extend_from_slice(part);
        }
    }
    for part in [";proto=", scheme] {
        out.extend_from_slice(part.as_bytes());
    }
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use shoal_core::Fields;

    /// What becomes of `fields`.
    fn forwarded(fields: &HeaderMap, client: &Client, host: Option<&[u8]>) -> HeaderMap {
        let lines = fields.lines().collect();
        let mut onward = Onward::of(&lines, is_forwarded);
        add_forwarded(&mut onward, client, host);
        onward.finish().to_map()
    }

    fn client(address: &str, tls: bool) -> Client {
        let local = "127.0.0.1:80".parse().expect("an address");
        let address = address.parse().expect("an address");
        Client { address, local, listener: 0, tls, server_name: None }
    }

    fn text<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
        assert_eq!(fields.get_all(name).iter().count(), 1, "{name}");
        fields[name].to_str().expect("ASCII")
    }

    #[test]
    fn a_first_proxy_says_what_it_saw() {
        let mut fields = HeaderMap::new();
        fields.insert("x-forwarded-proto", HeaderValue::from_static("spoofed"));
        let host = b"example.org:8443";
        let fields = forwarded(&fields, &client("[2001:db8::7]:999", true), Some(host));
        assert_eq!(text(&fields, "x-forwarded-for"), "2001:db8::7");
        assert_eq!(text(&fields, "x-forwarded-proto"), "https");
        assert_eq!(text(&fields, "x-forwarded-host"), "example.org:8443");
        assert_eq!(text(&fields, "forwarded"), "for=\"[2001:db8::7]\";host=\"example.org:8443\";proto=https");
    }

    #[test]
    fn a_later_proxy_appends() {
        let mut fields = HeaderMap::new();
        fields.append("x-forwarded-for", HeaderValue::from_static("192.0.2.1"));
        fields.append("x-forwarded-for", HeaderValue::from_static("192.0.2.2"));
        fields.append("x-forwarded-host", HeaderValue::from_static("spoofed"));
        fields.append("forwarded", HeaderValue::from_static("for=192.0.2.1"));
        let fields = forwarded(&fields, &client("[::ffff:10.0.0.9]:1", false), None);
        assert_eq!(text(&fields, "x-forwarded-for"), "192.0.2.1, 192.0.2.2, 10.0.0.9");
        assert_eq!(text(&fields, "forwarded"), "for=192.0.2.1, for=10.0.0.9;proto=http");
        assert!(!fields.contains_key("x-forwarded-host"));
    }
}
