//! `shoal trace`: what a log is like, and logs made into traces.

mod anonymize;
mod convert;
mod filter;
mod head;
mod info;
mod merge;
mod sample;
mod sink;
pub mod source;
pub mod told;

use crate::failure::Failure;
use clap::Subcommand;

/// Look at access logs and traces, and make one of another
///
/// A trace is a file, or - for standard input; plain, gzip, zstd or xz. Squid's native log, NCSA common and combined with what nginx and
/// varnishncsa add, W3C extended, JSON lines (ours, Caddy's), tables with named columns, lists, libCacheSim's oracleGeneral and csv, and our
/// own columns are read; the format is found by the beginning. Lines that cannot be read are counted and the first told.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell what a trace is like: popularity, sizes, reuse, hosts, what an infinite cache hits
    Info(info::Options),
    /// Write a trace in another format
    Convert(convert::Options),
    /// Keep the requests that rules take
    Filter(filter::Options),
    /// Keep a part that is like the whole
    Sample(sample::Options),
    /// Make one trace of several, by time
    Merge(merge::Options),
    /// Replace names by keyed hashes that keep their structure
    Anonymize(anonymize::Options),
    /// Show the first requests as they are understood
    Head(head::Options),
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            Command::Info(options) => options.perform(),
            Command::Convert(options) => options.perform(),
            Command::Filter(options) => options.perform(),
            Command::Sample(options) => options.perform(),
            Command::Merge(options) => options.perform(),
            Command::Anonymize(options) => options.perform(),
            Command::Head(options) => options.perform(),
        }
    }
}
