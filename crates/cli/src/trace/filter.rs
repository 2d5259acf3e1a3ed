//! `shoal trace filter`.

use super::sink::{TraceOutputOptions, stream};
use super::source::TraceInputOptions;
use crate::failure::Failure;
use crate::replay::FilterRules;
use shoal_core::ByteCount;
use shoal_trace::{Filter, Record, host_of, timestamp};

/// Keep the requests that match rules
///
/// A field missing from a line does not exclude it, except with --client and --host.
#[derive(clap::Args)]
pub struct TraceFilterOptions {
    /// The trace
    trace: String,
    /// Rules, separated by commas: http, get, found (200, 304), status200, cacheable, no-query,
    /// no-cgi, or paper for Maltzahn's
    #[arg(long, value_name = "RULES", default_value = "none")]
    rules: FilterRules,
    /// Smallest size
    #[arg(long, value_name = "SIZE", default_value = "0")]
    size_min: ByteCount,
    /// Largest size
    #[arg(long, value_name = "SIZE")]
    size_max: Option<ByteCount>,
    /// This host, or all hosts below a domain that begins with a dot
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// This client
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Statuses, separated by commas
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    status: Vec<u16>,
    /// From this time: RFC 3339 such as 2024-05-01T00:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = moment)]
    after: Option<u64>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    before: Option<u64>,
    #[command(flatten)]
    reading: TraceInputOptions,
    #[command(flatten)]
    writing: TraceOutputOptions,
}

impl TraceFilterOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let bytes_max = self.size_max.map_or(u64::MAX, |bytes| bytes.0);
        let filter = Filter { bytes_min: self.size_min.0, bytes_max, ..self.rules.0 };
        let source = self.reading.open(&self.trace)?;
        stream(source, &self.writing, |record| self.takes(&filter, record).then(|| record.clone()))
    }

    fn takes(&self, filter: &Filter, record: &Record<'_>) -> bool {
        let host = || host_of(&record.url);
        let is_host = |wanted: &String| match wanted.strip_prefix('.') {
            Some(domain) => host() == domain || host().ends_with(wanted.as_str()),
            None => host() == wanted,
        };
        filter.refuses(record).is_none()
            && self.host.as_ref().is_none_or(is_host)
            && self.client.as_ref().is_none_or(|wanted| record.client.as_deref() == Some(wanted))
            && (self.status.is_empty() || record.status.is_none_or(|status| self.status.contains(&status)))
            && self.after.is_none_or(|after| record.time_ms.is_none_or(|time| time >= after))
            && self.before.is_none_or(|before| record.time_ms.is_none_or(|time| time < before))
    }
}

/// Parses a time and returns milliseconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(seconds) => seconds.checked_mul(1000).ok_or_else(|| "the time is absurd".into()),
        Err(_) => timestamp(text).map_err(Into::into),
    }
}
