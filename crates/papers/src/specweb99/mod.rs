//! Kant and Won 1999 repeated: savings of a SPECweb99 server's file cache, by model, simulation and
//! characteristic time.
//!
//! | file | contents |
//! |---|---|
//! | `table` | Table 1.1, all 18 rows, ours beside the paper's |
//! | `figures` | Figures 1.1 to 1.8 |
//! | `beyond` | other policies, several threads, the POSTlog, and populations of any trace |
//!
//! The models are those of [`shoal_lab::model::specweb99`]. Everything but the last section is the
//! same for any trace.

mod beyond;
mod figures;
mod table;
#[cfg(test)]
mod tests;

use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::model::specweb99::analytic::RankedPopulation;
use shoal_lab::model::specweb99::simulation::{FileCacheSetup, ServerResult, simulate};
use shoal_lab::model::specweb99::{PathLength, Population, che};
use shoal_lab::report::{Claim, Finding, Report, Section};
use shoal_policy::Replacement;
use shoal_trace::generate::specweb99::FileSet;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "specweb99",
    question: "what does a file cache save a SPECweb99 server, by model, simulation and characteristic time?",
    needs: "nothing; with a trace, its popularity and sizes are asked too",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let throughputs: &[f64] = if inputs.is_small { &SMALL_THROUGHPUTS } else { &THROUGHPUTS };
    progress.begin("file sets", throughputs.len() as u64);
    let mut sets = Vec::new();
    for throughput in throughputs {
        sets.push(Set::of(*throughput));
        progress.done(1);
    }
    let sections = vec![
        file_sets(),
        table::section(inputs, progress),
        figures::section(&sets),
        beyond::policies(inputs, progress),
        beyond::threads(inputs, progress),
        beyond::log(),
        beyond::trace(inputs, progress),
    ];
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Uncached file accesses in SPECweb99".into(),
        question: "How much memory does a Web server need for its files? Kant and Won (1999) answer it for SPECweb99 with an \
                   analytic model of an LRU file cache, checked by a simulation. Here are both again, and the characteristic time \
                   beside them, which needs no fitted number."
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: vec![
            ("target throughputs".into(), listed(throughputs)),
            ("transfers".into(), "16,384 bytes at most".into()),
            ("trace of the last section".into(), inputs.source.clone()),
        ],
        columns: vec!["model".into(), "characteristic time".into()],
        sections,
        ..Report::default()
    })
}

/// The file set of one target throughput, ready for model and estimate.
struct Set {
    /// λ.
    throughput: f64,
    population: Population,
    ranked: RankedPopulation,
}

impl Set {
    fn of(throughput: f64) -> Self {
        let population = Population::of_files(&FileSet::for_throughput(throughput));
        Self { throughput, ranked: RankedPopulation::of(&population), population }
    }
}

/// Runs a cache over a population until it is in its steady state, and then counts. The warm-up is
/// two characteristic times, or the number of objects where everything fits.
fn steady(
    population: &Population,
    policy: Box<dyn Replacement<u64>>,
    (cache_bytes, arrivals): (f64, f64),
    inputs: &Inputs,
) -> ServerResult {
    let (warm_up, requests) = lengths(population, cache_bytes, inputs);
    let path = PathLength::default();
    let setting = FileCacheSetup {
        cache_bytes: cache_bytes as u64,
        warm_up,
        requests,
        arrivals,
        path,
        seed: inputs.seed,
    };
    simulate(population, policy, &setting)
}

/// Returns the numbers of requests to warm up with, and to count.
fn lengths(population: &Population, cache_bytes: f64, inputs: &Inputs) -> (u64, u64) {
    let (warm_up_max, requests) = if inputs.is_small { (40_000, 40_000) } else { (20_000_000, 1_000_000) };
    ((che::warm_up(population, cache_bytes) as u64).clamp(1000, warm_up_max), requests)
}

fn file_sets() -> Section {
    let set = |throughput| FileSet::for_throughput(throughput).bytes() / 1e6;
    let found = |key: &str, what: &str, claimed: f64, found: f64| {
        Finding::new(key, what, Unit::Count, Claim::Is(claimed)).found(&[Some(found), None])
    };
    Section {
        anchor: "file-sets".into(),
        title: "Sizes that settle the readings".into(),
        question: "Which reading of the size formula, of the popularity index and of the sums gives the paper's own numbers?".into(),
        findings: vec![
            found("set-2500", "file set at 2,500 operations a second, MB", 2688.0, set(2500.0)),
            found("set-10000", "file set at 10,000, MB", 10_367.0, set(10_000.0)),
            found("set-40000", "file set at 40,000, MB", 41_084.0, set(40_000.0)),
            found("mean-access", "mean access, bytes", 14_730.0, FileSet::mean_access_bytes()),
        ],
        notes: vec![
            "S(i,j) is read as 1.024·i·10^(j+2) bytes for i from 1 and j from 0; as printed, (i+1)·10^(j+1), nine files of a class would begin at \
             twice the step, and the sets would be 20% larger. Sums begin at 1. The sixth access probability is 0.059, printed as 0.053: the \
             nine must add up to one. Files are ranked by falling frequency, printed as increasing. The permutation is read as \
             printed, from file number to popularity index; its inverse gives a mean access of 18.07 KB, and none 9.56."
                .into(),
        ],
        ..Section::default()
    }
}

fn listed(numbers: &[f64]) -> String {
    numbers.iter().map(|number| Unit::Count.shown(*number)).collect::<Vec<_>>().join("; ")
}

/// The paper's target throughputs, in operations a second.
const THROUGHPUTS: [f64; 6] = [2500.0, 5000.0, 10_000.0, 20_000.0, 40_000.0, 80_000.0];
const SMALL_THROUGHPUTS: [f64; 2] = [2500.0, 5000.0];
