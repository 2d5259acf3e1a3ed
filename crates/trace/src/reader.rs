//! Reads a stream record by record and counts the lines that cannot be read.

use crate::columnar::Layout;
use crate::format::oracle::{Access, RECORD_BYTES};
use crate::format::{Format, NO_FORMAT, ParsedLine, Parser, Separator, is_comment, may_be_text, of_line};
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
    /// Separator of a table's columns; `None` finds it in the first line.
    pub separator: Option<Separator>,
    /// Largest share of bad lines. A log with more is an error at its end, since it is probably in
    /// another format, or in two.
    pub bad_lines_max: f64,
    /// The first bad line is an error.
    pub strict: bool,
    /// Longest line that is read, in bytes. Longer lines are bad.
    pub line_max: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            columns: None,
            separator: None,
            bad_lines_max: BAD_LINES_MAX,
            strict: false,
            line_max: 64 << 10,
        }
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
    /// Another format that fits bad lines, and their number.
    pub other_format: Option<(Format, u64)>,
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
    /// More bad lines than [`ReadOptions::bad_lines_max`] allows.
    TooManyBad(Box<ReadReport>),
}

/// Reader of records.
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    /// Whole trace in our own columns. A request is read across the columns.
    columns: Option<ColumnReader>,
    reading: ReadReport,
    strict: bool,
    bad_lines_max: f64,
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
        let too_long = match (options.format, &options.columns) {
            (None | Some(Format::Table | Format::W3c), None) => skip_endless(&mut lines, options.line_max)?,
            _ => 0,
        };
        let beginning = lines.peek_lines().map_err(Error::Input)?;
        let (parser, assumed) =
            Parser::detect(beginning, options.format, options.columns.as_deref(), options.separator)
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
            other_format: None,
            is_broken: false,
        };
        let names_due = parser.names_due();
        let columns = match parser.format() {
            Format::Shoal => Some(ColumnReader::read(&mut lines)?),
            _ => None,
        };
        let (strict, bad_lines_max) = (options.strict, options.bad_lines_max);
        let (last_ms, ended) = (0, false);
        let mut reader =
            Self { lines, parser, columns, reading, strict, bad_lines_max, names_due, last_ms, ended };
        for line in 1..=too_long {
            reader.reading.lines += 1;
            reader.bad(Problem { line, reason: TOO_LONG.into(), beginning: String::new() })?;
        }
        Ok(reader)
    }

    /// Gives the next request to `take`. Returns `None` at the end. A stream that breaks off counts
    /// as a bad line at its end.
    ///
    /// # Errors
    /// Returns [`Error::Bad`] at the first bad line in strict mode. The reader reads nothing after
    /// it. At the end, fails like [`Reader::check`].
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
                self.bad_line(TOO_LONG, "")?;
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
                    note_other(&mut self.reading, &line);
                    self.bad_line(reason, &beginning)?;
                }
            }
        }
        self.ended = true;
        self.check()?;
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
        self.check()?;
        Ok(None)
    }

    /// Checks that the bad lines so far are no more than allowed, for callers that stop before the
    /// end.
    ///
    /// # Errors
    /// Returns [`Error::TooManyBad`] otherwise.
    pub fn check(&self) -> Result<(), Error> {
        let reading = &self.reading;
        debug_assert!(reading.problems.len() as u64 <= reading.bad, "each problem is a bad line");
        // The place where a stream breaks off is no line.
        let bad = reading.bad - u64::from(reading.is_broken);
        let all = reading.requests + reading.left_out + bad;
        if bad > FEW && bad as f64 > self.bad_lines_max * all as f64 {
            return Err(Error::TooManyBad(Box::new(reading.clone())));
        }
        Ok(())
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

/// Notes another format that fits a bad line.
fn note_other(reading: &mut ReadReport, line: &str) {
    if reading.bad >= COMPARED {
        return;
    }
    let fits = of_line(line);
    match (&mut reading.other_format, fits) {
        (Some((known, number)), Some(found)) if *known == found => *number += 1,
        (other @ None, Some(found)) => *other = Some((found, 1)),
        _ => {}
    }
}

/// Skips lines of more than `line_max` bytes at the beginning. Returns their number. One endless
/// line must not hide the format of all that follow.
fn skip_endless<R: Read>(lines: &mut Lines<R>, line_max: usize) -> Result<u64, Error> {
    let mut skipped = 0;
    while skipped < ENDLESS_MAX
        && !lines.begins_with_line(line_max)
        && may_be_text(lines.peek().map_err(Error::Input)?)
    {
        match lines.next() {
            Ok(Some(_)) => skipped += 1,
            Ok(None) => break,
            Err(error) => return Err(Error::Input(error)),
        }
        lines.peek().map_err(Error::Input)?;
    }
    Ok(skipped)
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
            Self::TooManyBad(reading) => too_many(reading, f),
        }
    }
}

fn too_many(reading: &ReadReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (bad, lines) = (reading.bad, reading.lines);
    write!(f, "{bad} of {lines} lines are bad for the format {}", reading.format.name())?;
    if let Some((other, number)) = reading.other_format {
        write!(f, ", and {number} of them fit the format {}", other.name())?;
    }
    if let Some(problem) = reading.problems.first() {
        write!(f, "; the first is {problem}")?;
    }
    write!(f, "; --bad-lines 1 reads the rest all the same")
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input(error) => Some(error),
            _ => None,
        }
    }
}

/// Default of [`ReadOptions::bad_lines_max`].
const BAD_LINES_MAX: f64 = 0.25;
const TOO_LONG: Reason = "the line is too long";
/// Number of bad lines that are few in a log of any length.
const FEW: u64 = 3;
/// Largest number of endless lines that are skipped before the format is detected.
const ENDLESS_MAX: u64 = 16;
/// Number of bad lines that are compared with other formats.
const COMPARED: u64 = 10_000;
/// Number of bad lines kept.
const PROBLEMS_KEPT: usize = 5;
/// Number of a bad line's characters that are shown.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests;
