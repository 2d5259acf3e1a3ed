//! Authority component: host and port, in Host and in the request target.

use shoal_core::alphanumeric_and;
use std::net::Ipv6Addr;

/// Checked host and port of `host[:port]`. Comparison follows RFC 3986 section 6.2.2.1 and ignores
/// the case of the host.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    /// Host: a registered name, an IPv4 address, or an IPv6 address in its brackets.
    pub host: &'a [u8],
    /// Port, when given.
    pub port: Option<u16>,
    /// Digits of the port as written.
    pub digits: &'a [u8],
}

impl<'a> Authority<'a> {
    /// Reads `host[:port]`. `None` for an empty host, user information, an invalid character, or a
    /// port beyond 65535.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        if let Some(plain) = Self::plain(text) {
            return Some(plain);
        }
        let host_end = match text.first()? {
            b'[' => 1 + text.iter().position(|&byte| byte == b']')?,
            _ => text.iter().position(|&byte| byte == b':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        if !(is_registered_name(host) || is_ip_literal(host)) {
            return None;
        }
        let (port, digits) = match rest {
            // RFC 3986 section 3.2.3: port = *DIGIT, so that an empty one is no error.
            [] | [b':'] => (None, &[][..]),
            [b':', digits @ ..] => (Some(port_number(digits)?), digits),
            _ => return None,
        };
        Some(Self { host, port, digits })
    }

    /// Reads a registered name or an IPv4 address in the characters that all parsers agree on, with
    /// an optional port. An empty port is refused, as a needless second spelling.
    pub fn plain(text: &'a [u8]) -> Option<Self> {
        let host_end = text.iter().position(|&byte| !IN_PLAIN_NAME[byte as usize]).unwrap_or(text.len());
        let (host, rest) = text.split_at(host_end);
        let (port, digits) = match rest {
            [] => (None, &[][..]),
            [b':', digits @ ..] if !digits.is_empty() => (Some(port_number(digits)?), digits),
            _ => return None,
        };
        (!host.is_empty() && host.len() <= HOST_BYTES_MAX).then_some(Self { host, port, digits })
    }

    /// Returns `true` if both name the same server; `default` is the port of an authority without
    /// one.
    pub fn matches(&self, other: &Authority<'_>, default: Option<u16>) -> bool {
        self.host.eq_ignore_ascii_case(other.host) && self.port.or(default) == other.port.or(default)
    }
}

fn is_ip_literal(host: &[u8]) -> bool {
    let inner = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let text = inner.and_then(|inner| std::str::from_utf8(inner).ok());
    text.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Returns `true` for a registered name (RFC 3986 section 3.2.2: `reg-name = *( unreserved /
/// pct-encoded / sub-delims )`). The name must not be empty, as RFC 9110 section 4.2.1 requires: "A
/// sender MUST NOT generate an "http" URI with an empty host identifier."
fn is_registered_name(host: &[u8]) -> bool {
    !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.iter().all(|&byte| IN_NAME[byte as usize])
}

fn port_number(digits: &[u8]) -> Option<u16> {
    if digits.len() > "65535".len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    u16::try_from(digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))).ok()
}

/// Largest length of a host. DNS names have at most 253 bytes; percent-encoded ones may be longer.
const HOST_BYTES_MAX: usize = 1024;

static IN_NAME: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=");

static IN_PLAIN_NAME: [bool; 256] = alphanumeric_and(b"-._");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_strictly() {
        let good: [(&str, &str, Option<u16>); 6] = [
            ("example.org", "example.org", None),
            ("example.org:8080", "example.org", Some(8080)),
            ("example.org:", "example.org", None),
            ("[::1]:80", "[::1]", Some(80)),
            ("127.0.0.1:65535", "127.0.0.1", Some(65535)),
            ("under_score", "under_score", None),
        ];
        for (text, host, port) in good {
            let read = Authority::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} was refused"));
            assert_eq!((read.host, read.port), (host.as_bytes(), port), "{text}");
        }
        let bad = ["", ":80", "a b", "user@example.org", "example.org:65536", "a:8o", "[::1", "[x]", "a/b"];
        for text in bad.into_iter().chain(["[::1]x", "a,b:1:2", "é", "a\tb", "a:+80", "[]"]) {
            assert!(Authority::parse(text.as_bytes()).is_none(), "{text} was taken");
        }
    }

    #[test]
    fn match_ignores_case_and_uses_default_port() {
        let read = |text: &'static str| Authority::parse(text.as_bytes()).expect("valid");
        assert!(read("Example.org").matches(&read("example.ORG:80"), Some(80)));
        assert!(!read("example.org").matches(&read("example.org:80"), None));
        assert!(!read("example.org:81").matches(&read("example.org"), Some(80)));
    }
}
