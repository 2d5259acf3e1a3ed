//! Tables: columns by name, parted by tabs, commas, semicolons, bars or blanks.
//!
//! The parser knows the column names of many publishers. Three shapes of the shared traces need
//! more than a column: objects named by three columns together (Tencent), hits of the browser's own
//! cache (Boston University), and times in units given by the name.

use super::ParsedLine;
use crate::outcome::said;
use crate::record::Record;
use crate::scan::{ABSURD_TIME, Reason, bytes, status, time};
use std::borrow::Cow;

/// Columns of a table, and their separator.
pub(crate) struct TableFormat {
    separator: Separator,
    columns: ColumnPositions,
    width: usize,
    /// The first line that is not a comment has the column names and is not a request.
    pub(super) names_due: bool,
}

/// Separator of a table's columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Separator {
    /// One tab.
    Tab,
    /// One comma.
    Comma,
    /// One semicolon.
    Semicolon,
    /// One upright bar.
    Bar,
    /// Any number of blanks.
    Space,
}

impl Separator {
    /// All separators, in the order of detection.
    pub const ALL: [Self; 5] = [Self::Tab, Self::Comma, Self::Semicolon, Self::Bar, Self::Space];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tab => "tab",
            Self::Comma => "comma",
            Self::Semicolon => "semicolon",
            Self::Bar => "bar",
            Self::Space => "space",
        }
    }

    /// Returns the separator named `name`; the character itself is a name too.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.name() == name || name.chars().eq([mark.character()]))
    }

    fn character(self) -> char {
        match self {
            Self::Tab => '\t',
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Bar => '|',
            Self::Space => ' ',
        }
    }

    /// Returns the first separator that a line contains.
    fn in_line(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| line.contains(mark.character()))
    }
}

/// Position of each column, from 0.
#[derive(Default)]
struct ColumnPositions {
    url: usize,
    /// Host for URLs that are paths.
    host: Option<usize>,
    /// Scheme for URLs that are paths.
    scheme: Option<usize>,
    /// Further columns that are part of the object's name.
    qualifiers: Vec<usize>,
    bytes: Option<usize>,
    time: Option<(usize, u64)>,
    client: Option<usize>,
    method: Option<usize>,
    status: Option<usize>,
    browser_hit: Option<usize>,
    outcome: Option<usize>,
    ttl: Option<usize>,
}

/// Number of lines that detection examines.
pub(super) const SAMPLE_LINES: usize = 50;

/// Returns `true` if a line names enough columns for a trace.
pub(super) fn has_names(line: &str) -> bool {
    match TableFormat::of(line, None) {
        // Blanks part the words of any text. Only an object beside a time or a size is a table.
        Ok((table, _)) if table.separator == Separator::Space => {
            table.columns.bytes.is_some() || table.columns.time.is_some()
        }
        found => found.is_ok(),
    }
}

impl TableFormat {
    /// Returns the table of told column names for lines like `first`. Names may be parted by commas
    /// where the lines are parted by something else. Without a told separator, the first that gives
    /// `first` as many fields as there are names counts.
    pub(super) fn told(
        names: &str,
        separator: Option<Separator>,
        first: Option<&str>,
    ) -> Result<(Self, Vec<String>), Reason> {
        let within = Separator::in_line(names).ok_or("there are fewer than two names of columns")?;
        let (mut table, assumed) = Self::of(names, Some(within))?;
        let fits = |mark: &Separator| {
            first.is_some_and(|line| DelimitedFields::of(line, *mark).count() == table.width)
        };
        let found = [within].into_iter().chain(Separator::ALL).find(fits);
        table.separator = separator.or(found).unwrap_or(within);
        debug_assert!(table.width > table.columns.url && !table.names_due, "told names are no line");
        Ok((table, assumed))
    }

    /// Parses the line of column names. Returns the table and its assumptions.
    pub(super) fn of(line: &str, separator: Option<Separator>) -> Result<(Self, Vec<String>), Reason> {
        let separator =
            separator.or_else(|| Separator::in_line(line)).ok_or("the first line does not name columns")?;
        let cells: Vec<String> = DelimitedFields::of(line, separator)
            .map(|name| name.map(|name| name.trim().to_ascii_lowercase()))
            .collect::<Result<_, _>>()?;
        let find = |names: &[&str]| names.iter().find_map(|name| cells.iter().position(|cell| cell == name));
        let url = find(URL_NAMES).ok_or("no column is called url, or any other known name of an object")?;
        let qualifiers = match cells[url].as_str() {
            "object" => ["format", "spec"].iter().filter_map(|name| find(&[name])).collect(),
            _ => Vec::new(),
        };
        let scaled = |(name, per_second): &(&str, u64)| Some((find(&[name])?, *per_second));
        let columns = ColumnPositions {
            url,
            host: find(HOST_NAMES).or_else(|| find(CLIENT_NAMES).and(find(&["host"]))),
            scheme: find(&["scheme", "protocol_scheme"]),
            qualifiers,
            bytes: find(SIZE_NAMES),
            time: TIME_NAMES.iter().find_map(scaled),
            client: find(CLIENT_NAMES),
            method: find(&["method", "request_method"]),
            status: find(&["status", "code", "status_code", "http_status"]),
            browser_hit: find(&["browser_hit"]),
            outcome: find(OUTCOME_NAMES),
            ttl: find(&["ttl_s", "ttl", "ttl_seconds", "lifetime_s", "max_age"]),
        };
        let assumed = columns.assumed(&cells);
        Ok((Self { separator, columns, width: cells.len(), names_due: false }, assumed))
    }

    /// Parses one row.
    pub(super) fn parse<'a>(&self, line: &'a str) -> Result<ParsedLine<'a>, Reason> {
        let mut record = Record::default();
        let mut left_out = false;
        let mut width = 0;
        let mut qualifiers = String::new();
        let (mut host, mut scheme) = (None, None);
        let columns = &self.columns;
        let fields = DelimitedFields::of(line, self.separator);
        for (at, field) in fields.enumerate() {
            let field = field?;
            width += 1;
            match Some(at) {
                _ if at == columns.url => record.url = field,
                here if here == columns.bytes => record.bytes = bytes(&field)?,
                _ if columns.time.is_some_and(|(column, _)| column == at) => {
                    let (_, per_second) = columns.time.expect("it has just been compared");
                    record.time_ms = time(&field, per_second).map_err(|why| match (why, per_second) {
                        (ABSURD_TIME, 1) => {
                            "the time is no number of seconds; a column called time_ms, time_us or time_ns has other units"
                        }
                        (why, _) => why,
                    })?;
                }
                here if here == columns.client => record.client = Some(field).filter(|field| is_given(field)),
                here if here == columns.method => record.method = Some(field).filter(|field| is_given(field)),
                here if here == columns.status => record.status = status(&field)?,
                here if here == columns.browser_hit => left_out = field == "1",
                here if here == columns.outcome => record.say(said(&field)),
                here if here == columns.ttl => record.ttl_seconds = field.parse().ok().or(record.ttl_seconds),
                here if here == columns.host => host = Some(field).filter(|field| is_given(field)),
                here if here == columns.scheme => scheme = Some(field).filter(|field| is_given(field)),
                _ if columns.qualifiers.contains(&at) => {
                    qualifiers.push('/');
                    qualifiers.push_str(&field);
                }
                _ => {}
            }
        }
        match width {
            _ if width != self.width => Err("the line has another number of columns than the first"),
            _ if record.url.is_empty() => Err("the object has no name"),
            _ if left_out => Ok(ParsedLine::LeftOut),
            _ => {
                // Equal paths of different hosts are different objects.
                if let Some(host) = host.filter(|_| record.url.starts_with('/')) {
                    let scheme = scheme.as_deref().unwrap_or("http");
                    record.url = format!("{scheme}://{host}{}", record.url).into();
                }
                if !qualifiers.is_empty() {
                    record.url.to_mut().push_str(&qualifiers);
                }
                Ok(ParsedLine::Request(record))
            }
        }
    }
}

impl ColumnPositions {
    fn assumed(&self, cells: &[String]) -> Vec<String> {
        let name = |column: usize| cells.get(column).map_or("", String::as_str);
        let mut assumed = vec![format!("column {} names the object", name(self.url))];
        assumed.extend(
            self.host.map(|column| format!("column {} is the host of URLs that are paths", name(column))),
        );
        if self.host.is_none() && cells.iter().any(|cell| cell == "host") {
            assumed.push("column host is not looked at, since it may be the client; name it vhost or client where the columns are named".into());
        }
        assumed.extend(
            self.qualifiers.iter().map(|column| format!("column {} belongs to the name", name(*column))),
        );
        assumed.extend(self.bytes.map(|column| format!("column {} is its size in bytes", name(column))));
        assumed.extend(self.time.map(|(column, per_second)| {
            let unit = match per_second {
                1 => "seconds",
                1000 => "milliseconds",
                1_000_000 => "microseconds",
                _ => "nanoseconds",
            };
            format!("column {} is the time in {unit} since 1970", name(column))
        }));
        assumed.extend(self.client.map(|column| format!("column {} is the client", name(column))));
        assumed.extend(self.outcome.map(|column| format!("column {} is how a cache answered", name(column))));
        assumed.extend(
            self.ttl.map(|column| format!("column {} is the lifetime left in seconds", name(column))),
        );
        assumed.extend(self.browser_hit.map(|_| "hits in the browser's own cache are left out".to_owned()));
        assumed
    }
}

fn is_given(field: &str) -> bool {
    !matches!(field, "" | "-")
}

/// Fields of a line. Quotes enclose a field and are doubled inside (RFC 4180).
struct DelimitedFields<'a> {
    /// Text after the last field returned; `None` at the end.
    rest: Option<&'a str>,
    separator: Separator,
}

impl<'a> Iterator for DelimitedFields<'a> {
    type Item = Result<Cow<'a, str>, Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        if let Some(quoted) = rest.strip_prefix('"').filter(|_| self.separator != Separator::Tab) {
            return Some(self.quoted(quoted));
        }
        match rest.split_once(self.separator.character()) {
            Some((field, rest)) => {
                self.rest = Some(self.after(rest));
                Some(Ok(field.into()))
            }
            None => Some(Ok(rest.into())),
        }
    }
}

impl<'a> DelimitedFields<'a> {
    fn of(line: &'a str, separator: Separator) -> Self {
        let line = if separator == Separator::Space { line.trim_matches(' ') } else { line };
        Self { rest: Some(line), separator }
    }

    /// Returns the text of the next field, behind one separator. Several blanks are one separator.
    fn after(&self, rest: &'a str) -> &'a str {
        if self.separator == Separator::Space { rest.trim_start_matches(' ') } else { rest }
    }

    fn quoted(&mut self, text: &'a str) -> Result<Cow<'a, str>, Reason> {
        let mut field = Cow::Borrowed("");
        let mut from = text;
        loop {
            let (part, after) = from.split_once('"').ok_or("a quoted field does not end")?;
            match after.strip_prefix('"') {
                Some(more) => {
                    field.to_mut().push_str(part);
                    field.to_mut().push('"');
                    from = more;
                }
                None => {
                    match &mut field {
                        Cow::Borrowed(whole) => *whole = part,
                        Cow::Owned(whole) => whole.push_str(part),
                    }
                    return match after.strip_prefix(self.separator.character()) {
                        Some(rest) => {
                            self.rest = Some(self.after(rest));
                            Ok(field)
                        }
                        None if after.is_empty() => Ok(field),
                        None => Err("something follows a quoted field"),
                    };
                }
            }
        }
    }
}

const URL_NAMES: &[&str] = &[
    "url",
    "uri",
    "request_uri",
    "object",
    "object_id",
    "object id",
    "obj_id",
    "obj-id",
    "key",
    "path",
    "id",
];
/// Column names for the requested host. `host` alone is the client in some logs.
const HOST_NAMES: &[&str] = &[
    "vhost",
    "http_host",
    "server_name",
    "domain",
    "site",
    "cs(host)",
    "cs-host",
    "x-host-header",
    "clientrequesthost",
];
const OUTCOME_NAMES: &[&str] =
    &["outcome", "cache_status", "upstream_cache_status", "from_cache", "x_cache", "x-cache"];
const SIZE_NAMES: &[&str] = &[
    "bytes",
    "size",
    "size_bytes",
    "obj_size",
    "obj-size",
    "object size",
    "object_size",
    "body_bytes",
    "body_bytes_sent",
    "content_length",
    "bytes_sent",
];
/// Column names for times, with their units per second.
const TIME_NAMES: &[(&str, u64)] = &[
    ("time_ns", 1_000_000_000),
    ("time_us", 1_000_000),
    ("time_ms", 1000),
    ("time_s", 1),
    ("time", 1),
    ("timestamp", 1),
    ("ts", 1),
    ("unix_time", 1),
    ("clock_time", 1),
];
const CLIENT_NAMES: &[&str] = &["client", "client_ip", "client_id", "machine", "remote_addr", "ip", "user"];
