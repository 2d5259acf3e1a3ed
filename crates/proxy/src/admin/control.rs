//! What the admin listener asks of a node: the requests and answers, free of HTTP.

use crate::message::CacheResult;
use crate::metrics::{Metrics, PerCoreCounter};
use serde::{Deserialize, Serialize};
use shoal_store::Usage;
use shoal_store::disks::{DiskState, ServiceState};
use std::path::Path;

/// A node as its admin listener sees it.
///
/// Calls may block: the listener makes them on a thread of its own, a bounded number at a time.
pub trait Control: Send + Sync + 'static {
    /// The counters of this process.
    fn metrics(&self) -> &Metrics;

    /// Where the node stands. Blocks never, unlike the others.
    fn readiness(&self) -> Readiness;

    /// What it is and what it holds now.
    fn status(&self) -> Status;

    /// Removes or invalidates stored responses.
    fn purge(&self, request: PurgeRequest) -> PurgeOutcome;

    /// Reads the settings again. Gives the names of those that changed and wait for the next start.
    /// Errors are one line a mistake, and leave the old settings at work.
    fn reload(&self) -> Result<Vec<String>, Vec<String>>;

    /// Takes a disk of the store out of service, or brings it back: see [`DiskRequest`]. False when
    /// it was as wanted. The error is one line.
    fn set_disk(&self, request: DiskRequest) -> Result<bool, String>;
}

/// What is to become of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRequest {
    /// As the settings spell it.
    pub path: String,
    /// In service, or out of it.
    pub online: bool,
}

/// Whether the node takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Not yet accepting clients.
    Starting,
    /// Accepting clients.
    Ready,
    /// Accepting clients, with a store that is wanted and no disk that serves: RAM serves alone.
    Degraded,
    /// Finishing what is in flight before it stops.
    Draining,
}

impl Readiness {
    /// As the admin listener spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded: no store",
            Self::Draining => "draining",
        }
    }

    /// Whether clients are accepted.
    pub fn accepts(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }
}

/// What a node is and holds, for `shoal status` and `GET /status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The name by which it calls itself in Via and Cache-Status.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it takes requests.
    pub readiness: Readiness,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Where it accepts clients.
    pub addresses: Vec<String>,
    /// What it answered.
    #[serde(default)]
    pub responses: Responses,
    /// What it keeps in RAM.
    pub ram: Ram,
    /// What it keeps on disk; absent without a disk store.
    pub store: Option<StoreStatus>,
    /// Upstreams of the sites that are checked.
    #[serde(default)]
    pub upstreams: Vec<UpstreamStatus>,
}

/// Requests answered since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// All of them, tunnels and refusals included.
    pub all: u64,
    /// Those with a body out of the cache that was not validated, fresh or stale.
    pub hits: u64,
    /// Those that shared another request's fetch.
    pub collapsed: u64,
    /// Bytes of the bodies of all but tunnels.
    #[serde(default)]
    pub body_bytes: u64,
    /// Those of them that came out of the cache, validated or not.
    #[serde(default)]
    pub hit_body_bytes: u64,
    /// Bytes of bodies that were received from origins.
    #[serde(default)]
    pub upstream_body_bytes: u64,
    /// Tunnels that ended (CONNECT, and protocols that were switched to): nothing of them is
    /// cached.
    #[serde(default)]
    pub tunnels: u64,
    /// Tunnels open now.
    #[serde(default)]
    pub tunnels_open: u64,
    /// Bytes that tunnels which ended carried, both ways.
    #[serde(default)]
    pub tunnel_bytes: u64,
}

impl Responses {
    /// What these metrics add up to.
    pub fn of(metrics: &Metrics) -> Self {
        let rows = metrics.rows();
        let responses = rows.iter().filter(|(_, name, ..)| *name == "shoal_responses_total");
        let hits = [&metrics.hits_memory, &metrics.hits_disk, &metrics.stale];
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

/// What a body has that was in the cache; stale ones have one result, whyever they were served.
const OUT_OF_CACHE: [CacheResult; 4] = [
    CacheResult::MemoryHit,
    CacheResult::Hit,
    CacheResult::StaleWhileRevalidate,
    CacheResult::RefreshUnmodified,
];

/// A budget and what is used of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Stored responses held.
    pub objects: u64,
    /// Bytes used.
    pub bytes: u64,
    /// The configured limit in bytes.
    pub bytes_max: u64,
}

/// What is kept in RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ram {
    /// Of `cache.ram`, with bodies in flight.
    #[serde(flatten)]
    pub space: Space,
    /// Objects given up to make room, since the start.
    #[serde(default)]
    pub evictions: u64,
    /// Bytes of memory in which small bodies stand, with the gaps between them.
    #[serde(default)]
    pub span_bytes: u64,
    /// Bytes of bodies that were moved to close gaps, since the start.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Stretches of memory that large bodies are cut from.
    #[serde(default)]
    pub tracts: u64,
    /// Most of these that there may be.
    #[serde(default)]
    pub tracts_max: u64,
    /// Bytes of addresses that they take.
    #[serde(default)]
    pub tract_address_bytes: u64,
    /// Bytes of the bodies in them, in whole pages.
    #[serde(default)]
    pub tract_body_bytes: u64,
    /// Bytes of bodies in RAM that replies hold until their clients have taken them.
    #[serde(default)]
    pub held_bytes: u64,
    /// Replies that were to hold one beyond their share, since start.
    #[serde(default)]
    pub holds_refused: u64,
}

/// The disk store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Its cache architecture.
    pub architecture: String,
    /// Its folder; with several disks, that of the table of purges.
    pub directory: String,
    /// Each of its disks.
    #[serde(default)]
    pub disks: Vec<DiskStatus>,
    /// Space used.
    pub space: Space,
    /// Most objects that its index holds.
    pub objects_max: u64,
    /// Objects given up to make room, since start.
    pub evictions: u64,
    /// Those of them that there was space for, but no place in the index.
    #[serde(default)]
    pub crowded_out: u64,
    /// Reads from disk that what was read before has spared, since start.
    pub spared_reads: u64,
    /// Objects that failed a check and were dropped, since start.
    pub corrupt: u64,
    /// Objects that are found and not written to disk yet, and one more for each disk that
    /// something is being brought to.
    #[serde(default)]
    pub unwritten: u64,
    /// Whether a disk still looks for what was written last before a crash, and misses that until
    /// then.
    #[serde(default)]
    pub recovering: bool,
}

/// One disk of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// As the settings spell it.
    pub path: String,
    /// `in_service`, or why not in a word: `unopened`, `failed`, `offline`.
    pub service: String,
    /// Why it is out of service, in a line; empty when it is not.
    pub why: String,
    /// Space used; nothing when it is out of service.
    pub space: Space,
    /// Calls to it that failed, since start.
    pub failures: u64,
}

impl DiskStatus {
    /// Whether it serves.
    pub fn is_in_service(&self) -> bool {
        self.service == ServiceState::InService.name()
    }
}

impl StoreStatus {
    /// The status of a store from its disks.
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
        }
    }
}

/// One upstream of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The first host of its site, with the path prefix.
    #[serde(default)]
    pub site: String,
    /// Its URL as the settings spell it.
    pub url: String,
    /// Whether requests are sent to it.
    pub healthy: bool,
}

/// What to purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeRequest {
    /// Every variant stored under this absolute URL.
    Url(String),
    /// Every response that carries this tag.
    Tag(String),
    /// Every response of an origin that belongs to this cache group (RFC 9875).
    Group {
        /// The origin as `scheme://host[:port]`.
        origin: String,
        /// The group's name.
        group: String,
    },
    /// Every response of this host, whatever its scheme and port.
    Host(String),
    /// Everything.
    All,
}

/// What became of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeOutcome {
    /// None of what was named will be served any more.
    Purged {
        /// How many stored responses that were, where they could be counted at once.
        responses: Option<u64>,
    },
    /// The request names nothing that could be stored, and why.
    Invalid(String),
    /// The store could not do it, and why.
    Failed(String),
}
