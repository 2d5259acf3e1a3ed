//! Selection of a request's site: by host, then by the longest path prefix.
//!
//! An exact host goes before `*.suffix`, a longer suffix before a shorter, and `*` comes last.
//! Among sites of one host pattern the longest path prefix wins. If the host matches a pattern but
//! the path matches none of its prefixes, less specific hosts are tried. Cost: one hash lookup, or
//! one per label of the host if suffixes are configured. Each prefix adds one comparison. There is
//! no lookup if only `*` is configured.

use crate::access::HostPattern;
use crate::by_site::{SiteMeter, SiteMeters};
use crate::upstream::{Credentials, GroupMember, UpstreamGroup, UpstreamUrlError};
use http::HeaderValue;
use shoal_rules::normal_path;
use shoal_settings::{Site, UpstreamServer};
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
    /// `true` if a site serves some of its host's paths alone.
    has_prefixes: bool,
    /// Sites of `*`, the longest prefix first.
    any: Vec<Arc<Route>>,
    all: Vec<Arc<Route>>,
    /// Meters of the sites and of forward mode.
    meters: SiteMeters,
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
    /// `true` if this node has credentials of its own at an upstream. The Authorization of clients
    /// then reaches none of them.
    pub has_credentials: bool,
    /// Rewriting of URLs in responses: of every response or of none; `None` where a rule maps the
    /// path.
    pub rewrites_location: Option<bool>,
    /// Counters of the site.
    pub meter: Arc<SiteMeter>,
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
    /// A file of credentials that cannot be used.
    Credentials(usize, String),
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
        let labels: Vec<String> = sites.iter().map(label).collect();
        let meters = SiteMeters::after(&previous.meters, labels.iter().map(String::as_str));
        let mut routes = Self { meters, ..Self::default() };
        for (index, site) in sites.iter().enumerate() {
            let credentials = credentials(index, site)?;
            let is_same =
                |route: &&Arc<Route>| route.settings == *site && route.group.has_credentials(&credentials);
            let group = match previous.all.iter().find(is_same) {
                Some(route) => Arc::clone(&route.group),
                None => {
                    let group = UpstreamGroup::new(site, seed.wrapping_add(index as u64));
                    let group = group.map_err(|error| RouteError::Upstream(index, error))?;
                    Arc::new(group.with_credentials(credentials))
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
    /// port and case do not matter. The path counts in normal form, as rules see it, so that no
    /// spelling leads past the rules of a site.
    #[inline]
    pub fn find(&self, host: &[u8], path: impl AsRef<[u8]>) -> Option<&Arc<Route>> {
        let path = path.as_ref();
        match self.has_prefixes {
            true => self.find_below_prefix(host, path),
            false => self.look_up(host, path),
        }
    }

    /// Looks the path up in normal form, without its query. Apart, so that nodes without prefixes
    /// have no instruction of it in a hit.
    #[inline(never)]
    fn find_below_prefix(&self, host: &[u8], path: &[u8]) -> Option<&Arc<Route>> {
        // No request has another path.
        let path = std::str::from_utf8(path).ok()?;
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        self.look_up(host, normal_path(path).as_bytes())
    }

    fn look_up(&self, host: &[u8], path: &[u8]) -> Option<&Arc<Route>> {
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

    /// Returns the meters of the sites and of forward mode.
    #[inline]
    pub fn meters(&self) -> &SiteMeters {
        &self.meters
    }

    /// Returns the meter of a site, or of forward mode.
    #[inline]
    pub fn meter<'a>(&'a self, site: Option<&'a Route>) -> &'a Arc<SiteMeter> {
        site.map_or(self.meters.forward(), |site| &site.meter)
    }

    /// Returns the site with this first host and path prefix.
    #[inline]
    pub fn named(&self, host: &str, prefix: &str) -> Option<&Arc<Route>> {
        self.all.iter().find(|route| route.name() == (host, prefix))
    }

    /// Returns every site, in the settings' order.
    #[inline]
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
            path_prefix: normal_path(prefix).into_owned(),
            preserve_host: site.preserve_host,
            via: site.via,
            has_credentials: site.upstreams.iter().any(|upstream| upstream.credentials.is_some()),
            rewrites_location: rewrites_location(site, &group),
            group,
            meter: Arc::clone(self.meters.site(index)),
            settings: site.clone(),
        });
        for host in &site.hosts {
            let name = pattern_key(host).ok_or_else(|| RouteError::Host(index, host.clone()))?;
            self.suffixes |= name.starts_with('.');
            let same_host = match &*name {
                "*" => &mut self.any,
                _ => self.hosts.entry(name).or_default(),
            };
            if same_host.iter().any(|other| other.path_prefix == route.path_prefix) {
                return Err(RouteError::Duplicate(index, format!("{host}{prefix}")));
            }
            same_host.push(Arc::clone(&route));
        }
        self.has_prefixes |= route.path_prefix != "/";
        self.all.push(route);
        Ok(())
    }
}

impl Route {
    /// Returns `true` if `path` is the prefix itself or lies below it: `/api` serves `/api` and
    /// `/api/x`, not `/apis`.
    fn serves(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.path_prefix.as_bytes())
            .is_some_and(|rest| self.path_prefix.ends_with('/') || matches!(rest, [] | [b'/' | b'?', ..]))
    }
}

/// Reads the credentials of a site's upstreams.
fn credentials(index: usize, site: &Site) -> Result<Vec<Option<HeaderValue>>, RouteError> {
    let read = |upstream: &UpstreamServer| {
        let Some(path) = &upstream.credentials else { return Ok(None) };
        let read = Credentials::read(path).map_err(|why| RouteError::Credentials(index, why))?;
        if read.is_exposed {
            tracing::warn!(file = %path.display(), "a file of credentials is readable by every user");
        }
        Ok(Some(read.value))
    };
    site.upstreams.iter().map(read).collect()
}

/// Returns the site's own word on rewriting, or its default.
fn rewrites_location(site: &Site, group: &UpstreamGroup) -> Option<bool> {
    let is_renamed =
        |member: &Arc<GroupMember>| !member.changes.prefix.is_empty() || member.changes.host.is_some();
    let renames = !site.preserve_host || group.members().iter().any(is_renamed);
    site.rewrite_location.or(renames.then_some(true))
}

impl Route {
    /// Returns the first host and the path prefix, which name the site on every node.
    pub fn name(&self) -> (&str, &str) {
        (self.settings.hosts.first().map_or("", String::as_str), &self.settings.path_prefix)
    }

    /// Returns `true` if the site's settings name this host itself, and not by a pattern.
    pub fn names_host(&self, host: &str) -> bool {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        self.settings.hosts.iter().any(|own| {
            let bare =
                own.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(&**own, |(bare, _)| bare);
            bare.eq_ignore_ascii_case(host) && !bare.contains('*')
        })
    }
}

/// Returns the name under which a site is counted: its first host and its path prefix.
fn label(site: &Site) -> String {
    format!("{}{}", site.hosts.first().map_or("", String::as_str), site.path_prefix)
}

/// Returns the first route that serves `path`.
fn serving<'r>(routes: &'r [Arc<Route>], path: &[u8]) -> Option<&'r Arc<Route>> {
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
            Self::Credentials(site, why) => write!(f, "site {}: credentials: {why}", site + 1),
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
    use shoal_settings::Balance;

    fn site(hosts: &[&str], path_prefix: &str) -> Site {
        Site {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            path_prefix: path_prefix.into(),
            upstreams: vec![UpstreamServer::at("http://u")],
            balance: Balance::RoundRobin,
            health: None,
            preserve_host: true,
            set_cookie: None,
            heuristic_fraction: None,
            heuristic_query: None,
            via: true,
            rule: Vec::new(),
            rewrite_location: None,
            ..Site::to("http://u")
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
            ("example.org", "/x/../api/v1", 2),
            ("example.org", "/%61pi", 2),
            ("example.org", "//api?x=//y", 2),
            ("example.org", "/api/../x", 1),
            ("example.org", "/x?/../api", 1),
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
            let upstreams = vec![UpstreamServer::at(url)];
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
