//! The exchange: the life of a request, as named steps, without a transport.
//!
//! ```text
//!  admit ─┬─ CONNECT ───────────────► tunnel
//!         ├─ other methods, bodies ─► pass ─ invalidate
//!         └─ GET, HEAD ─ serve: lookup ─ decide ─┬─ fresh ──────────► deliver
//!                                                ├─ stale, missing ─► flight ─ fetch ─► deliver
//!                                                └─ parts ──────────► complete ─► deliver
//! ```
//!
//! The rooms, each with its files:
//!
//! - *Steps* have the settings in force: `admit`, `serve`, `parts`, `pass`, `outcomes`, `stale`,
//!   `reloads`, `fast_path`.
//! - *Admission*: `admission`, `client_access`, `ruling`, `https_redirect`, `challenge`, `target`,
//!   `request`, `denials`, `stored_use`.
//! - *Forms*: `coding` chooses among compressed forms of a response, and has them made.
//! - *Delivery* has no state: `deliver`, `answers`, `handling_report`, `body`, `blocks`.
//! - `peers`: asks of other nodes of the cluster, and their answers; used by the fetcher.
//! - `prefetch` fetches before clients ask; its requests take the same steps.
//! - `explain` takes a supposed request through the decisions.
//! - The *cache* is [`Cache`]: `lookup`, `store_plan`, `invalidate`, `hybrid_cache`, `purge_table`,
//!   `metadata`.
//! - The *fetcher* asks origins: `fetcher`, `fetch`, `renewal`, `flight`, `upstream_request`,
//!   `body_writer`, `shared_body`.
//!
//! Steps call rooms. The fetcher calls the cache. Delivery and admission call neither. Decisions
//! about reuse are those of `shoal_semantics`.

#![forbid(unsafe_code)]

mod abandoned;
mod admission;
mod admit;
mod answers;
mod awaited;
mod body_turns;
mod cache;
mod challenge;
mod change_tap;
mod client_access;
mod coding;
mod deliver;
mod denials;
mod destination;
mod error_pages;
pub mod explain;
mod fast_path;
mod fetch;
mod fetcher;
mod flight;
mod handling_report;
mod hit_for_miss;
mod https_redirect;
mod intercepted;
mod invalidate;
mod landing;
mod location;
mod lookup;
mod mirrored;
mod moments;
mod neighbour_fetch;
mod outcomes;
mod parts;
mod pass;
mod peers;
pub mod prefetch;
mod reloads;
mod renewal;
mod request;
mod ruling;
mod serve;
mod settings;
mod stale;
mod store_plan;
mod stored_use;
mod upstream_request;
mod variant;

pub use cache::Cache;
pub use change_tap::{ChangeTap, apply_change};
pub use error_pages::read as read_page;
pub use invalidate::EngineTarget;
pub use mirrored::{OwnAnswer, OwnFreshness, OwnRequest, own_client};
pub use peers::{EngineContents, HandOver, HitService};
pub use peers::{NodeWithObject, Whereabouts};
use settings::ReloadableState;
pub use settings::{ExchangeSettings, ExchangeSettingsError};

use shoal_access as access;
use shoal_access::rate_limit;
use shoal_cache::purge_table::PurgeTable;
use shoal_cache::{
    body, body_writer, hybrid_cache, identity, invalidations, judgement, metadata, purge, purge_table,
    shared_body,
};
use shoal_clock as clock;
use shoal_intercept as intercept;
use shoal_message as message;
use shoal_message::{boxed, target};
use shoal_peers::{cluster, neighbours};
use shoal_registries as mirror;
use shoal_route as route;
use shoal_telemetry::{access_log, by_site, ip_text, metrics, otlp, per_core};
use shoal_transport as transport;
use shoal_upstream as upstream;
use shoal_upstream::tunnel;

use crate::access_log::{AccessLog, LogEntry};
use crate::cluster::ClusterHandle;
use crate::message::{
    AccessRecord, Client, FastPathOutcome, Handler, PeerAsk, PeerReplies, RamHit, Reply, Request,
    SendProgress, ServerInside,
};
use crate::metrics::Metrics;
use crate::neighbours::NeighbourCaches;
use crate::per_core::place;
use crate::upstream::Upstreams;
use arc_swap::ArcSwap;
use coding::Coder;
use fetcher::Fetcher;
use http::StatusCode;
use hybrid_cache::HybridCache;
use peers::{HitEntry, MessageDesk};
use shoal_acme::Challenges;
use shoal_wire::FastPathRequest;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Answers requests from the cache and from the origins.
pub struct CacheEngine {
    in_force: ArcSwap<ReloadableState>,
    cache: Arc<Cache>,
    fetcher: Arc<Fetcher>,
    upstreams: Arc<Upstreams>,
    metrics: Arc<Metrics>,
    /// This node's part in a cluster.
    cluster: Option<Arc<ClusterHandle>>,
    /// Offered objects of drained nodes that wait to be fetched.
    offers: AtomicUsize,
    /// Chooses among the coded forms of responses.
    coder: Arc<Coder>,
    /// Server of requests inside a CONNECT.
    inside: intercepted::InsideServers,
    /// Fetches before clients ask.
    prefetcher: Arc<prefetch::Prefetcher>,
    /// Open challenges of a certificate authority.
    challenges: Arc<Challenges>,
}

/// Parts from which an exchange is built.
pub struct CacheEngineParts {
    /// The settings in force.
    pub live: ExchangeSettings,
    /// RAM and disk.
    pub objects: Arc<HybridCache>,
    /// Table of purges and their times.
    pub purge_table: Arc<PurgeTable>,
    /// Connections to the origins.
    pub upstreams: Arc<Upstreams>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The access log.
    pub log: AccessLog,
    /// This node's part in a cluster.
    pub cluster: Option<Arc<ClusterHandle>>,
    /// Neighbours by Squid's protocols.
    pub neighbours: Option<Arc<NeighbourCaches>>,
    /// Open challenges of a certificate authority.
    pub challenges: Arc<Challenges>,
}

impl CacheEngine {
    /// Creates an exchange from these parts.
    pub fn new(mut parts: CacheEngineParts) -> Arc<Self> {
        parts.live.enter_cluster(parts.cluster.as_ref());
        let cache = Cache::new(parts.objects, parts.purge_table);
        Arc::new(Self {
            in_force: ArcSwap::from_pointee(ReloadableState {
                live: Arc::new(parts.live),
                log: Arc::new(parts.log),
            }),
            fetcher: Fetcher::new(
                Arc::clone(&cache),
                Arc::clone(&parts.upstreams),
                Arc::clone(&parts.metrics),
                parts.neighbours,
            ),
            coder: Coder::new(&cache, &parts.metrics),
            cache,
            upstreams: parts.upstreams,
            metrics: parts.metrics,
            cluster: parts.cluster,
            offers: AtomicUsize::new(0),
            inside: intercepted::InsideServers::default(),
            prefetcher: Arc::default(),
            challenges: parts.challenges,
        })
    }

    /// Puts new settings in force, one after the other; current requests finish under their old
    /// settings.
    pub fn reload(&self, mut live: ExchangeSettings) {
        let before = self.live();
        live.access.take_over(&before.access);
        live.enter_cluster(self.cluster.as_ref());
        let judges_as_before = live.forward.judges_addresses_as(&before.forward);
        let since = if judges_as_before { before.forward_since.load(Relaxed) } else { u64::MAX };
        live.forward_since.store(since, Relaxed);
        let live = Arc::new(live);
        self.in_force.rcu(|before| ReloadableState { live: Arc::clone(&live), log: Arc::clone(&before.log) });
        if !judges_as_before {
            // A request admitted under the old rules has a position before this one: it took the
            // position before it read the rules.
            live.forward_since.store(self.cache.purge_table.next_time().number(), Relaxed);
        }
    }

    /// Returns the stored responses, with their purges.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Returns the counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the table of purges.
    pub fn purge_table(&self) -> &Arc<PurgeTable> {
        &self.cache.purge_table
    }

    /// Writes the access log to another target from now on.
    pub fn replace_log(&self, log: AccessLog) {
        let log = Arc::new(log);
        self.in_force.rcu(|before| ReloadableState { live: Arc::clone(&before.live), log: Arc::clone(&log) });
    }

    /// Opens the access log again by its name.
    pub fn reopen_log(&self) {
        self.in_force.load().log.reopen();
    }

    /// Writes the pending lines of the access log and ends it.
    pub fn close_log(&self) {
        self.in_force.load().log.close();
    }

    /// Returns the settings in force.
    pub fn live(&self) -> Arc<ExchangeSettings> {
        Arc::clone(&self.in_force.load().live)
    }

    /// Counts and logs a finished request.
    fn log_request(&self, record: &AccessRecord) {
        if record.is_for_peer {
            self.metrics.cluster_served_bytes.add(record.body_bytes);
            return;
        }
        if record.carries_requests {
            return self.in_force.load().log.log(&LogEntry::from(record));
        }
        let duration_us = (!record.aborted).then_some(record.duration_us);
        self.metrics.responded(record.outcome, record.body_bytes, duration_us);
        if let Some(site) = &record.site {
            site.responded(record);
        }
        self.metrics.samples.request(place(), record);
        self.in_force.load().log.log(&LogEntry::from(record));
    }
}

/// Handler that every worker calls.
#[derive(Clone)]
pub struct CacheHandler(pub Arc<CacheEngine>);

impl Handler for CacheHandler {
    fn handle(&self, request: Request) -> impl Future<Output = Reply> + Send {
        // Admitted before the first wait, so that the waiting future does not carry the request
        // along.
        let admitted = self.0.admit(request);
        self.0.answer(admitted)
    }

    fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        self.0.try_fast_path(plain, client, received, reply)
    }

    fn try_ask_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        self.0.try_ask_fast_path(plain, client, received, reply)
    }

    fn defer_to_peer(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Arc<Client>,
        received: Instant,
    ) -> Option<PeerAsk> {
        HitEntry(&self.0).defer(plain, client, received)
    }

    fn try_message(&self, bytes: &[u8], client: &Client, received: Instant, replies: &mut Vec<u8>) -> bool {
        MessageDesk(&self.0).try_message(bytes, client, received, replies)
    }

    fn awaited_message(&self, bytes: &[u8], client: &Client) -> Option<usize> {
        MessageDesk(&self.0).awaited_message(bytes, client)
    }

    fn ask_peer(&self, asks: Vec<PeerAsk>) -> impl Future<Output = PeerReplies> + Send {
        HitEntry(&self.0).ask(asks)
    }

    fn join_server(&self, server: ServerInside) {
        self.0.inside.join(server);
    }

    fn record_sent(&self, record: Box<AccessRecord>) {
        self.0.log_request(&record);
    }

    fn error_reply(&self, status: StatusCode, reason: &'static str, client: &Client) -> Reply {
        self.0.refusal(status, reason, client)
    }
}

#[cfg(test)]
mod tests {
    use super::hybrid_cache::ObjectSizeLimits;
    use super::*;
    use admit::AdmitOutcome;
    use shoal_cache::io_pool::IoPool;
    use shoal_core::Timestamp;
    use shoal_memory::{MemoryBudget, MemoryTier};
    use shoal_settings::{Listen, Settings};
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    /// Returns a cache with these settings, in memory.
    pub fn exchange(settings: &Settings) -> Arc<CacheEngine> {
        let metrics = Arc::new(Metrics::default());
        let ledger = MemoryBudget::new(settings.cache.ram.0);
        let memory = MemoryTier::new(Arc::clone(&ledger), 64);
        let pools = vec![Arc::new(IoPool::new(1, 1).expect("a thread"))];
        let limits =
            ObjectSizeLimits { memory_object_max: settings.cache.ram_object_max.0, disk_object_max: 0 };
        CacheEngine::new(CacheEngineParts {
            live: ExchangeSettings::new(settings, &[], 1).expect("sound settings"),
            objects: Arc::new(HybridCache::new(
                (memory, ledger, None),
                None,
                pools,
                Arc::clone(&metrics),
                limits,
            )),
            purge_table: Arc::new(PurgeTable::in_memory(Timestamp::from_seconds(10))),
            upstreams: Arc::new(Upstreams::new(settings, Arc::clone(&metrics)).expect("the defaults")),
            log: AccessLog::open(&settings.log, Arc::clone(&metrics)).expect("no log"),
            metrics,
            cluster: None,
            neighbours: None,
            challenges: Arc::default(),
        })
    }

    /// Returns a client's request for `http://a.test/`.
    pub fn request() -> Request {
        let head = http::Request::get("http://a.test/").body(()).expect("a request").into_parts().0.into();
        let address = ([127, 0, 0, 1], 1).into();
        let client = Client {
            address,
            local: address,
            listener: 0,
            tls: false,
            server_name: None,
            certificate: None,
            intercepted: None,
        };
        Request { head, body: None, client: Arc::new(client), interim: None, received: Instant::now() }
    }

    /// Otherwise a response fetched under the old rules would count as allowed by the new ones.
    #[test]
    fn requests_of_old_rules_precede_new_rules() {
        let mut settings = Settings::default();
        settings.log.access = "none".into();
        settings.listen = vec![Listen::forward(([127, 0, 0, 1], 0).into())];
        let exchange = exchange(&settings);
        let mut lives = vec![exchange.live()];
        let is_over = AtomicBool::new(false);
        let admitted = std::thread::scope(|scope| {
            let admitting = scope.spawn(|| {
                let mut admitted: Vec<(Arc<ExchangeSettings>, crate::purge_table::Sequence)> = Vec::new();
                while !is_over.load(Relaxed) {
                    let AdmitOutcome::Asked(ask, ..) = exchange.admit(request()) else {
                        panic!("it is allowed")
                    };
                    // Keeps only the latest request judged by the same rules.
                    admitted.pop_if(|(live, _)| Arc::ptr_eq(live, &ask.live));
                    admitted.push((Arc::clone(&ask.live), ask.sequence));
                }
                admitted
            });
            for round in 0..RELOADS {
                settings.forward.deny_destinations = vec![format!("192.0.2.{}", round % 2)];
                exchange.reload(ExchangeSettings::new(&settings, &[], 1).expect("sound settings"));
                lives.push(exchange.live());
            }
            is_over.store(true, Relaxed);
            admitting.join().expect("no panic")
        });
        assert!(admitted.len() > 1, "some were admitted meanwhile");
        let ends = lives.windows(2).map(|pair| (Arc::as_ptr(&pair[0]), pair[1].forward_since.load(Relaxed)));
        let ends: HashMap<_, _> = ends.collect();
        for (live, sequence) in &admitted {
            let end = ends.get(&Arc::as_ptr(live)).copied().unwrap_or(u64::MAX);
            assert!(sequence.number() < end, "{sequence:?} is not before {end}");
        }
    }

    /// Enough reloads that some fall into the middle of an admission.
    const RELOADS: usize = 20_000;
}
