//! Partial replication: the worth of prefetching by others when few disks have a file.
//!
//! The prototype replicates prefetched files on all nodes. Section 4.3.2 says that files could be
//! striped instead. Its directory (FAD) names the nodes with a copy.

use super::{Bench, LabError, Unit, dotted, finding, plot, speedup_axis};
use crate::Progress;
use shoal_lab::figure::Axis;
use shoal_lab::prefetching::{PrefetchSetup, Program};
use shoal_lab::report::{Claim, Section};

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let programs = [bench.render(), Program::random(bench.scale, bench.seed)];
    progress.begin("copies of files", programs.len() as u64);
    let mut series = Vec::new();
    for program in &programs {
        let base = bench.alone(program)?;
        let mut points = Vec::new();
        for copies in 1..=NODES {
            let setting = PrefetchSetup { copies: Some(copies), ..bench.setting(NODES - 1) };
            points.push((copies as f64, base / bench.run(program, &setting)?.elapsed_seconds));
        }
        series.push((program.name.clone(), points));
        progress.done(1);
    }
    let left = |points: &[(f64, f64)]| points[1].1 / points[NODES - 1].1;
    let asked = || Claim::Words("not asked".into());
    let findings = series
        .iter()
        .map(|(name, points)| {
            let key = format!("stripes_{name}");
            let what = format!("speedup left with one other copy of each file, in turn on all disks: {name}");
            finding(&key, &what, Unit::Share, asked(), left(points))
        })
        .collect();
    Ok(Section {
        anchor: "copies".into(),
        title: "Partial replication and stripes (left open in section 4.3.2)".into(),
        question: "Must every disk have every file?".into(),
        findings,
        figures: vec![plot(
            "copies",
            "Speedup on five nodes by the number of disks with a copy of each file",
            "From one copy to two both curves rise most; more copies add little.",
            (
                Axis::linear("disks with a copy of a file, the program's own among them", Unit::Count)
                    .over(1.0, NODES as f64),
                speedup_axis(),
            ),
            series.into_iter().map(|(name, points)| dotted(name, points)).collect(),
            Vec::new(),
        )],
        notes: vec![
            "Files have 64 pages of 8 KB. The program's own disk has all; the other copies go to the other nodes in turn, so that two copies are a stripe over four disks. A page \
             that no giving node can read is passed over for the next one that another can."
                .into(),
        ],
        ..Section::default()
    })
}

/// Number of nodes.
const NODES: usize = 5;
