//! W3C extended logs: columns named by a `#Fields:` line. Later `#Fields:` lines may change the
//! columns.
//!
//! Hallam-Baker, Behlendorf, *Extended Log File Format*, W3C Working Draft WD-logfile-960323. IIS,
//! CloudFront (tabs instead of blanks) and many appliances write this format. A URL may stand in
//! one column or be spread over scheme, host, stem and query.

use super::table;
use crate::outcome::said;
use crate::record::Record;
use crate::scan::{Reason, bytes, civil_date, clock_time, status, time};
use std::borrow::Cow;

/// Columns named by the last `#Fields:` line.
#[derive(Default)]
pub(crate) struct ExtendedLog {
    columns: Vec<LogColumn>,
    /// Midnight of the last `#Date:`, in milliseconds since 1970, for logs that have only clock
    /// times.
    day_ms: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LogColumn {
    Date,
    Time,
    Seconds,
    Client,
    Method,
    Status,
    Bytes,
    Url,
    Scheme,
    Host,
    Stem,
    Query,
    Verdict,
    Other,
}

impl ExtendedLog {
    /// Parses a line that begins with `#`.
    pub(super) fn directive(&mut self, line: &str) -> Result<(), Reason> {
        if let Some(names) = prefixed(line, "#Fields:") {
            let columns: Vec<LogColumn> = names.split_ascii_whitespace().map(LogColumn::named).collect();
            if !columns.iter().any(|column| matches!(column, LogColumn::Url | LogColumn::Stem)) {
                return Err("#Fields names no column with a URL");
            }
            self.columns = columns;
        }
        if let Some(date) = prefixed(line, "#Date:") {
            let day = date.trim().split([' ', 'T']).next().unwrap_or_default();
            self.day_ms = Some(civil_date(day)?);
        }
        Ok(())
    }

    /// Returns the assumptions about the columns.
    pub(super) fn assumed(&self) -> Vec<String> {
        let has = |column| self.columns.contains(&column);
        let mut assumed = vec!["times are UTC, as the format has them".to_owned()];
        if !has(LogColumn::Url) && !has(LogColumn::Host) {
            assumed.push("there is no host; URLs are paths".into());
        }
        if !has(LogColumn::Url) && has(LogColumn::Host) && !has(LogColumn::Scheme) {
            assumed.push("URLs are http, since no column names the scheme".into());
        }
        assumed
    }

    /// Parses one line.
    pub(super) fn parse<'a>(&self, line: &'a str) -> Result<Record<'a>, Reason> {
        if self.columns.is_empty() {
            return Err("no #Fields line has named the columns yet");
        }
        let mut record = Record::default();
        let (mut day_ms, mut clock_ms) = (self.day_ms, None);
        let mut parts = [""; 4];
        let mut fields = LogFields { rest: line, tabs: line.contains('\t') };
        for column in &self.columns {
            let field = fields.next().ok_or("the line has fewer fields than #Fields names")?;
            if field == "-" {
                continue;
            }
            match column {
                LogColumn::Date => day_ms = Some(civil_date(field)?),
                LogColumn::Time => clock_ms = Some(clock_time(field)?),
                LogColumn::Seconds => record.time_ms = time(field, 1)?,
                LogColumn::Client => record.client = Some(field.into()),
                LogColumn::Method => record.method = Some(field.into()),
                LogColumn::Status => record.status = status(field)?,
                LogColumn::Bytes => record.bytes = bytes(field)?,
                LogColumn::Url => record.url = field.into(),
                LogColumn::Scheme => parts[0] = field,
                LogColumn::Host => parts[1] = field,
                LogColumn::Stem => parts[2] = field,
                LogColumn::Query => parts[3] = field,
                LogColumn::Verdict => record.say(said(field)),
                LogColumn::Other => {}
            }
        }
        if fields.next().is_some() {
            return Err("the line has more fields than #Fields names");
        }
        if record.time_ms.is_none() {
            record.time_ms = day_ms.zip(clock_ms).map(|(day, clock)| day + clock);
        }
        if record.url.is_empty() {
            record.url = joined(parts)?;
        }
        Ok(record)
    }
}

/// Joins scheme, host, stem and query to one URL.
fn joined([scheme, host, stem, query]: [&str; 4]) -> Result<Cow<'_, str>, Reason> {
    if stem.is_empty() {
        return Err("the object has no name");
    }
    if host.is_empty() && query.is_empty() {
        return Ok(stem.into());
    }
    let mut url = String::new();
    if !host.is_empty() {
        let scheme = if scheme.is_empty() { "http" } else { scheme };
        url = format!("{}://{host}", scheme.to_ascii_lowercase());
    }
    url.push_str(stem);
    if !query.is_empty() {
        url.push('?');
        url.push_str(query.trim_start_matches('?'));
    }
    Ok(url.into())
}

impl LogColumn {
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "date" => Self::Date,
            "time" => Self::Time,
            "x-timestamp" | "timestamp" => Self::Seconds,
            "c-ip" | "c-dns" => Self::Client,
            "cs-method" => Self::Method,
            "sc-status" => Self::Status,
            "sc-bytes" | "bytes" => Self::Bytes,
            "cs-uri" | "cs-url" | "x-uri" => Self::Url,
            "cs-protocol" | "cs-uri-scheme" => Self::Scheme,
            "cs-host" | "x-host-header" | "cs-uri-host" => Self::Host,
            // Amazon writes its own name here and the client's in x-host-header. That column comes
            // later and wins.
            "cs(host)" => Self::Host,
            "cs-uri-stem" | "cs-uri-path" => Self::Stem,
            "cs-uri-query" => Self::Query,
            "x-cache" | "s-action" | "x-edge-result-type" | "x-edge-response-result-type" | "cached" => {
                Self::Verdict
            }
            _ => Self::Other,
        }
    }
}

/// Fields separated by blanks or tabs. A quoted field may contain blanks.
struct LogFields<'a> {
    rest: &'a str,
    tabs: bool,
}

impl<'a> Iterator for LogFields<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start_matches(' ');
        if self.rest.is_empty() {
            return None;
        }
        if let Some(quoted) = self.rest.strip_prefix('"').filter(|_| !self.tabs)
            && let Some((field, rest)) = quoted.split_once('"')
        {
            self.rest = rest;
            return Some(field);
        }
        let separator = if self.tabs { '\t' } else { ' ' };
        let (field, rest) = self.rest.split_once(separator).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(if field.is_empty() { "-" } else { field })
    }
}

fn prefixed<'a>(line: &'a str, directive: &str) -> Option<&'a str> {
    let head = line.get(..directive.len())?;
    head.eq_ignore_ascii_case(directive).then(|| &line[directive.len()..])
}

/// Returns the `#Fields:` and `#Date:` lines among the first lines.
pub(super) fn directives(beginning: &str) -> impl Iterator<Item = &str> {
    let first = beginning.lines().take(table::SAMPLE_LINES);
    first.filter(|line| prefixed(line, "#Fields:").is_some() || prefixed(line, "#Date:").is_some())
}
