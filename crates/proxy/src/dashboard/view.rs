//! Parts of a node that the dashboard reads, and numbers that several documents need.

use crate::admin::{Readiness, process};
use crate::by_site::{SITE_RESULTS, SiteMeter, Source};
use crate::cluster::{ClusterHandle, ClusterReport};
use crate::exchange::{CacheEngine, ExchangeSettings};
use crate::hybrid_cache::HybridCache;
use crate::metrics::{Metrics, RESULTS};
use parking_lot::Mutex;
use serde_json::{Value, json};
use shoal_cluster::Cluster;
use shoal_dashboard::CacheSizes;
use shoal_settings::Settings;
use shoal_store::StoreView;
use shoal_store::disks::Disks;
use shoal_store::fs::CallTally;
use shoal_telemetry::record::CacheResult;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Parts of a node. None of them waits for a disk or a peer.
pub(crate) struct NodeView {
    pub exchange: Arc<CacheEngine>,
    pub objects: Arc<HybridCache>,
    pub disks: Option<Arc<Disks>>,
    /// Calls to each disk, in the order of the disks.
    pub calls: Vec<Arc<CallTally>>,
    pub cluster: Option<Arc<ClusterHandle>>,
    /// Membership, which ends with the node.
    pub membership: Weak<Cluster>,
    pub metrics: Arc<Metrics>,
    pub settings: Arc<Mutex<Arc<Settings>>>,
    pub draining: Arc<AtomicBool>,
    pub started: Instant,
}

/// Counts of one site or of the node, by source: see [`SOURCES`].
pub(super) type Counts = [u64; COUNTS];

/// Sources of answers with counts by site, in the order of [`Counts`]: requests first,
/// then bytes of bodies.
pub(super) const SOURCES: [&str; 7] = ["ram", "disk", "stale", "origin", "error", "tunnel", "own"];

/// Index of a source in [`SOURCES`].
pub(super) const RAM: usize = 0;
pub(super) const DISK: usize = 1;
pub(super) const STALE: usize = 2;
pub(super) const ORIGIN: usize = 3;
pub(super) const ERROR: usize = 4;
pub(super) const TUNNEL: usize = 5;
pub(super) const OWN: usize = 6;

/// Index of the bytes of the first source.
pub(super) const BYTES: usize = SOURCES.len();

/// Index of the bytes of bodies sent from the cache, validated or not.
pub(super) const HIT_BYTES: usize = 2 * SOURCES.len();

/// Index of the bytes of bodies from origins.
pub(super) const ORIGIN_BYTES: usize = HIT_BYTES + 1;

/// Index of the requests for which the cache had a response, fresh or not.
pub(super) const FOUND: usize = ORIGIN_BYTES + 1;

/// Number of counts.
pub(super) const COUNTS: usize = FOUND + 1;

impl NodeView {
    /// Returns the settings in force.
    pub fn live(&self) -> Arc<ExchangeSettings> {
        self.exchange.live()
    }

    /// Returns `true` once the node is stopping.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Acquire)
    }

    /// Returns the node's readiness.
    pub fn readiness(&self) -> Readiness {
        match &self.disks {
            _ if self.is_draining() => Readiness::Draining,
            Some(disks) if !disks.is_in_service() => Readiness::Degraded,
            _ => Readiness::Ready,
        }
    }

    /// Returns the node's state in a word.
    pub fn state(&self) -> &'static str {
        match self.readiness() {
            Readiness::Starting => "starting",
            Readiness::Ready => "ready",
            Readiness::Degraded => "degraded",
            Readiness::Draining => "draining",
        }
    }

    /// Returns the counts of all sites together.
    pub fn counts(&self) -> Counts {
        let live = self.live();
        live.routes.meters().all().fold([0; COUNTS], |sum, meter| {
            let counts = counts(meter);
            std::array::from_fn(|at| sum[at] + counts[at])
        })
    }

    /// Returns calls and bytes of all disks: reads, writes, bytes read, bytes written.
    pub fn disk_calls(&self) -> [u64; 4] {
        self.calls.iter().fold([0; 4], |sum, tally| {
            let calls = disk_calls(tally);
            std::array::from_fn(|at| sum[at] + calls[at])
        })
    }

    /// Returns answers of other nodes of the cluster and of neighbours, and bytes of the former.
    pub fn peer_answers(&self) -> (u64, u64) {
        let rows = self.cluster.as_ref().map(|cluster| cluster.peer_rows()).unwrap_or_default();
        let metrics = &self.metrics;
        let neighbours = metrics.neighbour_fetches_sibling.value() + metrics.neighbour_fetches_parent.value();
        let served: u64 = rows.iter().map(|row| row.asks.served).sum();
        (served + neighbours, rows.iter().map(|row| row.received_bytes).sum())
    }

    /// Returns the share of requests for which the cache had a response, fresh or not, of those
    /// that it or an origin answered.
    pub fn found_ratio(&self) -> Option<f64> {
        let counts = self.counts();
        ratio(counts[FOUND], [RAM, DISK, STALE, ORIGIN].iter().map(|source| counts[*source]).sum())
    }

    /// Returns the sizes of RAM and disk.
    pub fn sizes(&self) -> CacheSizes {
        let disk = self.disks.as_ref().map_or(0, |disks| disks.states().iter().map(|disk| disk.bytes).sum());
        CacheSizes { ram: self.objects.ledger().limit(), disk, measured: None }
    }

    /// Returns CPU time in milliseconds and resident memory in bytes, 0 where unknown.
    pub fn process(&self) -> (u64, u64) {
        let (cpu_ms, rss) = process::usage();
        (cpu_ms.unwrap_or(0), rss.unwrap_or(0))
    }

    /// Returns the document of the page about the cluster.
    pub fn cluster_document(&self) -> Value {
        let report = self.cluster.as_ref().zip(self.membership.upgrade()).map(|(handle, membership)| {
            let (status, peers) = (membership.status(), handle.peer_rows());
            json!(ClusterReport { status, peers, shared_memory: handle.memory_report() })
        });
        let mut document = report.unwrap_or_else(|| json!({}));
        document["enabled"] = json!(self.cluster.is_some());
        document["unix_ms"] = json!(super::unix_ms());
        document
    }
}

/// Returns the counts of one site.
pub(super) fn counts(meter: &SiteMeter) -> Counts {
    let mut counts = [0; COUNTS];
    for (number, (responses, bytes)) in meter.results().into_iter().enumerate() {
        let source = SOURCE_OF_RESULT[number];
        counts[source] += responses;
        counts[BYTES + source] += bytes;
        let outcome = RESULTS.get(number).map(|(_, outcome)| *outcome);
        let is_found = matches!(
            outcome,
            Some(CacheResult::RefreshUnmodified | CacheResult::RefreshModified | CacheResult::PeerHit)
        );
        if matches!(source, RAM | DISK | STALE)
            || matches!(outcome, Some(CacheResult::RefreshUnmodified | CacheResult::PeerHit))
        {
            counts[HIT_BYTES] += bytes;
        }
        if matches!(source, RAM | DISK | STALE) || is_found {
            counts[FOUND] += responses;
        }
    }
    counts[ORIGIN_BYTES] = meter.upstream_bytes();
    counts
}

/// Returns requests without tunnels, and hits.
pub(super) fn requests_and_hits(of: impl Fn(usize) -> u64) -> (u64, u64) {
    let sum = |sources: &[usize]| sources.iter().map(|source| of(*source)).sum();
    (sum(&[RAM, DISK, STALE, ORIGIN, ERROR, OWN]), sum(&[RAM, DISK, STALE]))
}

/// Returns bytes of bodies sent without tunnels.
pub(super) fn sent_bytes(of: impl Fn(usize) -> u64) -> u64 {
    (0..SOURCES.len()).filter(|source| *source != TUNNEL).map(|source| of(BYTES + source)).sum()
}

/// Returns a share, `None` of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64).min(1.0))
}

/// Returns reads, writes, bytes read and bytes written.
pub(super) fn disk_calls(tally: &CallTally) -> [u64; 4] {
    let calls = tally.calls();
    [calls.reads + calls.map_reads, calls.writes + calls.map_writes, calls.bytes_read, calls.bytes_written]
}

/// Returns the name of a source of times.
pub(super) fn source_name(source: Source) -> &'static str {
    source.as_str()
}

/// Source by the number of a result.
const SOURCE_OF_RESULT: [usize; SITE_RESULTS] = {
    let mut sources = [ERROR; SITE_RESULTS];
    let mut at = 0;
    while at < RESULTS.len() {
        sources[at] = match RESULTS[at].1 {
            CacheResult::MemoryHit => RAM,
            CacheResult::Hit => DISK,
            CacheResult::StaleWhileRevalidate | CacheResult::StaleIfError => STALE,
            // Answers of peers are taken off the origins' by their own count.
            CacheResult::Miss
            | CacheResult::PeerHit
            | CacheResult::Collapsed
            | CacheResult::RefreshUnmodified
            | CacheResult::RefreshModified
            | CacheResult::Pass => ORIGIN,
            CacheResult::Tunnel => TUNNEL,
            CacheResult::Denied | CacheResult::Abandoned | CacheResult::None => OWN,
        };
        at += 1;
    }
    sources
};
