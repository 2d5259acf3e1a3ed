//! Settings of interception: https of forward clients that this node answers itself.

use super::Settings;
use std::path::PathBuf;

section! {
    /// https of forward clients that this node answers itself, with certificates of an authority of
    /// its own. Nothing is intercepted unless a host is listed. `docs/INTERCEPTION.md` tells the
    /// meaning, and the cases in which not to use it.
    pub struct Intercept {
        /// Hosts to which this node answers CONNECT itself: names, `*.suffix`, or the word
        /// `mirrors` for the https registries of all `[[mirror]]`. All other CONNECTs are tunnels.
        pub hosts: Vec<String> = Vec::new(),
        /// Ports of these hosts. The registry of a mirror has the port of its URL.
        /// `forward.connect_ports` must allow each port too.
        pub ports: Vec<u16> = vec![443],
        /// Folder of the authority, as `shoal ca init` makes it. Clients must trust its `root.pem`.
        pub authority: PathBuf = "shoal-ca".into(),
        /// Most intercepted connections at a time; a further CONNECT to a listed host gets 503.
        #[limits(1..=1_000_000)]
        pub connections: usize = 1000,
    }
}

/// Word in `intercept.hosts` for the registries of all mirrors.
pub(crate) const MIRRORS: &str = "mirrors";

impl Intercept {
    /// Returns `true` if any host is listed.
    pub fn is_on(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Returns the listed names and `*.suffix` patterns, without the word for mirrors.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(String::as_str).filter(|host| *host != MIRRORS)
    }
}

impl Settings {
    /// Returns host and port of each mirror's registry that is intercepted.
    pub fn intercepted_registries(&self) -> Vec<(String, u16)> {
        if !self.intercept.hosts.iter().any(|host| host == MIRRORS) {
            return Vec::new();
        }
        let of = |upstream: &str| {
            let authority = upstream.strip_prefix("https://")?.split('/').next()?;
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
                _ => (authority, 443),
            };
            is_name(host).then(|| (host.to_ascii_lowercase(), port))
        };
        let mut all: Vec<_> = self.mirror.iter().filter_map(|mirror| of(mirror.upstream())).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Returns `true` for a name; an address has no place in a name constraint.
pub(crate) fn is_name(host: &str) -> bool {
    !host.starts_with('[') && host.parse::<std::net::IpAddr>().is_err()
}
