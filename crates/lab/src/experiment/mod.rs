//! Experiments: questions with everything that is needed to repeat them.
//!
//! An experiment is a row of [`EXPERIMENTS`]: a name, its question, its needs, and the function
//! that makes its [`Report`]. An experiment reads no clock and no files: traces, seed and results
//! measured elsewhere are its [`Inputs`].

mod drawing;
pub mod forecast;
pub mod machine;
pub mod maltzahn;
pub mod policies;
pub mod specweb99;
pub mod traffic;
pub mod voelker_ch2;
pub mod voelker_ch3;
pub mod voelker_ch4;
pub mod voelker_ch5;
mod workload;

pub use workload::{Reference, Workload, at_most, share};

use crate::global_memory::Application;
use crate::report::Report;
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
    pub run: fn(&Inputs, &mut dyn Progress) -> Result<Report, Error>,
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    forecast::EXPERIMENT,
    machine::EXPERIMENT,
    maltzahn::EXPERIMENT,
    maltzahn::differences::EXPERIMENT,
    policies::EXPERIMENT,
    specweb99::EXPERIMENT,
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
    pub real: Vec<maltzahn::Outcome>,
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

/// Receives the progress of an experiment.
pub trait Progress: Send {
    /// Begins a new part of `steps` steps.
    fn begin(&mut self, part: &str, steps: u64);

    /// Adds `steps` finished steps.
    fn done(&mut self, steps: u64);
}

/// Progress that is shown nowhere.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _part: &str, _steps: u64) {}

    fn done(&mut self, _steps: u64) {}
}

/// Reason why an experiment could not be run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The trace is too short for an answer.
    TooFewRequests {
        /// Requests in the trace.
        found: usize,
        /// Least number of requests.
        least: usize,
    },
    /// A store could not be driven to the trace's end.
    Store {
        /// Name of the run.
        run: String,
        /// Reason.
        reason: String,
    },
    /// A model refused its inputs.
    Model {
        /// Reason.
        reason: String,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFewRequests { found, least } => {
                write!(f, "the trace has {found} usable requests where at least {least} are needed")
            }
            Self::Store { run, reason } => write!(f, "the run of {run} ended early: {reason}"),
            Self::Model { reason } => write!(f, "the model cannot be asked: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
