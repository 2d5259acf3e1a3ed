//! A node: every part of the proxy put together, started, reloaded and stopped.

use crate::access_log::{AccessLog, OpenError};
use crate::admin::{
    PurgeOutcome, PurgeRequest, Readiness, Responses, Space, Status, StoreStatus, UpstreamStatus,
};
use crate::exchange::shelf::{Limits, Shelf};
use crate::exchange::{Epochs, Exchange, Front, Live, LiveError, Parts};
use crate::io_pool::IoPool;
use crate::metrics::Metrics;
use crate::server::{self, Running};
use crate::upstream::{SetupError, Upstreams};
use parking_lot::Mutex;
use shoal_core::{Key, Timestamp};
use shoal_policy::{Admission, Policy};
use shoal_settings::{AdminAddress, Settings};
use shoal_store::arch::{SegmentPolicy, SegmentSettings, VolumeSettings};
use shoal_store::memory::{self, Ledger, MemoryTier};
use shoal_store::{OpenOptions, Store};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;

/// A running node.
pub struct Node {
    exchange: Arc<Exchange>,
    shelf: Arc<Shelf>,
    upstreams: Arc<Upstreams>,
    metrics: Arc<Metrics>,
    settings: Mutex<Settings>,
    addresses: Vec<SocketAddr>,
    running: Mutex<Option<Running>>,
    /// The runtime of the first worker, on which upstreams are checked.
    checks: Arc<OnceLock<Handle>>,
    draining: AtomicBool,
    started: Instant,
    identity: u64,
}

/// Why a node did not start, or did not take new settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// A listener or certificate.
    Server(server::Error),
    /// The way to the origins.
    Upstream(SetupError),
    /// Rules or sites.
    Live(LiveError),
    /// The access log.
    Log(OpenError),
    /// Threads could not be started.
    Threads(std::io::Error),
}

impl Node {
    /// Starts a node: everything is bound and read before the first client is accepted. A disk store that cannot
    /// be used is said once in the log; the node then serves from RAM.
    pub fn start(settings: Settings) -> Result<Self, NodeError> {
        memory::return_freed_bytes();
        let metrics = Arc::new(Metrics::default());
        let bound = server::bind(&settings).map_err(NodeError::Server)?;
        let addresses = bound.addresses().to_vec();
        let identity = identity(&addresses);
        let live =
            Live::new(&settings, &own_addresses(&settings, &addresses), identity).map_err(NodeError::Live)?;
        let log = AccessLog::open(&settings.log, Arc::clone(&metrics)).map_err(NodeError::Log)?;
        let upstreams =
            Arc::new(Upstreams::new(&settings, Arc::clone(&metrics)).map_err(NodeError::Upstream)?);
        let (shelf, epochs) = shelf(&settings, &metrics).map_err(NodeError::Threads)?;
        let exchange = Exchange::new(Parts {
            live,
            shelf: Arc::clone(&shelf),
            epochs,
            upstreams: Arc::clone(&upstreams),
            metrics: Arc::clone(&metrics),
            log,
        });
        let checks = Arc::new(OnceLock::new());
        let on_worker = watch_on_first_worker(&checks, &exchange, &upstreams);
        let front = Arc::new(Front(Arc::clone(&exchange)));
        let running = bound.start(front, Arc::clone(&metrics), on_worker).map_err(NodeError::Server)?;
        Ok(Self {
            exchange,
            shelf,
            upstreams,
            metrics,
            settings: Mutex::new(settings),
            addresses,
            running: Mutex::new(Some(running)),
            checks,
            draining: AtomicBool::new(false),
            started: Instant::now(),
            identity,
        })
    }

    /// Where clients are accepted, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// This process's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Puts other settings in force. What cannot change without a restart stays, and is named in the log.
    pub fn reload(&self, new: Settings) -> Result<(), NodeError> {
        let mut settings = self.settings.lock();
        let own = own_addresses(&new, &self.addresses);
        let live = Live::new(&new, &own, self.identity).map_err(NodeError::Live)?;
        if new.log != settings.log {
            let log = AccessLog::open(&new.log, Arc::clone(&self.metrics)).map_err(NodeError::Log)?;
            self.exchange.replace_log(log);
        }
        if let Some(running) = &*self.running.lock() {
            running.reload(&new).map_err(NodeError::Server)?;
        }
        self.exchange.reload(live);
        if let Some(handle) = self.checks.get() {
            let _entered = handle.enter();
            watch(&self.exchange, &self.upstreams);
        }
        if (&new.store, new.cache.ram, &new.cache.ram_policy, &new.upstream)
            != (&settings.store, settings.cache.ram, &settings.cache.ram_policy, &settings.upstream)
        {
            tracing::warn!(
                "changes to store, cache.ram, cache.ram_policy and upstream take effect with the next start"
            );
        }
        *settings = new;
        Ok(())
    }

    /// Opens the access log again by its name.
    pub fn reopen_logs(&self) {
        self.exchange.reopen_log();
    }

    /// Writes what is pending in the access log and ends it: the last call before the process ends.
    pub fn close_logs(&self) {
        self.exchange.close_log();
    }

    /// Removes or invalidates stored responses. Blocks.
    pub fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.exchange.purge(request)),
            Err(error) => PurgeOutcome::Failed(format!("no runtime for the purge: {error}")),
        }
    }

    /// Whether clients are accepted.
    pub fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Acquire) { Readiness::Draining } else { Readiness::Ready }
    }

    /// What the node is and holds.
    pub fn status(&self) -> Status {
        let settings = self.settings.lock();
        let live = self.exchange.live();
        let memory = self.shelf.memory().usage();
        let members = live.routes.all().iter().flat_map(|route| route.group.members());
        Status {
            name: live.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            readiness: self.readiness(),
            uptime_seconds: self.started.elapsed().as_secs(),
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            responses: Responses::of(&self.metrics),
            ram: Space {
                objects: memory.objects,
                bytes: self.shelf.ledger().used(),
                bytes_max: self.shelf.ledger().limit(),
            },
            store: self.shelf.disk().map(|disk| {
                StoreStatus::new(disk.name(), &settings.store.directory.to_string_lossy(), &disk.usage())
            }),
            upstreams: members
                .map(|member| UpstreamStatus {
                    url: member.origin.to_string(),
                    healthy: member.is_in(Instant::now()),
                })
                .collect(),
        }
    }

    /// Stops: no new clients, requests under way may finish for at most `grace`, then the store is closed. Blocks.
    pub fn drain(&self, grace: Duration) {
        self.draining.store(true, Ordering::Release);
        if let Some(running) = self.running.lock().take() {
            running.stop(grace);
        }
        self.shelf.pool().close();
        if let Some(disk) = self.shelf.disk()
            && let Err(error) = disk.close()
        {
            tracing::error!(%error, "the disk store was not closed in order; its next start checks it");
        }
    }
}

/// RAM tier, disk store and the table of purges.
fn shelf(settings: &Settings, metrics: &Arc<Metrics>) -> std::io::Result<(Arc<Shelf>, Epochs)> {
    let store = &settings.store;
    // What stands around objects that were read is in RAM too.
    let windows = windows_bytes(settings);
    let ledger = Ledger::new(settings.cache.ram.0);
    let reserved = ledger.try_reserve(windows);
    let (account, seed) = (Arc::clone(&ledger), RandomState::new().hash_one(MEMORY_SHARDS));
    let memory = match Policy::named(&settings.cache.ram_policy) {
        Some(policy) => MemoryTier::with_policy(account, MEMORY_SHARDS, seed, policy.construct),
        // The settings know no other name.
        None => MemoryTier::new(account, MEMORY_SHARDS, seed),
    };
    let pool = Arc::new(IoPool::new(store.io_threads, store.io_queue)?);
    let disk = open_disk(settings, windows);
    let epochs = match &disk {
        Some(_) => Epochs::open(&store.directory.join(PURGES), Timestamp::from_system(SystemTime::now()))
            .unwrap_or_else(|error| {
                tracing::error!(%error, "purges of tags, groups and hosts will not outlive this process");
                Epochs::volatile()
            }),
        None => Epochs::volatile(),
    };
    let limits =
        Limits { memory_object_max: settings.cache.ram_object_max.0, disk_object_max: store.object_max.0 };
    let shelf = Shelf::new((memory, ledger, reserved), disk, pool, Arc::clone(metrics), limits);
    Ok((Arc::new(shelf), epochs))
}

/// Bytes of RAM for the neighbourhoods of objects that were read from a volume.
fn windows_bytes(settings: &Settings) -> u64 {
    let store = &settings.store;
    if store.architecture != VOLUME || store.directory.as_os_str().is_empty() {
        return 0;
    }
    settings.cache.ram.0 * store.neighbourhood_percent / 100
}

fn open_disk(settings: &Settings, window_bytes: u64) -> Option<Arc<dyn Store>> {
    let store = &settings.store;
    if store.directory.as_os_str().is_empty() {
        return None;
    }
    let options = OpenOptions {
        directory: store.directory.clone(),
        disk_bytes: store.disk.0.saturating_sub(Epochs::BYTES),
        max_objects: store.max_objects,
        object_max_bytes: store.object_max.0,
        files_per_folder: store.files_per_folder,
        replacement: store.replacement.clone(),
        segments: SegmentSettings { bytes: store.segments.0, policy: segment_policy(store) },
        volume: VolumeSettings {
            stripe_bytes: store.stripe.0,
            window_bytes,
            admission: match store.admission {
                shoal_settings::Admission::Probation => Admission::Probation,
                shoal_settings::Admission::Always => Admission::Always,
            },
        },
        architecture: store.architecture.clone(),
        now: Timestamp::from_system(SystemTime::now()),
    };
    match shoal_store::open(&options) {
        Ok(disk) => Some(disk),
        Err(error) => {
            tracing::error!(%error, "no disk store: serving from RAM only");
            None
        }
    }
}

fn segment_policy(store: &shoal_settings::Store) -> SegmentPolicy {
    use shoal_settings::SegmentPolicy as Named;
    let (c_max, a_max) = (store.fbc_c_max, store.fbc_a_max);
    match store.segment_policy {
        Named::Fbc => SegmentPolicy::Fbc { c_max, a_max },
        Named::FbcResident => SegmentPolicy::FbcResident { c_max, a_max },
        Named::Lru => SegmentPolicy::Lru,
        Named::LruResident => SegmentPolicy::LruResident,
    }
}

/// Every address that leads back to this node.
fn own_addresses(settings: &Settings, bound: &[SocketAddr]) -> Vec<SocketAddr> {
    let admin = settings.admin.listen.as_ref().and_then(|address| match address {
        AdminAddress::Tcp(address) => Some(*address),
        AdminAddress::Unix(_) => None,
    });
    bound.iter().copied().chain(admin).collect()
}

/// A number that other nodes do not have, the same after a restart: of the host's name and the addresses.
fn identity(addresses: &[SocketAddr]) -> u64 {
    let uname = rustix::system::uname();
    let mut text = uname.nodename().to_bytes().to_vec();
    addresses.iter().for_each(|address| text.extend(address.to_string().bytes()));
    Key::of(&text).low()
}

fn watch_on_first_worker(
    checks: &Arc<OnceLock<Handle>>,
    exchange: &Arc<Exchange>,
    upstreams: &Arc<Upstreams>,
) -> impl Fn(usize) + Send + Sync + 'static {
    let (checks, exchange, upstreams) = (Arc::clone(checks), Arc::clone(exchange), Arc::clone(upstreams));
    move |worker| {
        if worker == 0 {
            let _ = checks.set(Handle::current());
            watch(&exchange, &upstreams);
        }
    }
}

/// Starts the active checks of every site's upstreams on the current runtime.
fn watch(exchange: &Exchange, upstreams: &Upstreams) {
    for route in exchange.live().routes.all() {
        upstreams.watch(&route.group);
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "{error}"),
            Self::Upstream(error) => write!(f, "{error}"),
            Self::Live(error) => write!(f, "{error}"),
            Self::Log(error) => write!(f, "{error}"),
            Self::Threads(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl std::error::Error for NodeError {}

/// Shards of the RAM tier: several per core on any machine that this runs on.
const MEMORY_SHARDS: usize = 64;

/// The table of purges, beside the store's own files.
const PURGES: &str = "purges";

/// The architecture that reads neighbourhoods.
const VOLUME: &str = "volume";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn the_settings_offer_what_the_store_has() {
        let known: Vec<_> = shoal_store::arch::ARCHITECTURES.iter().map(|row| row.name).collect();
        assert_eq!(shoal_settings::ARCHITECTURES, known);
        assert_eq!(shoal_settings::REPLACEMENTS, shoal_store::arch::REPLACEMENTS);
    }

    #[test]
    fn the_settings_offer_every_replacement_policy() {
        let known: BTreeSet<_> = shoal_policy::POLICIES.iter().map(|policy| policy.name).collect();
        assert_eq!(BTreeSet::from_iter(shoal_settings::REPLACEMENTS.iter().copied()), known);
    }
}
