//! What is wrong with a configuration, and where: collected, placed and shown.

use crate::tree::SourceLocation;
use std::fmt;

/// One mistake, at the place that an operator has to edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, or the environment variable or command line option that holds the mistake.
    pub file: String,
    /// Its line in the file, from 1.
    pub line: Option<usize>,
    /// Its column in characters, from 1.
    pub column: Option<usize>,
    /// The setting concerned, such as `site[0].upstreams[1].url`; empty when the file is not TOML.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What might be meant.
    pub hint: Option<String>,
}

/// `file:line:column: key: message (hint)`, one line.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Mistake {}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<Found>);

#[derive(Debug)]
struct Found {
    place: SourceLocation,
    key: String,
    message: String,
    hint: Option<String>,
}

impl Mistakes {
    /// Notes one.
    pub fn note(
        &mut self,
        place: &SourceLocation,
        key: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.0.push(Found { place: place.clone(), key: key.into(), message: message.into(), hint });
    }

    /// Whether a mistake was noted at `key`, within it, or around it: then its value is not what
    /// was meant.
    pub fn touches(&self, key: &str) -> bool {
        self.0.iter().any(|found| within(&found.key, key) || within(key, &found.key))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes in the order of the file, those from elsewhere last.
    pub fn placed(mut self, file: &str, text: &str) -> Vec<Mistake> {
        self.0.sort_by_key(|found| match found.place {
            SourceLocation::File { offset } => (0, offset),
            SourceLocation::Nowhere => (1, 0),
            SourceLocation::Override(_) => (2, 0),
        });
        self.0.into_iter().map(|found| found.placed(file, text)).collect()
    }
}

impl Found {
    fn placed(self, file: &str, text: &str) -> Mistake {
        let (file, position) = match self.place {
            SourceLocation::File { offset } => (file.to_owned(), Some(position(text, offset))),
            SourceLocation::Nowhere => (file.to_owned(), None),
            SourceLocation::Override(name) => (name.to_string(), None),
        };
        Mistake {
            file,
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            key: self.key,
            message: self.message,
            hint: self.hint,
        }
    }
}

/// Whether `inner` is `outer` or a part of it: `a[0].b` lies within `a[0]` and `a`.
fn within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Line and column, from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}

/// The candidate that `word` was probably meant to be: equal but for its case, or a few typing
/// slips away.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    // a candidate this far away shares too little with what was typed to be a slip
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
/// Costs O(len(a)·len(b)) time and three rows of space.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        for (offset, expected) in [(0, (1, 1)), (2, (1, 3)), (4, (2, 1)), (7, (2, 3)), (99, (2, 5))] {
            assert_eq!(position("abc\nä€bc", offset), expected, "offset {offset}");
        }
    }

    #[test]
    fn slips_of_typing_are_recognised() {
        let keys = ["address", "mode", "heuristic_max", "ram"];
        for (word, expected) in [
            ("adress", Some("address")),
            ("addrses", Some("address")),
            ("RAM", Some("ram")),
            ("heuristic-max", Some("heuristic_max")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(closest(word, keys), expected, "{word}");
        }
    }

    #[test]
    fn keys_contain_their_parts_only() {
        assert!(within("a[0].b", "a") && within("a.b", "a.b") && within("a[0]", "a"));
        assert!(!within("ab", "a") && !within("a", "a.b"));
    }
}
