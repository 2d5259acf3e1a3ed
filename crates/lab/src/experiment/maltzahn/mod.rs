//! The findings of Maltzahn, Richardson, Grunwald, *Reducing the Disk I/O of Web Proxy Server Caches* (USENIX ATC 1999), asked again.
//!
//! One section a figure, each with the paper's numbers beside ours. Figures 1, 2, 3 and 6 are facts of the trace; Figures 4, 5 and 7 drive the
//! architectures themselves on a modelled machine.

mod locality;
mod packing;
mod paper;
mod sizes;

use super::{Error, Experiment, Inputs, Progress};
use crate::figure::Unit;
use crate::report::{Claim, Finding, Report, Section};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn",
    question: "do the findings of Maltzahn 1999 on the disk I/O of proxy caches hold for this trace?",
    needs: "a trace with URLs and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, Error> {
    let workload = &inputs.workload;
    if workload.measured().len() < LEAST_REQUESTS {
        return Err(Error::TooFewRequests { found: workload.requests.len(), least: 2 * LEAST_REQUESTS });
    }
    progress.begin("the trace", 5);
    let mut sections = vec![trace_section(inputs), sizes::section(workload)];
    progress.done(2);
    sections.push(locality::section(workload, inputs.seed));
    sections.push(packing::packing_section(workload));
    progress.done(4);
    sections.push(packing::hits_section(workload));
    progress.done(5);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Reducing the disk I/O of Web proxy caches: Maltzahn 1999 asked again".into(),
        question: "Maltzahn, Richardson and Grunwald (USENIX ATC 1999) found that a proxy cache needs 50 to 70% less disk I/O when it keeps \
                   what is asked for together together, and small objects in a memory-mapped file. Does it come out again?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs),
        columns: vec!["ours".into()],
        sections,
    })
}

fn facts(inputs: &Inputs) -> Vec<(String, String)> {
    let workload = &inputs.workload;
    let count = |number: usize| Unit::Count.shown(number as f64);
    vec![
        ("trace".into(), inputs.source.clone()),
        (
            "requests".into(),
            format!("{} to warm up, {} measured", count(workload.warm_up), count(workload.measured().len())),
        ),
        (
            "objects, servers".into(),
            format!("{}, {}", count(workload.urls.len()), count(workload.servers as usize)),
        ),
    ]
}

/// The trace beside the paper's.
fn trace_section(inputs: &Inputs) -> Section {
    let workload = &inputs.workload;
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

/// Fewer measured requests than these make no distribution.
const LEAST_REQUESTS: usize = 100;
