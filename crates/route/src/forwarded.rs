//! Fields that tell an upstream about the client: `X-Forwarded-*` and `Forwarded` (RFC 7239).
//!
//! All values are this node's own. They contain the client as trusted proxies report it
//! ([`super::Told`]) and the proxies for which they vouch. They also contain scheme and authority
//! of the effective URI, which is the cache key. A reader of the first, the last or any other
//! element therefore gets the same answer. Such fields from a client are never forwarded
//! ([`super::FieldStatement`]).

use crate::ip_text::push_address;
use crate::message::Client;
use http::header::{FORWARDED, HeaderName};
use shoal_semantics::NextHopFieldsBuilder;
use std::net::IpAddr;

/// Adds the path by which a request reached this node to its lines. The request came through
/// `proxies`, the nearest last, and asked for `authority`. The lines no longer contain the fields
/// of [`super::FieldStatement`].
pub fn add_forwarded(
    onward: &mut NextHopFieldsBuilder<'_>,
    client: &Client,
    proxies: &[IpAddr],
    authority: &str,
) {
    let hops = || std::iter::once(client.address.ip().to_canonical()).chain(proxies.iter().copied());
    let scheme = if client.tls { "https" } else { "http" };
    let mut value = Vec::with_capacity(VALUE_BYTES);
    for (position, address) in hops().enumerate() {
        value.extend_from_slice(if position == 0 { b"" } else { b", " });
        push_address(&mut value, address);
    }
    onward.field(&X_FORWARDED_FOR, &value);
    value.clear();
    for (position, address) in hops().enumerate() {
        value.extend_from_slice(if position == 0 { b"" } else { b", " });
        push_element(&mut value, address, authority.as_bytes(), scheme);
    }
    onward.field(&FORWARDED, &value);
    onward.field(&X_FORWARDED_PROTO, scheme.as_bytes());
    onward.field(&X_FORWARDED_HOST, authority.as_bytes());
}

/// Appends one `forwarded-element` (RFC 7239, 4). Section 6: "Note that an IPv6 address is always
/// enclosed in square brackets". Such an address is also quoted, like a host with a port, since
/// neither is a token.
fn push_element(out: &mut Vec<u8>, address: IpAddr, host: &[u8], scheme: &str) {
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
    if host.iter().all(quotable) {
        for part in [b";host=\"", host, b"\""] {
            out.extend_from_slice(part);
        }
    }
    for part in [";proto=", scheme] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Capacity for the values of most requests.
const VALUE_BYTES: usize = 128;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    /// Returns the fields added for this client.
    fn forwarded(client: &Client, proxies: &[&str], authority: &str) -> HeaderMap {
        let proxies: Vec<IpAddr> = proxies.iter().map(|proxy| proxy.parse().expect("an address")).collect();
        let lines = [("x-a", "b")].into_iter().collect();
        let mut onward = NextHopFieldsBuilder::of(&lines, |_| false);
        add_forwarded(&mut onward, client, &proxies, authority);
        onward.finish().to_map()
    }

    fn client(address: &str, tls: bool) -> Client {
        let local = "127.0.0.1:80".parse().expect("an address");
        let address = address.parse().expect("an address");
        Client { address, local, listener: 0, tls, server_name: None, certificate: None, intercepted: None }
    }

    fn text<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
        assert_eq!(fields.get_all(name).iter().count(), 1, "{name}");
        fields[name].to_str().expect("ASCII")
    }

    #[test]
    fn first_proxy_reports_client_and_uri() {
        let fields = forwarded(&client("[2001:db8::7]:999", true), &[], "example.org:8443");
        assert_eq!(text(&fields, "x-forwarded-for"), "2001:db8::7");
        assert_eq!(text(&fields, "x-forwarded-proto"), "https");
        assert_eq!(text(&fields, "x-forwarded-host"), "example.org:8443");
        assert_eq!(text(&fields, "forwarded"), "for=\"[2001:db8::7]\";host=\"example.org:8443\";proto=https");
    }

    #[test]
    fn a_later_proxy_names_the_way() {
        let fields = forwarded(&client("[::ffff:192.0.2.1]:0", false), &["10.0.0.2", "10.0.0.1"], "a.test");
        assert_eq!(text(&fields, "x-forwarded-for"), "192.0.2.1, 10.0.0.2, 10.0.0.1");
        let element = |address: &str| format!("for={address};host=\"a.test\";proto=http");
        let elements = ["192.0.2.1", "10.0.0.2", "10.0.0.1"].map(element);
        assert_eq!(text(&fields, "forwarded"), elements.join(", "));
    }
}
