//! The runs on the modelled machine, each by its name.

use super::architectures::ARCHITECTURES;
use super::drive::{Cache, Load};
use super::future::PlacementTable;
use super::mapped::{MappedFile, Packing, SlotPolicy};
use super::outcome::Outcome;
use super::packing::{Packer, Placement};
use super::paper;
use super::replacement::Swept;
use super::rig::{Rig, finite, infinite, scale};
use super::staleness::{Demand, Staleness};
use crate::experiment::workload::at_most;
use crate::experiment::{Error, Inputs, Progress, Workload};
use shoal_store::arch;
use shoal_store::door::FileSystem;
use shoal_store::door::ufs1999::{Machine, PageReplacement, SequenceLimits, Ufs1999};
use shoal_trace::Trace;

/// What the runs of one report share.
pub struct Runs<'a> {
    trace: &'a Trace,
    workload: &'a Workload,
    sizes: Vec<u64>,
    small: Trace,
    small_workload: Workload,
    small_sizes: Vec<u64>,
    scale: f64,
    seed: u64,
}

impl<'a> Runs<'a> {
    /// Runs over these inputs.
    pub fn new(inputs: &'a Inputs) -> Self {
        let workload = &inputs.workload;
        let (small, small_warm_up) = at_most(&inputs.trace, workload.warm_up, paper::PAGE_BYTES);
        let small_workload = Workload::new(&small, small_warm_up);
        Self {
            trace: &inputs.trace,
            sizes: workload.sizes(),
            scale: scale(workload.requests.len()),
            small_sizes: small_workload.sizes(),
            workload,
            small,
            small_workload,
            seed: inputs.seed,
        }
    }

    /// How large the machine is beside the paper's.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The memory-mapped file of the finite runs, in bytes.
    pub fn finite_file_bytes(&self) -> u64 {
        finite(self.scale).1
    }

    /// Every architecture of the paper that the store has, with infinite caches.
    pub fn architectures(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let built = |name: &&&str| arch::ARCHITECTURES.iter().any(|row| row.name == files_of(name).0);
        ARCHITECTURES.iter().filter(built).map(|name| self.architecture(name, name, None, progress)).collect()
    }

    /// Some architectures with objects that change, beside what the changes come to.
    pub fn stale(&self, progress: &mut dyn Progress) -> Result<(Vec<Outcome>, [u64; 3]), Error> {
        let demands = Staleness::default().demands(self.workload, self.seed);
        let runs = ["squid", "squidl", "squidmla"].into_iter();
        let runs =
            runs.map(|name| self.architecture(&format!("{name}, stale"), name, Some(&demands), progress));
        let outcomes = runs.collect::<Result<Vec<Outcome>, Error>>()?;
        let measured = &demands[self.workload.warm_up..];
        let count = |sought: Demand| measured.iter().filter(|demand| **demand == sought).count() as u64;
        Ok((outcomes, [Demand::Get, Demand::Validate, Demand::Rewrite].map(count)))
    }

    /// The paper's three strategies for a finite file, and those that ask which pages are in memory.
    pub fn strategies(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let (machine, file_bytes) = finite(self.scale);
        let load = (&self.small_workload, self.small_sizes.as_slice());
        let table = PlacementTable::new(load.0, load.1, file_bytes);
        let door = Ufs1999::new(machine.clone());
        let mut outcomes = vec![table.drive(("future", &door), load, file_bytes, progress)?];
        for (name, policy) in [
            ("lru", SlotPolicy::Lru),
            ("fbc", FBC),
            ("lru_resident", SlotPolicy::LruResident),
            ("fbc_resident", SlotPolicy::FbcResident { c_max: 3, a_max: 100 }),
        ] {
            outcomes.push(self.strategy(name, policy, machine.clone(), progress)?);
        }
        Ok(outcomes)
    }

    /// LRU and FBC on machines whose page replacement is SEQ: as published, and with sequences that count from few pages on.
    pub fn sequences(&self, progress: &mut dyn Progress) -> Result<Vec<Outcome>, Error> {
        let published = SequenceLimits::default();
        let short = SequenceLimits { length_min: 4, head_spared: 2, recent_faults: 2, ..published };
        let mut outcomes = Vec::new();
        for (limits, pages) in [(published, "SEQ pages"), (short, "SEQ pages from 4")] {
            let mut machine = finite(self.scale).0;
            machine.memory.replacement = PageReplacement::Seq(limits);
            for (name, policy) in [("lru", SlotPolicy::Lru), ("fbc", FBC)] {
                outcomes.push(self.strategy(
                    &format!("{name}, {pages}"),
                    policy,
                    machine.clone(),
                    progress,
                )?);
            }
        }
        Ok(outcomes)
    }

    /// FBC at other bounds.
    pub fn sweep(&self, progress: &mut dyn Progress) -> Result<Vec<Swept>, Error> {
        let bounds = A_MAX.into_iter().flat_map(|a_max| C_MAX.map(|c_max| (c_max, a_max)));
        let runs = bounds.map(|(c_max, a_max)| {
            let name = format!("C_max {c_max}, A_max {a_max}");
            let policy = SlotPolicy::Fbc { c_max, a_max };
            let outcome = self.strategy(&name, policy, finite(self.scale).0, progress)?;
            Ok(Swept { c_max, a_max, outcome })
        });
        runs.collect()
    }

    fn strategy(
        &self,
        name: &str,
        policy: SlotPolicy,
        machine: Machine,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        let door = Ufs1999::new(machine);
        let bytes = self.finite_file_bytes();
        let packing = Packing::Aligned(Packer::default());
        let small = mapped_file(name, &door, bytes, packing, policy, self.small_workload.objects)?;
        let load = Load {
            name,
            trace: &self.small,
            workload: &self.small_workload,
            sizes: &self.small_sizes,
            demands: None,
        };
        Cache { door, files: None, small: Some(small) }.drive(&load, progress)
    }

    fn architecture(
        &self,
        name: &str,
        architecture: &str,
        demands: Option<&[Demand]>,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        let (files, is_aligned) = files_of(architecture);
        let rig = Rig {
            name,
            architecture: files,
            machine: infinite(self.scale, is_aligned.is_some()),
            // as many folders for the objects as the paper's 4096 were for its
            objects_max: ((OBJECTS_MAX * self.scale) as u64).max(self.workload.objects as u64 * 5 / 4 + 64),
        };
        let (door, store) = rig.open()?;
        let small = match is_aligned {
            None => None,
            Some(is_aligned) => {
                let placement = if is_aligned {
                    Placement::aligned(self.workload)
                } else {
                    Placement::contiguous(self.workload)
                };
                let packing =
                    if is_aligned { Packing::Aligned(Packer::default()) } else { Packing::Contiguous(0) };
                let bytes = placement.file_bytes().max(paper::PAGE_BYTES);
                Some(mapped_file(name, &door, bytes, packing, SlotPolicy::Lru, self.workload.objects)?)
            }
        };
        let load = Load { name, trace: self.trace, workload: self.workload, sizes: &self.sizes, demands };
        Cache { door, files: Some(store), small }.drive(&load, progress)
    }
}

fn mapped_file(
    name: &str,
    door: &Ufs1999,
    bytes: u64,
    packing: Packing,
    policy: SlotPolicy,
    objects: usize,
) -> Result<MappedFile, Error> {
    let mapping = door.map("small-objects", bytes);
    let mapping = mapping.map_err(|error| Error::Store { run: name.into(), reason: error.to_string() })?;
    Ok(MappedFile::new(mapping, bytes, packing, policy, objects))
}

/// Which of the store's architectures keeps an architecture's files, and whether its mapped file, if it has one, is aligned to pages.
fn files_of(architecture: &str) -> (&str, Option<bool>) {
    match architecture {
        "squidm" => ("squid", Some(false)),
        "squidml" => ("squidl", Some(false)),
        "squidmla" => ("squidl", Some(true)),
        other => (other, None),
    }
}

/// FBC with the paper's bounds (section 4).
const FBC: SlotPolicy = SlotPolicy::Fbc { c_max: 3, a_max: 100 };
/// The bounds of the sweep.
const C_MAX: [u32; 5] = [1, 2, 3, 5, 9];
const A_MAX: [u32; 3] = [2, 10, 100];
/// Objects for which the store makes 4096 folders.
const OBJECTS_MAX: f64 = 1_048_576.0;
