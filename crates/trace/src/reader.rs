//! Reads a stream record by record and keeps account of what could not be read.

use crate::format::{Format, Parsed, Parser, is_comment};
use crate::input::Input;
use crate::lines::{Line, Lines};
use crate::record::Record;
use crate::scan::{Reason, text};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

/// How a trace is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Its format; `None` finds it by the first lines.
    pub format: Option<Format>,
    /// Whether the first bad line is an error.
    pub strict: bool,
    /// The longest line read, in bytes; longer ones are bad.
    pub line_max: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { format: None, strict: false, line_max: 64 << 10 }
    }
}

/// What has been read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The format.
    pub format: Format,
    /// How it was compressed, as [`Input`] found it.
    pub compression: &'static str,
    /// What was taken for granted, a sentence each.
    pub assumed: Vec<String>,
    /// Lines, all of them.
    pub lines: u64,
    /// Requests given.
    pub requests: u64,
    /// Requests that never came to a cache (hits in browsers).
    pub left_out: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first few of these.
    pub problems: Vec<Problem>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
    /// How it begins.
    pub beginning: String,
}

/// Why a trace cannot be read, or not further.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file or stream cannot be read.
    Input(io::Error),
    /// No format fits, or not the one that was told.
    Format(&'static str),
    /// A bad line, where none is tolerated.
    Bad(Problem),
}

/// Gives record after record.
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    reading: Reading,
    strict: bool,
    names_due: bool,
    ended: bool,
}

impl Reader<Input> {
    /// Begins to read an input.
    ///
    /// # Errors
    /// When the beginning cannot be read or no format fits it.
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
    /// When the beginning cannot be read or no format fits it.
    pub fn new(input: R, options: &ReadOptions) -> Result<Self, Error> {
        let mut lines = Lines::new(input, options.line_max);
        let beginning = lines.peek().map_err(Error::Input)?;
        let (parser, assumed) = Parser::detect(&text(beginning), options.format).map_err(Error::Format)?;
        let reading = Reading {
            format: parser.format(),
            compression: "plain",
            assumed,
            lines: 0,
            requests: 0,
            left_out: 0,
            bad: 0,
            problems: Vec::new(),
        };
        let names_due = parser.format() == Format::Table;
        Ok(Self { lines, parser, reading, strict: options.strict, names_due, ended: false })
    }

    /// Gives the next request to `take`; false at the end. A stream that breaks off counts as a bad line at its end.
    ///
    /// # Errors
    /// [`Error::Bad`] at the first bad line where none is tolerated; nothing is read after it.
    pub fn next<T>(&mut self, take: impl FnOnce(&Record<'_>) -> T) -> Result<Option<T>, Error> {
        while !self.ended {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.ended = true;
                    let line = self.lines.number() + 1;
                    let reason = format!("the stream breaks off: {error}");
                    self.bad(Problem { line, reason, beginning: String::new() })?;
                    break;
                }
            };
            self.reading.lines += 1;
            match line {
                Line::TooLong => self.bad_line("the line is too long", "")?,
                Line::Whole(range) => {
                    let bytes = self.lines.bytes(range.clone());
                    let line: Cow<'_, str> = text(bytes);
                    if is_comment(&line) || std::mem::take(&mut self.names_due) {
                        continue;
                    }
                    match self.parser.parse(&line) {
                        Ok(Parsed::Request(record)) => {
                            self.reading.requests += 1;
                            return Ok(Some(take(&record)));
                        }
                        Ok(Parsed::LeftOut) => self.reading.left_out += 1,
                        Err(reason) => {
                            let beginning: String = line.chars().take(SHOWN).collect();
                            self.bad_line(reason, &beginning)?;
                        }
                    }
                }
            }
        }
        self.ended = true;
        Ok(None)
    }

    /// What has been read so far.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    fn bad_line(&mut self, reason: Reason, beginning: &str) -> Result<(), Error> {
        let line = self.lines.number();
        self.bad(Problem { line, reason: reason.to_owned(), beginning: beginning.to_owned() })
    }

    fn bad(&mut self, problem: Problem) -> Result<(), Error> {
        self.reading.bad += 1;
        if self.reading.problems.len() < PROBLEMS_KEPT {
            self.reading.problems.push(problem.clone());
        }
        if self.strict {
            self.ended = true;
            return Err(Error::Bad(problem));
        }
        Ok(())
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
            Self::Format(why) => write!(f, "{why}"),
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

/// Bad lines kept for showing.
const PROBLEMS_KEPT: usize = 5;
/// Characters of a bad line shown.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests;
