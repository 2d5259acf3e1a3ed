//! Listening addresses of the settings, tried by binding them, and lookups of names.

use super::facts::{PortFact, PortState};
use shoal_settings::{AdminAddress, Settings};
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Tries each address of the settings. A running node has those in `bound`, and the admin address
/// if it `answers` there.
pub(super) fn ports(settings: &Settings, bound: &[String], answers: bool) -> Vec<PortFact> {
    let mut facts = Vec::new();
    let mut add = |setting: String, address: SocketAddr, is_nodes: bool| {
        if address.port() != 0 {
            let state = if is_nodes { PortState::Nodes } else { tried(address) };
            facts.push(PortFact { address: address.to_string(), setting, state });
        }
    };
    for (at, listen) in settings.listen.iter().enumerate() {
        let is_nodes = bound.contains(&listen.address.to_string());
        add(format!("listen[{at}].address"), listen.address, is_nodes);
    }
    if let Some(peer) = settings.cluster.peer.filter(|_| !settings.cluster.name.is_empty()) {
        add("cluster.peer".into(), peer, answers);
    }
    match &settings.admin.listen {
        Some(AdminAddress::Tcp(address)) => add("admin.listen".into(), *address, answers),
        Some(AdminAddress::Unix(path)) => facts.push(PortFact {
            address: format!("unix:{}", path.display()),
            setting: "admin.listen".into(),
            state: if answers { PortState::Nodes } else { tried_socket(path) },
        }),
        None => {}
    }
    facts
}

fn tried(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) => state_of(&error),
    }
}

fn state_of(error: &Error) -> PortState {
    match error.kind() {
        ErrorKind::AddrInUse => PortState::Taken,
        ErrorKind::PermissionDenied => PortState::Forbidden,
        ErrorKind::AddrNotAvailable => PortState::Foreign,
        _ => PortState::Failed(error.to_string()),
    }
}

/// A socket that another process serves is taken; one that a killed process left is not.
fn tried_socket(path: &Path) -> PortState {
    match UnixStream::connect(path) {
        Ok(_) => PortState::Taken,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            PortState::Failed("this user may not use it".into())
        }
        Err(_) => PortState::Free,
    }
}

/// Looks up a name by the system's resolver. Returns the number of its addresses.
pub(super) fn lookup(name: &str) -> Result<usize, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| error.to_string());
    found
        .map(|addresses| addresses.count())
        .map_err(|why| why.replace("failed to lookup address information: ", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_and_free_addresses_are_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("bound");
        let text = format!("[[listen]]\naddress = '{address}'\nmode = 'forward'\n[admin]\nlisten = 'none'\n");
        let settings = Settings::parse(&text, "f").expect("sound");
        let state = |bound: &[String]| ports(&settings, bound, false).remove(0).state;
        assert_eq!(state(&[]), PortState::Taken);
        assert_eq!(state(&[address.to_string()]), PortState::Nodes);
        drop(taken);
        assert_eq!(state(&[]), PortState::Free);
        assert_eq!(state_of(&ErrorKind::PermissionDenied.into()), PortState::Forbidden);
        assert_eq!(tried("192.0.2.1:7".parse().expect("an address")), PortState::Foreign);
        assert_eq!(lookup("127.0.0.1"), Ok(1));
    }

    #[test]
    fn left_socket_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        assert_eq!(tried_socket(&path), PortState::Taken);
        drop(listener);
        assert_eq!(tried_socket(&path), PortState::Free);
    }
}
