//! Sockets that a process got from another: each with its use and the address that the settings
//! give.

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// Use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketUse {
    /// Listener for clients.
    Clients,
    /// Listener for other nodes of the cluster.
    Peers,
    /// Listener for the administration.
    Admin,
    /// Datagrams between the nodes of the cluster.
    Gossip,
    /// Datagrams of ICP.
    Icp,
    /// Datagrams of HTCP.
    Htcp,
}

/// Name of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketName {
    /// Use of the socket; `None` for a socket of a service manager, which any listener may take.
    pub used_for: Option<SocketUse>,
    /// Address in the settings, such as `127.0.0.1:0` or `unix:/run/shoal/admin.sock`.
    pub asked: String,
    /// Address that the socket has.
    pub bound: String,
}

/// Sockets that a process got from another one.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<(SocketName, OwnedFd)>,
}

impl InheritedSockets {
    /// Adds a socket.
    pub fn add(&mut self, name: SocketName, socket: OwnedFd) {
        debug_assert!(!name.asked.is_empty() && !name.bound.is_empty(), "a socket without an address");
        self.sockets.push((name, socket));
    }

    /// Takes the sockets for this use at this address of the settings. If two entries of the
    /// settings have one address, the first call gets those of the first.
    pub fn take(&mut self, used_for: SocketUse, asked: &str) -> Vec<OwnedFd> {
        let fits = |name: &SocketName| name.used_for.is_none_or(|it| it == used_for) && name.asked == asked;
        let Some(bound) =
            self.sockets.iter().find(|(name, _)| fits(name)).map(|(name, _)| name.bound.clone())
        else {
            return Vec::new();
        };
        let is_taken = |(name, _): &mut (SocketName, OwnedFd)| fits(name) && name.bound == bound;
        self.sockets.extract_if(.., is_taken).map(|(_, socket)| socket).collect()
    }

    /// Returns the names of the sockets that are left.
    pub fn left(&self) -> impl Iterator<Item = &SocketName> {
        self.sockets.iter().map(|(name, _)| name)
    }

    /// Returns `true` if no socket is left.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Returns `true` if a further socket may be bound beside this one.
    pub fn may_bind_beside(socket: &OwnedFd) -> bool {
        sockopt::socket_reuseport(socket).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(used_for: Option<SocketUse>, asked: &str, bound: &str) -> (SocketName, OwnedFd) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        (SocketName { used_for, asked: asked.into(), bound: bound.into() }, listener.into())
    }

    #[test]
    fn entries_of_one_address_get_their_own_sockets() {
        let mut sockets = InheritedSockets::default();
        for bound in ["a:1", "a:2", "a:1"] {
            let (name, socket) = socket(Some(SocketUse::Clients), "a:0", bound);
            sockets.add(name, socket);
        }
        assert_eq!(sockets.take(SocketUse::Peers, "a:0").len(), 0);
        assert_eq!(sockets.take(SocketUse::Clients, "a:0").len(), 2);
        assert_eq!(sockets.left().map(|name| name.bound.as_str()).collect::<Vec<_>>(), ["a:2"]);
        assert_eq!(sockets.take(SocketUse::Clients, "a:0").len(), 1);
        assert!(sockets.take(SocketUse::Clients, "a:0").is_empty() && sockets.is_empty());
    }

    #[test]
    fn socket_of_a_manager_serves_any_use() {
        let mut sockets = InheritedSockets::default();
        let (name, socket) = socket(None, "a:80", "a:80");
        assert!(!InheritedSockets::may_bind_beside(&socket));
        sockets.add(name, socket);
        assert_eq!(sockets.take(SocketUse::Admin, "a:80").len(), 1);
    }
}
