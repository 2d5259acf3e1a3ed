//! Refuses requests that a web page made a browser send to the admin listener.
//!
//! A page can make its own name resolve to 127.0.0.1 (DNS rebinding). The page could then read and
//! write here as its own origin; such a request has the page's name in Host. A page can also post a
//! form across origins; such a request has the page's origin in Origin.

use http::{HeaderMap, header};
use std::net::IpAddr;
use std::sync::Arc;

/// Detects requests from web pages by the listener's names.
#[derive(Clone)]
pub(super) enum HostGuard {
    /// The listener has a Unix socket, which no browser opens.
    Open,
    /// The listener has an address. Its clients use one of these names, `localhost` or an address.
    Named(Arc<[String]>),
}

impl HostGuard {
    /// Returns the reason to refuse a request, or `None`.
    pub(super) fn refusal(&self, fields: &HeaderMap) -> Option<&'static str> {
        match self {
            Self::Open => None,
            Self::Named(names) => refusal(fields, names),
        }
    }
}

fn refusal(fields: &HeaderMap, names: &[String]) -> Option<&'static str> {
    let host = match fields.get(header::HOST).map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) if trusted(host, names) => Some(host),
        Some(_) => {
            return Some(
                "the Host field is neither an address, nor localhost, nor this machine's name, nor one of admin.hosts",
            );
        }
    };
    let origin = fields.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    match origin {
        // RFC 6454, 6.2: the ASCII serialization of an origin
        Some(origin) if origin.strip_prefix("http://") != host => {
            Some("requests from web pages are not served")
        }
        _ => None,
    }
}

/// Returns `true` if a Host value cannot come from another party's DNS answer. Such a value is an
/// address, `localhost`, or one of the node's names.
fn trusted(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| !own.is_empty() && name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: Option<&str>, origin: Option<&str>) -> bool {
        let mut fields = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                fields.insert(name, value.parse().expect("a field value"));
            }
        }
        let guard = HostGuard::Named(["cache1", "cache1.example.org", ""].map(str::to_owned).into());
        assert!(HostGuard::Open.refusal(&fields).is_none());
        guard.refusal(&fields).is_none()
    }

    #[test]
    fn only_hosts_that_nobody_else_can_name_are_served() {
        for host in [
            "127.0.0.1:3129",
            "localhost",
            "LOCALHOST:3129",
            "[::1]:3129",
            "10.0.0.5:80",
            "cache1:3129",
            "Cache1.Example.org:3129",
        ] {
            assert!(check(Some(host), None), "{host}");
        }
        for host in
            ["evil.example", "evil.example:3129", "localhost.evil.example", "", "127.0.0.1.evil.example:1"]
        {
            assert!(!check(Some(host), None), "{host}");
        }
        assert!(check(None, None), "HTTP/1.0 has no Host, and no browser speaks it");
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        assert!(check(Some("localhost:3129"), Some("http://localhost:3129")));
        assert!(!check(Some("localhost:3129"), Some("http://evil.example")));
        assert!(!check(Some("localhost:3129"), Some("null")));
        assert!(!check(None, Some("http://evil.example")));
    }
}
