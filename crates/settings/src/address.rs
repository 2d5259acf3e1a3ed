//! Where the admin listener listens: a TCP address, or a Unix socket.

use crate::mistake::Mistakes;
use crate::setting::{Kind, Setting, Written, quoted};
use crate::tree::Node;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where the admin listener listens. Written `127.0.0.1:3129` or `unix:/run/shoal/admin.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket in the file system; its permissions say who may connect.
    Unix(PathBuf),
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs the path of the socket".into()),
            // sun_path holds 108 bytes with its NUL (unix(7))
            Some(path) if path.len() > 107 => {
                Err(format!("a socket's path has at most 107 bytes, this {}", path.len()))
            }
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
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
    fn kind() -> Kind {
        Kind::Text("address:port, or unix:/path".into())
    }

    fn read(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<Self> {
        let text = String::read(node, key, mistakes)?;
        text.parse().map_err(|message: String| mistakes.note(&node.place, key, message, None)).ok()
    }

    fn write(&self) -> Written {
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
        for text in ["", "3129", "unix:", "localhost:3129", long.as_str()] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }
}
