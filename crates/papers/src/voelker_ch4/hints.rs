//! Hints that are partial, or wrong.

use super::{Axis, Bench, LabError, Unit, dotted, finding, plot, speedup_axis};
use crate::Progress;
use shoal_lab::prefetching::HintCoverage;
use shoal_lab::report::{Claim, Section};

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("partial and wrong hints", SHARES.len() as u64);
    let program = bench.render();
    let (base, setting) = (bench.alone(&program)?, bench.setting(IDLE));
    let speedup =
        |hinting| Ok::<f64, LabError>(base / bench.run(&program.hinting(hinting), &setting)?.elapsed_seconds);
    let (mut partial, mut wrong) = (Vec::new(), Vec::new());
    for share in SHARES {
        partial.push((share, speedup(HintCoverage::Part(1.0 - share))?));
        wrong.push((share, speedup(HintCoverage::Wrong(share))?));
        progress.done(1);
    }
    let gms = base / bench.gms(&program, &setting)?.elapsed_seconds;
    let at = |points: &[(f64, f64)], share: f64| {
        points.iter().find(|point| point.0 == share).map_or(0.0, |point| point.1)
    };
    let all = at(&partial, 0.0).max(f64::MIN_POSITIVE);
    let asked = || Claim::Words("not asked".into());
    Ok(Section {
        anchor: "hints".into(),
        title: "Hints that are missing or wrong".into(),
        question: "How much of the speedup is left when a program tells only a part of what it will read, or tells it wrongly?".into(),
        figures: vec![plot(
            "hints",
            "Speedup of Render on five nodes by the share of its hints that are not told, or are wrong",
            "Both curves fall, steeply at first: missing hints down to the speedup of GMS, wrong ones below it.",
            (Axis::share("share of the references"), speedup_axis()),
            vec![
                dotted("not told", partial.clone()),
                dotted("wrong", wrong.clone()),
                dotted("GMS", vec![(0.0, gms), (1.0, gms)]),
            ],
            Vec::new(),
        )],
        findings: vec![
            finding("partial_half", "speedup left with half of the hints", Unit::Share, asked(), at(&partial, 0.5) / all),
            finding("wrong_tenth", "speedup left with a tenth of them wrong", Unit::Share, asked(), at(&wrong, 0.1) / all),
            finding("wrong_all", "all wrong, over GMS", Unit::Ratio, asked(), at(&wrong, 1.0) / gms),
        ],
        notes: vec![
            "Hints are missing or wrong in runs of 32 references; wrong ones name pages that the program never asks for. Pages that hints do not name are kept by age, in proportion to how many references were not \
             foretold. When nearly all are wrong the program is slower than under GMS: its own disk and idle \
             memory are busy with pages that nobody asks for. The first missing hints cost most, since each page that was not prefetched stops the program for 13 ms while it has prefetched all \
             others in time."
                .into(),
        ],
        ..Section::default()
    })
}

const SHARES: [f64; 8] = [0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];
/// Number of idle nodes.
const IDLE: usize = 4;
