//! `shoal trace sample`.

use super::sink::{TraceOutputOptions, stream};
use super::source::TraceInputOptions;
use crate::failure::Failure;
use shoal_trace::{SampleBy, Sampler};

/// Keep a representative part
///
/// A sample by object preserves the hit ratio, with a cache reduced by the same share.
#[derive(clap::Args)]
pub struct TraceSampleOptions {
    /// The trace
    trace: String,
    /// The share to keep, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    rate: f64,
    /// Units of the sample: objects or clients with all their requests, or single requests
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Object)]
    by: By,
    /// Seed of the draw; another seed draws another sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    reading: TraceInputOptions,
    #[command(flatten)]
    writing: TraceOutputOptions,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Objects
    Object,
    /// Clients
    Client,
    /// Requests
    Request,
}

impl TraceSampleOptions {
    pub fn perform(self) -> Result<(), Failure> {
        if !(0.0..=1.0).contains(&self.rate) {
            return Err(Failure::Usage("--rate: a share from 0 to 1 is needed, such as 0.01".into()));
        }
        let by = match self.by {
            By::Object => SampleBy::Object,
            By::Client => SampleBy::Client,
            By::Request => SampleBy::Request,
        };
        let mut sampler = Sampler::new(by, self.rate, self.seed);
        let source = self.reading.open(&self.trace)?;
        stream(source, &self.writing, |record| sampler.takes(record).then(|| record.clone()))
    }
}
