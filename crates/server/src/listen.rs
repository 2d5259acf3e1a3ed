//! Listening sockets: one per address and worker, all on the same port.
//!
//! Sockets from another process are used as they are: clients may wait in their queues. Each gets a
//! worker, so that no queue is left unserved. If there are too few, the workers share them, or
//! further ones are bound beside them.

use super::Error;
use shoal_handover::{InheritedSockets, SocketName, SocketUse};
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

/// Returns the sockets of a listener, from another process if it passed some, for each worker in
/// turn.
pub(super) fn take_or_bind(
    address: SocketAddr,
    used_for: SocketUse,
    (workers, inherited): (usize, &mut InheritedSockets),
) -> Result<Vec<TcpListener>, Error> {
    let passed = inherited.take(used_for, &address.to_string());
    if passed.is_empty() {
        return bind(address, workers);
    }
    let failed = |source| Error::Listen { address, source };
    let may_bind = passed.iter().all(InheritedSockets::may_bind_beside);
    let mut listeners: Vec<TcpListener> = passed.into_iter().map(TcpListener::from).collect();
    for listener in &listeners {
        listener.set_nonblocking(true).map_err(failed)?;
        let socket = socket2::SockRef::from(listener);
        socket.set_tcp_nodelay(true).map_err(failed)?;
    }
    let bound = listeners[0].local_addr().map_err(failed)?;
    let count = listeners.len();
    assert!(count > 0, "a listener that was not passed is bound");
    for further in count..workers {
        let beside = if may_bind { bind_one(bound).ok() } else { None };
        let listener = beside.map_or_else(|| listeners[further % count].try_clone(), Ok);
        listeners.push(listener.map_err(failed)?);
    }
    debug_assert!(listeners.len() >= workers.max(count));
    Ok(listeners)
}

/// Returns handles of a listener's sockets for another process, with their name.
pub(super) fn offers(
    asked: SocketAddr,
    used_for: SocketUse,
    listeners: &[TcpListener],
) -> std::io::Result<Vec<(SocketName, TcpListener)>> {
    let offer = |listener: &TcpListener| {
        let bound = listener.local_addr()?.to_string();
        let name = SocketName { used_for: Some(used_for), asked: asked.to_string(), bound };
        Ok((name, listener.try_clone()?))
    };
    listeners.iter().map(offer).collect()
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

    fn inherited(asked: SocketAddr, listeners: Vec<TcpListener>) -> InheritedSockets {
        let mut inherited = InheritedSockets::default();
        for (name, listener) in offers(asked, SocketUse::Clients, &listeners).expect("handles") {
            inherited.add(name, listener.into());
        }
        inherited
    }

    #[test]
    fn every_queue_that_was_passed_gets_a_worker() {
        let asked = ([127, 0, 0, 1], 0).into();
        for (passed, workers) in [(3, 2), (2, 2), (1, 3)] {
            let first = bind(asked, passed).expect("loopback is there");
            let address = first[0].local_addr().expect("bound");
            // Clients connect before the sockets change hands.
            let clients: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(address)).collect();
            assert!(clients.iter().all(Result::is_ok));
            let mut sockets = inherited(asked, first);
            let taken = take_or_bind(asked, SocketUse::Clients, (workers, &mut sockets)).expect("taken");
            assert_eq!(taken.len(), passed.max(workers));
            assert!(sockets.is_empty());
            let waiting = || taken.iter().filter_map(|listener| listener.accept().ok()).count();
            let accepted: usize = (0..20).map(|_| waiting()).sum();
            assert_eq!(accepted, 20, "{passed} for {workers}");
        }
    }

    /// As a service manager passes them: one socket, which shares its port with no other.
    #[test]
    fn workers_share_a_socket_that_stands_alone() {
        let only = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = only.local_addr().expect("bound");
        let mut sockets = inherited(address, vec![only]);
        let taken = take_or_bind(address, SocketUse::Clients, (3, &mut sockets)).expect("taken");
        assert_eq!(taken.len(), 3);
        let _client = std::net::TcpStream::connect(address).expect("it listens");
        assert_eq!(taken.iter().filter(|listener| listener.accept().is_ok()).count(), 1);
    }

    #[test]
    fn an_address_that_is_taken_is_an_error_that_names_it() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = taken.local_addr().expect("bound");
        let error = bind(address, 2).expect_err("the other socket does not share");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
