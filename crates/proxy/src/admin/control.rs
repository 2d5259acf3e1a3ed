//! The admin listener's calls to a node: requests and answers, free of HTTP.

use super::{CertificateStatus, ExplainRequest, Explanation, HintsFailure, ProcessStatus};
use super::{MirrorStatus, SiteStatus, TopMisses, TopRequest};
use crate::cluster::ClusterReport;
use crate::dashboard::Dashboard;
use crate::exchange::Whereabouts;
use crate::exchange::prefetch::{HintLines, HintsReport, PrefetchStatus};
use crate::message::CacheResult;
use crate::metrics::{Metrics, PerCoreCounter};
use crate::purge::{PurgeOutcome, PurgeRequest};
use crate::warming::{WarmRefusal, WarmReport, WarmRequest};
use serde::{Deserialize, Serialize};
use shoal_store::Usage;
use shoal_store::disks::{DiskState, ServiceState};
use std::path::Path;
use std::sync::Arc;

/// A node as its admin listener sees it.
///
/// Calls may block: the listener makes them on threads of its own, a bounded number at a time.
pub trait Control: Send + Sync + 'static {
    /// Returns the counters of this process.
    fn metrics(&self) -> &Metrics;

    /// Returns the node's readiness. Never blocks, unlike the other calls.
    fn readiness(&self) -> Readiness;

    /// Returns the dashboard; `None` if there is none.
    fn dashboard(&self) -> Option<Arc<Dashboard>>;

    /// Returns the node's identity and current contents.
    fn status(&self) -> Status;

    /// Returns the URLs that cost their origins most.
    fn top_misses(&self, request: &TopRequest) -> TopMisses;

    /// Removes or invalidates stored responses.
    fn purge(&self, request: PurgeRequest) -> PurgeOutcome;

    /// Starts to fetch the files of a list. Reads the list before it returns.
    fn warm(&self, request: WarmRequest) -> Result<WarmReport, WarmRefusal>;

    /// Returns the reports of the jobs of [`Control::warm`], the newest last.
    fn warm_reports(&self) -> Vec<WarmReport>;

    /// Stops a job. Returns `false` if there is none of this number.
    fn stop_warm(&self, job: u64) -> bool;

    /// Takes a list of requests that clients will make soon.
    fn hints(&self, lines: HintLines) -> Result<HintsReport, HintsFailure>;

    /// Explains the handling of a request. The error is one line.
    fn explain(&self, request: ExplainRequest) -> Result<Explanation, String>;

    /// Reads the settings again. Returns the names of changed settings that wait for the next
    /// start. An error has one line per mistake; the old settings then stay in force.
    fn reload(&self) -> Result<Vec<String>, Vec<String>>;

    /// Returns the state of the cluster; `None` if the node is in none.
    fn cluster(&self) -> Option<ClusterReport>;

    /// Takes the node out of the homes of its cluster. Returns `false` if it is in none.
    fn drain_cluster(&self) -> bool;

    /// Makes the node a home again, after a drain. Returns `false` if it is in no cluster.
    fn rejoin_cluster(&self) -> bool;

    /// Takes a disk of the store out of service, or brings it back: see [`DiskRequest`]. Returns
    /// `false` if the disk already was in the requested state. The error is one line.
    fn set_disk(&self, request: DiskRequest) -> Result<bool, String>;

    /// Finds the object of a URL in the cluster. The error is one line.
    fn whereabouts(&self, url: &str) -> Result<Whereabouts, String>;
}

/// Requested state of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRequest {
    /// Path as written in the settings.
    pub path: String,
    /// `true` to bring the disk into service, `false` to take it out.
    pub online: bool,
}

/// The node's readiness to take requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Not yet accepting clients.
    Starting,
    /// Accepting clients.
    Ready,
    /// Accepting clients from RAM alone: a store is configured, but no disk is in service.
    Degraded,
    /// Finishing requests in flight before the node stops.
    Draining,
}

impl Readiness {
    /// Returns the name that the admin listener shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded: no store",
            Self::Draining => "draining",
        }
    }

    /// Returns `true` if the node accepts clients.
    pub fn accepts(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }
}

/// Identity and contents of a node, for `shoal status` and `GET /status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The node's name in Via and Cache-Status.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// The node's readiness.
    pub readiness: Readiness,
    /// Process of the node.
    #[serde(default)]
    pub pid: u32,
    /// Socket at which this process's user may ask for an upgrade; absent if it cannot be had.
    #[serde(default)]
    pub upgrade_socket: Option<String>,
    /// Seconds since the node started.
    pub uptime_seconds: u64,
    /// State of the process.
    #[serde(default)]
    pub process: ProcessStatus,
    /// Addresses of the listeners for clients.
    pub addresses: Vec<String>,
    /// Requests answered.
    #[serde(default)]
    pub responses: Responses,
    /// Contents of the RAM tier.
    pub ram: Ram,
    /// Contents of the disk store; absent without one.
    pub store: Option<StoreStatus>,
    /// Interception; absent if no host is listed.
    #[serde(default)]
    pub interception: Option<InterceptionStatus>,
    /// Upstreams with health checks.
    #[serde(default)]
    pub upstreams: Vec<UpstreamStatus>,
    /// Counts by site.
    #[serde(default)]
    pub sites: Vec<SiteStatus>,
    /// Mirrors of package registries.
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
    /// Fetches before clients ask.
    #[serde(default)]
    pub prefetch: PrefetchStatus,
    /// Certificates of listeners.
    #[serde(default)]
    pub certificates: Vec<CertificateStatus>,
}

/// Interception of https.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterceptionStatus {
    /// Hosts, as the settings list them.
    pub hosts: Vec<String>,
    /// Connections since the start.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Certificates signed.
    pub leaves: u64,
    /// Connections and requests inside that were refused.
    pub refused: u64,
}

impl InterceptionStatus {
    /// Returns the hosts of these settings, and the counts.
    pub fn of(settings: &shoal_settings::Settings, metrics: &Metrics) -> Self {
        let refused = [
            &metrics.intercept_refused_name,
            &metrics.intercept_refused_handshake,
            &metrics.intercept_refused_host,
            &metrics.intercept_refused_full,
        ];
        Self {
            hosts: settings.intercept.hosts.clone(),
            connections: metrics.intercepted.value(),
            open: metrics.intercepted_open.value(),
            leaves: metrics.intercept_leaves.value(),
            refused: refused.iter().map(|counter| counter.value()).sum(),
        }
    }
}

/// Requests answered since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// All requests, including tunnels and refusals.
    pub all: u64,
    /// Requests answered by a stored response without validation, fresh or stale.
    pub hits: u64,
    /// Requests that shared another request's fetch.
    pub collapsed: u64,
    /// Bytes of all bodies sent, without tunnels.
    #[serde(default)]
    pub body_bytes: u64,
    /// Bytes of bodies sent from the cache, validated or not.
    #[serde(default)]
    pub hit_body_bytes: u64,
    /// Bytes of bodies received from origins.
    #[serde(default)]
    pub upstream_body_bytes: u64,
    /// Tunnels that have ended: CONNECT, and switched protocols. Tunnels are never cached.
    #[serde(default)]
    pub tunnels: u64,
    /// Tunnels open now.
    #[serde(default)]
    pub tunnels_open: u64,
    /// Bytes that ended tunnels carried, both ways.
    #[serde(default)]
    pub tunnel_bytes: u64,
}

impl Responses {
    /// Computes the sums of these metrics.
    pub fn of(metrics: &Metrics) -> Self {
        let rows = metrics.rows();
        let responses = rows.iter().filter(|(_, name, ..)| *name == "shoal_responses_total");
        let hits = [&metrics.hits_memory, &metrics.hits_disk, &metrics.hits_peer, &metrics.stale];
        let bytes_of = |outcomes: &[CacheResult]| {
            outcomes.iter().map(|outcome| metrics.body_bytes.of(*outcome).value()).sum::<u64>()
        };
        let carried = bytes_of(&[CacheResult::Tunnel]);
        Self {
            all: responses.map(|(.., value)| value).sum(),
            hits: hits.map(PerCoreCounter::value).iter().sum(),
            collapsed: metrics.collapsed.value(),
            body_bytes: metrics.body_bytes.all().map(|(.., bytes)| bytes.value()).sum::<u64>() - carried,
            hit_body_bytes: bytes_of(&OUT_OF_CACHE),
            upstream_body_bytes: metrics.upstream_body_bytes.value(),
            tunnels: metrics.tunnels.value(),
            tunnels_open: metrics.tunnels_open.value(),
            tunnel_bytes: carried + metrics.tunnel_received.value(),
        }
    }
}

/// Results with a body from the cache. Stale bodies have one result for every reason.
const OUT_OF_CACHE: [CacheResult; 5] = [
    CacheResult::MemoryHit,
    CacheResult::PeerHit,
    CacheResult::Hit,
    CacheResult::StaleWhileRevalidate,
    CacheResult::RefreshUnmodified,
];

/// A budget and its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Stored responses held.
    pub objects: u64,
    /// Bytes used.
    pub bytes: u64,
    /// The configured limit in bytes.
    pub bytes_max: u64,
}

/// Contents of the RAM tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ram {
    /// Space used of `cache.ram`, with bodies in flight.
    #[serde(flatten)]
    pub space: Space,
    /// Objects evicted since the start.
    #[serde(default)]
    pub evictions: u64,
    /// Bytes of memory in spans of small bodies, including the gaps between bodies.
    #[serde(default)]
    pub span_bytes: u64,
    /// Bytes of bodies moved to close gaps, since the start.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Tracts from which large bodies are cut.
    #[serde(default)]
    pub tracts: u64,
    /// Maximum number of tracts.
    #[serde(default)]
    pub tracts_max: u64,
    /// Bytes of address space that tracts take.
    #[serde(default)]
    pub tract_address_bytes: u64,
    /// Bytes of the bodies in tracts, in whole pages.
    #[serde(default)]
    pub tract_body_bytes: u64,
    /// Bytes of bodies in RAM that replies hold for their clients.
    #[serde(default)]
    pub held_bytes: u64,
    /// Replies that could not hold a body because the share was used up, since start.
    #[serde(default)]
    pub holds_refused: u64,
}

/// The disk store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Cache architecture of the store.
    pub architecture: String,
    /// Folder of the store; with several disks, the folder of the purge table.
    pub directory: String,
    /// The store's disks.
    #[serde(default)]
    pub disks: Vec<DiskStatus>,
    /// Space used.
    pub space: Space,
    /// Maximum number of objects in the index.
    pub objects_max: u64,
    /// Objects evicted since start.
    pub evictions: u64,
    /// Evicted objects that had space on disk, but no place in the index.
    #[serde(default)]
    pub crowded_out: u64,
    /// Disk reads that earlier reads made unnecessary, since start.
    pub spared_reads: u64,
    /// Objects that failed a check and were dropped, since start.
    pub corrupt: u64,
    /// Objects found in the store but not yet written to disk. Each disk with a change in progress
    /// adds one.
    #[serde(default)]
    pub unwritten: u64,
    /// `true` while a disk recovers after a crash. Objects written last before the crash are misses
    /// until recovery ends.
    #[serde(default)]
    pub recovering: bool,
}

/// One disk of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Path as written in the settings.
    pub path: String,
    /// `in_service`, or the reason in a word: `unopened`, `failed`, `offline`.
    pub service: String,
    /// Reason for being out of service, in a line; empty if in service.
    pub why: String,
    /// Space used; zero if out of service.
    pub space: Space,
    /// Failed calls to the disk, since start.
    pub failures: u64,
    /// Change that is under way: `leaving` or `shrinking`.
    #[serde(default)]
    pub change: Option<String>,
    /// Share of the disk that the change has walked, in percent.
    #[serde(default)]
    pub change_percent: u64,
    /// Objects that the change has copied.
    #[serde(default)]
    pub copied_objects: u64,
    /// Bytes of these objects.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Objects for which the change found no room.
    #[serde(default)]
    pub dropped_objects: u64,
}

impl DiskStatus {
    /// Returns `true` if the disk is in service.
    pub fn is_in_service(&self) -> bool {
        self.service == ServiceState::InService.name()
    }
}

impl StoreStatus {
    /// Builds the status of a store from its disks.
    pub fn new(architecture: &str, directory: &Path, disks: &[DiskState]) -> Self {
        let sum = |field: fn(&Usage) -> u64| disks.iter().map(|disk| field(&disk.usage)).sum();
        Self {
            architecture: architecture.into(),
            directory: directory.to_string_lossy().into_owned(),
            space: Space {
                objects: sum(|usage| usage.objects),
                bytes: sum(|usage| usage.bytes),
                bytes_max: sum(|usage| usage.bytes_max),
            },
            objects_max: sum(|usage| usage.objects_max),
            evictions: sum(|usage| usage.evictions),
            crowded_out: sum(|usage| usage.crowded_out),
            spared_reads: sum(|usage| usage.spared_reads),
            corrupt: sum(|usage| usage.corrupt),
            unwritten: sum(|usage| usage.unwritten),
            recovering: disks.iter().any(|disk| disk.is_recovering),
            disks: disks.iter().map(DiskStatus::from).collect(),
        }
    }
}

impl From<&DiskState> for DiskStatus {
    fn from(state: &DiskState) -> Self {
        let usage = &state.usage;
        Self {
            path: state.path.clone(),
            service: state.service.name().into(),
            why: state.why.clone(),
            space: Space { objects: usage.objects, bytes: usage.bytes, bytes_max: usage.bytes_max },
            failures: state.failures,
            change: state.change.map(|change| change.kind.name().into()),
            change_percent: state.change.map_or(0, |change| change.percent),
            copied_objects: state.change.map_or(0, |change| change.copied),
            copied_bytes: state.change.map_or(0, |change| change.copied_bytes),
            dropped_objects: state.change.map_or(0, |change| change.dropped),
        }
    }
}

/// One upstream of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The first host of the upstream's site, with the path prefix.
    #[serde(default)]
    pub site: String,
    /// URL as written in the settings.
    pub url: String,
    /// `true` if the node sends requests to the upstream.
    pub healthy: bool,
}
