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
pub struct TraceOptions {
    #[command(subcommand)]
    command: TraceCommand,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum TraceCommand {
    Info(info::TraceInfoOptions),
    Convert(convert::TraceConvertOptions),
    Filter(filter::TraceFilterOptions),
    Sample(sample::TraceSampleOptions),
    Merge(merge::TraceMergeOptions),
    Anonymize(anonymize::TraceAnonymizeOptions),
    Head(head::TraceHeadOptions),
}

impl TraceOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            TraceCommand::Info(options) => options.perform(),
            TraceCommand::Convert(options) => options.perform(),
            TraceCommand::Filter(options) => options.perform(),
            TraceCommand::Sample(options) => options.perform(),
            TraceCommand::Merge(options) => options.perform(),
            TraceCommand::Anonymize(options) => options.perform(),
            TraceCommand::Head(options) => options.perform(),
        }
    }
}
