//! Body of `POST /hints`: JSON lines, a request a line, in the order in which they will come.
//!
//! ```text
//! {"pace_ms": 20}
//! {"url": "http://cache.test/a.css", "headers": {"accept-encoding": "gzip"}}
//! {"url": "http://cache.test/b.js", "deadline_ms": 500}
//! ```
//!
//! A line without a URL sets the pace: the time between two requests of the list. Lines that cannot
//! be read are counted, and the others are taken. The format is version 1 of FORMATS.md.

use super::hint::{FIELDS_MAX, VALUE_MAX, may_set};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Lines of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HintLines {
    /// Seconds between two requests, if the list says so.
    pub pace_seconds: Option<f64>,
    /// Requests.
    pub lines: Vec<HintLine>,
    /// Lines that cannot be read, with the first of them: its number and the reason.
    pub malformed: u64,
    /// The first line that cannot be read.
    pub first_fault: Option<(usize, String)>,
}

/// One hinted request.
#[derive(Clone, Debug, PartialEq)]
pub struct HintLine {
    /// Absolute URL.
    pub url: String,
    /// Fields by which answers differ, names in lower case.
    pub fields: Vec<(Box<str>, Box<[u8]>)>,
    /// Seconds from now after which the answer is of no use.
    pub deadline_seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLine {
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    pace_ms: Option<f64>,
    deadline_ms: Option<f64>,
}

/// Reads a list.
///
/// # Errors
/// If the body is too long, no text, or has too many lines.
pub fn parse(body: &[u8]) -> Result<HintLines, String> {
    if body.len() > LIST_MAX {
        return Err(format!("the list is longer than {LIST_MAX} bytes"));
    }
    let text = std::str::from_utf8(body).map_err(|_| "the list is no text in UTF-8".to_owned())?;
    let mut found = HintLines::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if number >= LINES_MAX {
            return Err(format!("the list has more than {LINES_MAX} lines"));
        }
        match read(line, &mut found.pace_seconds) {
            Ok(Some(hint)) => found.lines.push(hint),
            Ok(None) => {}
            Err(why) => {
                found.malformed += 1;
                found.first_fault.get_or_insert((number + 1, why));
            }
        }
    }
    debug_assert!(found.lines.len() <= LINES_MAX);
    Ok(found)
}

fn read(line: &str, pace_seconds: &mut Option<f64>) -> Result<Option<HintLine>, String> {
    let raw: RawLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if let Some(pace) = raw.pace_ms {
        *pace_seconds = Some(seconds("pace_ms", pace)?);
    }
    let Some(url) = raw.url else {
        return if raw.pace_ms.is_some() { Ok(None) } else { Err("the line has no url".to_owned()) };
    };
    if url.len() > URL_MAX {
        return Err(format!("the URL is longer than {URL_MAX} bytes"));
    }
    if raw.headers.len() > FIELDS_MAX {
        return Err(format!("more than {FIELDS_MAX} headers"));
    }
    let field = |(name, value): (String, String)| {
        let name = name.to_ascii_lowercase();
        let is_sound = value.len() <= VALUE_MAX && value.bytes().all(|byte| (32..127).contains(&byte));
        match may_set(&name) && is_sound {
            true => Ok((name.into_boxed_str(), value.into_bytes().into_boxed_slice())),
            false => Err(format!("the header {name:?} may not be hinted")),
        }
    };
    Ok(Some(HintLine {
        url,
        fields: raw.headers.into_iter().map(field).collect::<Result<_, _>>()?,
        deadline_seconds: raw.deadline_ms.map(|it| seconds("deadline_ms", it)).transpose()?,
    }))
}

fn seconds(name: &str, ms: f64) -> Result<f64, String> {
    match (0.0..=LONGEST_MS).contains(&ms) {
        true => Ok(ms / 1000.0),
        false => Err(format!("{name} is not from 0 to a day")),
    }
}

/// Longest list in bytes.
pub const LIST_MAX: usize = 8 << 20;
/// Most lines of a list.
const LINES_MAX: usize = 50_000;
const URL_MAX: usize = 8192;
const LONGEST_MS: f64 = 86_400_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_keep_order_pace_and_fields() {
        let body = "{\"pace_ms\": 20}\n{\"url\":\"http://a.test/1\",\"headers\":{\"Accept\":\"x\"}}\n\n{\"url\":\"http://a.test/2\",\"deadline_ms\":500}\n";
        let list = parse(body.as_bytes()).expect("a list");
        assert_eq!((list.pace_seconds, list.malformed, list.lines.len()), (Some(0.02), 0, 2));
        assert_eq!(list.lines[0].fields, [("accept".into(), b"x"[..].into())]);
        assert_eq!(list.lines[1].deadline_seconds, Some(0.5));
    }

    #[test]
    fn bad_lines_are_counted_and_others_taken() {
        for bad in [
            "nonsense",
            "{}",
            "{\"url\": 5}",
            "{\"url\":\"x\",\"extra\":1}",
            "{\"url\":\"x\",\"headers\":{\"Cookie\":\"a=b\"}}",
            "{\"url\":\"x\",\"headers\":{\"accept\":\"a\\nb\"}}",
            "{\"url\":\"x\",\"deadline_ms\":-1}",
            "{\"pace_ms\":1e99}",
        ] {
            let list = parse(format!("{bad}\n{{\"url\":\"http://a.test/\"}}").as_bytes()).expect("a list");
            assert_eq!((list.malformed, list.lines.len()), (1, 1), "{bad}");
            assert_eq!(list.first_fault.map(|(line, _)| line), Some(1), "{bad}");
        }
        assert!(parse(b"\xff").is_err() && parse(&vec![b' '; LIST_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_body_is_read_without_harm(body in "[{}\":,a-z0-9_ \\n-]{0,200}") {
            if let Ok(list) = parse(body.as_bytes()) {
                prop_assert!(list.lines.len() as u64 + list.malformed <= body.lines().count() as u64);
            }
        }
    }
}
