//! Experiments: questions with everything that is needed to ask them again.
//!
//! An experiment is a row of [`EXPERIMENTS`]: a name, its question, what it needs, and the function
//! that makes its [`Report`]. It reads no clock and no files: traces, seed and results measured
//! elsewhere are its [`Inputs`].

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

/// A question that can be asked again.
pub struct Experiment {
    /// Its name, as the command line has it.
    pub name: &'static str,
    /// What it asks, in a sentence.
    pub question: &'static str,
    /// What it needs, in a sentence.
    pub needs: &'static str,
    /// Asks it.
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

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// What an experiment is given.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The trace, with its names.
    pub trace: Trace,
    /// The same, made ready.
    pub workload: Workload,
    /// Where it comes from: a file's name, or the generator with its settings.
    pub source: String,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The command that asks the question again.
    pub command: String,
    /// Runs on a real disk that were measured before.
    pub real: Vec<maltzahn::Outcome>,
    /// Each trace that was given as a program of its own, for questions about memory.
    pub applications: Vec<Application>,
    /// Whether seconds are wanted instead of minutes.
    pub is_small: bool,
}

impl Inputs {
    /// A trace whose first part, a share of one, warms the cache.
    pub fn new(trace: Trace, warm_up: f64) -> Self {
        let warm_up = (trace.requests().len() as f64 * warm_up.clamp(0.0, 1.0)) as usize;
        Self { workload: Workload::new(&trace, warm_up), trace, ..Self::default() }
    }
}

/// Hears how far an experiment is.
pub trait Progress: Send {
    /// A new part begins, which takes so many steps.
    fn begin(&mut self, part: &str, steps: u64);

    /// So many more of them are done.
    fn done(&mut self, steps: u64);
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _part: &str, _steps: u64) {}

    fn done(&mut self, _steps: u64) {}
}

/// Why an experiment could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The trace is too short to say anything.
    TooFewRequests {
        /// How many it has.
        found: usize,
        /// How many it takes.
        least: usize,
    },
    /// A store could not be driven to the trace's end.
    Store {
        /// Which run.
        run: String,
        /// Why.
        reason: String,
    },
    /// A model refused its inputs.
    Model {
        /// Why.
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
