//! A node: every part of the proxy put together, started, reloaded and stopped.

mod certificates;
mod changing;
mod cluster_purges;
mod dashboard;
mod disks;
mod error;
mod hints;
mod in_cluster;
mod in_force;
mod named_files;
mod reopening;
mod stopping;
mod succession;
mod tracing_out;
mod warming;
mod workers;

use crate::acme::AcmeThread;
use crate::admin::{
    AdminAccess, ExplainRequest, Explanation, InterceptionStatus, MirrorStatus, ProcessStatus, PurgeOutcome,
    PurgeRequest, Ram, Readiness, Responses, SiteStatus, Space, Status, StoreStatus, TopMisses, TopRequest,
    UpstreamStatus,
};
use crate::cluster::{
    ClusterHandle, check_keys, check_reloaded_keys, peer_address, reload_cluster, start_cluster,
};
use crate::dashboard::Dashboard;
use crate::exchange::explain::{ExplainSource, explain};
use crate::exchange::{CacheEngine, CacheEngineParts, CacheHandler, ExchangeSettings};
use crate::hybrid_cache::HybridCache;
use crate::metrics::Metrics;
use crate::neighbours::{NeighbourCaches, NeighbourThread};
use crate::otlp::Exporter;
use crate::room;
use crate::route::Route;
use crate::server::{self, RunningServer};
use crate::storage::StorageStack;
use crate::upstream::{GroupMember, SetupError, Upstreams};
use crate::warming::WarmJobs;
use changing::DiskChanges;
pub use error::NodeError;
use in_force::in_force;
pub use named_files::{file_mistakes, file_warnings};
use parking_lot::Mutex;
use reopening::{OpenedUp, Purges, RetryThread};
use shoal_cluster::Cluster;
use shoal_core::Key;
use shoal_memory as memory;
use shoal_settings::{AdminAddress, Mode, Settings};
pub use shoal_store::disks::LateObject;
use shoal_store::disks::{DiskState, Disks};
use shoal_store::{StoreView, fs::CallTally};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
pub use succession::{Inheritance, LateNews, StoreRelease};
use tokio::runtime::{Handle, Runtime};
use workers::{begin_worker, tell_interception, watch};

/// A running node.
pub struct Node {
    exchange: Arc<CacheEngine>,
    objects: Arc<HybridCache>,
    disks: Option<Arc<Disks>>,
    upstreams: Arc<Upstreams>,
    /// This node's part in a cluster.
    cluster: Option<Arc<ClusterHandle>>,
    /// Membership of the cluster; the node leaves when this is dropped.
    membership: Option<Arc<Cluster>>,
    metrics: Arc<Metrics>,
    /// Settings in force, without the ones that wait for the next start. The lock is held briefly,
    /// never while a file is read.
    settings: Arc<Mutex<Arc<Settings>>>,
    /// Serializes reloads. A reload reads files and may wait for them.
    reloading: Mutex<()>,
    addresses: Vec<SocketAddr>,
    running: Mutex<Option<RunningServer>>,
    /// Runtime of the first worker, which checks the upstreams.
    checks: Arc<OnceLock<Handle>>,
    draining: Arc<AtomicBool>,
    /// Sockets and timers for neighbours.
    neighbours: Mutex<Option<NeighbourThread>>,
    /// Retries disks that could not be opened; `None` if all disks were opened.
    reopening: Option<RetryThread>,
    /// Thread that changes the disks; `None` without a disk store.
    changes: Option<DiskChanges>,
    /// Orders of certificates.
    orders: AcmeThread,
    /// Exporter of traces and metrics.
    exporter: Option<Exporter>,
    started: Instant,
    identity: u64,
    warming: WarmJobs,
    dashboard: OnceLock<Arc<Dashboard>>,
}

impl Node {
    /// Starts a node. Everything is bound and read before the first client is accepted. Without a
    /// usable disk the node logs this once, serves from RAM and tries the disks again, unless
    /// `store.required` asks for a disk. `admin.listen` is the bound address of the admin listener,
    /// which clients may not use as a destination.
    pub fn start(settings: Settings) -> Result<Self, NodeError> {
        Self::start_after(settings, Inheritance::default())
    }

    /// Starts a node with the sockets of another process, and with its store once that process has
    /// let it go.
    pub fn start_after(settings: Settings, inherited: Inheritance) -> Result<Self, NodeError> {
        let (node, calls) = Self::assemble(settings, inherited)?;
        node.start_dashboard(calls)?;
        Ok(node)
    }

    /// Starts all parts but the dashboard. Returns the counts of the calls to each disk too.
    fn assemble(
        settings: Settings,
        inherited: Inheritance,
    ) -> Result<(Self, Vec<Arc<CallTally>>), NodeError> {
        let Inheritance { mut sockets, store } = inherited;
        let metrics: Arc<Metrics> = Arc::default();
        let challenges = Arc::default();
        let bound = server::bind_or_take(&settings, &mut sockets, &challenges).map_err(NodeError::Server)?;
        let addresses = bound.addresses().to_vec();
        let identity = identity(&addresses);
        let own = own_addresses(&settings, &addresses);
        let live = ExchangeSettings::new(&settings, &own, identity).map_err(NodeError::Live)?;
        let exporter = tracing_out::start(&settings, identity, &metrics).map_err(NodeError::Threads)?;
        let log = tracing_out::log(&settings, &metrics, exporter.as_ref()).map_err(NodeError::Log)?;
        let upstreams =
            Arc::new(Upstreams::new(&settings, Arc::clone(&metrics)).map_err(NodeError::Upstream)?);
        let (StorageStack { objects, disks, purge_table, calls }, members) =
            succession::open_storage(&settings, &metrics, store)?;
        let cluster = ClusterHandle::new(&settings).map_err(NodeError::Upstream)?;
        let neighbours = NeighbourCaches::new(&settings).map_err(NodeError::Neighbours)?;
        let exchange = CacheEngine::new(CacheEngineParts {
            live,
            objects: Arc::clone(&objects),
            purge_table,
            upstreams: Arc::clone(&upstreams),
            metrics: Arc::clone(&metrics),
            log,
            cluster: cluster.clone(),
            neighbours: neighbours.as_ref().map(|(neighbours, _)| Arc::clone(neighbours)),
            challenges: Arc::clone(&challenges),
        });
        let orders = certificates::start(&settings, &metrics, challenges, identity)?;
        let purged = (&settings, &*objects, disks.is_some());
        cluster_purges::start(cluster.as_ref(), &exchange, purged).map_err(NodeError::Threads)?;
        let neighbours = in_cluster::start_neighbours(neighbours, &exchange, &upstreams, &mut sockets)?;
        let checks = Arc::default();
        let on_worker = begin_worker(&checks, &exchange, &upstreams);
        let front = Arc::new(CacheHandler(Arc::clone(&exchange)));
        let bound = bound.with_door(cluster.as_ref().map(|cluster| Arc::clone(cluster.door())));
        let running = bound.start(front, Arc::clone(&metrics), on_worker).map_err(NodeError::Server)?;
        let inherited = succession::cluster_inheritance(&settings, members, &mut sockets);
        let membership = cluster.as_ref().map(|cluster| start_cluster(&settings, cluster, inherited));
        let membership = membership.transpose().map_err(NodeError::Cluster)?.map(Arc::new);
        let (reopening, changes) = disk_threads(disks.as_ref(), &exchange, (&objects, &metrics), &settings);
        let node = Self {
            exchange,
            objects,
            disks,
            upstreams,
            cluster,
            membership,
            metrics,
            settings: Arc::new(Mutex::new(Arc::new(settings))),
            reloading: Mutex::new(()),
            addresses,
            running: Mutex::new(Some(running)),
            checks,
            neighbours: Mutex::new(neighbours),
            draining: Arc::default(),
            reopening,
            changes,
            orders,
            exporter,
            started: Instant::now(),
            identity,
            warming: WarmJobs::default(),
            dashboard: OnceLock::new(),
        };
        Ok((node, calls))
    }

    /// Returns the addresses of the client listeners, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// Returns this process's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Puts new settings in force. Returns the names of changed settings that wait for the next
    /// start.
    ///
    /// # Errors
    /// If the settings cannot be put in force. In this case nothing has changed.
    pub fn reload(&self, new: Settings) -> Result<Vec<String>, NodeError> {
        let _one_at_a_time = self.reloading.lock();
        let settings = Arc::clone(&self.settings.lock());
        let (new, waiting) = in_force(&settings, new);
        // A rotation that a node did not take must not look like one that it took.
        check_reloaded_keys(&settings, &new).map_err(NodeError::Cluster)?;
        let own = own_addresses(&new, &self.addresses);
        let previous = self.exchange.live();
        let live =
            ExchangeSettings::after(&previous.routes, &new, &own, self.identity).map_err(NodeError::Live)?;
        let log = match new.log != settings.log {
            true => {
                Some(tracing_out::log(&new, &self.metrics, self.exporter.as_ref()).map_err(NodeError::Log)?)
            }
            false => None,
        };
        let orders = certificates::plan_after((&settings, &new), &self.metrics)?;
        // The last step that can fail.
        let server = self.running.lock().as_ref().map(RunningServer::reloader);
        server.map_or(Ok(()), |server| server.reload(&new)).map_err(NodeError::Server)?;
        if let Some(log) = log {
            self.exchange.replace_log(log);
        }
        if new.cache.ram != settings.cache.ram {
            let held = self.objects.set_ram(new.cache.ram.0);
            tracing::info!(ram = %new.cache.ram, before = %settings.cache.ram, held, "the RAM of the cache has changed");
        }
        if let Some(changes) = self.changes.as_ref().filter(|_| new.store != settings.store) {
            changes.apply(&new);
        }
        if let Some(cluster) = &self.cluster {
            cluster.reload(&new);
            if let Some(membership) = &self.membership {
                reload_cluster(&new, cluster, membership);
            }
        }
        {
            let mut settings = self.settings.lock();
            self.exchange.reload(live);
            if new.intercept != settings.intercept {
                tell_interception(&self.exchange);
            }
            orders.into_iter().for_each(|plan| self.orders.follow(plan));
            *settings = Arc::new(new);
        }
        if let Some(handle) = self.checks.get() {
            let _entered = handle.enter();
            watch(&self.exchange, &self.upstreams, &previous.routes);
        }
        Ok(waiting)
    }

    /// Opens the access log again by its name.
    pub fn reopen_logs(&self) {
        self.exchange.reopen_log();
    }

    /// Writes the pending lines of the access log and ends it: the last call before the process
    /// ends.
    pub fn close_logs(&self) {
        self.exchange.close_log();
        self.exporter.iter().for_each(Exporter::stop);
    }

    /// Removes or invalidates stored responses. Blocks.
    pub fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        match timers() {
            Ok(runtime) => runtime.block_on(self.exchange.purge(request)),
            Err(error) => PurgeOutcome::Failed(format!("no runtime for the purge: {error}")),
        }
    }

    /// Explains the handling of a request under the settings in force. Changes and counts nothing.
    /// Blocks.
    ///
    /// # Errors
    /// If the request cannot be read, in a line.
    pub fn explain(&self, request: &ExplainRequest) -> Result<Explanation, String> {
        let (settings, live) = {
            let settings = self.settings.lock();
            (Arc::clone(&settings), self.exchange.live())
        };
        let runtime = timers().map_err(|error| format!("no runtime for the look: {error}"))?;
        let source = ExplainSource { settings: &settings, live, engine: Some(&self.exchange) };
        let explanation = runtime.block_on(explain(&source, request)).map(|mut explanation| {
            explanation.notes.extend(self.note_of_homes(&explanation.url));
            explanation
        });
        // A lookup of a name may still be under way.
        runtime.shutdown_background();
        explanation
    }

    /// Returns the node's readiness: accepting clients or not, with or without a store.
    pub fn readiness(&self) -> Readiness {
        match &self.disks {
            _ if self.draining.load(Ordering::Acquire) => Readiness::Draining,
            Some(disks) if !disks.is_in_service() => Readiness::Degraded,
            _ => Readiness::Ready,
        }
    }

    /// Sets a callback for when a disk that could not be opened at the start comes into service.
    pub fn on_disk_opened(&self, told: impl Fn() + Send + Sync + 'static) {
        if let Some(reopening) = &self.reopening {
            reopening.tell(OpenedUp::new(told));
        }
    }

    /// Returns the node's identity and current contents.
    pub fn status(&self) -> Status {
        let (settings, live) = {
            let settings = self.settings.lock();
            (Arc::clone(&settings), self.exchange.live())
        };
        Status {
            name: live.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            readiness: self.readiness(),
            pid: std::process::id(),
            upgrade_socket: None,
            uptime_seconds: self.started.elapsed().as_secs(),
            process: ProcessStatus::read(&self.metrics, settings.max_connections as u64),
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            responses: Responses::of(&self.metrics),
            ram: self.ram(),
            store: self.disk_states().map(|states| {
                let store = &settings.store;
                let mut status = StoreStatus::new(&store.architecture, &store.directory, &states);
                // Objects that wait in the pools before the store are unwritten too.
                status.unwritten += self.objects.pools().filter(|pool| pool.is_changing()).count() as u64;
                status
            }),
            interception: settings
                .intercept
                .is_on()
                .then(|| InterceptionStatus::of(&settings, &self.metrics)),
            upstreams: upstreams(&live),
            sites: SiteStatus::all(
                live.routes.meters(),
                settings.listen.iter().any(|listen| listen.mode == Mode::Forward),
            ),
            mirrors: MirrorStatus::all(&live.mirrors, live.routes.meters()),
            prefetch: self.prefetch_status(),
            certificates: self.certificates(&settings),
        }
    }

    /// Returns the URLs that cost their origins most.
    pub fn top_misses(&self, request: &TopRequest) -> TopMisses {
        TopMisses::of(self.exchange.live().routes.meters(), request)
    }

    /// Returns the state of each disk; `None` if no disk store is configured.
    fn disk_states(&self) -> Option<Vec<DiskState>> {
        self.disks.as_ref().map(|disks| disks.states())
    }

    fn ram(&self) -> Ram {
        let (memory, ledger, tracts) =
            (self.objects.memory().usage(), self.objects.ledger(), memory::tracts());
        Ram {
            space: Space { objects: memory.objects, bytes: ledger.used(), bytes_max: ledger.limit() },
            evictions: memory.evictions,
            span_bytes: memory.span_bytes,
            moved_bytes: memory.moved_bytes,
            tracts: tracts.tracts,
            tracts_max: tracts.tracts_max,
            tract_address_bytes: tracts.address_bytes,
            tract_body_bytes: tracts.body_bytes,
            held_bytes: self.objects.holds().held(),
            holds_refused: self.objects.holds().refused(),
        }
    }
}

/// Starts the threads that try disks again and that change them.
fn disk_threads(
    disks: Option<&Arc<Disks>>,
    exchange: &Arc<CacheEngine>,
    (objects, metrics): (&Arc<HybridCache>, &Arc<Metrics>),
    settings: &Settings,
) -> (Option<RetryThread>, Option<DiskChanges>) {
    let Some(disks) = disks else { return (None, None) };
    let purge_table = exchange.purge_table();
    let reopening = RetryThread::start(disks, metrics, Purges::of(purge_table, &settings.store));
    (reopening, DiskChanges::start(disks, objects, purge_table, settings))
}

/// Returns the folder of the purge table if the store's only disk holds it. Disk and table then
/// come into service together.
fn purges_at(store: &shoal_settings::Store) -> Option<PathBuf> {
    store.disks.is_empty().then(|| store.directory.clone())
}

/// Builds a runtime with timers for a thread that has none.
fn timers() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}

/// Returns the reasons that would keep a node with these settings from starting. The check covers
/// rules, sites and the contents of named files. Opens no socket and writes nothing.
pub fn check(settings: &Settings) -> Vec<NodeError> {
    let live = ExchangeSettings::new(settings, &[], 0).err().map(NodeError::Live);
    let upstreams = Upstreams::new(settings, Arc::default()).err();
    let orders = Upstreams::for_orders(settings, Arc::default()).err();
    // Both read the files of `[upstream]`.
    let orders = orders.filter(|error| matches!(error, SetupError::AcmeCaFile(..)));
    let upstreams = upstreams.into_iter().chain(orders).map(NodeError::Upstream);
    let certificates = server::check(settings).into_iter().map(NodeError::Server);
    let neighbours = NeighbourCaches::new(settings).err().map(NodeError::Neighbours);
    let keys = check_keys(settings).err().map(NodeError::Cluster);
    let admin = AdminAccess::new(&settings.admin).err().map(NodeError::Admin);
    let own = neighbours.into_iter().chain(keys).chain(admin);
    live.into_iter().chain(upstreams).chain(certificates).chain(own).collect()
}

/// Explains the handling of a request by a node with these settings, without a look into a cache.
/// Opens no socket.
///
/// # Errors
/// If the settings or the request cannot be used, in a line.
pub fn explain_settings(settings: &Settings, request: &ExplainRequest) -> Result<Explanation, String> {
    let live = ExchangeSettings::new(settings, &[], 0).map_err(|error| error.to_string())?;
    let runtime = timers().map_err(|error| format!("no runtime: {error}"))?;
    let source = ExplainSource { settings, live: Arc::new(live), engine: None };
    runtime.block_on(explain(&source, request))
}

/// Gives a store of open size the size that its file system suggests. Returns the size if this call
/// chose it.
pub fn settle_size(settings: &mut Settings) -> Option<shoal_core::ByteCount> {
    room::settle_size(settings)
}

/// Returns the disks of these settings with less room than configured, each with its index and
/// reason. Writes nothing.
pub fn misfits(settings: &Settings) -> Vec<(usize, String)> {
    room::misfits(settings)
}

/// Returns the upstreams of every site, in the settings' order.
fn upstreams(live: &ExchangeSettings) -> Vec<UpstreamStatus> {
    let of_site = |route: &Arc<Route>| {
        let site = format!("{}{}", route.name().0, route.path_prefix);
        let status = |member: &Arc<GroupMember>| UpstreamStatus {
            site: site.clone(),
            url: member.url(),
            healthy: member.is_in(Instant::now()),
        };
        route.group.members().iter().map(status).collect::<Vec<_>>()
    };
    live.routes.all().iter().flat_map(of_site).collect()
}

/// Returns every address that leads back to this node.
fn own_addresses(settings: &Settings, bound: &[SocketAddr]) -> Vec<SocketAddr> {
    let admin = settings.admin.listen.as_ref().and_then(|address| match address {
        AdminAddress::Tcp(address) => Some(*address),
        AdminAddress::Unix(_) => None,
    });
    bound.iter().copied().chain(admin).chain(peer_address(settings)).collect()
}

/// Returns a number that is unique to this node and survives a restart, from the host's name and
/// the addresses.
fn identity(addresses: &[SocketAddr]) -> u64 {
    let uname = rustix::system::uname();
    let mut text = uname.nodename().to_bytes().to_vec();
    addresses.iter().for_each(|address| text.extend(address.to_string().bytes()));
    Key::unkeyed(&text).low()
}

#[cfg(test)]
mod tests;
