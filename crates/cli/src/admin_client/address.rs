//! Address of a node's admin listener, as commands take it.
//!
//! | written | meaning |
//! |---|---|
//! | `127.0.0.1:3129`, `3129`, `localhost:3129` | plain HTTP, as `admin.listen` is written |
//! | `http://HOST:PORT` | plain HTTP; the host may be a name |
//! | `https://HOST:PORT` | TLS; the host stands in the certificate |
//! | `unix:/PATH` | a Unix socket |
//!
//! A URL without a port has the port 3129.

use shoal_settings::AdminAddress;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Address of an admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminUrl {
    /// A host and port.
    Tcp {
        /// `true` for `https`.
        is_tls: bool,
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// Path of a socket.
    Unix(PathBuf),
}

impl AdminUrl {
    /// Returns the way to a listener of this machine. A listener of all addresses is reached by
    /// loopback.
    pub fn of_listener(address: &AdminAddress, is_tls: bool) -> Self {
        match address {
            AdminAddress::Unix(path) => Self::Unix(path.clone()),
            AdminAddress::Tcp(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                    ip => ip,
                };
                Self::Tcp { is_tls, host: ip.to_string(), port: address.port() }
            }
        }
    }

    /// Returns `true` if the listener is on this machine, as far as the address shows.
    pub fn is_here(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                let ip: Option<IpAddr> = host.parse().ok();
                ip.map_or(host == "localhost", |ip| ip.to_canonical().is_loopback())
            }
        }
    }

    /// Returns `true` if bytes to the listener stay on this machine, or are encrypted.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Tcp { is_tls: true, .. }) || self.is_here()
    }

    /// Returns the value of the Host field.
    pub fn authority(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_tls = |scheme: &str| scheme.eq_ignore_ascii_case("https");
        match text.split_once("://") {
            Some((scheme, rest)) if is_tls(scheme) || scheme.eq_ignore_ascii_case("http") => {
                let (host, port) = host_and_port(rest)?;
                Ok(Self::Tcp { is_tls: is_tls(scheme), host, port })
            }
            Some((scheme, _)) => Err(format!("{scheme:?} is neither http nor https")),
            None => match text.parse() {
                Ok(AdminAddress::Unix(path)) => Ok(Self::Unix(path)),
                Ok(address) => Ok(Self::of_listener(&address, false)),
                Err(why) => Err(format!("{why}; a URL such as \"https://cache1:3129\" takes names")),
            },
        }
    }
}

/// Parses the part of a URL behind the scheme.
fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.contains('@') {
        return Err("the user is named by --user, and the password stands in --password-file".into());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (ip, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
            ip.parse::<Ipv6Addr>().map_err(|_| format!("{ip:?} is no IPv6 address"))?;
            (ip, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let is_name = |host: &str| {
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte)) && host.len() < 256
    };
    if host.is_empty() || !is_name(host) {
        return Err(format!("{host:?} is no host; paths and queries do not belong here"));
    }
    let port = match port {
        Some("") => Ok(DEFAULT_PORT),
        Some(port) => port.parse().map_err(|_| format!("{port:?} is no port")),
        None => Err("a colon and the port follow a bracket".into()),
    };
    debug_assert!(!host.contains(['@', '/', ' ']), "{host:?} ends no field of a request");
    Ok((host.to_ascii_lowercase(), port?))
}

impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { is_tls: true, .. } => write!(f, "https://{}", self.authority()),
            Self::Tcp { .. } => f.write_str(&self.authority()),
        }
    }
}

/// Port of `admin.listen` by default.
const DEFAULT_PORT: u16 = 3129;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        for (text, shown) in [
            ("127.0.0.1:3129", "127.0.0.1:3129"),
            ("3129", "127.0.0.1:3129"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("http://cache1", "cache1:3129"),
            ("HTTPS://Cache1.Example.org:1/", "https://cache1.example.org:1"),
            ("https://[::1]", "https://[::1]:3129"),
            ("https://[::1]:7", "https://[::1]:7"),
        ] {
            assert_eq!(text.parse::<AdminUrl>().map(|url| url.to_string()).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for (text, why) in [
            ("nowhere", "https://cache1:3129"),
            ("ftp://a", "neither http nor https"),
            ("https://", "no host"),
            ("https://a/status", "no host"),
            ("https://a:99999", "no port"),
            ("https://ann:secret@a", "--password-file"),
            ("https://[::1", "not closed"),
            ("https://[::1]7", "a colon"),
            ("https://[x]:1", "no IPv6"),
            ("https://a b", "no host"),
        ] {
            let told = text.parse::<AdminUrl>().expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn passwords_stay_on_the_machine_or_are_encrypted() {
        let private = |text: &str| text.parse::<AdminUrl>().expect(text).is_private();
        for text in ["127.0.0.9:1", "http://localhost", "http://[::1]:2", "https://a.test", "unix:/a"] {
            assert!(private(text), "{text}");
        }
        for text in ["http://a.test", "10.0.0.1:3129", "http://[::2]:1"] {
            assert!(!private(text), "{text}");
        }
        let all = AdminUrl::of_listener(&AdminAddress::Tcp(([0, 0, 0, 0], 7).into()), true);
        assert_eq!(all.to_string(), "https://127.0.0.1:7");
    }
}
