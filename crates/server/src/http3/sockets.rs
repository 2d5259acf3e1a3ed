//! UDP sockets of HTTP/3: one for each worker, on the port of the listener's TCP sockets.
//!
//! A process that takes over from another one binds them once the other has closed its own: packets
//! of the other's connections must not come here. Until then clients use HTTP/2, as they do where
//! UDP does not pass.

use crate::Error;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Socket of a worker, bound or still to be bound.
pub(crate) enum UdpListener {
    /// Bound.
    Bound(UdpSocket),
    /// To be bound when the process before this one has gone.
    Late(Arc<LateSockets>),
}

/// Sockets of one listener, which the first worker that can binds for all.
pub(crate) struct LateSockets {
    address: SocketAddr,
    workers: usize,
    bound: Mutex<Vec<UdpSocket>>,
}

/// Binds `address` once for each of `workers`. Another process must have no socket there.
pub(crate) fn bind(address: SocketAddr, workers: usize) -> Result<Vec<UdpSocket>, Error> {
    bind_all(address, workers).map_err(|source| Error::Listen { address, source })
}

fn bind_all(address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    // A socket that shares with no other binds only if there is no other.
    drop(bind_one(address, false)?);
    (0..workers).map(|_| bind_one(address, true)).collect()
}

fn bind_one(address: SocketAddr, shares: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shares)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The kernel may grant less; packets beyond it are lost, and sent again.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl LateSockets {
    /// Creates the sockets of `workers` for later.
    pub fn new(address: SocketAddr, workers: usize) -> Arc<Self> {
        Arc::new(Self { address, workers, bound: Mutex::default() })
    }

    /// Returns the socket of one worker, once the address is free.
    ///
    /// # Errors
    /// If the address is still in use, or cannot be used.
    pub fn take(&self) -> io::Result<UdpSocket> {
        let mut bound = self.bound.lock();
        if bound.is_empty() {
            *bound = bind_all(self.address, self.workers)?;
        }
        bound.pop().ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }
}

/// Bytes of a socket's buffers in the kernel.
const BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn free_address() -> SocketAddr {
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback is there")
    }

    #[test]
    fn workers_share_a_port_with_no_other_process() {
        let address = free_address();
        let sockets = bind(address, 3).expect("free");
        assert!(sockets.iter().all(|socket| socket.local_addr().expect("bound") == address));
        assert!(bind(address, 1).is_err());
    }

    #[test]
    fn late_sockets_wait_for_the_address() {
        let address = free_address();
        let before = bind(address, 2).expect("free");
        let late = LateSockets::new(address, 2);
        assert!(late.take().is_err());
        drop(before);
        let taken = (late.take().expect("free"), late.take().expect("bound with the first"));
        assert_eq!(taken.0.local_addr().expect("bound"), address);
        assert!(late.take().is_err(), "there is one for each worker");
    }
}
