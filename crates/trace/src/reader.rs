//! Reads a stream record by record and counts the lines that cannot be read.

use crate::columnar::Layout;
use crate::format::oracle::{Access, RECORD_BYTES};
use crate::format::{Format, NO_FORMAT, ParsedLine, Parser, is_comment};
use crate::input::Input;
use crate::lines::{Line, Lines};
use crate::record::Record;
use crate::scan::{Reason, text};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

/// Options for reading a trace.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Format of the trace; `None` detects the format by the beginning.
    pub format: Option<Format>,
    /// Names of a table's columns, separated by its separator, for a table without a header line.
    pub columns: Option<String>,
    /// The first bad line is an error.
    pub strict: bool,
    /// Longest line that is read, in bytes. Longer lines are bad.
    pub line_max: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { format: None, columns: None, strict: false, line_max: 64 << 10 }
    }
}

/// Account of the lines read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadReport {
    /// Format of the trace.
    pub format: Format,
    /// Compression found by [`Input`].
    pub compression: &'static str,
    /// Assumptions about the trace, one sentence each.
    pub assumed: Vec<String>,
    /// Number of all lines, or of records in a format without lines.
    pub lines: u64,
    /// Number of requests returned.
    pub requests: u64,
    /// Requests that never reached a cache (hits in browsers).
    pub left_out: u64,
    /// Requests with a time before the time of the preceding request.
    pub out_of_order: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first few bad lines.
    pub problems: Vec<Problem>,
    /// The stream broke off. The last bad line stands for this.
    pub is_broken: bool,
}

/// Line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the line, from 1.
    pub line: u64,
    /// Reason why the line is bad.
    pub reason: String,
    /// Beginning of the line.
    pub beginning: String,
}

/// Reasons why a trace cannot be read, or not further.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file or stream cannot be read.
    Input(io::Error),
    /// The trace is not in the given format, or is incomplete.
    Format(String),
    /// No format fits the beginning.
    Unknown(String),
    /// Bad line in strict mode.
    Bad(Problem),
}

/// Reader of records.
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    /// Whole trace in our own columns. A request is read across the columns.
    columns: Option<ColumnReader>,
    reading: ReadReport,
    strict: bool,
    names_due: bool,
    last_ms: u64,
    ended: bool,
}

/// Trace in columns, with the number of its next request.
struct ColumnReader {
    bytes: Vec<u8>,
    layout: Layout,
    next: u64,
}

impl Reader<Input> {
    /// Begins to read an input.
    ///
    /// # Errors
    /// Fails when the beginning cannot be read or no format fits it.
    pub fn of(input: Input, options: &ReadOptions) -> Result<Self, Error> {
        let compression = input.compression().name();
        let mut reader = Self::new(input, options)?;
        reader.reading.compression = compression;
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read plain bytes.
    ///
    /// # Errors
    /// Fails when the beginning cannot be read or no format fits it.
    pub fn new(input: R, options: &ReadOptions) -> Result<Self, Error> {
        let mut lines = Lines::new(input, options.line_max);
        lines.peek().map_err(Error::Input)?;
        lines.skip_mark();
        let beginning = lines.peek().map_err(Error::Input)?;
        let (parser, assumed) = Parser::detect(beginning, options.format, options.columns.as_deref())
            .map_err(|why| undetected(why, beginning))?;
        let reading = ReadReport {
            format: parser.format(),
            compression: "plain",
            assumed,
            lines: 0,
            requests: 0,
            left_out: 0,
            out_of_order: 0,
            bad: 0,
            problems: Vec::new(),
            is_broken: false,
        };
        let names_due = parser.names_due();
        let columns = match parser.format() {
            Format::Shoal => Some(ColumnReader::read(&mut lines)?),
            _ => None,
        };
        let strict = options.strict;
        Ok(Self { lines, parser, columns, reading, strict, names_due, last_ms: 0, ended: false })
    }

    /// Gives the next request to `take`. Returns `None` at the end. A stream that breaks off counts
    /// as a bad line at its end.
    ///
    /// # Errors
    /// Returns [`Error::Bad`] at the first bad line in strict mode. The reader reads nothing after
    /// it.
    pub fn next<T>(&mut self, take: impl FnOnce(&Record<'_>) -> T) -> Result<Option<T>, Error> {
        if self.parser.format().is_text() { self.next_line(take) } else { self.next_record(take) }
    }

    fn next_line<T>(&mut self, take: impl FnOnce(&Record<'_>) -> T) -> Result<Option<T>, Error> {
        while !self.ended {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.broken_off(&error)?;
                    break;
                }
            };
            self.reading.lines += 1;
            let Line::Whole(range) = line else {
                self.bad_line("the line is too long", "")?;
                continue;
            };
            let line: Cow<'_, str> = text(self.lines.bytes(range));
            if is_comment(&line) {
                if let Err(reason) = self.parser.comment(&line) {
                    let beginning: String = line.chars().take(SHOWN).collect();
                    self.bad_line(reason, &beginning)?;
                }
                continue;
            }
            if std::mem::take(&mut self.names_due) {
                continue;
            }
            match self.parser.parse(&line) {
                Ok(ParsedLine::Request(record)) => {
                    count(&mut self.reading, &mut self.last_ms, &record);
                    return Ok(Some(take(&record)));
                }
                Ok(ParsedLine::LeftOut) => self.reading.left_out += 1,
                Err(reason) => {
                    let beginning: String = line.chars().take(SHOWN).collect();
                    self.bad_line(reason, &beginning)?;
                }
            }
        }
        self.ended = true;
        Ok(None)
    }

    /// Returns the next record of a binary format: of a sequence of records, or of columns.
    fn next_record<T>(&mut self, take: impl FnOnce(&Record<'_>) -> T) -> Result<Option<T>, Error> {
        while !self.ended {
            if self.columns.is_some() {
                let Some(record) = self.columns.as_mut().and_then(ColumnReader::next) else { break };
                self.reading.lines += 1;
                match record {
                    Ok(record) => {
                        count(&mut self.reading, &mut self.last_ms, &record);
                        return Ok(Some(take(&record)));
                    }
                    Err(reason) => {
                        let line = self.reading.lines;
                        self.bad(Problem { line, reason: reason.to_owned(), beginning: String::new() })?;
                    }
                }
                continue;
            }
            match self.lines.next_bytes(RECORD_BYTES) {
                Ok(Some(range)) => {
                    self.reading.lines += 1;
                    let Ok(bytes) = <&[u8; RECORD_BYTES]>::try_from(self.lines.bytes(range)) else {
                        self.bad_line("the last record is cut", "")?;
                        continue;
                    };
                    let record = Access::read(bytes).record();
                    count(&mut self.reading, &mut self.last_ms, &record);
                    return Ok(Some(take(&record)));
                }
                Ok(None) => break,
                Err(error) => {
                    self.broken_off(&error)?;
                    break;
                }
            }
        }
        self.ended = true;
        Ok(None)
    }

    fn broken_off(&mut self, error: &io::Error) -> Result<(), Error> {
        self.ended = true;
        self.reading.is_broken = true;
        let line = self.lines.number() + 1;
        let reason = format!("the stream breaks off: {error}");
        self.bad(Problem { line, reason, beginning: String::new() })
    }

    /// Returns the account of the lines read so far.
    pub fn reading(&self) -> &ReadReport {
        &self.reading
    }

    fn bad_line(&mut self, reason: Reason, beginning: &str) -> Result<(), Error> {
        let line = self.lines.number();
        self.bad(Problem { line, reason: reason.to_owned(), beginning: beginning.to_owned() })
    }

    fn bad(&mut self, problem: Problem) -> Result<(), Error> {
        note(&mut self.reading, &problem);
        if self.strict {
            self.ended = true;
            return Err(Error::Bad(problem));
        }
        Ok(())
    }
}

impl ColumnReader {
    fn read<R: Read>(lines: &mut Lines<R>) -> Result<Self, Error> {
        let expected = Layout::length(lines.peek().map_err(Error::Input)?).unwrap_or(0);
        let (bytes, broken) = lines.rest(expected);
        match (Layout::of(&bytes), broken) {
            (Ok(layout), _) => Ok(Self { bytes, layout, next: 0 }),
            (Err(_), Some(error)) => Err(Error::Input(error)),
            (Err(why), None) => Err(Error::Format(why.to_string())),
        }
    }

    fn next(&mut self) -> Option<Result<Record<'_>, Reason>> {
        let number = self.next;
        self.next += 1;
        (number < self.layout.requests()).then(|| self.layout.record(&self.bytes, number))
    }
}

/// Returns the error for an unknown format, with the first line that is not a comment, so that the
/// user sees the line.
fn undetected(why: Reason, beginning: &[u8]) -> Error {
    let beginning = text(&beginning[..beginning.len().min(SHOWN * 16)]);
    match beginning.lines().find(|line| !is_comment(line)) {
        Some(line) if why == NO_FORMAT => {
            Error::Unknown(format!("{why}: {:?}", line.chars().take(SHOWN).collect::<String>()))
        }
        _ => Error::Format(why.into()),
    }
}

#[inline]
fn count(reading: &mut ReadReport, last_ms: &mut u64, record: &Record<'_>) {
    reading.requests += 1;
    if let Some(time_ms) = record.time_ms {
        reading.out_of_order += u64::from(time_ms < *last_ms);
        *last_ms = time_ms;
    }
}

fn note(reading: &mut ReadReport, problem: &Problem) {
    reading.bad += 1;
    if reading.problems.len() < PROBLEMS_KEPT {
        reading.problems.push(problem.clone());
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)?;
        if self.beginning.is_empty() { Ok(()) } else { write!(f, ": {:?}", self.beginning) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(f, "cannot be read: {error}"),
            Self::Format(why) | Self::Unknown(why) => write!(f, "{why}"),
            Self::Bad(problem) => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input(error) => Some(error),
            _ => None,
        }
    }
}

/// Number of bad lines kept.
const PROBLEMS_KEPT: usize = 5;
/// Number of a bad line's characters that are shown.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests;
