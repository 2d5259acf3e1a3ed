//! The page "Now": the node at this moment.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Document of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NowDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Site that the numbers are of; `None` for all.
    pub site: Option<String>,
    /// Requests answered, tunnels left out.
    pub requests: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Share of requests answered from the cache in the last minute; `None` without requests.
    pub hit_ratio: Option<f64>,
    /// Share of bytes sent from the cache in the last minute.
    pub byte_hit_ratio: Option<f64>,
    /// Share of requests answered from the cache in the last day; of the whole node.
    pub hit_ratio_day: Option<f64>,
    /// Share of bytes sent from the cache in the last day; of the whole node.
    pub byte_hit_ratio_day: Option<f64>,
    /// Bytes of bodies sent a second.
    pub bytes_per_s: f64,
    /// Bytes of bodies from origins a second.
    pub origin_bytes_per_s: f64,
    /// Bytes of bodies sent that no origin sent.
    pub origin_bytes_saved: u64,
    /// Answers by source.
    pub answers: Vec<AnswerRow>,
    /// Heat map of times.
    pub heat: Heat,
    /// Use of limited resources.
    pub limits: Limits,
    /// Sites with most requests.
    pub sites: Vec<SiteRow>,
    /// Sites without a row of their own.
    pub sites_others: usize,
    /// Mirrors with most requests.
    pub mirrors: Vec<MirrorRow>,
    /// Sources of hints for prefetching.
    pub hints: Vec<HintRow>,
    /// States that an operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Answers of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// `ram`, `disk`, `neighbourhood`, `peer`, `origin`, `stale`, `error` or `tunnel`; `own` for
    /// the node's own answers and refusals.
    pub source: String,
    /// Answers.
    pub requests: u64,
    /// Answers a second.
    pub requests_per_s: f64,
    /// Bytes of bodies sent a second.
    pub bytes_per_s: f64,
    /// Time within which half were answered in the last ten minutes; `None` where no times are
    /// kept.
    pub p50_us: Option<u64>,
    /// Time within which 99% were answered.
    pub p99_us: Option<u64>,
}

/// Heat map: counts by source, column and bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Upper bounds of the buckets in microseconds; one more bucket is above all of them.
    pub edges_us: Vec<u64>,
    /// Seconds of a column.
    pub column_s: u64,
    /// Columns by source, the oldest first, each with a count for each bucket.
    pub sources: BTreeMap<String, Vec<Vec<u32>>>,
}

/// Use of limited resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Cores in use.
    pub cpu_cores_used: f64,
    /// Cores of the machine that the node may use.
    pub cores: usize,
    /// Bytes used of `cache.ram`.
    pub ram_used: u64,
    /// `cache.ram`.
    pub ram_limit: u64,
    /// Resident memory of the process.
    pub rss: u64,
    /// Bytes used of all disks.
    pub disk_used: u64,
    /// Limit of all disks.
    pub disk_limit: u64,
    /// Client connections open.
    pub connections: u64,
    /// `max_connections`.
    pub max_connections: u64,
    /// Connections to origins open.
    pub origin_connections: u64,
}

/// Counts of one site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// First host and path prefix; `forward`, `other` or `none`.
    pub name: String,
    /// Requests answered, tunnels left out.
    pub requests: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Share of requests answered from the cache in the last minute.
    pub hit_ratio: Option<f64>,
    /// Share of bytes sent from the cache in the last minute.
    pub byte_hit_ratio: Option<f64>,
    /// Bytes of bodies sent a second.
    pub bytes_per_s: f64,
    /// Time within which 99% were answered, since the start.
    pub p99_us: Option<u64>,
    /// Requests without a usable response of an origin.
    pub errors: u64,
}

/// Account of one source of hints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HintRow {
    /// Name of the source.
    pub source: String,
    /// Hints received.
    pub received: u64,
    /// Prefetches begun.
    pub prefetched: u64,
    /// Prefetches that a client used.
    pub used: u64,
    /// Bytes that nobody used.
    pub wasted_bytes: u64,
    /// Share of recent prefetches that were used; `None` before enough are known.
    pub precision: Option<f64>,
    /// Seconds until the source may hint again; 0 if it is not muted.
    pub muted_seconds: u64,
}

/// Counts of one mirror.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorRow {
    /// Counts of its site.
    #[serde(flatten)]
    pub site: SiteRow,
    /// Kind of registry.
    pub kind: String,
}
