//! The store's architectures on the modelled machine.
//!
//! The code that runs is the store's own. Only the door below it is the model ([`Ufs1999`]), and
//! the index is in memory, as Squid's is. Machines are the paper's, smaller by the trace's factor.

use super::drive::MachineStore;
use super::outcome::{RunResult, Transfers};
use super::paper;
use crate::error::LabError;
use shoal_core::Timestamp;
use shoal_machine1999::{FINITE_MAPPED_BYTES, Machine, Report, TransferCount, Ufs1999};
use shoal_store::architectures::{ArchitectureOptions, SegmentSettings, StoreEnv, open_store};

/// A store on a machine.
pub struct Rig<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// The cache architecture.
    pub architecture: &'a str,
    /// The machine.
    pub machine: Machine,
    /// Capacity of the index in objects; it decides the number of folders.
    pub objects_max: u64,
    /// The mapped file for small objects, where the architecture has one.
    pub segments: SegmentSettings,
}

impl Rig<'_> {
    /// Opens an empty store of the architecture on a new machine.
    pub fn open(&self) -> Result<MachineStore, LabError> {
        let door = Ufs1999::new(self.machine.clone());
        let settings = ArchitectureOptions {
            disk_bytes: DISK_BYTES,
            max_objects: self.objects_max,
            segments: self.segments,
            now: Timestamp::from_seconds(900_000_000),
            ..ArchitectureOptions::default()
        };
        let parts = StoreEnv::in_memory(door.clone());
        let store = open_store(self.architecture, &settings, parts);
        let failed =
            |error: shoal_store::Error| LabError::Store { run: self.name.into(), reason: error.to_string() };
        Ok(MachineStore { door, store: store.map_err(failed)? })
    }
}

/// Returns the outcome from a report of the measured part.
pub fn outcome_of(name: &str, requests: u64, hits: u64, report: &Report) -> RunResult {
    let transfers = |is_mapped: bool| {
        let of = |is_write: bool| {
            report.sum(|traffic| traffic.is_mapped == is_mapped && traffic.is_write == is_write)
        };
        let (reads, writes): (TransferCount, TransferCount) = (of(false), of(true));
        Transfers {
            reads: reads.count,
            writes: writes.count,
            bytes_read: reads.bytes,
            bytes_written: writes.bytes,
        }
    };
    RunResult {
        name: name.into(),
        requests,
        hits,
        files: transfers(false),
        mapped: transfers(true),
        seconds: report.now.as_secs_f64(),
        calls: report.calls,
    }
}

/// Returns the size of the modelled machine beside the paper's: the trace's requests over the
/// paper's, at most 1. A shorter trace then presses on the machine's memory as the paper's traces
/// did.
pub fn scale(requests: usize) -> f64 {
    let paper = paper::REQUESTS.0 + paper::REQUESTS.1;
    (requests as f64 / paper as f64).min(1.0)
}

/// Returns the machine of the infinite caches, its memory and tables smaller by a factor.
pub fn infinite(scale: f64, is_mapped: bool) -> Machine {
    scaled(if is_mapped { Machine::infinite_mapped() } else { Machine::infinite() }, scale)
}

/// Returns the machine of the finite caches, smaller by a factor, and the length of its
/// memory-mapped file.
pub fn finite(scale: f64) -> (Machine, u64) {
    let file_bytes = (FINITE_MAPPED_BYTES as f64 * scale) as u64;
    (scaled(Machine::finite(), scale), file_bytes.next_multiple_of(paper::PAGE_BYTES))
}

fn scaled(mut machine: Machine, scale: f64) -> Machine {
    let bytes = |bytes: u64| ((bytes as f64 * scale) as u64).next_multiple_of(paper::PAGE_BYTES);
    let number = |number: usize| ((number as f64 * scale) as usize).max(LEAST_ENTRIES);
    let memory = &mut machine.memory;
    let shared = bytes(memory.ram - memory.other - memory.metadata);
    memory.other = bytes(memory.other);
    memory.metadata = bytes(memory.metadata).max(LEAST_METADATA);
    memory.names = number(memory.names);
    memory.inodes = number(memory.inodes);
    machine.with_shared_memory(shared.max(LEAST_METADATA))
}

/// Returns the index entries for `objects` objects, with room for those being replaced.
pub fn room_for(objects: usize) -> u64 {
    objects as u64 * 5 / 4 + 64
}

/// Limit of the store. The store accounts in larger units than the model's fragments. Its own limit
/// is therefore far away, and the disks' end is the limit.
const DISK_BYTES: u64 = 1 << 40;
/// Least entries of a machine's caches: a path must fit on a machine of any size.
const LEAST_ENTRIES: usize = 16;
const LEAST_METADATA: u64 = 256 << 10;
