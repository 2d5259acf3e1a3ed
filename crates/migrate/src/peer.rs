//! The four peers, told apart by a file's name or contents.

use std::fmt;
use std::str::FromStr;

/// A cache with settings that can be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Squid, `squid.conf`.
    Squid,
    /// nginx, `nginx.conf`.
    Nginx,
    /// Varnish, `default.vcl`.
    Varnish,
    /// Apache Traffic Server, `remap.config` with its neighbours.
    TrafficServer,
}

impl Peer {
    /// Returns the peer that a file belongs to, by its name, else by its words.
    pub fn detect(name: &str, text: &str) -> Option<Self> {
        let base = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let by_name = [
            (".vcl", Self::Varnish),
            ("remap.config", Self::TrafficServer),
            ("records.config", Self::TrafficServer),
            ("squid.conf", Self::Squid),
            ("nginx.conf", Self::Nginx),
        ];
        by_name.iter().find(|(end, _)| base.ends_with(end)).map(|(_, peer)| *peer).or_else(|| by_words(text))
    }

    /// Name as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Squid => "Squid",
            Self::Nginx => "nginx",
            Self::Varnish => "Varnish",
            Self::TrafficServer => "Traffic Server",
        }
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "squid" => Ok(Self::Squid),
            "nginx" => Ok(Self::Nginx),
            "varnish" => Ok(Self::Varnish),
            "trafficserver" => Ok(Self::TrafficServer),
            _ => Err(format!("{text:?} is none of squid, nginx, varnish, trafficserver")),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// Counts lines that begin as those of each peer do; the most lines win, a draw decides nothing.
fn by_words(text: &str) -> Option<Peer> {
    let mut counts = [(0, Peer::Squid), (0, Peer::Nginx), (0, Peer::Varnish), (0, Peer::TrafficServer)];
    for line in text.lines().take(10_000) {
        let line = line.trim_start();
        let word = line.split(|c: char| c.is_whitespace() || c == '{').next().unwrap_or_default();
        let at = match word {
            "http_access" | "http_port" | "acl" | "refresh_pattern" | "cache_peer" | "cache_dir" => 0,
            "server" | "location" | "proxy_pass" | "http" | "upstream" | "server_name" | "events" => 1,
            "vcl" | "sub" | "backend" | "import" => 2,
            "map" | "regex_map" | "reverse_map" | "redirect" if line.contains("://") => 3,
            _ => continue,
        };
        counts[at].0 += 1;
    }
    let most = counts.iter().map(|(count, _)| *count).max().filter(|count| *count > 0)?;
    let mut winners = counts.iter().filter(|(count, _)| *count == most);
    let winner = winners.next()?.1;
    winners.next().is_none().then_some(winner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_known_by_name_or_words() {
        for (name, text, peer) in [
            ("/etc/squid/squid.conf", "", Some(Peer::Squid)),
            ("conf/nginx.conf", "", Some(Peer::Nginx)),
            ("default.vcl", "", Some(Peer::Varnish)),
            ("remap.config", "", Some(Peer::TrafficServer)),
            ("site.conf", "server {\n  location / {\n", Some(Peer::Nginx)),
            ("old", "http_port 3128\nacl a src all\n", Some(Peer::Squid)),
            ("x", "vcl 4.1;\nbackend default {\n", Some(Peer::Varnish)),
            ("x", "map http://a/ http://b/\n", Some(Peer::TrafficServer)),
            ("x", "hello\n", None),
            ("x", "", None),
        ] {
            assert_eq!(Peer::detect(name, text), peer, "{name} {text}");
        }
    }

    #[test]
    fn options_name_peers() {
        assert_eq!("trafficserver".parse(), Ok(Peer::TrafficServer));
        assert!("apache".parse::<Peer>().is_err());
    }
}
