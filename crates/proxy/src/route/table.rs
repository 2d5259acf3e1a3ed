//! Selection of a request's site: by host, then by the longest path prefix.
//!
//! An exact host goes before `*.suffix`, a longer suffix before a shorter, and `*` comes last.
//! Among sites of one host pattern the longest path prefix wins. If the host matches a pattern but
//! the path matches none of its prefixes, less specific hosts are tried. Cost: one hash lookup, or
//! one per label of the host if suffixes are configured. Each prefix adds one comparison. There is
//! no lookup if only `*` is configured.

use crate::access::HostPattern;
use crate::upstream::{UpstreamGroup, UpstreamUrlError};
use shoal_settings::Site;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// All sites, ready for lookups.
#[derive(Debug, Default)]
pub struct Routes {
    /// Sites by exact host, or by suffix with its leading dot; each list has the longest prefix
    /// first.
    hosts: HashMap<Box<str>, Vec<Arc<Route>>>,
    /// `true` if `hosts` contains suffixes.
    suffixes: bool,
    /// Sites of `*`, the longest prefix first.
    any: Vec<Arc<Route>>,
    all: Vec<Arc<Route>>,
}

/// One site.
#[derive(Debug)]
pub struct Route {
    /// Index of the `site` entry in the settings, from 0.
    pub site: usize,
    /// Path prefix that the site serves.
    pub path_prefix: String,
    /// Upstreams of the site.
    pub group: Arc<UpstreamGroup>,
    /// `true` if the upstream receives the client's Host.
    pub preserve_host: bool,
    /// `true` if the upstream receives Via.
    pub via: bool,
    /// Settings of the site.
    settings: Site,
}

/// A site that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// No hosts, or an entry that is not a host name, `*.suffix`, `*` or address.
    Host(usize, String),
    /// A path prefix that does not begin with `/`, or holds a query or a space.
    PathPrefix(usize, String),
    /// An invalid URL of an upstream.
    Upstream(usize, UpstreamUrlError),
    /// The same host and prefix as an earlier site.
    Duplicate(usize, String),
}

impl Routes {
    /// Reads the sites; `seed` spreads the ends of backoffs.
    ///
    /// # Errors
    /// Reports the first site that cannot be served.
    pub fn new(sites: &[Site], seed: u64) -> Result<Self, RouteError> {
        Self::after(&Self::default(), sites, seed)
    }

    /// Reads the sites like [`Self::new`], as replacement for `previous`. An unchanged site keeps
    /// its upstreams with their state.
    ///
    /// # Errors
    /// Reports the first site that cannot be served.
    pub fn after(previous: &Self, sites: &[Site], seed: u64) -> Result<Self, RouteError> {
        let mut routes = Self::default();
        for (index, site) in sites.iter().enumerate() {
            let group = match previous.all.iter().find(|route| route.settings == *site) {
                Some(route) => Arc::clone(&route.group),
                None => {
                    let group = UpstreamGroup::new(site, seed.wrapping_add(index as u64));
                    Arc::new(group.map_err(|error| RouteError::Upstream(index, error))?)
                }
            };
            routes.add(index, site, group)?;
        }
        for sites in routes.hosts.values_mut().chain([&mut routes.any]) {
            sites.sort_by_key(|route| std::cmp::Reverse(route.path_prefix.len()));
        }
        Ok(routes)
    }

    /// Returns the site that serves `host` and `path`. `host` has the format of the Host field:
    /// port and case do not matter.
    pub fn find(&self, host: &[u8], path: &str) -> Option<&Arc<Route>> {
        let of = |pattern: &str| serving(self.hosts.get(pattern)?, path);
        let named = match self.hosts.is_empty() {
            true => None,
            false => {
                let host = host_name(&String::from_utf8_lossy(host));
                // ".b.c" and ".c" of "a.b.c". No suffix is configured for an address.
                let suffixes =
                    || host.match_indices('.').filter(|_| self.suffixes).map(|(dot, _)| &host[dot..]);
                of(&host).or_else(|| suffixes().find_map(of))
            }
        };
        named.or_else(|| serving(&self.any, path))
    }

    /// Returns every site, in the settings' order.
    pub fn all(&self) -> &[Arc<Route>] {
        &self.all
    }

    fn add(&mut self, index: usize, site: &Site, group: Arc<UpstreamGroup>) -> Result<(), RouteError> {
        let prefix = &site.path_prefix;
        if !prefix.starts_with('/') || prefix.contains(|c: char| "?#".contains(c) || c.is_whitespace()) {
            return Err(RouteError::PathPrefix(index, prefix.clone()));
        }
        if site.hosts.is_empty() {
            return Err(RouteError::Host(index, String::new()));
        }
        let route = Arc::new(Route {
            site: index,
            path_prefix: prefix.clone(),
            group,
            preserve_host: site.preserve_host,
            via: site.via,
            settings: site.clone(),
        });
        for host in &site.hosts {
            let name = pattern_key(host).ok_or_else(|| RouteError::Host(index, host.clone()))?;
            self.suffixes |= name.starts_with('.');
            let same_host = match &*name {
                "*" => &mut self.any,
                _ => self.hosts.entry(name).or_default(),
            };
            if same_host.iter().any(|other| other.path_prefix == *prefix) {
                return Err(RouteError::Duplicate(index, format!("{host}{prefix}")));
            }
            same_host.push(Arc::clone(&route));
        }
        self.all.push(route);
        Ok(())
    }
}

impl Route {
    /// Returns `true` if `path` is the prefix itself or lies below it: `/api` serves `/api` and
    /// `/api/x`, not `/apis`.
    fn serves(&self, path: &str) -> bool {
        path.strip_prefix(&*self.path_prefix).is_some_and(|rest| {
            rest.is_empty() || self.path_prefix.ends_with('/') || rest.starts_with(['/', '?'])
        })
    }
}

/// Returns the first route that serves `path`.
fn serving<'r>(routes: &'r [Arc<Route>], path: &str) -> Option<&'r Arc<Route>> {
    routes.iter().find(|route| route.serves(path))
}

/// Returns the key of a host pattern in the table.
fn pattern_key(pattern: &str) -> Option<Box<str>> {
    match HostPattern::parse(pattern).ok()? {
        HostPattern::Name(name) => Some(name),
        HostPattern::Below(suffix) => Some(suffix),
        HostPattern::Any => Some("*".into()),
        HostPattern::Network(network) if network.prefix_len() == network.max_prefix_len() => {
            Some(network.addr().to_string().into())
        }
        HostPattern::Network(_) => None,
    }
}

/// Returns the host of a Host field, without port, brackets and final dot, in lower case.
fn host_name(host: &str) -> String {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        // More than one colon is an IPv6 address without brackets.
        None if host.bytes().filter(|byte| *byte == b':').count() == 1 => {
            host.split(':').next().unwrap_or(host)
        }
        None => host,
    };
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(site, host) if host.is_empty() => write!(f, "site {}: no hosts", site + 1),
            Self::Host(site, host) => write!(f, "site {}: {host:?} is no host", site + 1),
            Self::PathPrefix(site, prefix) => {
                write!(f, "site {}: path prefix {prefix:?} must begin with / and hold no query", site + 1)
            }
            Self::Upstream(site, source) => write!(f, "site {}: {source}", site + 1),
            Self::Duplicate(site, what) => {
                write!(f, "site {}: {what} is served by an earlier site", site + 1)
            }
        }
    }
}

impl std::error::Error for RouteError {}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{Balance, UpstreamServer};

    fn site(hosts: &[&str], path_prefix: &str) -> Site {
        Site {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            path_prefix: path_prefix.into(),
            upstreams: vec![UpstreamServer { url: "http://u".into(), weight: 1, h2c: false }],
            balance: Balance::RoundRobin,
            health: None,
            preserve_host: true,
            set_cookie: None,
            heuristic_fraction: None,
            heuristic_query: None,
            via: true,
            rule: Vec::new(),
        }
    }

    #[test]
    fn the_most_specific_site_answers() {
        let sites = [
            site(&["*"], "/"),
            site(&["example.org", "Other.Example"], "/"),
            site(&["example.org"], "/api"),
            site(&["example.org"], "/api/v2/"),
            site(&["*.example.org"], "/"),
            site(&["*.b.example.org"], "/only"),
            site(&["10.0.0.1", "[::1]"], "/"),
        ];
        let routes = Routes::new(&sites, 1).expect("sound sites");
        for (host, path, site) in [
            ("example.org", "/", 1),
            ("EXAMPLE.org:8080", "/x", 1),
            ("example.org.", "/x", 1),
            ("other.example", "/", 1),
            ("example.org", "/api", 2),
            ("example.org", "/api?x=1", 2),
            ("example.org", "/api/v1", 2),
            ("example.org", "/apis", 1),
            ("example.org", "/api/v2", 2),
            ("example.org", "/api/v2/x", 3),
            ("www.example.org", "/api", 4),
            ("a.b.example.org", "/only/x", 5),
            ("a.b.example.org", "/else", 4),
            ("b.example.org", "/only", 4),
            ("unknown", "/", 0),
            ("10.0.0.1:80", "/", 6),
            ("[::1]:80", "/", 6),
            ("", "/", 0),
        ] {
            assert_eq!(
                routes.find(host.as_bytes(), path).map(|route| route.site),
                Some(site),
                "{host}{path}"
            );
        }
        let routes = Routes::new(&sites[1..2], 1).expect("sound sites");
        assert!(routes.find(b"unknown", "/").is_none());
    }

    #[test]
    fn senseless_sites_are_errors() {
        let with_url = |url: &str| {
            let upstreams = vec![UpstreamServer { url: url.into(), weight: 1, h2c: false }];
            Site { upstreams, ..site(&["a"], "/") }
        };
        for (sites, number) in [
            (vec![site(&[], "/")], 1),
            (vec![site(&["*"], "/"), site(&["a b"], "/")], 2),
            (vec![site(&["10.0.0.0/8"], "/")], 1),
            (vec![site(&["a"], "api")], 1),
            (vec![site(&["a"], "/?x")], 1),
            (vec![site(&["a"], "/x"), site(&["A"], "/x")], 2),
            (vec![with_url("gopher://x")], 1),
            (vec![Site { upstreams: Vec::new(), ..site(&["a"], "/") }], 1),
        ] {
            let error = Routes::new(&sites, 1).expect_err("refused").to_string();
            assert!(error.starts_with(&format!("site {number}: ")), "{error}");
        }
    }
}
