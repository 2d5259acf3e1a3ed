//! Traces of requests, with clients, objects and times: read from logs or generated, and written.
//!
//! From bytes to experiments: [`Input`] opens a file and decompresses it. [`Reader`] detects the
//! format and returns one [`Record`] a line. A [`Filter`] selects records, and [`Trace`] keeps them
//! in 24 bytes a request with each name once. A [`Writer`] writes records again. [`generate`] makes
//! a trace where no real one exists.
//!
//! The reader trusts no line. Unreadable lines are counted, and the first few are kept with their
//! numbers ([`ReadReport`]).

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
mod outcome;
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
pub use filter::{Filter, RefusalReason};
pub use format::{Format, Separator};
pub use input::{Compression, Input};
pub use merge::Merge;
pub use outcome::Outcome;
pub use random::Random;
pub use reader::{Error, Problem, ReadOptions, ReadReport, Reader};
pub use record::{Record, SizeChange, host_of, scheme_of};
pub use sample::{SampleBy, Sampler};
pub use scan::timestamp;
pub use trace::{Request, SizeSources, Trace, Unread};
pub use write::{Lossy, Output, Target, Writer};
