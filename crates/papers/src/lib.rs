//! Experiments: questions with everything that is needed to repeat them.
//!
//! An experiment is a row of [`EXPERIMENTS`]: a name, its question, its needs, and the function
//! that makes its [`Report`]. An experiment reads no clock and no files: traces, seed and results
//! measured elsewhere are its [`Inputs`].

#![forbid(unsafe_code)]

mod drawing;
pub mod forecast;
pub mod internet;
pub mod machine;
pub mod maltzahn;
pub mod policies;
mod seeds;
pub mod specweb99;
pub mod successors;
pub mod today;
pub mod traffic;
pub mod voelker_ch2;
pub mod voelker_ch3;
pub mod voelker_ch4;
pub mod voelker_ch5;

pub use shoal_lab::error::LabError;
pub use shoal_lab::progress::{Progress, Silent};
pub use shoal_lab::workload::{Reference, Workload, at_most, share};

use shoal_lab::global_memory::Application;
use shoal_lab::machine_runs::RunResult;
use shoal_lab::report::Report;
use shoal_trace::Trace;

/// A repeatable question.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Question, in a sentence.
    pub question: &'static str,
    /// Needs, in a sentence.
    pub needs: &'static str,
    /// Function that answers the question.
    pub run: fn(&Inputs, &mut dyn Progress) -> Result<Report, LabError>,
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    forecast::EXPERIMENT,
    internet::EXPERIMENT,
    machine::EXPERIMENT,
    maltzahn::EXPERIMENT,
    maltzahn::differences::EXPERIMENT,
    policies::EXPERIMENT,
    specweb99::EXPERIMENT,
    successors::EXPERIMENT,
    today::EXPERIMENT,
    traffic::EXPERIMENT,
    voelker_ch2::EXPERIMENT,
    voelker_ch3::EXPERIMENT,
    voelker_ch4::EXPERIMENT,
    voelker_ch5::EXPERIMENT,
];

/// Returns the experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// Inputs of an experiment.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The trace, with its names.
    pub trace: Trace,
    /// The trace, prepared for experiments.
    pub workload: Workload,
    /// Source of the trace: a file's name, or the generator with its settings.
    pub source: String,
    /// Seed of all random draws.
    pub seed: u64,
    /// Command that asks the question again.
    pub command: String,
    /// Earlier measured runs on a real disk.
    pub real: Vec<RunResult>,
    /// Disks of the measured runs, with file system and memory, each once.
    pub real_ground: Vec<String>,
    /// Each trace given as a separate program, for questions about memory.
    pub applications: Vec<Application>,
    /// `true` if a run of seconds is wanted instead of minutes.
    pub is_small: bool,
}

impl Inputs {
    /// Prepares a trace. Its first part, the share `warm_up`, warms the cache.
    pub fn new(trace: Trace, warm_up: f64) -> Self {
        let warm_up = (trace.requests().len() as f64 * warm_up.clamp(0.0, 1.0)) as usize;
        Self { workload: Workload::new(&trace, warm_up), trace, ..Self::default() }
    }
}
