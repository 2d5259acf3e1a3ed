//! Runs of the store's architectures with infinite caches, or with room for some objects.

use super::drive::{Manner, RequestDemand, StoreLoad};
use super::outcome::RunResult;
use super::paper;
use super::placement::Placement;
use super::rig::{Rig, infinite, room_for, scale};
use crate::error::LabError;
use crate::progress::Progress;
use crate::workload::Workload;
use shoal_machine1999::Machine;
use shoal_store::architectures::{SegmentPolicy, SegmentSettings};
use shoal_trace::Trace;

/// Inputs of runs with infinite caches.
pub struct InfiniteRuns<'a> {
    trace: &'a Trace,
    workload: &'a Workload,
    sizes: Vec<u64>,
    scale: f64,
}

/// An architecture with an infinite cache, and the run's differences.
#[derive(Clone, Default)]
pub struct Variant<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// The architecture.
    pub architecture: &'a str,
    /// Demand of each request, where objects change.
    pub demands: Option<&'a [RequestDemand]>,
    /// Objects that the store has room for; `None` means all.
    pub room: Option<u64>,
    /// Manner of the requests.
    pub manner: Manner,
    /// Change of the machine.
    pub change: Option<&'a dyn Fn(&mut Machine)>,
}

impl<'a> InfiniteRuns<'a> {
    /// Prepares runs of a trace and its workload.
    pub fn new(trace: &'a Trace, workload: &'a Workload) -> Self {
        Self { trace, workload, sizes: workload.sizes(), scale: scale(workload.requests.len()) }
    }

    /// Returns each object's size, in bytes.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the machine of the infinite caches for a tree of URL folders, with the servers'
    /// folders at the third level. The paper's file system for cern, AdvFS, spanned the disks by
    /// itself; here servers are dealt out to them.
    pub fn machine_for_url_folders(&self) -> Machine {
        Machine { dealt_level: 3, ..infinite(self.scale, false) }
    }

    /// Runs an architecture with an infinite cache.
    pub fn run(&self, variant: &Variant<'_>, progress: &mut dyn Progress) -> Result<RunResult, LabError> {
        let Variant { name, architecture, demands, room, manner, change } = *variant;
        let placement = match architecture {
            "squidm" | "squidml" => Some(Placement::contiguous(self.workload)),
            "squidmla" => Some(Placement::aligned(self.workload)),
            _ => None,
        };
        let mut machine = match architecture {
            "cern" => self.machine_for_url_folders(),
            _ => infinite(self.scale, placement.is_some()),
        };
        if let Some(change) = change {
            change(&mut machine);
        }
        // Room for records that need a larger segment because of their keys, and for changed
        // objects beside their old versions.
        let bytes = placement.map_or(0, |placement| placement.file_bytes() * 5 / 4 + SPARE_BYTES);
        let rig = Rig {
            name,
            architecture,
            machine,
            // The objects have the same number of folders as the paper's: 4096.
            objects_max: room
                .unwrap_or_else(|| ((OBJECTS_MAX * self.scale) as u64).max(room_for(self.workload.objects))),
            segments: SegmentSettings {
                bytes,
                policy: SegmentPolicy::Fbc { c_max: paper::FBC.0, a_max: paper::FBC.1 },
                ..SegmentSettings::default()
            },
        };
        let load = StoreLoad {
            name,
            trace: self.trace,
            workload: self.workload,
            sizes: &self.sizes,
            demands,
            manner,
        };
        rig.open()?.drive(&load, progress)
    }
}

/// Number of objects for which the store makes 4096 folders.
const OBJECTS_MAX: f64 = 1_048_576.0;
/// Spare bytes for traces of a few objects.
const SPARE_BYTES: u64 = 64 * paper::PAGE_BYTES;
