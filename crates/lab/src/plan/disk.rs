//! The disk: its size, reads and writes of each cache architecture, lifetime of a drive, and memory
//! of the index.
//!
//! Transfers are those of the store's own code over the first requests of the log, on the machine
//! of Maltzahn's paper (`ufs1999`). The machine is smaller by the factor of the trace. The paper's
//! machine writes metadata at once, which file systems of today gather. Operations are therefore
//! bounds from above, while bytes are whole blocks on either.

use super::PlanOptions;
use super::demand::Demand;
use super::memory::RamPlan;
use super::tier;
use crate::character::CensusTrace;
use crate::curve::Curve;
use crate::error::LabError;
use crate::machine_runs::{RunResult, modelled};
use crate::progress::Progress;
use crate::workload::Workload;
use shoal_store::architectures::ARCHITECTURES;
use shoal_trace::{Record, Trace};

/// The planned disk with its results.
pub struct DiskPlan {
    /// Bytes of disk for 99% of the achievable hits, or the existing bytes: see `DiskPlan::of`.
    pub bytes: u64,
    /// Hits over storable requests of the disk, with RAM before it.
    pub hit_ratio: f64,
    /// Objects on the disk.
    pub objects: u64,
    /// RAM for the index, in bytes: mapped, and resident when it is used.
    pub index_bytes: u64,
    /// Wear by each architecture.
    pub wear: Vec<Wear>,
    /// Requests over which the wear was counted.
    pub counted_over: u64,
}

/// Wear of a drive by one architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Wear {
    /// Name of the architecture.
    pub architecture: String,
    /// Reads of the disk for each hit.
    pub reads_per_hit: f64,
    /// Writes to the disk for each object stored.
    pub writes_per_insert: f64,
    /// Bytes written to the disk for each byte of objects.
    pub amplification: f64,
    /// Bytes written a day; `None` where the log has no times.
    pub bytes_per_day: Option<f64>,
    /// Whole writes of the drive a day.
    pub drive_writes_per_day: Option<f64>,
    /// Years until the drive has reached its rated number of writes.
    pub years: Option<f64>,
}

impl DiskPlan {
    /// Plans the disk for a log: enough bytes for 99% of the achievable hits, or the existing
    /// bytes.
    pub(super) fn of(
        loaded: &CensusTrace,
        demand: &Demand,
        memory: &RamPlan,
        wishes: &PlanOptions,
        progress: &mut dyn Progress,
    ) -> Result<Self, LabError> {
        let (curve, footprint) = (&memory.whole, wishes.footprint);
        let most = curve.points.last().map_or(0.0, |point| point.hit_ratio);
        let bytes = wishes.disk_bytes.unwrap_or_else(|| wanted(curve, most));
        let hit_ratio = curve.at(bytes).0;
        let largest = tier::largest(tier::VOLUME, bytes, footprint);
        let trace = beginning(&loaded.trace, largest);
        let counted_over = trace.requests().len() as u64;
        let workload = Workload::new(&trace, 0);
        let names: Vec<&'static str> = ARCHITECTURES.iter().map(|architecture| architecture.name).collect();
        let outcomes = modelled(&trace, &workload, &names, progress)?;
        let inserted = workload.sizes().iter().sum();
        let missed_per_day = demand.storable_per_day().map(|requests| requests * (1.0 - hit_ratio));
        // Mean size of the missed and stored objects: over objects, not over requests.
        let mean_missed = demand.objects_up_to(largest).mean() as f64;
        let drive_bytes = wishes.drive_bytes.max(bytes);
        let of = |outcome: &RunResult| {
            Wear::of(
                outcome,
                inserted,
                missed_per_day.map(|missed| missed * mean_missed),
                drive_bytes,
                wishes,
            )
        };
        let wear = outcomes.iter().map(of).collect();
        let mut disk = Self { bytes, hit_ratio, objects: 0, index_bytes: 0, wear, counted_over };
        let name = disk.recommended();
        let mean = demand.objects_up_to(tier::largest(name, bytes, footprint)).mean();
        let objects = tier::objects(name, bytes, mean, footprint);
        (disk.index_bytes, disk.objects) = (objects * tier::index_bytes(name), objects);
        Ok(disk)
    }

    /// Returns the disk operations of a request, for these shares of disk hits and misses among the
    /// requests.
    pub fn ios(&self, hits: f64, misses: f64) -> f64 {
        debug_assert!(hits >= 0.0 && misses >= 0.0, "{hits} hits, {misses} misses");
        let wear = self.least();
        wear.map_or(0.0, |wear| hits * wear.reads_per_hit + misses * wear.writes_per_insert)
    }

    /// Returns the architecture that a plan recommends.
    pub fn recommended(&self) -> &str {
        self.least().map_or(tier::VOLUME, |wear| &wear.architecture)
    }

    /// Returns the architecture with the fewest operations where half the requests are hits of the
    /// disk. The architecture without an index is left out, since it asks the disk for every miss.
    pub fn least(&self) -> Option<&Wear> {
        let indexed = self.wear.iter().filter(|wear| wear.architecture != "cern");
        let ios = |wear: &Wear| wear.reads_per_hit + wear.writes_per_insert;
        indexed.min_by(|a, b| ios(a).total_cmp(&ios(b)))
    }
}

impl Wear {
    fn of(
        outcome: &RunResult,
        inserted_bytes: u64,
        missed_bytes_per_day: Option<f64>,
        drive_bytes: u64,
        wishes: &PlanOptions,
    ) -> Self {
        assert!(outcome.hits <= outcome.requests, "{} hits of {}", outcome.hits, outcome.requests);
        let inserts = (outcome.requests - outcome.hits).max(1) as f64;
        let (reads, writes) =
            (outcome.files.reads + outcome.mapped.reads, outcome.files.writes + outcome.mapped.writes);
        let written = outcome.files.bytes_written + outcome.mapped.bytes_written;
        let amplification = written as f64 / inserted_bytes.max(1) as f64;
        let bytes_per_day = missed_bytes_per_day.map(|missed| missed * amplification);
        let drive_writes_per_day = bytes_per_day.map(|bytes| bytes / drive_bytes.max(1) as f64);
        let rated = wishes.drive_writes_per_day * wishes.drive_years;
        Self {
            architecture: outcome.name.clone(),
            reads_per_hit: reads as f64 / outcome.hits.max(1) as f64,
            writes_per_insert: writes as f64 / inserts,
            amplification,
            bytes_per_day,
            drive_writes_per_day,
            years: drive_writes_per_day.filter(|writes| *writes > 0.0).map(|writes| rated / writes),
        }
    }
}

/// Returns the bytes for 99% of the hits, with room for blocks, folders and the index.
fn wanted(curve: &Curve, most: f64) -> u64 {
    let bytes = curve.size_for(most * 0.99).or(curve.points.last().map(|point| point.size)).unwrap_or(0);
    (bytes + bytes / 4).max(LEAST_DISK)
}

/// Returns the first requests for objects of at most `largest` bytes, to drive the modelled
/// machine. Its disks have room for them, and seconds of computing are enough to move them. Objects
/// that the store would not take are left out of its writes.
fn beginning(trace: &Trace, largest: u64) -> Trace {
    let mut first = Trace::default();
    let (mut left, mut to_move) = (MODELLED_BYTES, MOVED_BYTES);
    let stored = trace.requests().iter().filter(|request| request.bytes <= largest);
    for request in stored.take(MODELLED_REQUESTS) {
        let record =
            Record { url: trace.url(request).into(), time_ms: Some(request.time_ms), ..Record::default() };
        let (objects, bytes) = (first.objects().len(), request.bytes.min(MODELLED_MAX));
        let Some(less) = to_move.checked_sub(bytes) else { break };
        to_move = less;
        first.push_sized(&record, bytes);
        if first.objects().len() > objects {
            let Some(less) = left.checked_sub(bytes) else { break };
            left = less;
        }
    }
    first
}

/// Returns the bytes of the stored objects, each at its first size.
/// Least disk that a plan proposes.
const LEAST_DISK: u64 = 64 << 20;
/// Requests on the modelled machine: enough for the counts to settle, in seconds of computing.
const MODELLED_REQUESTS: usize = 20_000;
/// Bytes of distinct objects on the modelled machine: its smallest disk, for a volume, has 2 GB.
const MODELLED_BYTES: u64 = 1 << 30;
/// Bytes of objects that the modelled machine moves, written or read: each architecture moves them
/// in pieces of 64 KiB.
const MOVED_BYTES: u64 = 8 << 30;
/// Largest object on the modelled machine.
const MODELLED_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn modelled_machine_gets_only_requests_with_room() {
        let mut log = Trace::default();
        for at in 0u64..4000 {
            let object = if at % 3 == 0 { at / 2 } else { at };
            let (url, bytes) = match object % 50 {
                49 => (format!("http://a/image{object}"), 8 << 30),
                _ => (format!("http://a/{object}"), 1_500_000),
            };
            log.push_sized(&Record { url: url.into(), ..Record::default() }, bytes);
        }
        let first = beginning(&log, 4_000_000_000);
        assert!((700..1500).contains(&first.requests().len()), "{}", first.requests().len());
        assert!(first.requests().iter().all(|request| request.bytes == 1_500_000), "images are not stored");
        let mut repeats = Trace::default();
        for _ in 0..10_000 {
            repeats.push_sized(&Record { url: "http://a/".into(), ..Record::default() }, 100_000_000);
        }
        assert_eq!(beginning(&repeats, 4_000_000_000).requests().len(), 85, "nor is it asked for ever");
        let workload = Workload::new(&first, 0);
        let outcomes = modelled(&first, &workload, &[tier::VOLUME], &mut Silent).expect("it has room");
        assert!(outcomes[0].files.bytes_written > 1_000_000_000, "{:?}", outcomes[0]);
    }
}
