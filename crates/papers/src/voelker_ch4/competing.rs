//! Figure 4.9: two programs at once, on one node or on two.

use super::{Axis, Bench, LabError, Unit, finding};
use crate::Progress;
use shoal_lab::figure::{Bar, Bars, Chart, Figure};
use shoal_lab::prefetching::{PrefetchSetup, Program, simulate};
use shoal_lab::report::{Claim, Finding, Section};

/// Elapsed times in one configuration, in seconds.
struct Together {
    /// Times of two programs without hints.
    plain: [f64; 2],
    /// Times of one program with hints and one without.
    mixed: [f64; 2],
}

/// Elapsed times of one program on one of two nodes, in seconds.
struct Alone {
    plain: f64,
    hinted: f64,
    /// Time without hints, with half the idle memory.
    plain_with_half: f64,
}

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("competing programs", 4);
    let hinted = bench.render();
    let seconds = |program: &Program, setting: &PrefetchSetup| {
        Ok::<f64, LabError>(bench.run(program, setting)?.elapsed_seconds)
    };
    let mut half = bench.setting(1);
    half.frames[1] /= 2;
    let alone = Alone {
        plain: seconds(&hinted.unhinted(), &bench.setting(1))?,
        hinted: seconds(&hinted, &bench.setting(1))?,
        plain_with_half: seconds(&hinted.unhinted(), &half)?,
    };
    progress.done(1);
    let same = together(&hinted, &PrefetchSetup { homes: vec![0, 0], ..bench.setting(1) })?;
    progress.done(1);
    let apart = together(&hinted, &PrefetchSetup { homes: vec![0, 1], ..bench.setting(2) })?;
    progress.done(1);
    // Pages used again within 24 MB stay in the 32 MB of one program, but not in half of that.
    let revisiting = hinted.unhinted().revisiting(bench.frames() * 3 / 4);
    let two = PrefetchSetup { homes: vec![0, 0], ..bench.setting(1) };
    let both = last(&both(&revisiting, &revisiting, &two)?);
    let working_set = both / (2.0 * seconds(&revisiting, &bench.setting(1))?);
    progress.done(1);
    Ok(Section {
        anchor: "figure-4-9".into(),
        title: "Two programs at once (Figure 4.9)".into(),
        question: "Does a program that prefetches harm one beside it that does not?".into(),
        figures: vec![
            figure("figure-4-9a", "Two Renders on one node, with one idle node", &same, &alone),
            figure("figure-4-9b", "Two Renders on a node each, with one idle node", &apart, &alone),
        ],
        findings: findings(&same, &apart, &alone, working_set),
        notes: NOTES.iter().map(|note| note.to_string()).collect(),
        ..Section::default()
    })
}

fn together(hinted: &Program, setting: &PrefetchSetup) -> Result<Together, LabError> {
    let plain = hinted.unhinted();
    Ok(Together { plain: both(&plain, &plain, setting)?, mixed: both(hinted, &plain, setting)? })
}

/// Returns the elapsed times of two programs, in seconds.
fn both(first: &Program, second: &Program, setting: &PrefetchSetup) -> Result<[f64; 2], LabError> {
    let found = simulate(&[first.clone(), second.clone()], setting)?;
    Ok([found.programs[0].elapsed_seconds, found.programs[1].elapsed_seconds])
}

/// Returns the end of the last of two programs.
fn last(of: &[f64; 2]) -> f64 {
    of[0].max(of[1])
}

fn findings(same: &Together, apart: &Together, alone: &Alone, working_set: f64) -> Vec<Finding> {
    let ratio =
        |key, what, claim: &str, found| finding(key, what, Unit::Ratio, Claim::Words(claim.into()), found);
    vec![
        ratio(
            "same_unhinted",
            "both without hints on one node, over one after the other",
            "more than 1",
            last(&same.plain) / (2.0 * alone.plain),
        ),
        ratio(
            "same_working_set",
            "the same, for programs that also use again what they used 24 MB ago",
            "more than 1",
            working_set,
        ),
        ratio(
            "same_hinted",
            "the one with hints beside one without, over alone",
            "essentially unaffected",
            same.mixed[0] / alone.hinted,
        ),
        ratio(
            "same_beside_hinted",
            "the one without hints: beside one with hints, over beside one without",
            "substantially less",
            same.mixed[1] / same.plain[1],
        ),
        ratio(
            "apart_half",
            "both without hints on two nodes, over one with half the idle memory",
            "within 1%",
            last(&apart.plain) / alone.plain_with_half,
        ),
        ratio(
            "apart_beside_hinted",
            "on two nodes, without hints: beside one with hints, over beside one without",
            "relatively quick",
            apart.mixed[1] / apart.plain[1],
        ),
    ]
}

/// Returns elapsed times, each beside that of the program alone.
fn figure(name: &str, title: &str, found: &Together, alone: &Alone) -> Figure {
    let bars = vec![
        Bar::new("no hints, beside no hints", &[found.plain[0]]).claimed(alone.plain),
        Bar::new("no hints, beside no hints", &[found.plain[1]]).claimed(alone.plain),
        Bar::new("hints, beside no hints", &[found.mixed[0]]).claimed(alone.hinted),
        Bar::new("no hints, beside hints", &[found.mixed[1]]).claimed(alone.plain),
    ];
    let bars = Bars {
        axis: Axis::linear("elapsed time", Unit::Seconds),
        parts: vec!["together".into()],
        bars,
        claimant: "alone".into(),
    };
    let alternative = "Two programs without hints take longest; a program with hints is done soon and leaves the rest to the other.";
    Figure::new(name, title, alternative, Chart::Bars(bars))
}

const NOTES: &[&str] = &[
    "On one node two programs without hints overlap here, one computing while the other waits for the disk, and together take less than one after the other; in the prototype they took more. Two \
     things are missing that would make it so: arms of disks that must go to and fro between two files (a page takes 13 ms wherever the last one was), and pages that Render uses again \
     and again within 32 MB (its stand-in has only what the dissertation tells of, the references that miss there), of which competition takes some away. \
     With such pages the two do take longer together.",
    "Beside one without, the program with hints is slowed by a third on one node: faults go before prefetches at the disk that both use. On two nodes it is not slowed at all. When it is done its \
     node is an idle one, and its 32 MB are enough that the other finds again what it evicted: it is quicker than alone.",
    "The programs' pages are their own. Without hints Render is not helped by one idle node, alone or beside another, so that half its memory is as good as all of it: the printed 1% is no hard test.",
];
