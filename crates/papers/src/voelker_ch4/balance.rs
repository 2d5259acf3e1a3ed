//! Load balancing combined with prefetching, a question that chapters 3 and 4 both leave open.
//!
//! When a node joins, its empty frames are the least valuable of all. By ages alone every evicted
//! page and every prefetch goes to that node, one disk for all, until it is full. With weights
//! balanced at a rate b other nodes' disks go on reading, over pages of more value.

use super::{Axis, Bench, LabError, Unit, dotted, finding, plot, ratio};
use crate::Progress;
use shoal_lab::global_memory::contention::BalancingRate;
use shoal_lab::prefetching::{JoiningNode, PrefetchKinds, PrefetchResult, PrefetchSetup, Program, simulate};
use shoal_lab::report::{Claim, Section, Table};

/// Outcomes by rate for some number of busy nodes, with the tuner's.
struct BalanceRow {
    busy: usize,
    prefetching: bool,
    by_rate: Vec<f64>,
    tuned: f64,
    last_rate: f64,
}

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    progress.begin("load balancing with prefetching", 2 * BUSY.len() as u64);
    let mut rows = Vec::new();
    for prefetching in [true, false] {
        for busy in BUSY {
            rows.push(row(bench, busy, prefetching)?);
            progress.done(1);
        }
    }
    let mut table = Table::new(
        "Mean time of the programs, beside that of b = 0",
        &["busy nodes", "b = 0.25", "b = 0.5", "b = 0.75", "b = 1", "tuned", "last b"],
    );
    for row in &rows {
        let name = format!("{}{}", row.busy, if row.prefetching { ", prefetching" } else { ", GMS" });
        assert_eq!(row.by_rate.len(), RATES.len(), "a time for each rate");
        assert!((0.0..=1.0).contains(&row.last_rate), "the tuner's rate is a share");
        let beside = |seconds: f64| Unit::Share.shown(seconds / row.by_rate[0] - 1.0);
        let mut cells = vec![name];
        cells.extend(row.by_rate.iter().skip(1).map(|seconds| beside(*seconds)));
        cells.extend([beside(row.tuned), ratio(row.last_rate)]);
        table.rows.push(cells);
    }
    let series = rows.iter().map(|row| {
        let points = RATES.iter().zip(&row.by_rate).map(|(b, seconds)| (*b, seconds / row.by_rate[0] - 1.0));
        dotted(
            format!("{} {}", row.busy, if row.prefetching { "prefetching" } else { "GMS" }),
            points.collect(),
        )
    });
    let best = |prefetching: bool| {
        let of = rows.iter().filter(|row| row.prefetching == prefetching);
        of.map(|row| 1.0 - least(&row.by_rate) / row.by_rate[0]).fold(0.0, f64::max)
    };
    let asked = || Claim::Words("not asked".into());
    Ok(Section {
        anchor: "balance".into(),
        title: "Load balancing combined with prefetching".into(),
        question: "A node with two thirds of all idle memory joins while others prefetch. What is balancing worth then?".into(),
        figures: vec![plot(
            "balance",
            "Mean time of so many busy nodes' programs by load balancing rate, three idle nodes and one that joins",
            "With prefetching, balancing spares time, the more the more nodes are busy; without it little changes.",
            (
                Axis::linear("load balancing rate b", Unit::Ratio).over(0.0, 1.0),
                Axis::linear("time, beside b = 0", Unit::Share),
            ),
            series.collect(),
            Vec::new(),
        )],
        findings: vec![
            finding("balance_prefetching", "most time that a fixed b spares, prefetching", Unit::Share, asked(), best(true)),
            finding("balance_gms", "most time that a fixed b spares, GMS", Unit::Share, asked(), best(false)),
        ],
        tables: vec![table],
        notes: NOTES.iter().map(|note| note.to_string()).collect(),
        ..Section::default()
    })
}

fn row(bench: &Bench, busy: usize, prefetching: bool) -> Result<BalanceRow, LabError> {
    let at = |balancing| run(bench, busy, prefetching, balancing);
    let by_rate: Result<Vec<f64>, LabError> =
        RATES.iter().map(|b| Ok(mean(&at(BalancingRate::Fixed(*b))?))).collect();
    let tuned = at(BalancingRate::Tuned(0.5))?;
    Ok(BalanceRow {
        busy,
        prefetching,
        by_rate: by_rate?,
        tuned: mean(&tuned),
        last_rate: tuned.rates.last().copied().unwrap_or(0.0),
    })
}

/// Runs `busy` busy nodes with a smaller Render each, three idle nodes, and one with twice their
/// memory that joins.
fn run(
    bench: &Bench,
    busy: usize,
    prefetching: bool,
    balancing: BalancingRate,
) -> Result<PrefetchResult, LabError> {
    let scale = bench.scale * SMALLER;
    let programs: Vec<Program> = (0..busy as u64)
        .map(|which| {
            let program = Program::render(scale, bench.seed.wrapping_add(which));
            if prefetching { program } else { program.unhinted() }
        })
        .collect();
    let each = (4096 / scale as usize).max(shoal_lab::prefetching::LEAST_FRAMES);
    let idle = each * busy / 3;
    let mut frames = vec![each; busy];
    frames.extend([idle / 2, idle / 2, idle / 2, 3 * idle]);
    let joining = JoiningNode { node: busy + 3, after_seconds: JOINS_AFTER_SECONDS / f64::from(scale) };
    assert!(joining.node < frames.len(), "the node that joins has frames");
    let setting = PrefetchSetup {
        frames,
        homes: (0..busy).collect(),
        prefetching: if prefetching { PrefetchKinds::ALL } else { PrefetchKinds::NONE },
        epoch_seconds: EPOCH_SECONDS / f64::from(scale),
        balancing,
        joining: Some(joining),
        seed: bench.seed,
        ..bench.setting(0)
    };
    Ok(simulate(&programs, &setting)?)
}

fn mean(outcome: &PrefetchResult) -> f64 {
    outcome.programs.iter().map(|one| one.elapsed_seconds).sum::<f64>() / outcome.programs.len().max(1) as f64
}

fn least(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

const NOTES: &[&str] = &[
    "All nodes' programs are Renders of a quarter of its size with pages of their own. Three idle nodes have a third of the idle memory; after ten seconds the fourth comes with the rest, empty. Its frames \
     are then the least valuable of all, and with b = 0 it alone has weight: it takes all evicted pages, which costs little, and is asked for all prefetches, for which one disk is too slow. With weights \
     balanced the other disks go on reading, over pages that are worth more than empty frames.",
    "So with prefetching b close to one is right, as it is for chapter 3's reason when servers are waited for; there are two reasons now, and neither speaks for ages. It matters most where few busy \
     nodes have few disks of their own. Without prefetching b makes no difference here but for what chance moves: links are far from busy.",
    "The tuner gets the mean wait of a reference, epoch by epoch, and finds most of what is to be had where it matters.",
];

const BUSY: [usize; 3] = [2, 4, 8];
const RATES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// Factor by which the programs are smaller than Render.
const SMALLER: u32 = 4;
/// Time of the joining, on the whole testbed's scale, as all times here.
const JOINS_AFTER_SECONDS: f64 = 40.0;
const EPOCH_SECONDS: f64 = 5.0;
