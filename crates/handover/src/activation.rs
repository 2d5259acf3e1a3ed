//! Socket activation: listening sockets that a service manager passes, see sd_listen_fds(3).
//!
//! `LISTEN_PID` names the process that they are for, `LISTEN_FDS` their number, from descriptor 3
//! on, and `LISTEN_FDNAMES` their names, with colons between. A socket serves the listener of the
//! settings that has its address.

use crate::sockets::{InheritedSockets, SocketName, SocketUse};
use crate::sys::take_descriptor;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

/// Variables of the environment that describe the sockets.
#[derive(Clone, Debug, Default)]
pub struct Activation {
    /// `LISTEN_PID`.
    pub pid: Option<String>,
    /// `LISTEN_FDS`.
    pub count: Option<String>,
    /// `LISTEN_FDNAMES`.
    pub names: Option<String>,
}

/// Socket of a service manager that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct ActivationFault(String);

/// Returns the sockets that a service manager has passed to the process `own_pid`.
///
/// # Errors
/// If a descriptor is no listening socket.
pub fn activated(variables: &Activation, own_pid: u32) -> Result<InheritedSockets, ActivationFault> {
    let mut sockets = InheritedSockets::default();
    let is_for_us = variables.pid.as_deref().is_some_and(|pid| pid.parse() == Ok(own_pid));
    let Some(count) = variables.count.as_deref().filter(|_| is_for_us) else { return Ok(sockets) };
    let count: RawFd = count.parse().map_err(|_| fault(format!("LISTEN_FDS is {count:?}, not a number")))?;
    if !(0..=SOCKETS_MAX).contains(&count) {
        return Err(fault(format!("LISTEN_FDS is {count}; at most {SOCKETS_MAX} sockets are taken")));
    }
    let mut names = variables.names.as_deref().unwrap_or_default().split(':');
    for number in FIRST..FIRST + count {
        let name = names.next().unwrap_or_default();
        let socket = take_descriptor(number)
            .map_err(|error| fault(format!("descriptor {number} cannot be taken: {error}")))?;
        let address =
            address_of(&socket).map_err(|why| fault(format!("descriptor {number} ({name}) {why}")))?;
        sockets.add(SocketName { used_for: use_of(name), asked: address.clone(), bound: address }, socket);
    }
    Ok(sockets)
}

/// Returns the use that a name states; any listener may take a socket of another name.
fn use_of(name: &str) -> Option<SocketUse> {
    match name {
        "admin" => Some(SocketUse::Admin),
        "peers" => Some(SocketUse::Peers),
        _ => None,
    }
}

/// Returns the address of a listening socket, as the settings spell it.
fn address_of(socket: &OwnedFd) -> Result<String, String> {
    if sockopt::socket_type(socket) != Ok(SocketType::STREAM)
        || sockopt::socket_acceptconn(socket) != Ok(true)
    {
        return Err("is no listening stream socket".into());
    }
    let name = getsockname(socket).map_err(|error| format!("has no address: {error}"))?;
    match name.address_family() {
        AddressFamily::UNIX => {
            let path = SocketAddrUnix::try_from(name).ok();
            let path = path.as_ref().and_then(SocketAddrUnix::path);
            let path = path.ok_or("is a Unix socket without a path")?;
            Ok(format!("unix:{}", path.to_string_lossy()))
        }
        _ => SocketAddr::try_from(name)
            .map(|address| address.to_string())
            .map_err(|_| "is neither an Internet nor a Unix socket".into()),
    }
}

fn fault(why: String) -> ActivationFault {
    ActivationFault(why)
}

impl fmt::Display for ActivationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket activation: {}", self.0)
    }
}

impl std::error::Error for ActivationFault {}

/// First descriptor that a service manager passes.
const FIRST: RawFd = 3;

/// Most sockets that are taken.
const SOCKETS_MAX: RawFd = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pid: u32, count: &str) -> Activation {
        Activation { pid: Some(pid.to_string()), count: Some(count.into()), names: None }
    }

    #[test]
    fn sockets_of_another_process_are_left_alone() {
        assert!(activated(&Activation::default(), 7).is_ok_and(|sockets| sockets.is_empty()));
        assert!(activated(&variables(8, "2"), 7).is_ok_and(|sockets| sockets.is_empty()));
        assert!(activated(&variables(7, "0"), 7).is_ok_and(|sockets| sockets.is_empty()));
    }

    #[test]
    fn senseless_numbers_are_refused() {
        for count in ["x", "-1", "100000"] {
            let refusal = activated(&variables(7, count), 7).expect_err("no number of sockets");
            assert!(refusal.to_string().contains("LISTEN_FDS"), "{refusal}");
        }
    }

    #[test]
    fn address_is_spelled_as_in_settings() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound").to_string();
        assert_eq!(address_of(&listener.into()), Ok(address));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        assert_eq!(address_of(&listener.into()), Ok(format!("unix:{}", path.display())));
        let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert!(address_of(&stranger.into()).is_err());
        assert!(address_of(&tempfile::tempfile().expect("a file").into()).is_err());
    }
}
