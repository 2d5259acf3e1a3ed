//! `shoal trace head`.

use super::source::TraceInputOptions;
use super::told::account;
use crate::failure::Failure;
use crate::show::print;
use shoal_trace::{Outcome, Record};
use std::fmt::Write;

/// Show the first requests as Shoal reads them
#[derive(clap::Args)]
pub struct TraceHeadOptions {
    /// The trace
    trace: String,
    /// Number of requests shown
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    requests: u64,
    /// Print JSON, one line a request
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: TraceInputOptions,
}

impl TraceHeadOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let mut source = self.reading.open(&self.trace)?;
        let mut rows = Vec::new();
        for _ in 0..self.requests {
            let row = source.reader.next(|record| if self.json { as_json(record) } else { as_row(record) });
            match row.map_err(|error| source.failed(&error))? {
                Some(row) => rows.push(row),
                None => break,
            }
        }
        source.finish();
        let mut text = String::new();
        if !self.json {
            text = account(source.reader.reading());
            let _ = writeln!(text, "\n{}", line(HEADING.map(str::to_owned)));
        }
        rows.iter().for_each(|row| {
            let _ = writeln!(text, "{row}");
        });
        print(&text)
    }
}

const HEADING: [&str; 7] = ["time_ms", "client", "method", "status", "bytes", "cache", "url"];

fn line(cells: [String; 7]) -> String {
    let [time, client, method, status, bytes, cache, url] = cells;
    format!("{time:<15}{client:<18}{method:<8}{status:<8}{bytes:>12}  {cache:<7}{url}")
}

fn as_row(record: &Record<'_>) -> String {
    let told = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    line([
        told(record.time_ms.map(|time| time.to_string())),
        told(record.client.as_deref().map(str::to_owned)),
        told(record.method.as_deref().map(str::to_owned)),
        told(record.status.map(|status| status.to_string())),
        told(record.bytes.map(|bytes| bytes.to_string())),
        told(record.outcome.map(|outcome| outcome.name().to_owned())),
        record.url.to_string(),
    ])
}

fn as_json(record: &Record<'_>) -> String {
    serde_json::json!({
        "time_ms": record.time_ms,
        "client": record.client.as_deref(),
        "method": record.method.as_deref(),
        "status": record.status,
        "bytes": record.bytes,
        "from_cache": record.from_cache(),
        "outcome": record.outcome.map(Outcome::name),
        "ttl_seconds": record.ttl_seconds,
        "url": record.url,
    })
    .to_string()
}
