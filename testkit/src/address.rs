//! Addresses for servers under test that nobody else takes meanwhile.
//!
//! A server that must be told its port beforehand gets an address of its own out of 127.0.0.0/8:
//! ports freed there are not handed to outgoing connections (those leave from 127.0.0.1) nor to
//! other tests.

use rustix::net::{AddressFamily, SocketType, sockopt};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A loopback address that this process has not given out lately, other than 127.0.0.x. Where the
/// system has only 127.0.0.1, that one.
pub fn fresh_ip() -> IpAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let count = GIVEN.fetch_add(1, Ordering::Relaxed);
    // 14 bits of the process id: two test processes at once rarely share an address
    let [_, _, high, middle] = (std::process::id() & 0x3fff).to_be_bytes();
    let ip = IpAddr::V4(Ipv4Addr::new(127, high + 1, middle, 1 + (count % 254) as u8));
    match TcpListener::bind((ip, 0)) {
        Ok(_) => ip,
        Err(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// A port of `ip` that is free now and that this process has not given out before.
pub fn free_port(ip: IpAddr) -> SocketAddr {
    static GIVEN: Mutex<Option<HashSet<SocketAddr>>> = Mutex::new(None);
    loop {
        let listener = TcpListener::bind((ip, 0)).expect("a loopback address takes listeners");
        let address = listener.local_addr().expect("a bound socket has an address");
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if given.get_or_insert_default().insert(address) {
            return address;
        }
    }
}

/// Keeps the port of a listener that was closed from being given out again in this process:
/// connections to it stay refused. A listener may still be bound to it by name.
pub fn retire(address: SocketAddr) {
    static RETIRED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = rustix::net::socket(family, SocketType::STREAM, None) else { return };
    let held =
        sockopt::set_socket_reuseaddr(&socket, true).and_then(|()| rustix::net::bind(&socket, &address));
    if held.is_ok() {
        RETIRED.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }
}

/// A connection to `to` from `from`, an address of this machine.
pub fn connect_from(from: IpAddr, to: SocketAddr) -> TcpStream {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::new(from, 0)).expect("an address of this machine");
    rustix::net::connect(&socket, &to).expect("the server accepts");
    TcpStream::from(socket)
}

/// An address where nothing listens: connections to it are refused.
pub fn closed_port() -> SocketAddr {
    free_port(fresh_ip())
}
