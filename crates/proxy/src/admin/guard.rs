//! Refuses requests that a web page made a browser send to the admin listener.
//!
//! A page can make its own name resolve to 127.0.0.1 (DNS rebinding). The page could then read and
//! write here as its own origin; such a request has the page's name in Host. A page can also post a
//! form across origins; such a request has the page's origin in Origin.

use http::{HeaderMap, Method, header};
use std::net::IpAddr;
use std::sync::Arc;

/// Detects requests from web pages by the listener's names.
#[derive(Clone)]
pub(super) enum HostGuard {
    /// The listener has a Unix socket, which no browser opens.
    Open,
    /// The listener has an address.
    Named {
        /// Clients use one of these names, `localhost` or an address.
        names: Arc<[String]>,
        /// `http://`, or `https://` with TLS.
        scheme: &'static str,
    },
}

impl HostGuard {
    /// Returns the reason to refuse a request, or `None`.
    pub(super) fn refusal(&self, method: &Method, fields: &HeaderMap) -> Option<&'static str> {
        match self {
            Self::Open => None,
            Self::Named { names, scheme } => {
                refusal(fields, names, scheme).or_else(|| refusal_of_browser(method, fields))
            }
        }
    }
}

/// Returns the reason to refuse a request that a page made a browser send, or `None`. A link from
/// elsewhere may lead to the dashboard, and nothing more. Only JSON changes anything: no form sends
/// it, and a script of another origin must ask first (Fetch, CORS-preflight), which fails here.
fn refusal_of_browser(method: &Method, fields: &HeaderMap) -> Option<&'static str> {
    let value = |name: &str| fields.get(name).map(|value| value.to_str().unwrap_or_default());
    let site = value("sec-fetch-site");
    let is_own = site.is_none_or(|site| site == "same-origin" || site == "none");
    let is_link = method.is_safe() && value("sec-fetch-mode") == Some("navigate");
    if !is_own && !is_link {
        return Some("requests from pages of other sites are not served");
    }
    let is_from_page = site.is_some() || fields.contains_key(header::ORIGIN);
    let content = value("content-type").unwrap_or_default();
    let kind = content.split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json");
    (is_from_page && !method.is_safe() && !is_json).then_some("pages send changes as application/json")
}

fn refusal(fields: &HeaderMap, names: &[String], scheme: &str) -> Option<&'static str> {
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
        Some(origin) if origin.strip_prefix(scheme) != host => Some("requests from web pages are not served"),
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
        assert!(HostGuard::Open.refusal(&Method::GET, &fields).is_none());
        guard("http://").refusal(&Method::GET, &fields).is_none()
    }

    fn guard(scheme: &'static str) -> HostGuard {
        let names = ["cache1", "cache1.example.org", ""].map(str::to_owned).into();
        HostGuard::Named { names, scheme }
    }

    #[test]
    fn pages_of_other_sites_change_and_read_nothing() {
        let served = |method: Method, more: &[(&'static str, &str)]| {
            let mut fields = HeaderMap::new();
            fields.insert(header::HOST, "localhost:3129".parse().expect("a field value"));
            for (name, value) in more {
                fields.insert(*name, value.parse().expect("a field value"));
            }
            guard("https://").refusal(&method, &fields).is_none()
        };
        let (own, json) = (("origin", "https://localhost:3129"), ("content-type", "application/json"));
        assert!(served(Method::POST, &[]), "no browser sends it");
        assert!(served(Method::POST, &[own, json, ("sec-fetch-site", "same-origin")]));
        assert!(!served(Method::POST, &[("origin", "http://localhost:3129"), json]), "another scheme");
        for content in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
        {
            assert!(!served(Method::POST, &[own, ("content-type", content)]), "{content}");
        }
        for site in ["cross-site", "same-site"] {
            let site = ("sec-fetch-site", site);
            assert!(!served(Method::POST, &[site, json]));
            assert!(!served(Method::GET, &[site, ("sec-fetch-mode", "no-cors")]));
            assert!(!served(Method::POST, &[site, json, ("sec-fetch-mode", "navigate")]));
            assert!(served(Method::GET, &[site, ("sec-fetch-mode", "navigate")]), "a colleague's link");
        }
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
