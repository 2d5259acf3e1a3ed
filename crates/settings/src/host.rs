//! Checks of hosts, destinations, upstreams and fields in settings.
//!
//! Each check returns the message for the operator.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Checks a host of a site: a name, `*.suffix`, `*`, or an address as in a Host field.
pub(crate) fn check_host_pattern(pattern: &str) -> Result<(), String> {
    match pattern.strip_prefix("*.") {
        Some(suffix) => check_name(suffix),
        None if pattern == "*" => Ok(()),
        None => check_host(pattern),
    }
}

/// Checks a destination: a name, `*.suffix`, an address or a network.
pub(crate) fn check_destination(pattern: &str) -> Result<(), String> {
    if pattern.parse::<ipnet::IpNet>().is_ok() || pattern.parse::<std::net::IpAddr>().is_ok() {
        return Ok(());
    }
    if pattern.contains('/') {
        return Err(format!("{pattern:?} is not a network such as \"10.0.0.0/8\""));
    }
    check_name(pattern.strip_prefix("*.").unwrap_or(pattern))
}

/// Checks an upstream: scheme, host, an optional port and an optional path. Returns `true` for
/// https.
pub(crate) fn check_upstream_url(url: &str) -> Result<bool, String> {
    let refused =
        |why: &str| Err(format!("{url:?} is not an upstream such as \"http://10.0.0.2:8000\": {why}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        return refused("it begins with http:// or https://");
    };
    if scheme != "http" && scheme != "https" {
        return refused("its scheme is http or https");
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return refused("it has no user name; `credentials` names a file with them");
    }
    if path.contains(['?', '#']) {
        return refused("it has no query and no fragment");
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return refused("its path has blanks as %20 and other characters in their % form");
    }
    if path.contains("//") || path.split('/').any(|part| part == "." || part == "..") {
        return refused("its path has no dot segments and no empty ones");
    }
    check_authority(authority).map(|()| scheme == "https").or_else(|why| refused(&why))
}

/// Checks a host with an optional port.
pub(crate) fn check_authority(authority: &str) -> Result<(), String> {
    // The last colon separates the port, unless it is within the brackets of an IPv6 address.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err("its port is 1 to 65535".into());
    }
    check_host(host)
}

/// Returns `true` if `text` is a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    // tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "." / "^" / "_" / "`" / "|" /
    // "~" / DIGIT / ALPHA
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(tchar)
}

/// Checks a host name or an address, without a port.
pub(crate) fn check_host(host: &str) -> Result<(), String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{host:?} is not an IPv6 address")),
        };
    }
    if host.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("an IPv6 address stands in brackets: \"[{host}]\""));
    }
    if let Some((name, port)) = host.split_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("{host:?} has a port; write {name:?} alone"));
    }
    check_name(host)
}

/// Checks a host name of letters, digits, hyphens and underscores (RFC 952, with the names found in
/// practice).
fn check_name(name: &str) -> Result<(), String> {
    if name.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    let refused = |why: &str| Err(format!("{name:?} is not a host name: {why}"));
    if name.is_empty() || name.len() > 253 {
        return refused("it has 1 to 253 characters");
    }
    if !name.is_ascii() {
        return refused("write international names in their xn-- form");
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return refused("its parts have 1 to 63 characters");
        }
        if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return refused("its parts have letters, digits and hyphens");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(what(text), "{text:?} should be taken");
        }
        for text in bad {
            assert!(!what(text), "{text:?} should be refused");
        }
    }

    #[test]
    fn host_patterns() {
        check(
            |text| check_host_pattern(text).is_ok(),
            &["*", "*.example.org", "example.org", "a_b.local", "10.0.0.1", "[::1]", "localhost"],
            &[
                "",
                "*.",
                "*x",
                "a.*.b",
                "example.org:80",
                "::1",
                "exämple.org",
                "a..b",
                "a b",
                "http://a",
                "[::g]",
            ],
        );
    }

    #[test]
    fn destinations() {
        check(
            |text| check_destination(text).is_ok(),
            &["intranet", "*.corp.example", "10.0.0.0/8", "fe80::/10", "::1", "192.168.1.1"],
            &["", "*", "10.0.0.0/33", "a/b", "*.", "host:80"],
        );
    }

    #[test]
    fn upstream_urls() {
        check(
            |text| check_upstream_url(text).is_ok(),
            &[
                "http://a",
                "https://a.example:8443",
                "http://[::1]:80",
                "http://10.0.0.1/",
                "http://[::1]",
                "http://a/b",
                "https://a:1/simple/",
                "http://a/b%20c/~d",
            ],
            &[
                "a",
                "ftp://a",
                "http://",
                "http://a//b",
                "http://a/../b",
                "http://a/b?c",
                "http://a/b c",
                "http://u@a",
                "http://a:0",
                "http://a:x",
                "http://a?b",
                "http://::1",
            ],
        );
        assert_eq!(check_upstream_url("https://a"), Ok(true));
        assert_eq!(check_upstream_url("http://a"), Ok(false));
    }

    #[test]
    fn tokens() {
        check(is_token, &["shoal", "cache-tag", "x.y"], &["", "a b", "a:b", "ä", "a\r\n", "\"a\""]);
    }
}
