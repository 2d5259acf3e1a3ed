//! Future-looking replacement saves far more than a tenth. Suspected reason: objects with one
//! request are never written.

use super::{finding, ios_over, unclaimed};
use crate::maltzahn::runs::{FBC, MachineRuns, Small};
use crate::{Inputs, LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::RunResult;
use shoal_lab::machine_runs::finite;
use shoal_lab::report::{Claim, Section};
use shoal_lab::workload::part_of;
use shoal_store::architectures::SegmentPolicy;

/// Returns the three strategies over all requests for small objects, and over those for objects
/// with more than one request.
pub fn section(
    inputs: &Inputs,
    runs: &MachineRuns<'_>,
    progress: &mut dyn Progress,
) -> Result<Section, LabError> {
    let mut counts = vec![0u32; inputs.workload.objects];
    inputs.workload.requests.iter().for_each(|request| counts[request.object as usize] += 1);
    let (again, warm_up) =
        part_of(&inputs.trace, inputs.workload.warm_up, |object| counts[object as usize] > 1);
    let all = Small::of(&inputs.trace, inputs.workload.warm_up);
    let again = Small::of(&again, warm_up);
    let mut outcomes = Vec::new();
    for (small, told) in [(&all, "all"), (&again, "again")] {
        outcomes.push(runs.future(&format!("future, {told}"), small, progress)?);
        for (name, policy) in [("lru", SegmentPolicy::Lru), ("fbc", FBC.policy())] {
            let machine = finite(runs.scale()).0;
            outcomes.push(runs.finite(&format!("{name}, {told}"), policy, machine, small, progress)?);
        }
    }
    let mut section = super::section(
        "foresight",
        "What knowing the future saves",
        "The placement table leaves out what is asked for once; LRU and FBC write it. How much of the difference is left when nobody is asked \
         for such objects?",
        &outcomes,
    );
    let ratio = |of: &str, to: &str| ios_over(&outcomes, of, to);
    section.findings = vec![
        finding(
            "future_over_fbc_all",
            "future's I/Os over fbc's, all requests",
            Unit::Ratio,
            Claim::Words("\"additional 10%\", of what is not said".into()),
            ratio("future, all", "fbc, all"),
        ),
        unclaimed(
            "future_over_fbc_again",
            "the same, objects asked for again",
            Unit::Ratio,
            ratio("future, again", "fbc, again"),
        ),
        unclaimed(
            "future_over_lru_all",
            "future's I/Os over lru's, all requests",
            Unit::Ratio,
            ratio("future, all", "lru, all"),
        ),
        unclaimed(
            "future_over_lru_again",
            "the same, objects asked for again",
            Unit::Ratio,
            ratio("future, again", "lru, again"),
        ),
        unclaimed(
            "misses_over_fbc_all",
            "future's misses over fbc's, all requests",
            Unit::Ratio,
            misses(&outcomes, "all"),
        ),
        unclaimed(
            "misses_over_fbc_again",
            "the same, objects asked for again",
            Unit::Ratio,
            misses(&outcomes, "again"),
        ),
    ];
    section.notes.push("\"All\" are requests for objects of at most 8 KB, \"again\" those of them whose object is asked for more than once in the whole trace.".into());
    Ok(section)
}

fn misses(outcomes: &[RunResult], told: &str) -> Option<f64> {
    let misses = |name: &str| {
        let run = outcomes.iter().find(|outcome| outcome.name == format!("{name}, {told}"))?;
        Some((run.requests - run.hits) as f64)
    };
    Some(misses("future")? / misses("fbc")?.max(1.0))
}
