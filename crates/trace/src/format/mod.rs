//! The formats that are read, and how one is told from another.
//!
//! A format is a parser of one line. Detection looks at the first lines only; what it took for granted is said, since a wrong
//! guess would give numbers that look right.

mod access_log;
mod plain;
mod table;

use crate::record::Record;
use crate::scan::Reason;
use table::Table;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Columns separated by tabs, commas or semicolons, named in the first line.
    Table,
    /// Squid's native access log: `time elapsed client code/status bytes method URL …`.
    Squid,
    /// NCSA common log and what is built on it: combined, nginx's and varnishncsa's.
    Common,
    /// `URL SIZE`: "Each trace entry consists of a URL and the size" (Maltzahn 1999, 4).
    UrlSize,
    /// A name a line, without sizes.
    Paths,
    /// A page number a line, after `l` or `s` or alone: references to memory or blocks, without sizes.
    Pages,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Table, Self::Squid, Self::Common, Self::UrlSize, Self::Paths, Self::Pages];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Squid => "squid",
            Self::Common => "common",
            Self::UrlSize => "url_size",
            Self::Paths => "paths",
            Self::Pages => "pages",
        }
    }

    /// The format of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Reads lines of one format.
pub(crate) enum Parser {
    Table(Table),
    Squid,
    Common,
    UrlSize,
    Paths,
    Pages,
}

/// What a line is.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Parsed<'a> {
    /// A request.
    Request(Record<'a>),
    /// A request that never came to a cache, such as a hit in a browser.
    LeftOut,
}

impl Parser {
    /// Finds the parser for a stream that begins like this, and says what that takes for granted.
    pub(crate) fn detect(beginning: &str, wanted: Option<Format>) -> Result<(Self, Vec<String>), Reason> {
        let lines = || beginning.lines().filter(|line| !is_comment(line)).take(SAMPLE_LINES);
        let first = lines().next().ok_or("there is no line with a request")?;
        let format = match wanted {
            Some(format) => format,
            None if table::has_names(first) => Format::Table,
            None => {
                // A bad line or two at the beginning must not decide.
                let votes = |format: &Format| lines().filter(|line| format.parses(line)).count();
                let best = BY_STRICTNESS.into_iter().rev().max_by_key(votes);
                let is_clear = |format: &Format| votes(format) > 0 && votes(format) * 2 >= lines().count();
                best.filter(is_clear).ok_or("the format is not one of those known")?
            }
        };
        let (parser, mut assumed) = match format {
            Format::Table => Table::of(first).map(|(table, assumed)| (Self::Table(table), assumed))?,
            Format::Squid => (Self::Squid, vec!["sizes include the response's head".into()]),
            Format::Common => (Self::Common, vec![]),
            Format::UrlSize => (Self::UrlSize, vec!["sizes are bytes of the whole object".into()]),
            Format::Paths => (Self::Paths, vec![]),
            Format::Pages => (Self::Pages, vec![]),
        };
        let how = if wanted.is_some() { "as told" } else { "by its first lines" };
        assumed.insert(0, format!("format {} ({how})", format.name()));
        Ok((parser, assumed))
    }

    /// Its format.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Table(_) => Format::Table,
            Self::Squid => Format::Squid,
            Self::Common => Format::Common,
            Self::UrlSize => Format::UrlSize,
            Self::Paths => Format::Paths,
            Self::Pages => Format::Pages,
        }
    }

    /// Reads one line that is no comment.
    pub(crate) fn parse<'a>(&self, line: &'a str) -> Result<Parsed<'a>, Reason> {
        match self {
            Self::Table(table) => table.parse(line),
            Self::Squid => access_log::squid(line).map(Parsed::Request),
            Self::Common => access_log::common(line).map(Parsed::Request),
            Self::UrlSize => plain::url_size(line).map(Parsed::Request),
            Self::Paths => plain::path(line).map(Parsed::Request),
            Self::Pages => plain::page(line).map(Parsed::Request),
        }
    }
}

impl Format {
    /// Whether a line could be of this format; of tables only the first line tells.
    fn parses(self, line: &str) -> bool {
        let parsed = match self {
            Self::Table => return false,
            Self::Squid => access_log::squid(line),
            Self::Common => access_log::common(line),
            Self::UrlSize => plain::url_size(line),
            Self::Paths => plain::path(line),
            Self::Pages => plain::page(line),
        };
        parsed.is_ok()
    }
}

/// Blank lines and those that begin with `#` are no requests in any format.
pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().is_empty() || line.starts_with('#')
}

/// When a line could be of several formats, the one that asks for most is meant.
const BY_STRICTNESS: [Format; 5] =
    [Format::Squid, Format::Common, Format::Pages, Format::UrlSize, Format::Paths];
/// Lines that detection looks at.
const SAMPLE_LINES: usize = 50;

#[cfg(test)]
mod tests;
