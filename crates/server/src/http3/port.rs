//! UDP port of HTTP/3 of a listener: one socket for each worker, on the port of its TCP sockets.
//!
//! ```text
//!   closed ── on ──► open ── off ──► leaving ── no connection ──► closed
//!     bind all        ▲ ───── on ───────┘          close all
//! ```
//!
//! A reload opens and closes it. The sockets close together, once the last connection of all
//! workers has ended: the kernel chooses among them by their number, so that one socket less would
//! lead packets to workers that do not know them.
//!
//! A process that takes over from another one binds the sockets once the other has closed its own:
//! packets of the other's connections must not come here. Until then clients use HTTP/2, as they do
//! where UDP does not pass.

use crate::Error;
use crate::drain::Drain;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// UDP port of one listener, for all workers.
pub(crate) struct Http3Port {
    address: SocketAddr,
    state: Mutex<PortState>,
    /// Signal to leave of the connections in the time since the port was opened; `None` while it is
    /// to be closed.
    period: watch::Sender<Option<Drain>>,
}

/// Sockets of a port, and the workers that hold them.
struct PortState {
    /// Sockets that no worker has taken yet.
    bound: Vec<UdpSocket>,
    /// Connections of each worker, as it told last while it leaves; `None` without a socket.
    open: Vec<Option<usize>>,
    /// `true` from the end of the last connection until all sockets are closed.
    is_closing: bool,
}

/// Next step of a worker with connections that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The port is open again: go on.
    Open,
    /// Connections of some worker are open.
    Wait,
    /// Close the socket, then call [`Http3Port::closed`].
    Close,
}

impl Http3Port {
    /// Creates the port of `workers`, closed.
    pub fn new(address: SocketAddr, workers: usize) -> Self {
        let state = PortState { bound: Vec::new(), open: vec![None; workers], is_closing: false };
        Self { address, state: Mutex::new(state), period: watch::Sender::new(None) }
    }

    /// Binds the sockets with which the port opens. Returns none if it is open, or if connections
    /// of before keep theirs. Another process must have no socket there. Blocks for a moment while
    /// workers close those of before.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(&self) -> Result<Vec<UdpSocket>, Error> {
        let end = Instant::now() + CLOSING_MAX;
        let mut state = self.state.lock();
        while state.is_closing && Instant::now() < end {
            drop(state);
            std::thread::sleep(CLOSING_PAUSE);
            state = self.state.lock();
        }
        if self.period.borrow().is_some() || !state.bound.is_empty() || state.is_held() {
            return Ok(Vec::new());
        }
        let failed = |source| Error::Listen { address: self.address, source };
        bind_all(self.address, state.open.len()).map_err(failed)
    }

    /// Opens the port with these sockets. Without any, the workers go on with those that they hold,
    /// or bind them once no other process has the address.
    pub fn open(&self, sockets: Vec<UdpSocket>) {
        let mut state = self.state.lock();
        if self.period.borrow().is_some() {
            return;
        }
        debug_assert!(sockets.is_empty() || !state.is_held(), "workers have their sockets");
        if !sockets.is_empty() {
            state.bound = sockets;
        }
        self.period.send_replace(Some(Drain::default()));
    }

    /// Closes the port once its connections have ended. They are told to leave.
    pub fn close(&self) {
        // The lock is for a worker that decides whether to close.
        let _state = self.state.lock();
        if let Some(period) = self.period.send_replace(None) {
            period.begin_with_idle(Duration::ZERO);
        }
    }

    /// Returns the signal to leave for connections from now on; `None` if the port is to be closed.
    pub(super) fn period(&self) -> Option<Drain> {
        self.period.borrow().clone()
    }

    /// Waits for the socket of a worker.
    pub(super) async fn socket(&self, worker: usize) -> UdpSocket {
        let mut period = self.period.subscribe();
        loop {
            // Marked as seen before the look, so that no change is missed.
            let is_open = period.borrow_and_update().is_some();
            let pause = match self.take(worker, is_open) {
                Ok(Some(socket)) => return socket,
                Ok(None) => Duration::MAX,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => LOOK_EVERY,
                Err(error) => {
                    tracing::warn!(%error, address = %self.address, "HTTP/3 has no port");
                    FAILURE_PAUSE
                }
            };
            // The port outlives its waiters, so that only a change or the pause ends the wait.
            let _ = tokio::time::timeout(pause, period.changed()).await;
        }
    }

    /// Takes the socket of a worker. The first one that can binds for all.
    fn take(&self, worker: usize, is_open: bool) -> io::Result<Option<UdpSocket>> {
        let mut state = self.state.lock();
        assert!(state.open[worker].is_none(), "a worker has one socket");
        if state.bound.is_empty() {
            if !is_open {
                return Ok(None);
            }
            if state.is_held() {
                // The others still close those of the time before.
                return Err(io::ErrorKind::AddrInUse.into());
            }
            state.bound = bind_all(self.address, state.open.len())?;
        }
        let socket = state.bound.pop();
        state.open[worker] = Some(UNTOLD);
        Ok(socket)
    }

    /// Tells the connections of a worker that leaves. Returns its next step.
    pub(super) fn rest(&self, worker: usize, connections: usize) -> Rest {
        let mut state = self.state.lock();
        assert!(state.open[worker].is_some(), "a worker without a socket has no connections");
        if self.period.borrow().is_some() && !state.is_closing {
            state.open[worker] = Some(UNTOLD);
            return Rest::Open;
        }
        state.open[worker] = Some(connections);
        let is_over = state.bound.is_empty() && state.open.iter().flatten().all(|open| *open == 0);
        state.is_closing |= is_over;
        if state.is_closing { Rest::Close } else { Rest::Wait }
    }

    /// Notes that a worker has closed its socket.
    pub(super) fn closed(&self, worker: usize) {
        let mut state = self.state.lock();
        debug_assert!(state.is_closing, "sockets close together");
        state.open[worker] = None;
        state.is_closing = state.is_held();
    }
}

impl PortState {
    fn is_held(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }
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

/// Bytes of a socket's buffers in the kernel.
const BUFFER_BYTES: usize = 1 << 20;

/// Count of a worker that has told none: it takes connections.
const UNTOLD: usize = usize::MAX;

/// Interval between two looks for a free port, and for the end of the last connection.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Longest wait of a reload for sockets that close, and the pause between two looks at them.
const CLOSING_MAX: Duration = Duration::from_secs(1);
const CLOSING_PAUSE: Duration = Duration::from_millis(20);

/// Pause after a port could not be bound although it is free.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn free_address() -> SocketAddr {
        UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback is there")
    }

    fn taken(port: &Http3Port, workers: usize) -> Vec<UdpSocket> {
        let one = |worker| port.take(worker, true).expect("free").expect("open");
        (0..workers).map(one).collect()
    }

    #[test]
    fn workers_share_a_port_with_no_other_process() {
        let address = free_address();
        let sockets = bind_all(address, 3).expect("free");
        assert!(sockets.iter().all(|socket| socket.local_addr().expect("bound") == address));
        assert!(bind_all(address, 1).is_err());
        assert!(Http3Port::new(address, 1).bind().is_err(), "a reload with it is refused");
    }

    #[test]
    fn late_sockets_wait_for_the_address() {
        let address = free_address();
        let before = bind_all(address, 2).expect("free");
        let port = Http3Port::new(address, 2);
        port.open(Vec::new());
        assert!(port.take(0, true).is_err());
        drop(before);
        assert_eq!(taken(&port, 2)[0].local_addr().expect("bound"), address);
    }

    #[test]
    fn sockets_close_with_the_last_connection_of_all() {
        let port = Http3Port::new(free_address(), 2);
        assert!(port.take(0, false).expect("nothing to bind").is_none(), "it is closed");
        port.open(port.bind().expect("free"));
        let mut sockets = taken(&port, 2);
        let period = port.period().expect("open");
        port.close();
        assert!(period.is_begun() && port.period().is_none());
        // A worker without a connection waits for the others, also for one that has not looked yet.
        assert_eq!(port.rest(0, 0), Rest::Wait);
        assert_eq!((port.rest(1, 2), port.rest(0, 0)), (Rest::Wait, Rest::Wait));
        assert_eq!((port.rest(1, 0), port.rest(0, 0)), (Rest::Close, Rest::Close));
        sockets.pop();
        port.closed(1);
        // Opened again meanwhile: the socket that is still there closes first.
        assert!(port.bind().expect("nothing to bind").is_empty());
        port.open(Vec::new());
        assert_eq!(port.rest(0, 0), Rest::Close);
        assert!(port.take(1, true).is_err());
        sockets.pop();
        port.closed(0);
        assert_eq!(taken(&port, 2).len(), 2);
    }

    #[test]
    fn leaving_port_opens_with_the_sockets_it_has() {
        let port = Http3Port::new(free_address(), 2);
        port.open(port.bind().expect("free"));
        let _sockets = taken(&port, 2);
        let before = port.period().expect("open");
        port.close();
        assert_eq!(port.rest(0, 1), Rest::Wait);
        port.open(port.bind().expect("nothing to bind"));
        assert_eq!((port.rest(0, 1), port.rest(1, 0)), (Rest::Open, Rest::Open));
        assert!(before.is_begun() && !port.period().expect("open").is_begun(), "new connections stay");
        port.close();
        assert_eq!(port.rest(0, 0), Rest::Wait, "the other may have connections again");
    }

    #[tokio::test]
    async fn worker_waits_for_an_open_port() {
        let port = Arc::new(Http3Port::new(free_address(), 1));
        let waiting = tokio::spawn({
            let port = Arc::clone(&port);
            async move { port.socket(0).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        port.open(port.bind().expect("free"));
        let socket = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("woken");
        assert_eq!(socket.expect("no panic").local_addr().expect("bound"), port.address);
    }
}
