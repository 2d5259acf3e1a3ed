//! SEQ pages below FBC never pay. Two suspected reasons: five hands, one for each segment size,
//! break each other's sequences; or the pages behind a hand, which SEQ gives up first, hold the
//! newest objects.

use super::{ios_over, unclaimed};
use crate::maltzahn::runs::{FBC, MachineRuns, Small};
use crate::{Inputs, LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::RunResult;
use shoal_lab::machine_runs::finite;
use shoal_lab::report::Section;
use shoal_lab::workload::{part_of, share};
use shoal_machine1999::{PageReplacement, SequenceLimits};
use shoal_policy::{PAGE_BYTES, SegmentClass};

/// Returns FBC over objects of one size alone, that is with one hand, under LRU and SEQ pages.
pub fn section(
    inputs: &Inputs,
    runs: &MachineRuns<'_>,
    progress: &mut dyn Progress,
) -> Result<Section, LabError> {
    let sizes = inputs.workload.sizes();
    let largest = SegmentClass::ALL[SegmentClass::ALL.len() - 1];
    let one_size = |object: u32| SegmentClass::for_bytes(sizes[object as usize]) == Some(largest);
    let (trace, warm_up) = part_of(&inputs.trace, inputs.workload.warm_up, one_size);
    let small = Small::of(&trace, warm_up);
    let published = SequenceLimits::default();
    let mut outcomes: Vec<RunResult> = Vec::new();
    for (name, pages) in [
        ("LRU pages", PageReplacement::Lru),
        ("SEQ pages", PageReplacement::Seq(published)),
        (
            "SEQ pages from 4",
            PageReplacement::Seq(SequenceLimits {
                length_min: 4,
                head_spared: 2,
                recent_faults: 2,
                ..published
            }),
        ),
    ] {
        let mut machine = finite(runs.scale()).0;
        machine.memory.replacement = pages;
        // A third of the file is for the objects of one size, as the whole file is for all small
        // objects.
        let outcome = runs.in_part((name, ONE_SIZE_SHARE), FBC.policy(), machine, &small, progress)?;
        outcomes.push(outcome);
    }
    let mut section = super::section(
        "one-hand",
        "SEQ pages below one hand",
        "Objects of more than 4 KB alone: FBC has one hand, which goes over a third of the file, a page a step. Does SEQ gain then? And how many hits go \
         to what came in last, whose pages it gives up first?",
        &outcomes,
    );
    let ratio = |of: &str| ios_over(&outcomes, of, "LRU pages");
    section.findings = vec![
        unclaimed(
            "one_hand_seq",
            "fbc, SEQ pages: I/Os over those with LRU pages",
            Unit::Ratio,
            ratio("SEQ pages"),
        ),
        unclaimed(
            "one_hand_seq_short",
            "fbc, SEQ pages from 4: the same",
            Unit::Ratio,
            ratio("SEQ pages from 4"),
        ),
        unclaimed("recent_hits", RECENT, Unit::Share, Some(recent_hits(runs, inputs))),
    ];
    Ok(section)
}

/// Returns the share of measured hits on objects that came in lately, in an endless file of all
/// sizes. Lately means less than a memory full of segments ago.
fn recent_hits(runs: &MachineRuns<'_>, inputs: &Inputs) -> f64 {
    let small = Small::of(&inputs.trace, inputs.workload.warm_up);
    let (workload, sizes) = (small.workload(), small.sizes());
    let memory = finite(runs.scale()).0.memory.shared_pages() as u64 * PAGE_BYTES;
    let (mut came_in, mut written) = (vec![None; workload.objects], 0);
    let (mut hits, mut recent) = (0, 0);
    for (index, request) in workload.requests.iter().enumerate() {
        let object = request.object as usize;
        match came_in[object] {
            Some(at) if index >= workload.warm_up => {
                hits += 1;
                recent += u64::from(written - at <= memory);
            }
            Some(_) => {}
            None => {
                written += SegmentClass::for_bytes(sizes[object]).map_or(0, SegmentClass::bytes);
                came_in[object] = Some(written);
            }
        }
    }
    share(recent, hits)
}

const RECENT: &str = "all sizes: hits to objects that came in less than a memory full of segments ago";
/// Share of the finite file for the one size.
const ONE_SIZE_SHARE: f64 = 1.0 / 3.0;
