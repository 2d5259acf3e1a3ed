//! Chapter 4 of Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks* (dissertation,
//! University of Washington, 2000), repeated: cooperative prefetching and caching.
//!
//! Figures 4.3 to 4.9 from the simulated prototype ([`shoal_lab::prefetching`]) beside the printed
//! findings, and the chapter's open questions:
//!
//! | file | sections |
//! |---|---|
//! | `bench` | the testbed that all of them share |
//! | `speedups` | Figure 4.3 |
//! | `render` | Figures 4.4 to 4.7 |
//! | `memory` | Figure 4.8, and explanations of the prototype's differences |
//! | `competing` | Figure 4.9 |
//! | `hints` | hints that are partial or wrong |
//! | `ideal` | the approximated replacement beside GLFD |
//! | `balance` | load balancing combined with prefetching |
//! | `copies` | files that not all disks have |

mod balance;
mod bench;
mod competing;
mod copies;
mod hints;
mod ideal;
mod memory;
mod render;
mod speedups;

#[cfg(test)]
mod tests;

use super::drawing::{dotted, plot};
use super::{Experiment, Inputs, LabError, Progress, seeds};
use bench::Bench;
use shoal_lab::figure::{Axis, Unit};
use shoal_lab::prefetching;
use shoal_lab::report::{Claim, Finding, Report, Section};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "voelker-ch4",
    question: "what is prefetching worth when idle nodes' disks and memory prefetch for busy ones?",
    needs: "nothing; its programs are made",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let bench = Bench { scale: if inputs.is_small { SMALL } else { 1 }, seed: inputs.seed };
    let seeds = if inputs.is_small { 3 } else { 5 };
    let sections = seeds::over(inputs.seed, seeds, progress, |seed, progress| {
        sections(&Bench { scale: bench.scale, seed }, progress)
    })?;
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Cooperative prefetching and caching: Voelker 2000, chapter 4, asked again".into(),
        question: QUESTION.into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(&bench),
        columns: vec!["ours".into()],
        sections,
        ..Report::default()
    })
}

/// Returns the sections of one seed.
fn sections(bench: &Bench, progress: &mut dyn Progress) -> Result<Vec<Section>, LabError> {
    let mut sections = vec![speedups::section(bench, progress)?];
    sections.extend(render::sections(bench, progress)?);
    sections.extend(memory::sections(bench, progress)?);
    sections.push(competing::section(bench, progress)?);
    sections.push(hints::section(bench, progress)?);
    sections.push(ideal::section(bench, progress)?);
    sections.push(balance::section(bench, progress)?);
    sections.push(copies::section(bench, progress)?);
    Ok(sections)
}

const QUESTION: &str = "Programs that tell what they will read let idle nodes read it for them, from their disks into their memory, and get it over the network when they \
                        need it. How much faster are they, which kind of prefetching is it that helps, and what becomes of others who use the same memory?";

fn facts(bench: &Bench) -> Vec<(String, String)> {
    let costs = prefetching::PrefetchCosts::TESTBED;
    let milliseconds = |seconds: f64| Unit::Milliseconds.shown(seconds * 1e3);
    let global = costs.times().map_or(0.0, |times| times.global_seconds());
    let mut facts = vec![
        ("trace".into(), "none: the programs are made".into()),
        ("frames of each node".into(), Unit::Count.shown(bench.frames() as f64)),
        ("a random page from disk".into(), milliseconds(costs.disk.random_seconds)),
        ("the next page from disk".into(), milliseconds(costs.disk.sequential_seconds)),
        ("a page from global memory".into(), milliseconds(global)),
    ];
    if bench.scale > 1 {
        facts.push((
            "scale".into(),
            format!("memory, files and epochs are 1/{} of the testbed's", bench.scale),
        ));
    }
    facts
}

fn finding(key: &str, what: &str, unit: Unit, claim: Claim, found: f64) -> Finding {
    Finding::new(key, what, unit, claim).found(&[Some(found)])
}

fn nodes_axis(most: usize) -> Axis {
    Axis::linear("nodes, one of them running the program", Unit::Count).over(1.0, most as f64)
}

fn speedup_axis() -> Axis {
    Axis::linear("speedup over one node without hints", Unit::Ratio)
}

/// Returns `1 node`, `2 nodes`.
fn nodes(count: usize) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

/// Returns `1.234` as `1.23`.
fn ratio(value: f64) -> String {
    Unit::Ratio.shown(value)
}

/// Divisor of the testbed for small runs.
const SMALL: u32 = 16;
/// Largest number of nodes of the testbed.
const MOST_NODES: usize = 5;
