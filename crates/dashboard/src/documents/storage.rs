//! The pages about space: "Disk" and "Size".

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Document of the page "Disk".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Cache architecture of the store; `None` without a store.
    pub architecture: Option<String>,
    /// The disks.
    pub disks: Vec<DiskRow>,
    /// Calls and bytes of the disks for each request answered, since the start.
    pub per_request: DiskCosts,
    /// Bytes written to the disks for each byte served, since the start.
    pub per_byte_served: f64,
    /// Admission of objects to the disk.
    pub admission: AdmissionCounts,
    /// Objects written again since they were popular.
    pub carried_over: u64,
    /// Cursors of volumes by disk.
    pub cursor: BTreeMap<String, RingRow>,
    /// Hits by disk, in 128 parts of the way behind its cursor, the part just written first.
    pub popularity: BTreeMap<String, Vec<u64>>,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskRow {
    /// Path as the settings say.
    pub name: String,
    /// Cache architecture.
    pub kind: String,
    /// `true` if the disk serves.
    pub in_service: bool,
    /// Reason for which it does not serve; empty if it does.
    pub why: String,
    /// Limit in bytes.
    pub size: u64,
    /// Bytes used.
    pub used: u64,
    /// Objects.
    pub objects: u64,
    /// Calls that read.
    pub reads: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Calls that read, a second.
    pub reads_per_s: f64,
    /// Calls that wrote, a second.
    pub writes_per_s: f64,
    /// Time that half of the jobs waited for a thread, since the start.
    pub queue_p50_us: Option<u64>,
    /// Time that 99% of the jobs waited at most.
    pub queue_p99_us: Option<u64>,
    /// Objects that failed a check.
    pub damage: u64,
    /// Bytes written a day at the rate since the start.
    pub writes_per_day_bytes: u64,
    /// Years until the disk's rating is used up at this rate; `None` without a rating.
    pub wear_years: Option<f64>,
}

/// Costs of disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskCosts {
    /// Calls.
    pub ios: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Bytes written.
    pub bytes_written: f64,
}

/// Admission of objects to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionCounts {
    /// Objects offered.
    pub offered: u64,
    /// Objects taken.
    pub admitted: u64,
}

/// Cursor of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RingRow {
    /// Place of the cursor, from 0 to 1.
    pub position: f64,
    /// Times round the volume since the start.
    pub laps: f64,
}

/// Document of the page "Size".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeDocument {
    /// Time of the document.
    pub unix_ms: u64,
    /// Objects that the sample watches.
    pub sampled_keys: usize,
    /// Share of the objects that the sample watches.
    pub rate: f64,
    /// Error of the curve at 95% confidence, in percent of the requests: the largest of its points.
    pub error_points: f64,
    /// Requests behind the curve, earlier ones faded.
    pub requests: u64,
    /// Hit ratios of LRU caches of other sizes.
    pub curve: Vec<CurvePoint>,
    /// The sizes in force.
    pub now: SizeNow,
    /// Other sizes.
    pub what_if: Vec<WhatIf>,
    /// Advice, a sentence each.
    pub advice: Vec<String>,
}

/// Hit ratios of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of requests.
    pub hit_ratio: f64,
    /// Share of bytes.
    pub byte_hit_ratio: f64,
}

/// The sizes in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeNow {
    /// `cache.ram` in bytes.
    pub ram: u64,
    /// Bytes of all disks.
    pub disk: u64,
    /// Share of requests that the curve gives these sizes.
    pub hit_ratio_forecast: f64,
    /// Share of requests that the curve gives RAM alone.
    pub ram_hit_ratio_forecast: f64,
    /// Share of requests for which the cache had a response, fresh or not, since the start; `None`
    /// without requests.
    pub hit_ratio_measured: Option<f64>,
}

/// Other sizes, with their hit ratios by the curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// The sizes in words.
    pub text: String,
    /// Bytes of RAM.
    pub ram: u64,
    /// Bytes of disk.
    pub disk: u64,
    /// Share of requests.
    pub hit_ratio: f64,
    /// Share of bytes.
    pub byte_hit_ratio: f64,
    /// Share of requests answered from RAM.
    pub ram_hit_ratio: f64,
}
