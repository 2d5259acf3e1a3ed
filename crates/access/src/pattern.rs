//! Hosts as access lists and sites write them: names, `*.suffix`, `*`, addresses and networks.

use ipnet::IpNet;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

/// One entry of a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Exactly this name, in lower case.
    Name(Box<str>),
    /// Any name below this suffix, stored with its leading dot: `*.example.org` does not match
    /// `example.org`.
    Below(Box<str>),
    /// Any host.
    Any,
    /// Any address within the network; a single address is a network of one.
    Network(IpNet),
}

/// An entry that is not a name, suffix or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl HostPattern {
    /// Reads one entry. Case and a final dot do not matter; `[v6]` is taken as `v6`.
    ///
    /// # Errors
    /// When it is empty, holds characters that no host name has, or a `*` other than the first
    /// label.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(network) = bare.parse::<IpNet>() {
            return Ok(Self::Network(network));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        if bare == "*" {
            return Ok(Self::Any);
        }
        let name = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
        let (suffix, pattern): (&str, fn(Box<str>) -> Self) = match name.strip_prefix('*') {
            Some(suffix) if suffix.starts_with('.') => (suffix, Self::Below),
            _ => (&name, Self::Name),
        };
        let labels = suffix.strip_prefix('.').unwrap_or(suffix);
        if labels.split('.').all(is_label) {
            Ok(pattern(suffix.into()))
        } else {
            Err(PatternError(text.into()))
        }
    }
}

/// A list of entries. A name costs one hash lookup, and one for each of its labels if the list has
/// suffixes. A name that is an address costs one comparison for each network. The number of names
/// and suffixes does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPatterns {
    names: HashSet<Box<str>>,
    /// Suffixes with their leading dots.
    suffixes: HashSet<Box<str>>,
    networks: Vec<IpNet>,
    any: bool,
}

impl HostPatterns {
    /// Returns `true` if an entry matches a host by name. `host` is in lower case, without brackets
    /// and without a final dot. A network matches if `host` is an address within the network.
    pub fn match_name(&self, host: &str) -> bool {
        let below =
            || host.match_indices('.').any(|(dot, _)| dot > 0 && self.suffixes.contains(&host[dot..]));
        let within = || host.parse().is_ok_and(|address| self.match_address(address));
        self.any
            || self.names.contains(host)
            || !self.suffixes.is_empty() && below()
            || !self.networks.is_empty() && within()
    }

    /// Returns `true` if both lists match the same addresses.
    pub fn match_addresses_of(&self, other: &Self) -> bool {
        self.networks == other.networks
    }

    /// Returns `true` if an entry is a network that holds `address`.
    pub fn match_address(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

impl FromIterator<HostPattern> for HostPatterns {
    fn from_iter<I: IntoIterator<Item = HostPattern>>(entries: I) -> Self {
        let mut list = Self::default();
        for entry in entries {
            match entry {
                HostPattern::Name(name) => drop(list.names.insert(name)),
                HostPattern::Below(suffix) => drop(list.suffixes.insert(suffix)),
                HostPattern::Any => list.any = true,
                HostPattern::Network(network) => list.networks.push(network),
            }
        }
        list
    }
}

/// Returns `true` for letters, digits, hyphens and underscores; real names contain underscores.
fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(fits)
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no host name, \"*.suffix\", \"*\" or network", self.0)
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_written() {
        for (pattern, host, matches) in [
            ("example.org", "example.org", true),
            ("Example.ORG.", "example.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "badexample.org", false),
            ("*.example.org", ".example.org", false),
            ("*", "anything", true),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("127.0.0.0/8", "localhost", false),
            ("[::1]", "::1", true),
        ] {
            let list: HostPatterns = [HostPattern::parse(pattern).unwrap()].into_iter().collect();
            assert_eq!(list.match_name(host), matches, "{pattern} {host}");
        }
    }

    #[test]
    fn senseless_entries_are_errors() {
        for text in ["", "*example.org", "a..b", "exa mple", "http://example.org", "a/8", "*.*.org", "*."] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }
}
