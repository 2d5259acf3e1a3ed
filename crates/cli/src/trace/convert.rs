//! `shoal trace convert`.

use super::sink::{TraceOutputOptions, stream};
use super::source::TraceInputOptions;
use crate::failure::Failure;
use shoal_trace::Record;
use shoal_trace::generate::{Impossible, Traffic, specweb99};

/// Write a trace in another format
#[derive(clap::Args)]
pub struct TraceConvertOptions {
    /// The trace, or `synthetic` for generated proxy traffic (`synthetic:requests=1000000,seed=1`),
    /// or `specweb99` for the operations of that benchmark, POSTs included
    /// (`specweb99:throughput=2500,requests=1000000,seed=1`)
    trace: String,
    #[command(flatten)]
    reading: TraceInputOptions,
    #[command(flatten)]
    writing: TraceOutputOptions,
}

impl TraceConvertOptions {
    pub fn perform(self) -> Result<(), Failure> {
        if let Some(values) = self.trace.strip_prefix("synthetic")
            && (values.is_empty() || values.starts_with(':'))
        {
            return self.made(values.trim_start_matches(':'));
        }
        if let Some(values) = self.trace.strip_prefix("specweb99")
            && (values.is_empty() || values.starts_with(':'))
        {
            return self.operations(values.trim_start_matches(':'));
        }
        stream(self.reading.open(&self.trace)?, &self.writing, |record| Some(record.clone()))
    }

    /// Writes SPECweb99's operations. A file of the same name is available as `./specweb99`.
    fn operations(&self, values: &str) -> Result<(), Failure> {
        let wrong = |error: Impossible| Failure::Usage(format!("{}: {error}", self.trace));
        let workload: specweb99::Workload = values.parse().map_err(wrong)?;
        let operations = workload.operations().map_err(wrong)?;
        let mut sink = self.writing.open()?;
        for operation in operations.take(workload.requests) {
            if !sink.put(&operation.record())? {
                break;
            }
        }
        sink.finish()
    }

    /// Writes generated traffic. A file of the same name is available as `./synthetic`.
    fn made(&self, values: &str) -> Result<(), Failure> {
        let wrong = |error: Impossible| Failure::Usage(format!("{}: {error}", self.trace));
        let traffic: Traffic = values.parse().map_err(wrong)?;
        let trace = traffic.make().map_err(wrong)?;
        let mut sink = self.writing.open()?;
        for request in trace.requests() {
            let record = Record {
                time_ms: Some(request.time_ms),
                client: Some(trace.clients().name(request.client).into()),
                method: Some("GET".into()),
                status: Some(200),
                url: trace.url(request).into(),
                bytes: Some(request.bytes),
                ..Record::default()
            };
            if !sink.put(&record)? {
                break;
            }
        }
        sink.finish()
    }
}
