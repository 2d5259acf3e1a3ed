//! Figure 4.8: memory against nodes; and variants that could explain the prototype's differences.

use super::{Bench, LabError, MOST_NODES, Unit, dotted, finding, nodes_axis, plot, ratio, speedup_axis};
use crate::Progress;
use shoal_lab::prefetching::{DiskTimes, HintCoverage, PrefetchSetup, Program};
use shoal_lab::report::{Claim, Section, Table};

pub(super) fn sections(bench: &Bench, progress: &mut dyn Progress) -> Result<Vec<Section>, LabError> {
    Ok(vec![size_section(bench, progress)?, variants_section(bench, progress)?])
}

fn size_section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("memory size", 1);
    let all = sizes(bench, HintCoverage::Complete)?;
    let short = sizes(bench, HintCoverage::Stepwise(bench.operation() / 4))?;
    progress.done(1);
    let points = |of: &[f64]| -> Vec<(f64, f64)> {
        of.iter().enumerate().skip(1).map(|(idle, speedup)| (idle as f64 + 1.0, *speedup)).collect()
    };
    let share = |key, what, printed, found| finding(key, what, Unit::Share, Claim::Is(printed), found);
    Ok(Section {
        anchor: "figure-4-8".into(),
        title: "More memory, or more nodes (Figure 4.8)".into(),
        question: "Does a further node help by its memory, or by its disk and processor?".into(),
        figures: vec![plot(
            "figure-4-8",
            "Speedup of Render where idle nodes have 128 MB together, and where each has 32 MB",
            "With all hints both sizes give the same curve; with short hints the one with 128 MB in all begins higher.",
            (nodes_axis(MOST_NODES), speedup_axis()),
            vec![
                dotted("all hints, 128 MB in all", points(&all.fixed)),
                dotted("all hints, 32 MB a node", points(&all.grown)),
                dotted("short hints, 128 MB in all", points(&short.fixed)),
                dotted("short hints, 32 MB a node", points(&short.grown)),
            ],
            Vec::new(),
        )],
        findings: vec![
            share("more_memory_1", "96 MB more on one idle node (a to c)", 0.48, all.more_memory(1)),
            share("more_memory_2", "64 MB more on two idle nodes (b to d)", 0.28, all.more_memory(2)),
            share("more_nodes", "one idle node more (a to b)", 0.23, all.more_nodes()),
            share("short_memory_1", "short hints: 96 MB more on one idle node", 0.48, short.more_memory(1)),
            share("short_memory_2", "short hints: 64 MB more on two idle nodes", 0.28, short.more_memory(2)),
            share("short_nodes", "short hints: one idle node more", 0.23, short.more_nodes()),
        ],
        notes: vec![
            "In print memory is worth more than the second idle node's disk; with all hints at once it is worth nothing here. Both follow from what 64 MB can hold of Render: in the prototype nothing that is \
             used again (Figure 4.7), with replacement that makes full use of hints nearly all of it. With short hints, told for a quarter of an operation at a time, replacement is by age \
             and memory counts."
                .into(),
            "The text of the dissertation gives point d 96 MB; its description of the experiment gives all idle nodes 128 MB together. Ours are 128 MB."
                .into(),
        ],
        ..Section::default()
    })
}

/// Speedups of Render by the idle nodes' memory.
struct MemorySpeedups {
    /// Idle nodes with 32 MB each, by their number.
    grown: Vec<f64>,
    /// Idle nodes with 128 MB together, by their number.
    fixed: Vec<f64>,
}

impl MemorySpeedups {
    fn more_memory(&self, idle: usize) -> f64 {
        self.fixed[idle] / self.grown[idle] - 1.0
    }

    fn more_nodes(&self) -> f64 {
        self.grown[2] / self.grown[1] - 1.0
    }
}

fn sizes(bench: &Bench, hinting: HintCoverage) -> Result<MemorySpeedups, LabError> {
    let program = bench.render().hinting(hinting);
    Ok(MemorySpeedups {
        grown: speedups(bench, &program, &|setting| setting)?,
        fixed: speedups(bench, &program, &|setting| fixed_total(bench, setting))?,
    })
}

/// Divides 128 MB among the idle nodes.
fn fixed_total(bench: &Bench, mut setting: PrefetchSetup) -> PrefetchSetup {
    let idle = setting.frames.len() - 1;
    setting.frames.iter_mut().skip(1).for_each(|frames| *frames = 4 * bench.frames() / idle);
    let shared: usize = setting.frames.iter().skip(1).sum();
    assert!(shared <= 4 * bench.frames(), "{idle} idle nodes share what one may have");
    setting
}

/// Returns the speedups of a program on one to five nodes, with each setting changed.
fn speedups(
    bench: &Bench,
    program: &Program,
    change: &dyn Fn(PrefetchSetup) -> PrefetchSetup,
) -> Result<Vec<f64>, LabError> {
    let base = bench.alone(program)?;
    let run = |idle| Ok(base / bench.run(program, &change(bench.setting(idle)))?.elapsed_seconds);
    assert!(base > 0.0, "a program alone takes time");
    (0..MOST_NODES).map(run).collect()
}

/// Change of a variant.
type Change = fn(PrefetchSetup) -> PrefetchSetup;

/// Variants of the testbed for Render. The number is that of parts of an operation's hints, 0 for
/// all hints at once; the function makes the other change.
const VARIANTS: [(&str, usize, Change); 9] = [
    ("all hints at once", 0, |setting| setting),
    ("hints operation by operation", 1, |setting| setting),
    ("the same, own disk for faults alone", 1, own_disk_for_faults),
    ("hints for a quarter of an operation", 4, |setting| setting),
    ("the same, disks at 9.9 ms", 4, quicker_disks),
    ("the same, own disk for faults alone", 4, |setting| own_disk_for_faults(quicker_disks(setting))),
    ("all hints, B = 1", 0, |setting| PrefetchSetup { outstanding: 1, ..setting }),
    ("all hints, B = 64", 0, |setting| PrefetchSetup { outstanding: 64, ..setting }),
    ("all hints, epochs twice as long", 0, |setting| PrefetchSetup {
        epoch_seconds: 2.0 * setting.epoch_seconds,
        ..setting
    }),
];

fn own_disk_for_faults(mut setting: PrefetchSetup) -> PrefetchSetup {
    setting.prefetching.disk_to_local &= setting.frames.len() == 1;
    setting
}

/// Speeds disks up as if an elevator served the prefetches.
fn quicker_disks(mut setting: PrefetchSetup) -> PrefetchSetup {
    setting.costs.disk = DiskTimes { random_seconds: 9.9e-3, ..setting.costs.disk };
    setting
}

fn variants_section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("variants", VARIANTS.len() as u64);
    let mut table = Table::new(
        "Speedup of Render on one to five nodes, and with 128 MB on one idle node over 32 MB",
        &["variant", "1", "2", "3", "4", "5", "2 → 3 nodes", "more memory"],
    );
    table.row(&["printed", "1.6", "", "", "", "4.9", "23%", "48%"]);
    for (name, parts, change) in VARIANTS {
        let hinting =
            bench.operation().checked_div(parts).map_or(HintCoverage::Complete, HintCoverage::Stepwise);
        let program = bench.render().hinting(hinting);
        let found = speedups(bench, &program, &change)?;
        let roomy = bench.run(&program, &fixed_total(bench, change(bench.setting(1))))?;
        let more_memory = bench.alone(&program)? / roomy.elapsed_seconds / found[1] - 1.0;
        assert_eq!(found.len(), MOST_NODES, "{name}: a speedup for each number of nodes");
        let mut row = vec![name.to_string()];
        row.extend(found.iter().map(|speedup| ratio(*speedup)));
        row.push(Unit::Share.shown(found[2] / found[1] - 1.0));
        row.push(Unit::Share.shown(more_memory));
        table.rows.push(row);
        progress.done(1);
    }
    Ok(Section {
        anchor: "variants".into(),
        title: "What the prototype may have done otherwise".into(),
        question:
            "Which of the things that the chapter leaves open bring the simulation nearer to its numbers?"
                .into(),
        tables: vec![table],
        notes: NOTES.iter().map(|note| note.to_string()).collect(),
        ..Section::default()
    })
}

const NOTES: &[&str] = &[
    "One node gives the first hint. Overlap alone makes Render 1.2 times as fast, since its disk is busy four times as long as its processor; 1.6 takes either fewer reads (hints that reach far enough \
     for replacement) or quicker ones (an elevator over several prefetches: 9.9 ms in place of 13 ms would do). Figure 4.5 has as many fetches with prefetching as without, which speaks for the second; \
     then capacity misses are those of LRU, as Figure 4.7 has them.",
    "Hints that do not reach from one operation into the next make memory count: what is kept is then kept by age, and 64 MB keep nothing of a round of 72 MB.",
    "B hardly matters, from 1 to 64: a request is outstanding only until the disk begins with it, so that B bounds the queue before a disk, and a disk needs no more than one waiting page to be busy. \
     Nor does the length of epochs.",
];
