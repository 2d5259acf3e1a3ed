//! Figure 4.3: the programs on one to five nodes, under GMS and PGMS.

use super::{Bench, LabError, MOST_NODES, dotted, finding, nodes_axis, plot, ratio, speedup_axis};
use crate::Progress;
use shoal_lab::figure::{Figure, Series, Unit};
use shoal_lab::prefetching::{PrefetchSetup, Program};
use shoal_lab::report::{Claim, Finding, Section, Table};

/// One program with its speedups by nodes, from one up.
struct SpeedupRow {
    name: String,
    pgms: Vec<f64>,
    gms: Vec<f64>,
}

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let (scale, seed) = (bench.scale, bench.seed);
    let synthetic = [Program::random(scale, seed), Program::reverse(scale), Program::hotcold(scale, seed)];
    let cyclic = synthetic.each_ref().map(Program::cyclic);
    progress.begin("speedups", 9);
    let mut once = vec![row(bench, &bench.render(), false, progress)?];
    for program in &synthetic {
        once.push(row(bench, program, false, progress)?);
    }
    once.push(row(bench, &synthetic[2], true, progress)?);
    let mut again = Vec::new();
    for program in &cyclic {
        again.push(row(bench, program, false, progress)?);
    }
    again.push(row(bench, &cyclic[2], true, progress)?);
    let mut table = Table::new(
        "Speedups",
        &["program", "PGMS, 1 node", "PGMS, 3 nodes", "PGMS, 5 nodes", "GMS, 3 nodes", "GMS, 5 nodes"],
    );
    for row in once.iter().chain(&again) {
        let at = [row.pgms[0], row.pgms[2], row.pgms[4], row.gms[2], row.gms[4]].map(ratio);
        let cells: Vec<&str> = std::iter::once(&row.name).chain(&at).map(String::as_str).collect();
        table.row(&cells);
    }
    Ok(Section {
        anchor: "figure-4-3".into(),
        title: "Speedups (Figure 4.3)".into(),
        question: "How much faster is a program when idle nodes keep what it evicted (GMS), and when they prefetch for it too (PGMS)?".into(),
        figures: vec![
            figure("figure-4-3a", "Programs that access their data once, PGMS", &once, |row| &row.pgms),
            figure("figure-4-3a-gms", "The same under GMS", &once, |row| &row.gms),
            figure("figure-4-3b", "Programs that access their data three times, PGMS", &again, |row| &row.pgms),
            figure("figure-4-3b-gms", "The same under GMS", &again, |row| &row.gms),
        ],
        findings: findings(&once, &again),
        tables: vec![table],
        notes: NOTES.iter().map(|note| note.to_string()).collect(),
        ..Section::default()
    })
}

/// Returns a program on all numbers of nodes, on disks with or without readahead.
fn row(
    bench: &Bench,
    program: &Program,
    is_scattered: bool,
    progress: &mut dyn Progress,
) -> Result<SpeedupRow, LabError> {
    let setting = |idle: usize| -> PrefetchSetup {
        if is_scattered { bench.scattered(idle) } else { bench.setting(idle) }
    };
    let base = bench.gms(program, &setting(0))?.elapsed_seconds;
    assert!(base > 0.0, "{} takes time on one node", program.name);
    let (mut pgms, mut gms) = (Vec::new(), Vec::new());
    for idle in 0..MOST_NODES {
        pgms.push(base / bench.run(program, &setting(idle))?.elapsed_seconds);
        gms.push(base / bench.gms(program, &setting(idle))?.elapsed_seconds);
    }
    progress.done(1);
    let name = if is_scattered { format!("{}, scattered", program.name) } else { program.name.clone() };
    Ok(SpeedupRow { name, pgms, gms })
}

fn figure(name: &str, title: &str, rows: &[SpeedupRow], of: fn(&SpeedupRow) -> &Vec<f64>) -> Figure {
    let series: Vec<Series> = rows
        .iter()
        .map(|row| {
            let points = of(row).iter().enumerate().map(|(idle, speedup)| (idle as f64 + 1.0, *speedup));
            dotted(row.name.clone(), points.collect())
        })
        .collect();
    let alternative = "Speedup by nodes, a curve for each program: under PGMS it grows with each node, under GMS it stays at one \
                       until what is used again fits.";
    plot(name, title, alternative, (nodes_axis(MOST_NODES), speedup_axis()), series, Vec::new())
}

fn findings(once: &[SpeedupRow], again: &[SpeedupRow]) -> Vec<Finding> {
    let claim = || Claim::Words("4 to 7".into());
    let mut findings: Vec<Finding> = once
        .iter()
        .chain(again)
        .map(|row| {
            let key = format!("five_{}", row.name.replace([',', ' '], "_").replace("__", "_"));
            finding(&key, &format!("speedup on 5 nodes, {}", row.name), Unit::Ratio, claim(), row.pgms[4])
        })
        .collect();
    if let Some(cyclic) = again.first() {
        let what = "speedup of GMS on 5 nodes, random, cyclic";
        let claim = Claim::Words("moderate".into());
        findings.push(finding("gms_cyclic", what, Unit::Ratio, claim, cyclic.gms[4]));
    }
    findings
}

const NOTES: &[&str] = &[
    "The figure has no numbers in print; the text has one sentence for all programs, 4 to 7 on five nodes. Programs that read each page once are bound by disks: five disks read five times as fast as \
     one, and no more than that can come out where every page takes 13 ms. Values above five need pages that are read once and used several times, or disks that serve prefetches faster than faults. \
     Cyclic programs go beyond seven here: their second and third rounds find everything in memory and are bound by the processor.",
    "On three nodes cyclic programs have 96 MB for 100 MB, and their speedup varies with the seed from 5 to 7: there Aggressive reads pages that it must give up again before they are used, as the \
     dissertation says of it (section 4.2.3), the more the further ahead the disks have got.",
    "Random and reverse are the same to a disk of which nothing is known but 13 ms for a random page. On a real one reading backwards costs a revolution and no seek.",
    "Hotcold reads groups of four pages that follow each other. A disk that reads ahead serves three of the four at 8.3 MB/s, and the one node without hints is quick: then handing out pages one by one to \
     other nodes' disks breaks the groups up, so that two nodes are slower than one with local prefetching. The dissertation says as much of sequential reading, that the prototype is no better at it than \
     the system without it. Where every page takes 13 ms (*scattered*) hotcold is like the others. Its printed place among 4 to 7 says that groups of four did not profit from readahead there.",
];
