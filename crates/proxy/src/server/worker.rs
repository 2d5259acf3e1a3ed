//! A worker: an OS thread with its own runtime and its own listeners, on which its connections live
//! and end.

use super::connection::{self, AcceptedConnection, ConnectionPermit};
use super::running::Control;
use super::tls::Tls;
use super::{Shared, idle};
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use ipnet::IpNet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What a worker needs to start.
pub(super) struct Worker<H> {
    /// Its number, from 0.
    pub number: usize,
    /// Its listeners.
    pub listening: Vec<WorkerListener>,
    /// What all connections share.
    pub shared: Arc<Shared<H>>,
    /// How it is told to stop.
    pub control: Arc<Control>,
    /// Places for connections, over all workers.
    pub places: Arc<Semaphore>,
    /// How many places there are.
    pub places_max: u32,
    /// Called inside the runtime before anything is accepted.
    pub on_worker: Arc<dyn Fn(usize) + Send + Sync>,
}

/// One listener of a worker.
pub(super) struct WorkerListener {
    /// Which `listen` entry it belongs to.
    pub index: usize,
    /// The socket.
    pub socket: std::net::TcpListener,
    /// Networks whose connections begin with a PROXY protocol header.
    pub proxies: Arc<[IpNet]>,
    /// Its certificates, when it speaks TLS.
    pub tls: Option<Tls>,
}

impl<H: Handler> Worker<H> {
    /// Starts the thread.
    pub fn start(self) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("worker-{}", self.number);
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(self.run());
            // What did not end in time is dropped with the runtime, and accounted for as cut.
            drop(runtime);
        })
    }

    async fn run(self) {
        (self.on_worker)(self.number);
        tokio::spawn(serve_idle(Arc::clone(&self.shared)));
        for listening in self.listening {
            tokio::spawn(accept_all(listening, Arc::clone(&self.shared), Arc::clone(&self.places)));
        }
        self.control.drain.watch().draining().await;
        let cut_at = self.control.cut_at.lock().unwrap_or_else(Instant::now);
        // All places are free when the connections of every worker have ended. Until then this
        // runtime is needed: other workers' clients may read what a fetch or an upstream connection
        // here brings.
        let ended = self.places.acquire_many(self.places_max);
        if tokio::time::timeout_at(cut_at.into(), ended).await.is_err() {
            tracing::warn!(worker = self.number, "connections still open at the deadline are cut");
        }
    }
}

/// Has connections that wait answered, until the server drains.
async fn serve_idle<H: Handler>(shared: Arc<Shared<H>>) {
    if let Err(error) = idle::serve(shared).await {
        // Each connection has a task of its own then.
        tracing::warn!(%error, "connections cannot wait together");
    }
}

/// Accepts connections until the server drains.
async fn accept_all<H: Handler>(listening: WorkerListener, shared: Arc<Shared<H>>, places: Arc<Semaphore>) {
    let WorkerListener { index, socket, proxies, tls } = listening;
    let listener = TcpListener::from_std(socket).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (local, listener) = match listener {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, listener = index, "could not listen");
            return;
        }
    };
    let entrance = Arc::new(ListenerContext { index, local, proxies, tls });
    let mut drain = shared.drain.watch();
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.draining() => return,
            accepted = accept(&listener, &places, &shared.metrics) => accepted,
        };
        match accepted {
            Ok(arrival) => {
                shared.metrics.connections.increment();
                connection::start(arrival, Arc::clone(&entrance), &shared);
            }
            Err(error) => {
                shared.metrics.accept_errors.increment();
                tracing::warn!(%error, listener = index, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What connections of one listener have in common.
pub(super) struct ListenerContext {
    /// Which `listen` entry it is.
    pub index: usize,
    /// The address listened on; its host may be unspecified.
    pub local: SocketAddr,
    proxies: Arc<[IpNet]>,
    /// Its certificates, when it speaks TLS.
    pub tls: Option<Tls>,
}

impl ListenerContext {
    /// Whether a connection from `peer` begins with a request, in the clear.
    pub fn is_plain(&self, peer: IpAddr) -> bool {
        self.tls.is_none() && !self.is_proxy(peer)
    }

    /// Who is at the far end of `stream`, as far as the socket tells.
    pub fn client(&self, stream: &TcpStream, peer: SocketAddr) -> Client {
        // A system call is needed only when the listener takes any local address.
        let local = match self.local.ip().is_unspecified() {
            true => stream.local_addr().unwrap_or(self.local),
            false => self.local,
        };
        Client { address: peer, local, listener: self.index, tls: self.tls.is_some(), server_name: None }
    }

    /// Whether a connection from `peer` begins with a PROXY protocol header.
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        !self.proxies.is_empty() && self.proxies.iter().any(|network| network.contains(&peer))
    }
}

/// Accepts one connection once there is a place for it; until then it waits in the kernel's
/// backlog. When another worker takes the last place in between, the connection waits here, unread.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    metrics: &Arc<Metrics>,
) -> io::Result<AcceptedConnection> {
    if places.available_permits() == 0 {
        metrics.connections_full.increment();
    }
    // Held for an instant only: a worker that waits for connections must not keep a place from the
    // others.
    drop(places.acquire().await.map_err(io::Error::other)?);
    let (stream, peer) = listener.accept().await?;
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    Ok(AcceptedConnection { stream, peer, seat: ConnectionPermit::new(Arc::clone(metrics), place) })
}

/// Pause after a failed accept: most likely file descriptors ran out, and trying at once would fail
/// again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
