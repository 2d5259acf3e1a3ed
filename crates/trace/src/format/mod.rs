//! Formats that are read, and their detection.
//!
//! A text format is a parser of one line. The reader splits the two binary formats into records.
//! Detection looks only at the beginning of a stream. The reader reports each assumption of the
//! detection, since a wrong guess would give plausible but wrong numbers.

mod access_log;
mod json;
pub(crate) mod oracle;
mod plain;
mod table;
mod w3c;

use crate::columnar;
use crate::record::Record;
use crate::scan::{Reason, text};
pub use table::Separator;
use table::{SAMPLE_LINES, TableFormat};
use w3c::ExtendedLog;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Columns separated by tabs, commas or semicolons, named in the first line.
    Table,
    /// Squid's native access log: `time elapsed client code/status bytes method URL …`.
    Squid,
    /// NCSA common log and formats built on it: combined, nginx's and varnishncsa's.
    Common,
    /// W3C extended log: columns named by `#Fields:`.
    W3c,
    /// One JSON object a line: our own access log, Caddy's.
    Json,
    /// `URL SIZE`: "Each trace entry consists of a URL and the size" (Maltzahn 1999, 4).
    UrlSize,
    /// `time,object,size` without a header line, as libCacheSim reads it. Blanks or tabs may part
    /// the fields (`time id size`), as in traces of LRB and webcachesim.
    Csv,
    /// One name a line, without sizes.
    Paths,
    /// One page number a line, alone or after `l` or `s`: references to memory or blocks, without
    /// sizes.
    Pages,
    /// libCacheSim's binary records of 24 bytes.
    OracleGeneral,
    /// Our own columns (docs/FORMATS.md).
    Shoal,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 11] = [
        Self::Table,
        Self::Squid,
        Self::Common,
        Self::W3c,
        Self::Json,
        Self::UrlSize,
        Self::Csv,
        Self::Paths,
        Self::Pages,
        Self::OracleGeneral,
        Self::Shoal,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Squid => "squid",
            Self::Common => "common",
            Self::W3c => "w3c",
            Self::Json => "json",
            Self::UrlSize => "url_size",
            Self::Csv => "csv",
            Self::Paths => "paths",
            Self::Pages => "pages",
            Self::OracleGeneral => "oracle_general",
            Self::Shoal => "shoal",
        }
    }

    /// Returns the format named `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns `true` if the format has lines.
    pub(crate) fn is_text(self) -> bool {
        !matches!(self, Self::OracleGeneral | Self::Shoal)
    }

    /// Parses a line without context. Fails for formats that need context or have no lines.
    fn parse(self, line: &str) -> Result<Record<'_>, Reason> {
        match self {
            Self::Squid => access_log::squid(line),
            Self::Common => access_log::common(line),
            Self::Json => json::parse(line),
            Self::UrlSize => plain::url_size(line),
            Self::Csv => oracle::csv(line),
            Self::Paths => plain::path(line),
            Self::Pages => plain::page(line),
            Self::Table | Self::W3c | Self::OracleGeneral | Self::Shoal => Err("this is no line of text"),
        }
    }

    /// Returns the assumptions of the format.
    fn assumed(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Squid => &["sizes include the response's head"],
            Self::Common => &[
                "sizes are those of bodies, as far as they were sent",
                "URLs that are paths are all of one host, but where the line begins with one (vhost_combined)",
            ],
            Self::Json => &["sizes are those of bodies, as far as they were sent"],
            Self::UrlSize => &["sizes are bytes of the whole object"],
            Self::Csv => &["the columns are time in seconds, object, size in bytes; --columns names others"],
            Self::OracleGeneral => &["objects have numbers instead of names", "times are seconds"],
            _ => &[],
        };
        words.iter().map(|words| (*words).to_owned()).collect()
    }
}

/// Parser of the lines of one format.
pub(crate) enum Parser {
    Table(TableFormat),
    W3c(ExtendedLog),
    /// Format with lines that need no context, or without lines.
    Plain(Format),
}

/// Meaning of a line.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum ParsedLine<'a> {
    /// A request.
    Request(Record<'a>),
    /// Request that never reached a cache, such as a hit in a browser.
    LeftOut,
}

impl Parser {
    /// Finds the parser for a stream with this beginning, and returns it with its assumptions.
    /// `columns` names the columns of a table without a header line.
    pub(crate) fn detect(
        beginning: &[u8],
        wanted: Option<Format>,
        columns: Option<&str>,
        separator: Option<Separator>,
    ) -> Result<(Self, Vec<String>), Reason> {
        let as_text = text(beginning);
        if let Some(names) = columns {
            let (table, mut assumed) = TableFormat::told(names, separator, first_lines(&as_text).next())?;
            assumed.insert(0, "format table (columns as told)".into());
            return Ok((Self::Table(table), assumed));
        }
        let wanted = wanted.or(separator.map(|_| Format::Table));
        let format = match wanted.or_else(|| binary(beginning)) {
            Some(format) => format,
            None if is_utf_16(beginning) => return Err("this is UTF-16, and logs are read as UTF-8"),
            None => among_texts(&as_text)?,
        };
        let (parser, mut assumed) = match format {
            Format::Table => {
                let (table, assumed) = named_in(&as_text, separator)?;
                (Self::Table(table), assumed)
            }
            Format::W3c => {
                let mut extended = ExtendedLog::default();
                w3c::directives(&as_text).try_for_each(|line| extended.directive(line))?;
                let assumed = extended.assumed();
                (Self::W3c(extended), assumed)
            }
            format => (Self::Plain(format), format.assumed()),
        };
        let how = if wanted.is_some() { "as told" } else { "by its beginning" };
        assumed.insert(0, format!("format {} ({how})", format.name()));
        Ok((parser, assumed))
    }

    /// Returns the parser's format.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Table(_) => Format::Table,
            Self::W3c(_) => Format::W3c,
            Self::Plain(format) => *format,
        }
    }

    /// Returns `true` if the first line that is not a comment names columns.
    pub(crate) fn names_due(&self) -> bool {
        matches!(self, Self::Table(table) if table.names_due)
    }

    /// Takes a comment line. Only W3C logs have directives in comments.
    pub(crate) fn comment(&mut self, line: &str) -> Result<(), Reason> {
        match self {
            Self::W3c(extended) => extended.directive(line),
            _ => Ok(()),
        }
    }

    /// Parses one line that is not a comment.
    #[inline]
    pub(crate) fn parse<'a>(&self, line: &'a str) -> Result<ParsedLine<'a>, Reason> {
        match self {
            Self::Table(table) => table.parse(line),
            Self::W3c(extended) => extended.parse(line).map(ParsedLine::Request),
            Self::Plain(format) => format.parse(line).map(ParsedLine::Request),
        }
    }
}

/// Returns the format that a line of another format has, the strictest first. Formats that take
/// nearly any line do not count.
pub(crate) fn of_line(line: &str) -> Option<Format> {
    [Format::Squid, Format::Common, Format::Json, Format::Csv, Format::UrlSize]
        .into_iter()
        .find(|format| format.parse(line).is_ok())
}

/// Returns `true` if the detection may read the beginning of this stream as text.
pub(crate) fn may_be_text(beginning: &[u8]) -> bool {
    binary(beginning).is_none() && !is_utf_16(beginning)
}

/// Returns the binary format of a stream with this beginning.
fn binary(beginning: &[u8]) -> Option<Format> {
    if beginning.starts_with(columnar::MAGIC) {
        return Some(Format::Shoal);
    }
    oracle::looks_like(beginning).then_some(Format::OracleGeneral)
}

/// Returns `true` if a stream begins with the byte order mark of UTF-16 and an ASCII character in
/// UTF-16.
fn is_utf_16(beginning: &[u8]) -> bool {
    matches!(beginning, [0xFF, 0xFE, 1..=0x7F, 0, ..] | [0xFE, 0xFF, 0, 1..=0x7F, ..])
}

/// Returns the text format of a stream with this beginning.
fn among_texts(beginning: &str) -> Result<Format, Reason> {
    if w3c::directives(beginning).next().is_some() {
        return Ok(Format::W3c);
    }
    let lines = || first_lines(beginning);
    let first = lines().next().ok_or("there is no line with a request")?;
    if table::has_names(first) || commented_names(beginning).is_some_and(table::has_names) {
        return Ok(Format::Table);
    }
    // One or two bad lines at the beginning must not decide.
    let votes = |format: &Format| lines().filter(|line| format.parse(line).is_ok()).count();
    let best = BY_STRICTNESS.into_iter().rev().max_by_key(votes);
    let is_clear = |format: &Format| votes(format) > 0 && votes(format) * 2 >= lines().count();
    best.filter(is_clear).ok_or(NO_FORMAT)
}

/// Returns the table named by the first line. That line may look like a comment.
fn named_in(beginning: &str, separator: Option<Separator>) -> Result<(TableFormat, Vec<String>), Reason> {
    let first = first_lines(beginning).next().ok_or("there is no line with a request")?;
    match (TableFormat::of(first, separator), commented_names(beginning)) {
        (Err(_), Some(names)) => TableFormat::of(names, separator),
        (Ok((mut table, assumed)), _) => {
            table.names_due = true;
            Ok((table, assumed))
        }
        (Err(why), None) => Err(why),
    }
}

/// Returns the column names behind a `#`. libCacheSim's csv files may have them.
fn commented_names(beginning: &str) -> Option<&str> {
    beginning.lines().next()?.strip_prefix('#').filter(|names| names.contains(','))
}

fn first_lines(beginning: &str) -> impl Iterator<Item = &str> {
    beginning.lines().filter(|line| !is_comment(line)).take(SAMPLE_LINES)
}

/// Returns `true` for blank lines and lines that begin with `#`. No format has requests in them.
pub(crate) fn is_comment(line: &str) -> bool {
    match line.as_bytes().first() {
        None | Some(b'#') => true,
        Some(b' ' | b'\t' | 0x80..) => line.trim_start().is_empty(),
        Some(_) => false,
    }
}

/// Reason given when no format fits.
pub(crate) const NO_FORMAT: Reason = "the format is not one of those known";
/// Text formats by strictness, the strictest first. The strictest format that fits a line wins.
const BY_STRICTNESS: [Format; 7] =
    [Format::Squid, Format::Common, Format::Json, Format::Pages, Format::Csv, Format::UrlSize, Format::Paths];

#[cfg(test)]
mod tests;
