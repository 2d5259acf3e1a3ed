//! Listening addresses: of clients' listeners, and of the admin listener, which may be a Unix
//! socket.

use crate::mistake::Mistakes;
use crate::setting::{Setting, SettingKind, TomlText, quoted};
use crate::tree::Node;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Parses a listening address as operators write it: `127.0.0.1:3128`, `[::1]:3128`. `3128` and
/// `localhost:3128` stand for this machine alone. `:3128` and `*:3128` stand for all IPv4
/// addresses, as in most servers. Other names are not looked up.
///
/// # Errors
/// Returns the mistake and its correction.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let with_port =
        |ip: Ipv4Addr, port: &str| port.parse().ok().map(|port: u16| SocketAddr::from((ip, port)));
    let short = match text.rsplit_once(':') {
        None => with_port(Ipv4Addr::LOCALHOST, text),
        Some(("" | "*", port)) => with_port(Ipv4Addr::UNSPECIFIED, port),
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => with_port(Ipv4Addr::LOCALHOST, port),
        Some(_) => None,
    };
    short.or_else(|| text.parse().ok()).ok_or_else(|| {
        format!(
            "{text:?} is not an address and port such as \"127.0.0.1:3128\"; \"3128\" is a port of this machine alone, \
             \":3128\" of all its IPv4 addresses, and names are not looked up here"
        )
    })
}

/// Address of the admin listener. Written `127.0.0.1:3129` or `unix:/run/shoal/admin.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket in the file system. Its permissions control access.
    Unix(PathBuf),
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs the path of the socket".into()),
            // sun_path holds 108 bytes with its NUL (unix(7)).
            Some(path) if path.len() > 107 => {
                Err(format!("a socket's path has at most 107 bytes, this {}", path.len()))
            }
            Some(path) => Ok(Self::Unix(path.into())),
            // Every client of this listener may purge. An omitted address must not open the
            // listener to all machines.
            None if text.starts_with([':', '*']) => Err(format!(
                "{text:?} does not say for whom: write \"127.0.0.1{0}\", or \"0.0.0.0{0}\" for everybody",
                text.trim_start_matches('*')
            )),
            None => listen_address(text).map(Self::Tcp).map_err(|_| {
                format!("{text:?} is not an address and port such as \"127.0.0.1:3129\", nor \"unix:/path\"")
            }),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Setting for AdminAddress {
    fn kind() -> SettingKind {
        SettingKind::Text("address:port, or unix:/path".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let text = String::read(node, key, mistakes)?;
        text.parse().map_err(|message: String| mistakes.note(&node.place, key, message, None)).ok()
    }

    fn write(&self) -> TomlText {
        quoted(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip() {
        for text in ["127.0.0.1:3129", "[::1]:3129", "unix:/run/shoal.sock"] {
            assert_eq!(text.parse::<AdminAddress>().map(|address| address.to_string()).as_deref(), Ok(text));
        }
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["", ":3129", "*:3129", "unix:", "somewhere:3129", long.as_str()] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
        for text in ["3129", "localhost:3129"] {
            assert_eq!(text.parse(), Ok(AdminAddress::Tcp(([127, 0, 0, 1], 3129).into())), "{text}");
        }
    }

    #[test]
    fn addresses_are_read_as_operators_write_them() {
        for (text, address) in [
            ("127.0.0.1:3128", "127.0.0.1:3128"),
            ("[::1]:3128", "[::1]:3128"),
            ("3128", "127.0.0.1:3128"),
            ("0", "127.0.0.1:0"),
            ("localhost:3128", "127.0.0.1:3128"),
            ("LocalHost:3128", "127.0.0.1:3128"),
            (":3128", "0.0.0.0:3128"),
            ("*:3128", "0.0.0.0:3128"),
        ] {
            assert_eq!(listen_address(text).map(|address| address.to_string()).as_deref(), Ok(address));
        }
        for text in
            ["", ":", "localhost", "70000", ":70000", "a:1", "::1", "::1:3128", "127.0.0.1", "-1", "1:2:3"]
        {
            assert!(listen_address(text).is_err_and(|why| why.contains("127.0.0.1:3128")), "{text}");
        }
    }
}
