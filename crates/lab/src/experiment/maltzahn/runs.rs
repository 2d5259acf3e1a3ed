//! The runs on the modelled machine, each by its name.

use super::architectures::ARCHITECTURES;
use super::drive::{Load, Manner};
use super::foreseen;
use super::httpd::{self, Lock};
use super::outcome::Outcome;
use super::packing::Placement;
use super::paper;
use super::replacement::Swept;
use super::rig::{Rig, finite, infinite, scale};
use super::staleness::{Demand, Staleness};
use crate::experiment::workload::at_most;
use crate::experiment::{Error, Inputs, Progress, Workload};
use shoal_store::architectures::{SegmentPolicy, SegmentSettings};
use shoal_store::fs::ufs1999::{Machine, PageReplacement, SequenceLimits, Ufs1999};
use shoal_trace::Trace;

/// Inputs shared by the runs of one report.
pub struct Runs<'a> {
    trace: &'a Trace,
    workload: &'a Workload,
    sizes: Vec<u64>,
    small: Small,
    scale: f64,
    seed: u64,
}

/// Requests for objects of at most a page, for the finite caches.
pub struct Small {
    trace: Trace,
    workload: Workload,
    sizes: Vec<u64>,
}

/// An architecture with an infinite cache, and the run's differences.
#[derive(Clone, Default)]
pub struct Variant<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// The architecture.
    pub architecture: &'a str,
    /// Demand of each request, where objects change.
    pub demands: Option<&'a [Demand]>,
    /// Manner of the requests.
    pub manner: Manner,
    /// Change of the machine.
    pub change: Option<&'a dyn Fn(&mut Machine)>,
}

impl Small {
    /// Selects these requests of a trace. The trace's first `warm_up` requests warm the cache.
    pub fn of(trace: &Trace, warm_up: usize) -> Self {
        let (trace, warm_up) = at_most(trace, warm_up, paper::PAGE_BYTES);
        let workload = Workload::new(&trace, warm_up);
        Self { sizes: workload.sizes(), trace, workload }
    }

    /// Returns the requests.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns each object's size, in bytes.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }
}

impl<'a> Runs<'a> {
    /// Prepares runs over these inputs.
    pub fn new(inputs: &'a Inputs) -> Self {
        let workload = &inputs.workload;
        Self {
            trace: &inputs.trace,
            sizes: workload.sizes(),
            scale: scale(workload.requests.len()),
            small: Small::of(&inputs.trace, workload.warm_up),
            workload,
            seed: inputs.seed,
        }
    }

    /// Returns the size of the machine beside the paper's.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the memory-mapped file of the finite runs, in bytes.
    pub fn finite_file_bytes(&self) -> u64 {
        finite(self.scale).1
    }

    /// Runs every architecture of the paper, with infinite caches, and after them the files of CERN
    /// httpd itself.
    pub fn architectures(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let run = |name: &&'static str| {
            self.infinite(&Variant { name, architecture: name, ..Variant::default() }, progress)
        };
        let mut outcomes = ARCHITECTURES.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        outcomes.push(httpd::run(httpd::NAME, Lock::Renamed, self, &|_| (), progress)?);
        Ok(outcomes)
    }

    /// Runs some architectures with objects that change. Returns the outcomes and the number of
    /// each demand.
    pub fn stale(&self, progress: &mut dyn Progress) -> Result<(Vec<Outcome>, [u64; 3]), Error> {
        let demands = Staleness::default().demands(self.workload, self.seed);
        let run = |architecture: &str| {
            let name = format!("{architecture}, stale");
            let demands = Some(demands.as_slice());
            self.infinite(&Variant { name: &name, architecture, demands, ..Variant::default() }, progress)
        };
        let outcomes = ["squid", "squidl", "squidmla"].map(run).into_iter().collect::<Result<_, _>>()?;
        let measured = &demands[self.workload.warm_up..];
        let count = |sought: Demand| measured.iter().filter(|demand| **demand == sought).count() as u64;
        Ok((outcomes, [Demand::Get, Demand::Validate, Demand::Rewrite].map(count)))
    }

    /// Runs the paper's three strategies for a finite file, and those that know the pages in
    /// memory.
    pub fn strategies(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = vec![self.future("future", &self.small, progress)?];
        let FbcBounds { c_max, a_max } = FBC;
        for (name, policy) in [
            ("lru", SegmentPolicy::Lru),
            ("fbc", FBC.policy()),
            ("lru_resident", SegmentPolicy::LruResident),
            ("fbc_resident", SegmentPolicy::FbcResident { c_max, a_max }),
        ] {
            outcomes.push(self.finite(name, policy, finite(self.scale).0, &self.small, progress)?);
        }
        Ok(outcomes)
    }

    /// Runs LRU and FBC on machines with SEQ page replacement: as published, and with sequences
    /// from 4 pages on.
    pub fn sequences(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let published = SequenceLimits::default();
        let short = SequenceLimits { length_min: 4, head_spared: 2, recent_faults: 2, ..published };
        let mut outcomes = Vec::new();
        for (limits, pages) in [(published, "SEQ pages"), (short, "SEQ pages from 4")] {
            let mut machine = finite(self.scale).0;
            machine.memory.replacement = PageReplacement::Seq(limits);
            for (name, policy) in [("lru", SegmentPolicy::Lru), ("fbc", FBC.policy())] {
                let name = format!("{name}, {pages}");
                outcomes.push(self.finite(&name, policy, machine.clone(), &self.small, progress)?);
            }
        }
        Ok(outcomes)
    }

    /// Runs FBC at other bounds.
    pub fn sweep(&self, progress: &mut dyn Progress) -> Result<Vec<Swept>, Error> {
        let bounds = A_MAX.into_iter().flat_map(|a_max| C_MAX.map(|c_max| FbcBounds { c_max, a_max }));
        let runs = bounds.map(|bounds| {
            let FbcBounds { c_max, a_max } = bounds;
            let name = format!("C_max {c_max}, A_max {a_max}");
            let machine = finite(self.scale).0;
            let outcome = self.finite(&name, bounds.policy(), machine, &self.small, progress)?;
            Ok(Swept { c_max, a_max, outcome })
        });
        runs.collect()
    }

    /// Runs future-looking replacement in the finite file.
    pub fn future(&self, name: &str, small: &Small, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let (machine, file_bytes) = finite(self.scale);
        let door = Ufs1999::new(machine);
        foreseen::drive((name, &door), (&small.workload, &small.sizes), file_bytes, progress)
    }

    /// Runs a policy in the finite file, on a machine: "The LRU strategy combines SquidMLA with LRU
    /// replacement" (3.5).
    pub fn finite(
        &self,
        name: &str,
        policy: SegmentPolicy,
        machine: Machine,
        small: &Small,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        self.in_part((name, 1.0), policy, machine, small, progress)
    }

    /// Runs a policy in a part of the file.
    pub fn in_part(
        &self,
        (name, part): (&str, f64),
        policy: SegmentPolicy,
        machine: Machine,
        small: &Small,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        let bytes = (self.finite_file_bytes() as f64 * part) as u64;
        let segments = SegmentSettings { bytes: bytes.max(paper::PAGE_BYTES), policy };
        let objects_max = room_for(small.workload.objects);
        let rig = Rig { name, architecture: "squidmla", machine, objects_max, segments };
        let Small { trace, workload, sizes } = small;
        let manner = Manner::default();
        rig.open()?.drive(&Load { name, trace, workload, sizes, demands: None, manner }, progress)
    }

    /// Returns the machine of the infinite caches for a tree of URL folders, with the servers'
    /// folders at the third level. The paper's file system for cern, AdvFS, spanned the disks by
    /// itself; here servers are dealt out to them.
    pub fn machine_for_url_folders(&self) -> Machine {
        Machine { dealt_level: 3, ..infinite(self.scale, false) }
    }

    /// Returns the requests.
    pub fn workload(&self) -> &Workload {
        self.workload
    }

    /// Returns the URL and the size, in bytes, of an object.
    pub fn object(&self, object: u32) -> (&str, u64) {
        (self.trace.objects().name(object), self.sizes[object as usize])
    }

    /// Runs an architecture with an infinite cache.
    pub fn infinite(&self, variant: &Variant<'_>, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let Variant { name, architecture, demands, manner, change } = *variant;
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
            objects_max: ((OBJECTS_MAX * self.scale) as u64).max(room_for(self.workload.objects)),
            segments: SegmentSettings { bytes, policy: FBC.policy() },
        };
        let load =
            Load { name, trace: self.trace, workload: self.workload, sizes: &self.sizes, demands, manner };
        rig.open()?.drive(&load, progress)
    }
}

/// FBC's parameters.
#[derive(Clone, Copy)]
pub struct FbcBounds {
    c_max: u32,
    a_max: u32,
}

impl FbcBounds {
    /// Returns FBC with these bounds.
    pub fn policy(self) -> SegmentPolicy {
        SegmentPolicy::Fbc { c_max: self.c_max, a_max: self.a_max }
    }
}

/// Returns the index entries for `objects` objects, with room for those being replaced.
fn room_for(objects: usize) -> u64 {
    objects as u64 * 5 / 4 + 64
}

/// FBC with the paper's bounds (section 4).
pub const FBC: FbcBounds = FbcBounds { c_max: 3, a_max: 100 };
/// Bounds of the sweep. C_max 1 has the same effect as 2: after a lap that passes over every
/// object, the first object with one reference goes.
const C_MAX: [u32; 4] = [2, 3, 5, 9];
const A_MAX: [u32; 3] = [2, 10, 100];
/// Number of objects for which the store makes 4096 folders.
const OBJECTS_MAX: f64 = 1_048_576.0;
/// Spare bytes for traces of a few objects.
const SPARE_BYTES: u64 = 64 * paper::PAGE_BYTES;
