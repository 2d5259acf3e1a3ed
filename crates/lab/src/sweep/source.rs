//! The traces of a sweep: read from files or made, and known by a digest.
//!
//! The digest is the xxh3 of the file's bytes and its read settings, or of the settings of made
//! traffic. Results from another trace of the same name are therefore not taken for results of this
//! one.

use super::spec::Mistakes;
use shoal_core::ByteCount;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, Format, Input, ReadOptions, Request, Separator, Trace};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use xxhash_rust::xxh3::Xxh3;

/// Source of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// Name of the trace in the specification.
    pub name: String,
    from: From,
}

#[derive(Clone, Debug, PartialEq)]
enum From {
    File { path: PathBuf, settings: Settings },
    Made(Traffic),
}

/// Settings for reading a file.
#[derive(Clone, Debug, PartialEq, Default)]
struct Settings {
    format: Option<Format>,
    columns: Option<String>,
    separator: Option<Separator>,
    filter: Filter,
    limit: Option<u64>,
    bad_lines_max: Option<f64>,
    bytes_unknown: Option<u64>,
}

/// A trace in memory, ready for simulations.
pub struct SweepTrace {
    /// The trace.
    pub trace: Trace,
    /// The bytes of all objects, each at its first size.
    pub unique_bytes: u64,
    /// Digest of the trace, which identifies its results.
    pub digest: String,
    /// Notes on the file's lines that were not taken unchanged
    /// ([`shoal_trace::Unread::notes_with_sizes`]).
    pub notes: Vec<String>,
}

/// Keys of a trace's table, with their meanings.
pub(super) const SETTINGS: [(&str, &str); 9] = [
    (
        "file",
        "the trace: a log or a table, plain or compressed; a relative path starts at the specification's folder",
    ),
    (
        "synthetic",
        "made proxy traffic instead of a file, such as `\"requests=100000,seed=1\"` (`shoal trace convert --help`)",
    ),
    ("format", "the file's format where its beginning does not tell"),
    ("columns", "names of a table's columns where its first line does not name them"),
    (
        "separator",
        "the columns' separator: tab, comma, semicolon, bar or space; the first line tells by default",
    ),
    ("bad_lines", "the largest share of lines that may be bad, 0.25 by default; more is an error"),
    ("filter", "a list of rules: which requests count (`shoal trace filter --help`); all by default"),
    ("limit", "at most so many requests"),
    ("size_unknown", "the size of a request that has none; 8 KiB by default"),
];

impl TraceSource {
    /// Reads a trace's table.
    pub(super) fn read(
        name: &str,
        table: &DeTable<'_>,
        offset: usize,
        folder: &Path,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let known = |key: &str| SETTINGS.iter().any(|(name, _)| *name == key);
        for (key, _) in table.iter().filter(|(key, _)| !known(key.get_ref())) {
            let names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
            mistakes.note(key.span().start, key.get_ref(), format!("a trace has: {}", names.join(", ")));
        }
        let mut text = |key: &str| {
            let value = table.get(key)?;
            match value.get_ref() {
                DeValue::String(text) => Some((text.to_string(), value.span().start)),
                _ => {
                    mistakes.note(value.span().start, key, "a text is needed".into());
                    None
                }
            }
        };
        let (file, made, format) = (text("file"), text("synthetic"), text("format"));
        let (columns, size, separator) = (text("columns"), text("size_unknown"), text("separator"));
        let mut settings = Settings { columns: columns.map(|(names, _)| names), ..Settings::default() };
        settings.filter = filter(table.get("filter"), mistakes);
        settings.limit = limit(table.get("limit"), mistakes);
        settings.bad_lines_max = bad_lines(table.get("bad_lines"), mistakes);
        if let Some((name, at)) = separator {
            settings.separator = Separator::named(&name);
            if settings.separator.is_none() {
                let known: Vec<&str> = Separator::ALL.iter().map(|separator| separator.name()).collect();
                mistakes.note(at, "separator", format!("{name:?} is none of {}", known.join(", ")));
            }
        }
        if let Some((format, at)) = format {
            settings.format = Format::named(&format);
            if settings.format.is_none() {
                let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
                mistakes.note(at, "format", format!("{format:?} is none of {}", known.join(", ")));
            }
        }
        if let Some((size, at)) = size {
            match size.parse::<ByteCount>() {
                Ok(bytes) => settings.bytes_unknown = Some(bytes.0),
                Err(error) => mistakes.note(at, "size_unknown", error.to_string()),
            }
        }
        let from = match (file, made) {
            (Some((file, at)), None) => {
                let path = folder.join(&file);
                if !path.is_file() {
                    mistakes.note(at, "file", format!("there is no file {}", path.display()));
                }
                From::File { path, settings }
            }
            (None, Some((values, at))) => match values.parse() {
                Ok(traffic) => From::Made(traffic),
                Err(error) => {
                    mistakes.note(at, "synthetic", error.to_string());
                    return None;
                }
            },
            _ => {
                mistakes.note(offset, name, "a trace has either a file or synthetic".into());
                return None;
            }
        };
        Some(Self { name: name.into(), from })
    }

    /// Reads or makes the trace.
    pub(super) fn load(&self) -> Result<SweepTrace, String> {
        let (trace, notes) = match &self.from {
            From::Made(traffic) => (traffic.make().map_err(|error| error.to_string())?, Vec::new()),
            From::File { path, settings } => settings.read(path)?,
        };
        if trace.requests().is_empty() {
            let mut why = String::from("no request is left of it");
            notes.iter().for_each(|note| why += &format!("; {note}"));
            return Err(why);
        }
        let digest = self.digest()?;
        let unique_bytes = unique_bytes(&trace);
        Ok(SweepTrace { trace, unique_bytes, digest, notes })
    }

    /// Returns the digest that identifies this trace's results: sixteen hexadecimal digits.
    pub(super) fn digest(&self) -> Result<String, String> {
        let mut hash = Xxh3::new();
        match &self.from {
            From::Made(traffic) => hash.update(format!("{traffic}").as_bytes()),
            From::File { path, settings } => {
                hash.update(format!("{settings:?}").as_bytes());
                let failed = |error: std::io::Error| format!("{}: {error}", path.display());
                let mut file = File::open(path).map_err(failed)?;
                let mut bytes = vec![0; 1 << 20];
                loop {
                    let read = file.read(&mut bytes).map_err(failed)?;
                    if read == 0 {
                        break;
                    }
                    hash.update(&bytes[..read]);
                }
            }
        }
        Ok(format!("{:016x}", hash.digest()))
    }
}

impl SweepTrace {
    /// Takes a trace that is in memory already.
    pub fn of(trace: Trace, digest: &str) -> Self {
        let unique_bytes = unique_bytes(&trace);
        Self { trace, unique_bytes, digest: digest.into(), notes: Vec::new() }
    }

    /// Returns the number of requests in a share of the trace.
    pub(super) fn share(&self, share: f64) -> usize {
        (self.trace.requests().len() as f64 * share.clamp(0.0, 1.0)) as usize
    }
}

impl Settings {
    fn read(&self, path: &Path) -> Result<(Trace, Vec<String>), String> {
        let failed = |why: String| format!("{}: {why}", path.display());
        let input = Input::open(path).map_err(|error| failed(error.to_string()))?;
        let defaults = ReadOptions::default();
        let options = ReadOptions {
            format: self.format,
            columns: self.columns.clone(),
            separator: self.separator,
            bad_lines_max: self.bad_lines_max.unwrap_or(defaults.bad_lines_max),
            ..defaults
        };
        let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let bytes_unknown = self.bytes_unknown.unwrap_or(BYTES_UNKNOWN);
        let read = Trace::read(input, &options, &self.filter, limit, bytes_unknown);
        let (trace, reading, unread) = read.map_err(|error| failed(error.to_string()))?;
        let notes = unread.notes_with_sizes(&reading, bytes_unknown);
        Ok((trace, notes))
    }
}

fn filter(given: Option<&Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Filter {
    let mut filter = Filter::default();
    let rules: Vec<&Spanned<DeValue<'_>>> = match given.map(|given| (given, given.get_ref())) {
        None => Vec::new(),
        Some((_, DeValue::Array(rules))) => rules.iter().collect(),
        Some((one, _)) => vec![one],
    };
    for rule in rules {
        let is_known = matches!(rule.get_ref(), DeValue::String(name) if filter.add(name));
        if !is_known {
            let message = format!("rules are: {}", Filter::RULES.join(", "));
            mistakes.note(rule.span().start, "filter", message);
        }
    }
    filter
}

fn limit(given: Option<&Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Option<u64> {
    let given = given?;
    let limit = match given.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    if limit.is_none_or(|limit| limit == 0) {
        mistakes.note(given.span().start, "limit", "a whole number from 1 is needed".into());
    }
    limit
}

fn bad_lines(given: Option<&Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Option<f64> {
    let given = given?;
    let share = match given.get_ref() {
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    if share.is_none() {
        mistakes.note(given.span().start, "bad_lines", "a share from 0 to 1 is needed".into());
    }
    share
}

fn unique_bytes(trace: &Trace) -> u64 {
    let mut seen = vec![false; trace.objects().len()];
    let first = |request: &&Request| !std::mem::replace(&mut seen[request.object as usize], true);
    let mut first = first;
    trace.requests().iter().filter(|request| first(request)).map(|request| request.bytes).sum()
}

/// Size of requests without one, in bytes, as in `shoal replay`.
const BYTES_UNKNOWN: u64 = 8192;
