//! Comma-separated values (RFC 4180), with a line of names.

use crate::outcome::Outcome;
use crate::record::Record;
use std::io::{self, Write};

/// Writer of one line a request, through one buffer.
pub(super) struct CsvWriter(Vec<u8>);

impl CsvWriter {
    pub(super) fn begin(output: &mut impl Write) -> io::Result<Self> {
        output.write_all(b"time_ms,client,method,status,bytes,outcome,ttl_s,url\n")?;
        Ok(Self(Vec::new()))
    }

    pub(super) fn put(&mut self, record: &Record<'_>, output: &mut impl Write) -> io::Result<()> {
        let line = &mut self.0;
        line.clear();
        number(line, record.time_ms);
        cell(line, record.client.as_deref().unwrap_or_default());
        line.push(b',');
        cell(line, record.method.as_deref().unwrap_or_default());
        line.push(b',');
        number(line, record.status.map(u64::from));
        number(line, record.bytes);
        line.extend_from_slice(record.outcome.map_or("", Outcome::name).as_bytes());
        line.push(b',');
        line.extend_from_slice(record.ttl_seconds.map_or(String::new(), |ttl| ttl.to_string()).as_bytes());
        line.push(b',');
        cell(line, &record.url);
        line.push(b'\n');
        output.write_all(line)
    }
}

fn number(line: &mut Vec<u8>, number: Option<u64>) {
    if let Some(number) = number {
        line.extend_from_slice(number.to_string().as_bytes());
    }
    line.push(b',');
}

fn cell(line: &mut Vec<u8>, text: &str) {
    let breaks = |byte: &u8| b"\",\n\r".contains(byte);
    if text.as_bytes().iter().any(breaks) {
        line.push(b'"');
        // A log's line contains no line ends. Line ends in generated names become blanks, so that
        // each request stays one line.
        for byte in text.bytes() {
            match byte {
                b'"' => line.extend_from_slice(b"\"\""),
                b'\n' | b'\r' => line.push(b' '),
                _ => line.push(byte),
            }
        }
        line.push(b'"');
    } else {
        line.extend_from_slice(text.as_bytes());
    }
}
