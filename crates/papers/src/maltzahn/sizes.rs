//! Figure 1: the dynamic size distribution.

use super::paper;
use shoal_lab::figure::{Axis, Chart, Figure, Mark, Plot, Series, Shape, Unit};
use shoal_lab::report::{Claim, Finding, Section};
use shoal_lab::workload::{Workload, share};

/// Returns the sizes of requested objects: "a cumulative distribution weighted by the number of
/// objects", 2.2.
pub fn section(workload: &Workload) -> Section {
    let references = sorted(workload.requests.iter().map(|request| request.bytes));
    let objects = sorted(workload.sizes().into_iter());
    let plot = Plot {
        x: Axis::log2("size", Unit::Bytes),
        y: Axis::share("share no larger"),
        series: vec![curve("references", &references), curve("objects, each once", &objects)],
        marks: vec![Mark::Point { at: (8192.0, paper::SMALL), label: "paper: 74% ≤ 8 KB".into() }],
    };
    let small = small_references(workload);
    Section {
        anchor: "figure-1".into(),
        title: "Figure 1: how large objects are".into(),
        question: "How many references go to objects that fit into one memory page of 8 KB?".into(),
        figures: vec![Figure::new(
            "figure-1",
            "Dynamic size distribution: share of references to responses no larger than a size",
            &format!("{} of references are to at most 8 KB.", Unit::Share.shown(small)),
            Chart::Plot(plot),
        )],
        findings: vec![
            Finding::new(
                "small_references",
                "references of at most 8 KB",
                Unit::Share,
                Claim::Is(paper::SMALL),
            )
            .found(&[Some(small)]),
            Finding::new(
                "small_references_least",
                "the same, as 2.4.2 rounds it",
                Unit::Share,
                Claim::AtLeast(0.7),
            )
            .found(&[Some(small)]),
        ],
        ..Section::default()
    }
}

/// Returns the share of references to objects that fit into a page.
pub fn small_references(workload: &Workload) -> f64 {
    let small = workload.requests.iter().filter(|request| request.bytes <= paper::PAGE_BYTES).count();
    share(small as u64, workload.requests.len() as u64)
}

fn sorted(sizes: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sizes: Vec<u64> = sizes.collect();
    sizes.sort_unstable();
    sizes
}

fn no_larger(sorted: &[u64], bytes: u64) -> f64 {
    share(sorted.partition_point(|size| *size <= bytes) as u64, sorted.len() as u64)
}

/// Returns the distribution at every eighth of a doubling, from 64 bytes to the largest.
fn curve(name: &str, sorted: &[u64]) -> Series {
    let largest = sorted.last().copied().unwrap_or(0).max(64);
    let steps = ((largest as f64 / 64.0).log2() * 8.0).ceil() as u32;
    let at = |step: u32| 64.0 * (f64::from(step) / 8.0).exp2();
    let points = (0..=steps).map(|step| (at(step), no_larger(sorted, at(step) as u64))).collect();
    Series { name: name.into(), shape: Shape::Curve, points }
}
