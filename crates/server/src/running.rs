//! Starts, reloads and stops the server.

use super::client_connections::ClientConnections;
use super::drain::Drain;
use super::http3::{self, Http3Listener, Http3Port, alt_svc};
use super::limits::ConnectionLimits;
use super::tls::{CertificateState, Tls};
use super::worker::{Worker, WorkerListener};
use super::{Error, ServerState, listen};
use crate::access::{self, PeerDoor};
use crate::message::{Client, Handler};
use crate::metrics::Metrics;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use shoal_acme::Challenges;
use shoal_handover::{InheritedSockets, SocketName, SocketUse};
use shoal_settings::{Listen, Settings};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Binds every listener and reads every certificate. No part starts unless all parts can.
///
/// # Errors
/// Returns an error if an address cannot be bound or a certificate cannot be used.
#[cfg(test)]
pub(super) fn bind(settings: &Settings) -> Result<BoundServer, Error> {
    bind_or_take(settings, &mut InheritedSockets::default(), &Arc::default())
}

/// Binds every listener that another process has not passed, and reads every certificate. No part
/// starts unless all parts can. `challenges` are those of the authority that are open.
///
/// # Errors
/// Returns an error if an address cannot be bound or a certificate cannot be used.
pub fn bind_or_take(
    settings: &Settings,
    inherited: &mut InheritedSockets,
    challenges: &Arc<Challenges>,
) -> Result<BoundServer, Error> {
    let workers = match settings.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    };
    let mut per_worker: Vec<Vec<WorkerListener>> = (0..workers).map(|_| Vec::new()).collect();
    let mut http3: Vec<Vec<Http3Listener>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    let (mut tls, mut clients, mut offers, mut ports) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, entry) in settings.listen.iter().enumerate() {
        let acceptor = Tls::load(entry, &settings.acme, challenges)?;
        let of_clients = Arc::new(ClientConnections::new(entry));
        let networks: Arc<[ipnet::IpNet]> = entry.proxy_protocol_from.clone().into();
        let inherited_before = inherited.left().count();
        let sockets = listen::take_or_bind(entry.address, SocketUse::Clients, (workers, &mut *inherited))?;
        let source = |source| Error::Listen { address: entry.address, source };
        addresses.push(sockets[0].local_addr().map_err(source)?);
        let port = acceptor.as_ref().map(|tls| {
            let is_late = inherited.left().count() < inherited_before;
            let (port, listeners) = http3::listeners(index, addresses[index], (tls, &of_clients), workers)?;
            if entry.http3 {
                // The process before this one still has a late port.
                port.open(if is_late { Vec::new() } else { port.bind()? });
            }
            http3.iter_mut().zip(listeners).for_each(|(of_worker, listener)| of_worker.push(listener));
            Ok::<_, Error>(port)
        });
        ports.push(port.transpose()?);
        offers.extend(listen::offers(entry.address, SocketUse::Clients, &sockets).map_err(source)?);
        debug_assert!(sockets.len() >= workers, "a worker without a listener");
        for (number, socket) in sockets.into_iter().enumerate() {
            let proxies = Arc::clone(&networks);
            let (tls, clients) = (acceptor.clone(), Arc::clone(&of_clients));
            per_worker[number % workers].push(WorkerListener { index, socket, proxies, tls, clients });
        }
        tls.push(acceptor);
        clients.push(of_clients);
    }
    if let Some(address) = access::peer_address(settings) {
        // Members have no limit: a node may have many connections to another.
        let strangers =
            Listen { client_connections: Some(STRANGER_CONNECTIONS_MAX), ..Listen::reverse(address) };
        let of_peers = Arc::new(ClientConnections::new(&strangers));
        let sockets = listen::take_or_bind(address, SocketUse::Peers, (workers, &mut *inherited))?;
        let source = |source| Error::Listen { address, source };
        offers.extend(listen::offers(address, SocketUse::Peers, &sockets).map_err(source)?);
        for (number, socket) in sockets.into_iter().enumerate() {
            let (index, proxies) = (Client::PEER_LISTENER, Arc::default());
            let clients = Arc::clone(&of_peers);
            per_worker[number % workers].push(WorkerListener { index, socket, proxies, tls: None, clients });
        }
    }
    let settings = settings.clone();
    Ok(BoundServer { settings, per_worker, http3, addresses, offers, tls, clients, ports, door: None })
}

/// Returns an error for each listener with unusable certificates.
pub fn check(settings: &Settings) -> Vec<Error> {
    let load = |entry: &Listen| Tls::load(entry, &settings.acme, &Arc::default()).err();
    settings.listen.iter().filter_map(load).collect()
}

/// Listening sockets that do not accept connections yet.
pub struct BoundServer {
    settings: Settings,
    per_worker: Vec<Vec<WorkerListener>>,
    http3: Vec<Vec<Http3Listener>>,
    addresses: Vec<SocketAddr>,
    offers: Vec<(SocketName, TcpListener)>,
    tls: Vec<Option<Tls>>,
    clients: Vec<Arc<ClientConnections>>,
    ports: Vec<Option<Arc<Http3Port>>>,
    door: Option<Arc<PeerDoor>>,
}

impl BoundServer {
    /// Lets this door decide about connections to the listener for peers. Without a door there is
    /// nobody to answer.
    pub fn with_door(self, door: Option<Arc<PeerDoor>>) -> Self {
        Self { door, ..self }
    }

    /// Returns the bound address of each `listen` entry. Port 0 is replaced by the kernel's choice.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the number of workers that [`BoundServer::start`] starts.
    pub fn workers(&self) -> usize {
        self.per_worker.len()
    }

    /// Starts the workers. Each worker calls `on_worker` with its number, inside its runtime,
    /// before accepting connections.
    ///
    /// # Errors
    /// Returns an error if a thread or runtime cannot be started. Workers already started are
    /// stopped again.
    pub fn start<H: Handler>(
        self,
        handler: Arc<H>,
        metrics: Arc<Metrics>,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<RunningServer, Error> {
        let (tls, clients, ports) = (self.tls, self.clients, self.ports);
        let control = Arc::new(ServerControl {
            drain: Drain::default(),
            cut_at: Mutex::new(None),
            settles: AtomicBool::new(false),
            tls,
            clients,
            ports,
        });
        let shared = Arc::new(ServerState {
            handler,
            live: ArcSwap::from_pointee(ConnectionLimits::new(&self.settings.client, Arc::clone(&metrics))),
            metrics,
            drain: control.drain.clone(),
            alt_svc: ArcSwap::from_pointee(alt_svc(&self.settings.listen, &self.addresses)),
        });
        super::intercepted::join(&shared);
        let on_worker: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_worker);
        let places_max = u32::try_from(self.settings.max_connections).unwrap_or(u32::MAX);
        let places = Arc::new(Semaphore::new(places_max as usize));
        let peer_places = Arc::new(Semaphore::new(PEER_CONNECTIONS_MAX as usize));
        let live = Arc::clone(&shared);
        let bound = self.addresses.clone();
        let set_live = move |settings: &Settings| {
            let limits = ConnectionLimits::new(&settings.client, Arc::clone(&live.metrics));
            live.live.store(Arc::new(limits));
            live.alt_svc.store(Arc::new(alt_svc(&settings.listen, &bound)));
        };
        let mut running = RunningServer {
            addresses: self.addresses,
            offers: Mutex::new(self.offers),
            threads: Vec::new(),
            reloader: Reloader { set_live: Arc::new(set_live), control: Arc::clone(&control) },
            control: Arc::clone(&control),
        };
        for (number, (listening, http3)) in self.per_worker.into_iter().zip(self.http3).enumerate() {
            let worker = Worker {
                number,
                listening,
                http3,
                shared: Arc::clone(&shared),
                control: Arc::clone(&control),
                places: Arc::clone(&places),
                places_max,
                peer_places: Arc::clone(&peer_places),
                door: self.door.clone(),
                on_worker: Arc::clone(&on_worker),
            };
            match worker.start() {
                Ok(thread) => running.threads.push(thread),
                Err(source) => {
                    running.stop(Duration::ZERO);
                    return Err(Error::Worker(source));
                }
            }
        }
        running.watch_certificates();
        Ok(running)
    }
}

/// State shared by the workers and the owner of the server.
pub(super) struct ServerControl {
    /// Drain signal.
    pub drain: Drain,
    /// Time at which a draining server cuts connections that are still open.
    pub cut_at: Mutex<Option<Instant>>,
    /// `true` if workers stay a moment after their last connection: fetches still store.
    pub settles: AtomicBool,
    /// TLS setup of each `listen` entry, in order.
    tls: Vec<Option<Tls>>,
    /// Connections of each client, by `listen` entry.
    clients: Vec<Arc<ClientConnections>>,
    /// UDP port of each `listen` entry with TLS.
    ports: Vec<Option<Arc<Http3Port>>>,
}

/// Running server.
pub struct RunningServer {
    addresses: Vec<SocketAddr>,
    /// Handles of the listening sockets, for another process. Closed when the server drains.
    offers: Mutex<Vec<(SocketName, TcpListener)>>,
    threads: Vec<JoinHandle<()>>,
    reloader: Reloader,
    control: Arc<ServerControl>,
}

/// Applies new settings to a running server. Separate from [`RunningServer`]: reading files may
/// block, and a stopping server must not wait for files.
#[derive(Clone)]
pub struct Reloader {
    set_live: Arc<dyn Fn(&Settings) + Send + Sync>,
    control: Arc<ServerControl>,
}

impl RunningServer {
    /// Returns the address of each `listen` entry.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the states of the certificates of each `listen` entry.
    pub fn certificates(&self) -> Vec<Vec<CertificateState>> {
        self.control.tls.iter().map(|tls| tls.as_ref().map(Tls::states).unwrap_or_default()).collect()
    }

    /// Returns a handle that applies new settings.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Returns handles of all listening sockets, with their names, for another process.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn offers(&self) -> std::io::Result<Vec<(SocketName, OwnedFd)>> {
        let offers = self.offers.lock();
        offers.iter().map(|(name, socket)| Ok((name.clone(), socket.try_clone()?.into()))).collect()
    }

    /// Stops accepting, lets current requests finish for at most `grace`, then cuts the remaining
    /// ones. Idle connections are closed. Returns at once.
    pub fn drain(&self, grace: Duration) {
        self.begin_drain(grace, Duration::ZERO);
    }

    /// Stops accepting like [`Self::drain`]. An idle HTTP/1 connection may send one more request
    /// within `idle`, and its response says that the connection closes: a request on its way must
    /// not meet a closed connection.
    pub fn retire(&self, grace: Duration, idle: Duration) {
        self.begin_drain(grace, idle.min(grace));
    }

    fn begin_drain(&self, grace: Duration, idle: Duration) {
        *self.control.cut_at.lock() = Some(Instant::now() + grace);
        debug_assert!(idle <= grace, "idle connections outlive the server");
        self.control.settles.store(!idle.is_zero(), SeqCst);
        self.offers.lock().clear();
        self.control.drain.begin_with_idle(idle);
    }

    /// Blocks the thread until every worker has stopped. Call [`RunningServer::drain`] first.
    pub fn join(mut self) {
        self.join_threads();
    }

    /// Drains, then blocks the thread until every worker has stopped.
    pub fn stop(mut self, grace: Duration) {
        self.drain(grace);
        self.join_threads();
    }

    fn join_threads(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker ended in a panic");
            }
        }
    }

    /// Watches the certificate files in a separate thread, since reading files may block.
    fn watch_certificates(&self) {
        if self.control.tls.iter().all(Option::is_none) {
            return;
        }
        let control = Arc::clone(&self.control);
        let watch = move || super::tls::watch(control.tls.iter().flatten(), &control.drain);
        // The thread ends by itself. Joining the thread could delay the server's stop when a file
        // blocks.
        if let Err(error) = std::thread::Builder::new().name("certificates".into()).spawn(watch) {
            tracing::error!(%error, "changed certificates will be read on reload only");
        }
    }
}

impl Reloader {
    /// Applies the client limits to new connections, reads the certificates again, and opens and
    /// closes ports of HTTP/3. The `listen` entries must be the ones of the start, in the same
    /// order; one that began without TLS stays so.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be used, or a port cannot be bound. No setting has
    /// changed then.
    pub fn reload(&self, settings: &Settings) -> Result<(), Error> {
        let listeners = settings.listen.iter().zip(&self.control.tls);
        let secured = listeners.filter_map(|(entry, tls)| Some((entry, tls.as_ref()?)));
        let read = secured
            .filter(|(entry, _)| entry.is_tls())
            .map(|(entry, tls)| Ok((tls, tls.read(entry, &settings.acme)?)));
        let read = read.collect::<Result<Vec<_>, Error>>()?;
        let ports = settings.listen.iter().zip(&self.control.ports);
        let ports = ports.filter_map(|(entry, port)| Some((entry.http3, port.as_ref()?)));
        let bound = ports.map(|(is_on, port)| {
            let sockets = if is_on { port.bind()? } else { Vec::new() };
            Ok((port, is_on.then_some(sockets)))
        });
        let bound = bound.collect::<Result<Vec<_>, Error>>()?;
        for (tls, read) in read {
            tls.replace(read);
        }
        for (port, sockets) in bound {
            match sockets {
                Some(sockets) => port.open(sockets),
                None => port.close(),
            }
        }
        for (entry, clients) in settings.listen.iter().zip(&self.control.clients) {
            clients.limit(entry);
        }
        (self.set_live)(settings);
        Ok(())
    }
}

/// Most connections of peers, beside `max_connections`: clients cannot keep peers out, nor peers
/// clients.
pub(super) const PEER_CONNECTIONS_MAX: u32 = 8192;

/// Most connections to the listener for peers from a network without a member.
const STRANGER_CONNECTIONS_MAX: usize = 64;
