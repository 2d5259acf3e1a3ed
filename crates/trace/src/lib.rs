//! Traces: who asked for what and when, read from logs or made, and written.
//!
//! From bytes to experiments: [`Input`] opens a file and undoes its compression, [`Reader`] finds
//! the format and gives one [`Record`] a line, a [`Filter`] says which count, and [`Trace`] keeps
//! them in 24 bytes a request with each name once. A [`Writer`] writes them again. [`generate`]
//! makes a trace where a real one is missing.
//!
//! No line is trusted: what cannot be read is counted and the first few are kept with their numbers
//! ([`Reading`]).

#![forbid(unsafe_code)]

mod anonymize;
pub mod columnar;
mod dictionary;
mod filter;
mod format;

pub mod generate;
mod input;
mod lines;
mod merge;
pub mod parquet;
mod random;
mod reader;
mod record;
mod sample;
mod scan;
mod trace;
mod write;

pub use anonymize::{Anonymizer, Queries};
pub use dictionary::Dictionary;
pub use filter::{Filter, Refused};
pub use format::Format;
pub use input::{Compression, Input};
pub use merge::Merge;
pub use random::Random;
pub use reader::{Error, Problem, ReadOptions, Reader, Reading};
pub use record::{Record, SizeChange, host_of, scheme_of};
pub use sample::{SampleBy, Sampler};
pub use scan::timestamp;
pub use trace::{Filled, Request, Trace, Unread};
pub use write::{Lossy, Output, Target, Writer};
