//! The findings of Maltzahn, Richardson, Grunwald, *Reducing the Disk I/O of Web Proxy Server
//! Caches* (USENIX ATC 1999), repeated.
//!
//! One section a figure, each with the paper's numbers beside ours. Figures 1, 2, 3 and 6 are facts
//! of the trace; Figures 4, 5 and 7 drive the architectures themselves on a modelled machine.
//!
//! Numbers are those of the paper's HTML rendering, which counts the packing algorithm as Figure 3.
//! In print it is Algorithm 1, and Figures 4 to 7 are 3 to 6. Titles name both.

mod architectures;
pub mod differences;
mod extensions;
mod finite_disks;
mod foreseen;
mod httpd;
mod locality;
mod outcome;
mod packing;
mod paper;
mod replacement;
mod runs;
mod sizes;
mod staleness;
#[cfg(test)]
mod tests;

use outcome::Outcomes;
use runs::MachineRuns;

use super::{Experiment, Inputs, LabError, Progress, Workload};
use shoal_lab::figure::Unit;
use shoal_lab::report::{Claim, Finding, Report, Section};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn",
    question: "do the findings of Maltzahn 1999 on the disk I/O of proxy caches hold for this trace?",
    needs: "a trace with URLs and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let workload = &inputs.workload;
    if workload.measured().len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: workload.requests.len(), least: 2 * LEAST_REQUESTS });
    }
    progress.begin("figures of the trace", 1);
    let sizes = sizes::section(workload);
    let small = sizes::small_references(workload);
    let locality = locality::section(workload, inputs.seed);
    let packing = packing::packing_section(workload);
    let hits = packing::hits_section(workload);
    let runs = MachineRuns::new(inputs);
    let logged = runs.logged(progress)?;
    let infinite = Outcomes { modelled: runs.architectures(progress)?, real: inputs.real.clone() };
    let finite = Outcomes { modelled: runs.strategies(progress)?, real: inputs.real.clone() };
    let sweep = runs.sweep(progress)?;
    let sections = vec![
        trace_section(workload),
        sizes,
        locality,
        packing,
        architectures::cern_section(&infinite, logged),
        architectures::section(&infinite, small),
        hits,
        replacement::section(&finite, &sweep),
        finite_disks::section(&infinite, runs.finite_disks(progress)?),
        extensions::staleness_section(&infinite, runs.stale(progress)?),
        extensions::residency_section(&finite),
        extensions::sequence_section(&finite, &runs.sequences(progress)?),
    ];
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Reducing the disk I/O of Web proxy caches: Maltzahn 1999 asked again".into(),
        question: QUESTION.into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs, &runs),
        columns: vec!["ours".into(), "today's disk".into()],
        sections,
        ..Report::default()
    })
}

fn facts(inputs: &Inputs, runs: &MachineRuns<'_>) -> Vec<(String, String)> {
    let workload = &inputs.workload;
    let count = |number: usize| Unit::Count.shown(number as f64);
    let (warm_up, measured) = (count(workload.warm_up), count(workload.measured().len()));
    let machine = format!(
        "the paper's, memory and tables times {:.3}: {} of RAM for the infinite caches, a file of {} for the finite ones",
        runs.scale(),
        Unit::Bytes.shown(shoal_lab::machine_runs::infinite(runs.scale(), false).memory.ram as f64),
        Unit::Bytes.shown(runs.finite_file_bytes() as f64)
    );
    let mut facts = vec![
        ("trace", inputs.source.clone()),
        ("requests", format!("{warm_up} to warm up, {measured} measured")),
        ("objects, servers", format!("{}, {}", count(workload.objects), count(workload.servers))),
        ("ours", "from the trace itself, or on the modelled machine of 1999 (ufs1999)".into()),
        ("modelled machine", machine),
    ];
    if !inputs.real_ground.is_empty() {
        facts.push(("today's disk", inputs.real_ground.join("; ")));
    }
    facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Returns the trace beside the paper's.
fn trace_section(workload: &Workload) -> Section {
    let (all, measured) = workload.infinite_hit_ratios();
    let finding = |key: &str, what: &str, unit, claim, value| {
        Finding::new(key, what, unit, claim).found(&[Some(value)])
    };
    let range = format!("{} to {}", paper::ALPHA.0, paper::ALPHA.1);
    Section {
        anchor: "trace".into(),
        title: "The trace".into(),
        question: "How does the trace compare with that of the paper?".into(),
        findings: vec![
            finding(
                "warm_up_requests",
                "requests to warm up",
                Unit::Count,
                Claim::Is(paper::REQUESTS.0 as f64),
                workload.warm_up as f64,
            ),
            finding(
                "measured_requests",
                "requests measured",
                Unit::Count,
                Claim::Is(paper::REQUESTS.1 as f64),
                workload.measured().len() as f64,
            ),
            finding(
                "infinite_hit_ratio",
                "hit ratio of an infinite cache, all requests",
                Unit::Share,
                Claim::Is(paper::HIT_RATIO),
                all,
            ),
            finding(
                "measured_hit_ratio",
                "the same, measured requests",
                Unit::Share,
                Claim::Words(String::new()),
                measured,
            ),
            finding(
                "unique_bytes",
                "bytes of all objects",
                Unit::Bytes,
                Claim::AtMost(paper::UNIQUE_BYTES as f64),
                workload.unique_bytes().0 as f64,
            ),
            finding(
                "zipf_exponent",
                "exponent of the Zipf-like popularity",
                Unit::Ratio,
                Claim::Words(range),
                workload.zipf_exponent(),
            ),
        ],
        ..Section::default()
    }
}

const QUESTION: &str = "Maltzahn, Richardson and Grunwald (USENIX ATC 1999) found that a proxy cache needs 50 to 70% less disk I/O when it \
    keeps together what is asked for together, and small objects in a memory-mapped file. Does it come out again?";
/// Least measured requests: fewer make no distribution.
const LEAST_REQUESTS: usize = 100;
