//! Addresses for servers under test that nobody else takes meanwhile.
//!
//! A server that must be told its port beforehand gets an address of its own out of 127.0.0.0/8: ports
//! freed there are not handed to outgoing connections (those leave from 127.0.0.1) nor to other tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A loopback address that this process has not given out, other than 127.0.0.x. Where the system has only
/// 127.0.0.1, that one.
pub fn fresh_ip() -> IpAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let count = GIVEN.fetch_add(1, Ordering::Relaxed);
    // 14 bits of the process id, 8 of the count: two test processes at once rarely share an address
    let index = ((std::process::id() & 0x3fff) << 8) | (count & 0xff);
    let [_, high, middle, low] = index.to_be_bytes();
    let ip = IpAddr::V4(Ipv4Addr::new(127, high + 1, middle, low.max(1)));
    match TcpListener::bind((ip, 0)) {
        Ok(_) => ip,
        Err(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// A port of `ip` that is free now.
pub fn free_port(ip: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).expect("a loopback address takes listeners");
    listener.local_addr().expect("a bound socket has an address")
}

/// An address where nothing listens: connections to it are refused.
pub fn closed_port() -> SocketAddr {
    free_port(fresh_ip())
}
