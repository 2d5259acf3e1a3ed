//! `shoal trace`: inspects access logs and traces, and converts them.

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

/// Inspect access logs and traces, and make new traces of them
///
/// A trace is a file, or - for standard input; plain, gzip, zstd or xz. Readable logs are Squid's
/// native log, NCSA common and combined with the additions of nginx and varnishncsa, W3C extended,
/// and JSON lines (ours, Caddy's). Readable traces are tables with named columns, lists,
/// libCacheSim's oracleGeneral and csv, and our own columns. The format is detected by the
/// beginning. Unreadable lines are counted, and the first ones are shown.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
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
