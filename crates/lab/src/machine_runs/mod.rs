//! Runs of the store's own code over a workload on the machine of Maltzahn's paper.
//!
//! The planner takes the cost of each architecture to a disk from them; the paper's experiment
//! takes more.

mod drive;
mod infinite;
mod outcome;
pub mod paper;
mod placement;
mod rig;
#[cfg(test)]
mod tests;

pub use drive::{MachineStore, Manner, READ_BYTES, RequestDemand, StoreLoad, ZEROS, measured};
pub use infinite::{InfiniteRuns, Variant};
pub use outcome::{RunResult, Transfers};
pub use placement::Placement;
pub use rig::{Rig, finite, infinite, outcome_of, room_for, scale};

use crate::error::LabError;
use crate::progress::Progress;
use crate::workload::Workload;
use shoal_trace::Trace;

/// Runs these architectures of the store over the workload of a trace, with infinite caches. Sizes
/// are those of bodies, and the store's records are added.
///
/// # Errors
/// When a store cannot be driven to the end.
pub fn modelled(
    trace: &Trace,
    workload: &Workload,
    architectures: &[&str],
    progress: &mut dyn Progress,
) -> Result<Vec<RunResult>, LabError> {
    let runs = InfiniteRuns::new(trace, workload);
    let manner = Manner { bodies: true, ..Manner::default() };
    let run =
        |name: &&str| runs.run(&Variant { name, architecture: name, manner, ..Variant::default() }, progress);
    architectures.iter().map(run).collect()
}
