//! The runs on the modelled machine, each by its name.

use super::architectures::{ARCHITECTURES, CERN_AND_SQUID, logged_name};
use super::differences::System;
use super::finite_disks::{self, Room};
use super::foreseen;
use super::httpd::{self, Lock};
use super::outcome::RunResult;
use super::paper;
use super::replacement::FbcVariant;
use super::staleness::Staleness;
use crate::{Inputs, LabError, Progress, Workload};
use shoal_lab::machine_runs::RequestDemand;
use shoal_lab::machine_runs::{InfiniteRuns, Rig, Variant, finite, infinite, room_for, scale};
use shoal_lab::machine_runs::{Manner, StoreLoad};
use shoal_lab::simulator::{MappedCache, MappedPolicy, Request};
use shoal_lab::workload::at_most;
use shoal_machine1999::{Machine, PageReplacement, SequenceLimits, Ufs1999};
use shoal_store::architectures::{SegmentPolicy, SegmentSettings};
use shoal_trace::Trace;

/// Inputs shared by the runs of one report.
pub struct MachineRuns<'a> {
    trace: &'a Trace,
    workload: &'a Workload,
    infinite: InfiniteRuns<'a>,
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

impl Small {
    /// Selects these requests of a trace. The trace's first `warm_up` requests warm the cache.
    pub fn of(trace: &Trace, warm_up: usize) -> Self {
        let (trace, warm_up) = at_most(trace, warm_up, paper::PAGE_BYTES);
        let workload = Workload::new(&trace, warm_up);
        let sizes = workload.sizes();
        assert!(sizes.iter().all(|bytes| *bytes <= paper::PAGE_BYTES), "each object fits a page");
        assert!(workload.warm_up <= workload.requests.len(), "the warm-up is part of the trace");
        Self { sizes, trace, workload }
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

impl<'a> MachineRuns<'a> {
    /// Prepares runs over these inputs.
    pub fn new(inputs: &'a Inputs) -> Self {
        let workload = &inputs.workload;
        Self {
            trace: &inputs.trace,
            infinite: InfiniteRuns::new(&inputs.trace, workload),
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

    /// Runs every architecture of the paper and Kroonmaa's two, with infinite caches, and then the
    /// files of CERN httpd itself.
    pub fn architectures(&self, progress: &mut dyn Progress) -> Result<Vec<RunResult>, LabError> {
        let run = |name: &&'static str| {
            self.infinite(&Variant { name, architecture: name, ..Variant::default() }, progress)
        };
        let mut outcomes = ARCHITECTURES.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        outcomes.push(httpd::run(httpd::NAME, Lock::Renamed, self, &|_| (), progress)?);
        assert_eq!(outcomes.len(), ARCHITECTURES.len() + 1, "a run an architecture, and httpd's");
        Ok(outcomes)
    }

    /// Runs cern, the files of CERN httpd and squid on a machine with AdvFS's log and its 7% of
    /// memory for metadata.
    pub fn logged(&self, progress: &mut dyn Progress) -> Result<Vec<RunResult>, LabError> {
        let change = |machine: &mut Machine| System::ADVFS.make(machine);
        let run = |architecture: &str| {
            let name = logged_name(architecture);
            match architecture {
                httpd::NAME => httpd::run(&name, Lock::Renamed, self, &change, progress),
                _ => {
                    let change: Option<&dyn Fn(&mut Machine)> = Some(&change);
                    let variant = Variant { name: &name, architecture, change, ..Variant::default() };
                    self.infinite(&variant, progress)
                }
            }
        };
        CERN_AND_SQUID.map(run).into_iter().collect()
    }

    /// Runs some architectures with objects that change. Returns the outcomes and the number of
    /// each demand.
    pub fn stale(&self, progress: &mut dyn Progress) -> Result<(Vec<RunResult>, [u64; 3]), LabError> {
        let demands = Staleness::default().demands(self.workload, self.seed);
        assert_eq!(demands.len(), self.workload.requests.len(), "a demand for each request");
        let run = |architecture: &str| {
            let name = format!("{architecture}, stale");
            let demands = Some(demands.as_slice());
            self.infinite(&Variant { name: &name, architecture, demands, ..Variant::default() }, progress)
        };
        let outcomes = ["squid", "squidl", "squidmla"].map(run).into_iter().collect::<Result<_, _>>()?;
        let measured = &demands[self.workload.warm_up..];
        let count =
            |sought: RequestDemand| measured.iter().filter(|demand| **demand == sought).count() as u64;
        Ok((outcomes, [RequestDemand::Get, RequestDemand::Validate, RequestDemand::Rewrite].map(count)))
    }

    /// Runs squid and the three that keep objects together, with room for a part of the objects.
    pub fn finite_disks(&self, progress: &mut dyn Progress) -> Result<Vec<RunResult>, LabError> {
        let mut outcomes = Vec::new();
        for room in Room::ALL {
            let objects = (self.workload.objects as u64 * room.percent / 100).max(OBJECTS_MIN);
            let memory = self.scale * room.percent as f64 / 100.0;
            let smaller = |machine: &mut Machine| *machine = infinite(memory, false);
            let change: Option<&dyn Fn(&mut Machine)> =
                if room.is_memory_scaled { Some(&smaller) } else { None };
            for architecture in finite_disks::ARCHITECTURES {
                let name = room.run(architecture);
                let variant =
                    Variant { name: &name, architecture, room: Some(objects), change, ..Variant::default() };
                outcomes.push(self.infinite(&variant, progress)?);
            }
        }
        Ok(outcomes)
    }

    /// Runs the paper's three strategies for a finite file, FBC with one pointer, and those that
    /// know the pages in memory.
    pub fn strategies(&self, progress: &mut dyn Progress) -> Result<Vec<RunResult>, LabError> {
        let mut outcomes = vec![self.future("future", &self.small, progress)?];
        let FbcBounds { c_max, a_max } = FBC;
        for (name, policy) in [
            ("lru", SegmentPolicy::Lru),
            ("fbc", FBC.policy()),
            ("fbc_one_pointer", SegmentPolicy::FbcOnePointer { c_max, a_max }),
            ("lru_resident", SegmentPolicy::LruResident),
            ("fbc_resident", SegmentPolicy::FbcResident { c_max, a_max }),
        ] {
            outcomes.push(self.finite(name, policy, finite(self.scale).0, &self.small, progress)?);
        }
        Ok(outcomes)
    }

    /// Runs LRU and FBC on machines with SEQ page replacement: as published, and with sequences
    /// from 4 pages on.
    pub fn sequences(&self, progress: &mut dyn Progress) -> Result<Vec<RunResult>, LabError> {
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
    pub fn sweep(&self, progress: &mut dyn Progress) -> Result<Vec<FbcVariant>, LabError> {
        let bounds = A_MAX.into_iter().flat_map(|a_max| C_MAX.map(|c_max| FbcBounds { c_max, a_max }));
        let runs = bounds.map(|bounds| {
            let FbcBounds { c_max, a_max } = bounds;
            let name = format!("C_max {c_max}, A_max {a_max}");
            let machine = finite(self.scale).0;
            let outcome = self.finite(&name, bounds.policy(), machine, &self.small, progress)?;
            let (halvings, mean_count) = self.aging(bounds);
            Ok(FbcVariant { c_max, a_max, outcome, halvings, mean_count })
        });
        runs.collect()
    }

    /// Returns FBC's halvings over all requests, and the mean count at their end: the finite file
    /// without a disk.
    fn aging(&self, FbcBounds { c_max, a_max }: FbcBounds) -> (u64, f64) {
        let Small { workload, sizes, .. } = &self.small;
        let mut cache = MappedCache::new(MappedPolicy::Fbc { c_max, a_max }, self.finite_file_bytes());
        let of = |object: u32| Request { object: object.into(), bytes: sizes[object as usize] };
        cache.run(workload.requests.iter().map(|request| of(request.object)));
        cache.aging().expect("FBC counts references")
    }

    /// Runs future-looking replacement in the finite file.
    pub fn future(
        &self,
        name: &str,
        small: &Small,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, LabError> {
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
    ) -> Result<RunResult, LabError> {
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
    ) -> Result<RunResult, LabError> {
        assert!(part > 0.0 && part <= 1.0, "{part} is no part of the file");
        let bytes = (self.finite_file_bytes() as f64 * part) as u64;
        let bytes = bytes.max(paper::PAGE_BYTES);
        let segments = SegmentSettings { bytes, policy, ..SegmentSettings::default() };
        let objects_max = room_for(small.workload.objects);
        let rig = Rig { name, architecture: "squidmla", machine, objects_max, segments };
        let Small { trace, workload, sizes } = small;
        let manner = Manner::default();
        rig.open()?.drive(&StoreLoad { name, trace, workload, sizes, demands: None, manner }, progress)
    }

    /// Returns the machine of the infinite caches for a tree of URL folders.
    pub fn machine_for_url_folders(&self) -> Machine {
        self.infinite.machine_for_url_folders()
    }

    /// Returns the requests.
    pub fn workload(&self) -> &Workload {
        self.workload
    }

    /// Returns the URL and the size, in bytes, of an object.
    pub fn object(&self, object: u32) -> (&str, u64) {
        (self.trace.objects().name(object), self.infinite.sizes()[object as usize])
    }

    /// Runs an architecture with an infinite cache.
    pub fn infinite(
        &self,
        variant: &Variant<'_>,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, LabError> {
        self.infinite.run(variant, progress)
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

/// FBC with the paper's bounds (section 4).
pub const FBC: FbcBounds = FbcBounds { c_max: 3, a_max: 100 };
/// Bounds of the sweep. C_max 1 has the same effect as 2: after a lap that passes over every
/// object, the first object with one reference goes.
const C_MAX: [u32; 4] = [2, 3, 5, 9];
const A_MAX: [u32; 3] = [2, 10, 100];
/// Least room of a store, for traces of a few objects.
const OBJECTS_MIN: u64 = 16;
