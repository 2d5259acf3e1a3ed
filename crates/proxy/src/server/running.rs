//! Starting, reloading and stopping the server.

use super::drain::Drain;
use super::limits::ConnectionLimits;
use super::tls::Tls;
use super::worker::{Worker, WorkerListener};
use super::{Error, Shared, listen};
use crate::message::Handler;
use crate::metrics::Metrics;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use shoal_settings::{ClientLimits, Settings};
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Binds every listener and reads every certificate, so that nothing starts unless all of it can.
///
/// # Errors
/// When an address cannot be listened on, or a certificate cannot be used.
pub fn bind(settings: &Settings) -> Result<BoundServer, Error> {
    let workers = match settings.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    };
    let mut per_worker: Vec<Vec<WorkerListener>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    let mut tls = Vec::new();
    for (index, entry) in settings.listen.iter().enumerate() {
        let acceptor = Tls::load(entry)?;
        let networks: Arc<[ipnet::IpNet]> = entry.proxy_protocol_from.clone().into();
        for (worker, socket) in listen::bind(entry.address, workers)?.into_iter().enumerate() {
            if worker == 0 {
                let source = |source| Error::Listen { address: entry.address, source };
                addresses.push(socket.local_addr().map_err(source)?);
            }
            let proxies = Arc::clone(&networks);
            per_worker[worker].push(WorkerListener { index, socket, proxies, tls: acceptor.clone() });
        }
        tls.push(acceptor);
    }
    Ok(BoundServer { settings: settings.clone(), per_worker, addresses, tls })
}

/// Which of the listeners' certificates cannot be used.
pub fn check(settings: &Settings) -> Vec<Error> {
    settings.listen.iter().filter_map(|entry| Tls::load(entry).err()).collect()
}

/// Listening sockets on which nothing is accepted yet.
pub struct BoundServer {
    settings: Settings,
    per_worker: Vec<Vec<WorkerListener>>,
    addresses: Vec<SocketAddr>,
    tls: Vec<Option<Tls>>,
}

impl BoundServer {
    /// The address of each `listen` entry, with the port that the system chose where it says 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The number of workers that [`BoundServer::start`] will start.
    pub fn workers(&self) -> usize {
        self.per_worker.len()
    }

    /// Starts the workers. Each calls `on_worker` with its number inside its runtime before it
    /// accepts anything.
    ///
    /// # Errors
    /// When a thread or runtime cannot be started; those already started are stopped again.
    pub fn start<H: Handler>(
        self,
        handler: Arc<H>,
        metrics: Arc<Metrics>,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<RunningServer, Error> {
        let control = Arc::new(Control { drain: Drain::default(), cut_at: Mutex::new(None), tls: self.tls });
        let shared = Arc::new(Shared {
            handler,
            live: ArcSwap::from_pointee(ConnectionLimits::new(&self.settings.client, Arc::clone(&metrics))),
            metrics,
            drain: control.drain.clone(),
        });
        let on_worker: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_worker);
        let places_max = u32::try_from(self.settings.max_connections).unwrap_or(u32::MAX);
        let places = Arc::new(Semaphore::new(places_max as usize));
        let live = Arc::clone(&shared);
        let set_live = move |limits: &_| {
            live.live.store(Arc::new(ConnectionLimits::new(limits, Arc::clone(&live.metrics))));
        };
        let mut running = RunningServer {
            addresses: self.addresses,
            threads: Vec::new(),
            reloader: Reloader { set_live: Arc::new(set_live), control: Arc::clone(&control) },
            control: Arc::clone(&control),
        };
        for (number, listening) in self.per_worker.into_iter().enumerate() {
            let worker = Worker {
                number,
                listening,
                shared: Arc::clone(&shared),
                control: Arc::clone(&control),
                places: Arc::clone(&places),
                places_max,
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

/// What the workers and whoever runs them share.
pub(super) struct Control {
    /// Says that we are stopping.
    pub drain: Drain,
    /// When connections that are still open are cut, once we are stopping.
    pub cut_at: Mutex<Option<Instant>>,
    /// By `listen` entry.
    tls: Vec<Option<Tls>>,
}

/// A server at work.
pub struct RunningServer {
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
    reloader: Reloader,
    control: Arc<Control>,
}

/// Takes over what can change while a server runs. Apart from it, since files may keep it waiting,
/// and a server that stops waits for none.
#[derive(Clone)]
pub struct Reloader {
    set_live: Arc<dyn Fn(&ClientLimits) + Send + Sync>,
    control: Arc<Control>,
}

impl RunningServer {
    /// The address of each `listen` entry.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What takes new settings over.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Stops accepting, lets requests under way finish for at most `grace`, then cuts what is left.
    /// Does not wait.
    pub fn drain(&self, grace: Duration) {
        *self.control.cut_at.lock() = Some(Instant::now() + grace);
        self.control.drain.begin();
    }

    /// Waits until every worker has stopped, which they do after [`RunningServer::drain`]. Blocks
    /// the thread.
    pub fn join(mut self) {
        self.join_threads();
    }

    /// Drains and waits. Blocks the thread.
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

    /// Looks after the certificates' files in a thread of its own, since looking may block.
    fn watch_certificates(&self) {
        if self.control.tls.iter().all(Option::is_none) {
            return;
        }
        let control = Arc::clone(&self.control);
        let watch = move || super::tls::watch(control.tls.iter().flatten(), &control.drain);
        // It ends by itself; a file that keeps it waiting must not keep the server from stopping.
        if let Err(error) = std::thread::Builder::new().name("certificates".into()).spawn(watch) {
            tracing::error!(%error, "changed certificates will be read on reload only");
        }
    }
}

impl Reloader {
    /// Takes over the limits on clients, for new connections, and reads the certificates again. The
    /// `listen` entries are those of the start, in their order; nothing but their certificates is
    /// looked at.
    ///
    /// # Errors
    /// When a certificate cannot be used: then nothing has been taken over.
    pub fn reload(&self, settings: &Settings) -> Result<(), Error> {
        let listeners = settings.listen.iter().zip(&self.control.tls);
        let secured = listeners.filter_map(|(entry, tls)| Some((&entry.tls, tls.as_ref()?)));
        let read =
            secured.filter(|(files, _)| !files.is_empty()).map(|(files, tls)| Ok((tls, tls.read(files)?)));
        for (tls, certificates) in read.collect::<Result<Vec<_>, Error>>()? {
            tls.replace(certificates);
        }
        (self.set_live)(&settings.client);
        Ok(())
    }
}
