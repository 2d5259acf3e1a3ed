//! Hosts as access lists and sites write them: names, `*.suffix`, `*`, addresses and networks.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// One entry of a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This very name, in lower case.
    Name(Box<str>),
    /// Any name below this suffix, kept with its leading dot: `*.example.org` does not match `example.org`.
    Below(Box<str>),
    /// Any host.
    Any,
    /// Any address within; a single address is a network of one.
    Network(IpNet),
}

/// An entry that is no name, suffix or network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl HostPattern {
    /// Reads one entry. Case and a final dot do not matter; `[v6]` is taken as `v6`.
    ///
    /// # Errors
    /// When it is empty, holds characters that no host name has, or a `*` other than the first label.
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

    /// Whether it matches a host by name. `host` is in lower case without final dot; a network matches when
    /// `host` is written as an address within it.
    pub fn matches_name(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => **name == *host,
            Self::Below(suffix) => host.len() > suffix.len() && host.ends_with(&**suffix),
            Self::Any => true,
            Self::Network(network) => host.parse::<IpAddr>().is_ok_and(|address| network.contains(&address)),
        }
    }

    /// Whether it is a network that holds `address`.
    pub fn matches_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Network(network) if network.contains(&address))
    }
}

/// Letters, digits, hyphens and, since real names have them, underscores.
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
            ("*", "anything", true),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("127.0.0.0/8", "localhost", false),
            ("[::1]", "::1", true),
        ] {
            assert_eq!(HostPattern::parse(pattern).unwrap().matches_name(host), matches, "{pattern} {host}");
        }
    }

    #[test]
    fn senseless_entries_are_errors() {
        for text in ["", "*example.org", "a..b", "exa mple", "http://example.org", "a/8", "*.*.org", "*."] {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }
}
