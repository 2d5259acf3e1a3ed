//! Worker: an OS thread with its own runtime and listeners. A connection stays on its worker until
//! the end.

use super::client_connections::ClientConnections;
use super::connection::{self, AcceptedConnection, ConnectionPermit};
use super::drain::DrainWatch;
use super::http3::{self, Http3Listener};
use super::running::{PEER_CONNECTIONS_MAX, ServerControl};
use super::tls::Tls;
use super::{ServerState, idle};
use crate::access::PeerDoor;
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use ipnet::IpNet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Arguments for starting a worker.
pub(super) struct Worker<H> {
    /// Number of the worker, from 0.
    pub number: usize,
    /// Listeners of the worker.
    pub listening: Vec<WorkerListener>,
    /// HTTP/3 of listeners that offer it.
    pub http3: Vec<Http3Listener>,
    /// State shared by all connections.
    pub shared: Arc<ServerState<H>>,
    /// Drain signal and cut time.
    pub control: Arc<ServerControl>,
    /// Permits for open connections, shared by all workers.
    pub places: Arc<Semaphore>,
    /// Total number of permits.
    pub places_max: u32,
    /// Permits for open connections of peers.
    pub peer_places: Arc<Semaphore>,
    /// Judge of connections of peers, in a cluster.
    pub door: Option<Arc<PeerDoor>>,
    /// Function called inside the runtime before the first accept.
    pub on_worker: Arc<dyn Fn(usize) + Send + Sync>,
}

/// One listener of a worker.
pub(super) struct WorkerListener {
    /// Index of the `listen` entry.
    pub index: usize,
    /// Listening socket.
    pub socket: std::net::TcpListener,
    /// Networks from which connections begin with a PROXY protocol header.
    pub proxies: Arc<[IpNet]>,
    /// TLS setup, if the listener uses TLS.
    pub tls: Option<Tls>,
    /// Connections of each client, over all workers.
    pub clients: Arc<ClientConnections>,
}

impl<H: Handler> Worker<H> {
    /// Starts the thread.
    pub fn start(self) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let name = format!("worker-{}", self.number);
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(self.run());
            // Dropping the runtime drops the remaining tasks. Their replies count as cut.
            drop(runtime);
        })
    }

    async fn run(self) {
        (self.on_worker)(self.number);
        tokio::spawn(serve_idle(Arc::clone(&self.shared)));
        // A listener accepts at most one connection that has no permit when the server drains.
        let listeners = u32::try_from(self.listening.len()).unwrap_or(u32::MAX);
        let overtime = Arc::new(Semaphore::new(listeners as usize));
        for listening in self.listening {
            let of_peers = listening.index == Client::PEER_LISTENER;
            let (places, door) = match of_peers {
                true => (&self.peer_places, self.door.clone()),
                false => (&self.places, None),
            };
            let places = (Arc::clone(places), Arc::clone(&overtime));
            tokio::spawn(accept_all(listening, Arc::clone(&self.shared), places, door));
        }
        for listener in self.http3 {
            tokio::spawn(http3::serve(listener, Arc::clone(&self.shared), Arc::clone(&self.places)));
        }
        self.control.drain.watch().draining().await;
        let cut_at = self.control.cut_at.lock().unwrap_or_else(Instant::now);
        // All permits are free when the connections of every worker have ended. The runtime must
        // run until then: clients of other workers may depend on a fetch or upstream connection
        // here.
        let ended = async {
            let _clients = self.places.acquire_many(self.places_max).await;
            let _peers = self.peer_places.acquire_many(PEER_CONNECTIONS_MAX).await;
            let _late = overtime.acquire_many(listeners).await;
        };
        if tokio::time::timeout_at(cut_at.into(), ended).await.is_err() {
            tracing::warn!(worker = self.number, "connections still open at the deadline are cut");
        } else if self.control.settles.load(SeqCst) {
            tokio::time::sleep(SETTLE_TIME).await;
        }
    }
}

/// Serves idle connections until the server drains.
async fn serve_idle<H: Handler>(shared: Arc<ServerState<H>>) {
    if let Err(error) = idle::serve(shared).await {
        // Each connection then has its own task.
        tracing::warn!(%error, "connections cannot wait together");
    }
}

/// Accepts connections until the server drains.
async fn accept_all<H: Handler>(
    listening: WorkerListener,
    shared: Arc<ServerState<H>>,
    (places, overtime): (Arc<Semaphore>, Arc<Semaphore>),
    door: Option<Arc<PeerDoor>>,
) {
    let WorkerListener { index, socket, proxies, tls, clients } = listening;
    let listener = TcpListener::from_std(socket).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (local, listener) = match listener {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, listener = index, "could not listen");
            return;
        }
    };
    let entrance = Arc::new(ListenerContext { index, local, proxies, tls, clients, door });
    let mut drain = shared.drain.watch();
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.draining() => return,
            accepted = accept(&listener, &places, &shared.metrics) => accepted,
        };
        // An accepted connection waits for its permit even if the server drains meanwhile: nobody
        // else would serve it.
        let accepted = match accepted {
            Ok(arrived) => seat(arrived, (&places, &overtime), &mut drain, &shared.metrics).await,
            Err(error) => Err(error),
        };
        match accepted {
            Ok(arrival) => {
                match &entrance.door {
                    Some(_) => shared.metrics.cluster_connections.increment(),
                    None => shared.metrics.connections.increment(),
                }
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

/// State shared by the connections of one listener.
pub(super) struct ListenerContext {
    /// Index of the `listen` entry.
    pub index: usize,
    /// Address of the listener; its host may be unspecified.
    pub local: SocketAddr,
    proxies: Arc<[IpNet]>,
    /// TLS setup, if the listener uses TLS.
    pub tls: Option<Tls>,
    /// Connections of each client.
    pub clients: Arc<ClientConnections>,
    /// Judge of connections, if this is the listener for peers.
    pub door: Option<Arc<PeerDoor>>,
}

impl ListenerContext {
    /// Returns `true` if a connection from `peer` begins with a cleartext request.
    pub fn is_plain(&self, peer: IpAddr) -> bool {
        self.tls.is_none() && !self.is_proxy(peer)
    }

    /// Returns the client at the far end of `stream`, as far as the socket tells.
    pub fn client(&self, stream: &TcpStream, peer: SocketAddr) -> Client {
        // Only a listener on any local address needs this system call.
        let local = match self.local.ip().is_unspecified() {
            true => stream.local_addr().unwrap_or(self.local),
            false => self.local,
        };
        Client {
            address: peer,
            local,
            listener: self.index,
            tls: self.tls.is_some(),
            server_name: None,
            certificate: None,
            intercepted: None,
        }
    }

    /// Returns `true` if a connection from `peer` begins with a PROXY protocol header.
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        !self.proxies.is_empty() && self.proxies.iter().any(|network| network.contains(&peer))
    }
}

/// Accepts one connection once a permit is free. Until then connections wait in the kernel's
/// backlog.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    metrics: &Arc<Metrics>,
) -> io::Result<(TcpStream, SocketAddr)> {
    if places.available_permits() == 0 {
        metrics.connections_full.increment();
    }
    // Hold the permit for an instant only: a worker waiting for connections must not keep a permit
    // from the others.
    drop(places.acquire().await.map_err(io::Error::other)?);
    listener.accept().await
}

/// Gives an accepted connection its permit. If another worker has taken the last one since, the
/// connection waits here, unread. Once the server drains, it waits no longer.
async fn seat(
    (stream, peer): (TcpStream, SocketAddr),
    (places, overtime): (&Arc<Semaphore>, &Arc<Semaphore>),
    drain: &mut DrainWatch,
    metrics: &Arc<Metrics>,
) -> io::Result<AcceptedConnection> {
    let place = tokio::select! {
        biased;
        place = Arc::clone(places).acquire_owned() => place,
        () = drain.draining() => Arc::clone(overtime).acquire_owned().await,
    };
    let place = place.map_err(io::Error::other)?;
    Ok(AcceptedConnection { stream, peer, seat: ConnectionPermit::new(Arc::clone(metrics), place) })
}

/// Pause after a failed accept. File descriptors have probably run out, so an immediate retry would
/// fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time in which fetches store after the last connection of a server that is replaced has ended.
const SETTLE_TIME: Duration = Duration::from_millis(200);
