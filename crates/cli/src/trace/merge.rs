//! `shoal trace merge`.

use super::sink::TraceOutputOptions;
use super::source::TraceInputOptions;
use super::told::account;
use crate::failure::Failure;
use shoal_trace::Merge;

/// Merge several traces into one, by time
///
/// Each trace must be in order of its times. Formats and compressions may differ.
#[derive(clap::Args)]
pub struct TraceMergeOptions {
    /// The traces
    #[arg(required = true, num_args = 1..)]
    traces: Vec<String>,
    #[command(flatten)]
    reading: TraceInputOptions,
    #[command(flatten)]
    writing: TraceOutputOptions,
}

impl TraceMergeOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let (mut readers, mut bars) = (Vec::new(), Vec::new());
        for name in &self.traces {
            let (reader, bar) = self.reading.open(name)?.into_parts();
            readers.push(reader);
            bars.push(bar);
        }
        let failed =
            |error: shoal_trace::Error| Failure::Runtime(format!("{}: {error}", self.traces.join(", ")));
        let mut merge = Merge::new(readers).map_err(failed)?;
        let mut sink = self.writing.open()?;
        while let Some(record) = merge.next_record().map_err(failed)? {
            if !sink.put(&record)? {
                break;
            }
        }
        bars.iter().for_each(indicatif::ProgressBar::finish_and_clear);
        for (name, reader) in self.traces.iter().zip(merge.readers()) {
            eprint!("{name}\n{}", account(reader.reading()));
        }
        sink.finish()
    }
}
