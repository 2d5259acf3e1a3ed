//! Sweeps: a grid of simulations and models, written down once, computed on all cores, and resumed
//! after a stop.
//!
//! A specification in TOML names traces and, for each [`QuestionKind`], lists of values for its
//! parameters. Every combination is a [`Cell`]: a row of values for the question and another for
//! the answer. Cells do not know of each other, so that threads, or machines, share them as they
//! like; [`Sweep::compute`] answers one.
//!
//! | file | contents |
//! |---|---|
//! | `spec` | reading a specification, with the place of each mistake |
//! | `parameter` | values of a parameter, and the forms of lists and ranges |
//! | `kind` | the questions: one file each, with parameters and results as data |
//! | `source` | traces, read or made, and their digests |
//! | `journal` | computed answers, a line a cell, so that nothing is computed twice |
//! | `run` | all cores at work |
//! | `tables` | the results as Parquet, a file a kind |
//!
//! The same cell gives the same results on every machine. Memory: one trace at a time, and that of
//! each running simulation.

mod journal;
pub mod kind;
mod parameter;
mod run;
mod source;
mod spec;
mod tables;
#[cfg(test)]
mod tests;
mod value;

pub use journal::Journal;
pub use kind::{KINDS, QuestionKind};
pub use parameter::{Parameter, Take};
pub use run::{Summary, run};
pub use source::{SweepTrace, TraceSource};
pub use spec::Mistake;
pub use value::Value;

use std::path::{Path, PathBuf};

/// A specification that has been read.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The traces, by the order of the specification.
    pub traces: Vec<TraceSource>,
    /// The cells, each once, in the order of the specification.
    pub cells: Vec<Cell>,
}

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Kind of the question.
    pub kind: &'static QuestionKind,
    /// Value for each parameter; none for a parameter that does not matter here.
    pub inputs: Vec<Value>,
    /// Number of the cell's trace, where it has one.
    pub trace: Option<usize>,
}

impl Sweep {
    /// Reads a specification. Files that it names start at `folder`.
    ///
    /// # Errors
    /// Every mistake, with its line.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Vec<Mistake>> {
        spec::parse(text, folder)
    }

    /// Reads or makes the trace that a cell needs.
    ///
    /// # Errors
    /// When the trace cannot be read or made.
    pub fn load(&self, trace: usize) -> Result<SweepTrace, SweepError> {
        let source = self.traces.get(trace).ok_or(SweepError::NoSuchCell { number: trace })?;
        source.load().map_err(|why| SweepError::Trace { name: source.name.clone(), why })
    }

    /// Answers one cell: a value for each result of its kind and, last, the reason of a refusal.
    /// `loaded` is its trace.
    ///
    /// # Errors
    /// When there is no such cell.
    pub fn compute(&self, cell: usize, loaded: Option<&SweepTrace>) -> Result<Vec<Value>, SweepError> {
        let cell = self.cells.get(cell).ok_or(SweepError::NoSuchCell { number: cell })?;
        Ok(cell.kind.answer(cell, loaded))
    }
}

/// Reason why a sweep cannot go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum SweepError {
    /// A trace is not available.
    Trace {
        /// Name of the trace in the specification.
        name: String,
        /// Reason.
        why: String,
    },
    /// A file cannot be read or written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Another process works on the same folder.
    Busy {
        /// Path of the journal.
        path: PathBuf,
    },
    /// The folder holds results of another program, or of another version of this one.
    Foreign {
        /// The journal.
        path: PathBuf,
        /// Beginning of the journal.
        found: String,
    },
    /// There is no cell, or no trace, of this number.
    NoSuchCell {
        /// Number of the cell or trace.
        number: usize,
    },
    /// Results are not those of the cell's kind.
    Results {
        /// The kind.
        kind: &'static str,
        /// Difference from the kind's results.
        why: String,
    },
}

impl std::fmt::Display for SweepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trace { name, why } => write!(f, "trace {name}: {why}"),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Busy { path } => write!(f, "{}: another sweep is writing there", path.display()),
            Self::Foreign { path, found } => write!(
                f,
                "{}: begins with {found:?} and was not written by this version; choose another folder",
                path.display()
            ),
            Self::NoSuchCell { number } => write!(f, "there is no number {number} in this sweep"),
            Self::Results { kind, why } => write!(f, "no results of [[{kind}]]: {why}"),
        }
    }
}

impl std::error::Error for SweepError {}
