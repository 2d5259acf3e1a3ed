//! Listening sockets: one per address and worker, all on the same port.

use super::Error;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpListener};

/// Binds `address` once for each of `workers`. With port 0 the kernel chooses one port for all.
pub(super) fn bind(address: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, Error> {
    let failed = |source| Error::Listen { address, source };
    refuse_to_share(address).map_err(failed)?;
    let first = bind_one(address).map_err(failed)?;
    let bound = first.local_addr().map_err(failed)?;
    let others = (1..workers).map(|_| bind_one(bound).map_err(failed));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Returns an error if another socket listens on `address`. `SO_REUSEPORT` would let a second
/// server of the same user silently take half of the connections. A socket without `SO_REUSEPORT`
/// binds only if no other socket listens.
fn refuse_to_share(address: SocketAddr) -> std::io::Result<()> {
    if address.port() == 0 {
        return Ok(());
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())
}

fn bind_one(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // The kernel distributes new connections over the sockets of all workers.
    socket.set_reuse_port(true)?;
    // Accepted connections inherit this option, as all options of a listening socket on Linux.
    socket.set_tcp_nodelay(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Maximum number of connections waiting to be accepted, per socket.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_that_the_system_chose() {
        let listeners = bind(([127, 0, 0, 1], 0).into(), 3).expect("loopback is there");
        let ports: Vec<u16> = listeners.iter().map(|each| each.local_addr().expect("bound").port()).collect();
        assert!(ports[0] != 0 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }

    #[test]
    fn a_second_server_does_not_share_the_port() {
        let first = bind(([127, 0, 0, 1], 0).into(), 2).expect("loopback is there");
        let address = first[0].local_addr().expect("bound");
        let error = bind(address, 2).expect_err("the port is taken");
        let Error::Listen { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse);
        drop(first);
        bind(address, 2).expect("the port is free again");
    }

    #[test]
    fn an_address_that_is_taken_is_an_error_that_names_it() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = taken.local_addr().expect("bound");
        let error = bind(address, 2).expect_err("the other socket does not share");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
