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
/// A trace is a file, or - for standard input; plain, gzip, zstd or xz. Squid's native log, NCSA
/// common and combined with what nginx and varnishncsa add, W3C extended, JSON lines (ours,
/// Caddy's), tables with named columns, lists, libCacheSim's oracleGeneral and csv, and our own
/// columns are read; the format is found by the beginning. Lines that cannot be read are counted
/// and the first told.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// Without words of their own the commands have those of their options, long help with them.
#[derive(Subcommand)]
enum Command {
    Info(info::Options),
    Convert(convert::Options),
    Filter(filter::Options),
    Sample(sample::Options),
    Merge(merge::Options),
    Anonymize(anonymize::Options),
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
