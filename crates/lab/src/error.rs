//! Reasons why a question could not be answered.

use crate::model::wan::WanError;
use crate::prefetching::SetupError;
use shoal_cooperation::prefetch::PrefetchError;

/// Reason why a question could not be answered.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
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

impl std::fmt::Display for LabError {
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

impl std::error::Error for LabError {}

impl From<SetupError> for LabError {
    fn from(error: SetupError) -> Self {
        Self::Model { reason: error.to_string() }
    }
}

impl From<PrefetchError> for LabError {
    fn from(error: PrefetchError) -> Self {
        Self::Model { reason: error.to_string() }
    }
}

impl From<WanError> for LabError {
    fn from(error: WanError) -> Self {
        Self::Model { reason: error.to_string() }
    }
}
