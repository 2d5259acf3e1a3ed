//! Mistakes in a configuration with their places: collected, placed and shown.

use crate::tree::SourceLocation;
use std::fmt;

/// One mistake, at the place that an operator must edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// File, environment variable or command line option with the mistake.
    pub file: String,
    /// Line in the file, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Setting concerned, such as `site[0].upstreams[1].url`; empty for a file that is not TOML.
    pub key: String,
    /// Description of the mistake.
    pub message: String,
    /// Probable intention of the operator.
    pub hint: Option<String>,
}

/// Writes `file:line:column: key: message (hint)`, one line.
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

/// Mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<TextPlace>);

#[derive(Debug)]
struct TextPlace {
    place: SourceLocation,
    key: String,
    message: String,
    hint: Option<String>,
}

impl Mistakes {
    /// Adds a mistake.
    pub fn note(
        &mut self,
        place: &SourceLocation,
        key: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.0.push(TextPlace { place: place.clone(), key: key.into(), message: message.into(), hint });
    }

    /// Returns `true` if a mistake was noted at `key`, within it, or around it. The value at `key`
    /// is then not the intended one.
    pub fn touches(&self, key: &str) -> bool {
        self.0.iter().any(|found| within(&found.key, key) || within(key, &found.key))
    }

    /// Returns `true` if there are no mistakes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mistakes in the order of the file. Mistakes from other sources come last.
    pub fn placed(mut self, file: &str, text: &str) -> Vec<Mistake> {
        self.0.sort_by_key(|found| match found.place {
            SourceLocation::File { offset } => (0, offset),
            SourceLocation::Nowhere => (1, 0),
            SourceLocation::Override(_) => (2, 0),
        });
        self.0.into_iter().map(|found| found.placed(file, text)).collect()
    }
}

impl TextPlace {
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

/// Returns `true` if `inner` is `outer` or a part of it: `a[0].b` lies within `a[0]` and `a`.
fn within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the line and the column, from 1, of a byte offset.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}

/// Returns the most similar candidate: equal to `word` but for its case, or a few typing errors
/// away.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    // A candidate beyond this distance shares too little with `word` to be a typing error.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the optimal string alignment distance: insertions, deletions, replacements and swaps of
/// neighbours. Costs O(len(a)·len(b)) time and three rows of space.
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
