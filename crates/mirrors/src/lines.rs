//! Documents of lines, a version each: the times of versions are read, and versions left out.
//!
//! A line is kept until its end, 256 KiB at most.

use crate::survey::NameBound;
use crate::{BadDocument, Facts, Rewriter, Survey};
use std::collections::HashSet;

/// Reads the version of a line, and its publication time in seconds since 1970 if the line has it.
/// `None` for a line that is about no version. A line that cannot be read has the version `""`.
pub type LineReader = fn(&str) -> Option<(String, Option<i64>)>;

/// Cuts a document into lines.
#[derive(Default)]
pub struct Lines {
    line: Vec<u8>,
    at: u64,
}

impl Lines {
    /// Calls `take` with each whole line of the document so far, its end included.
    ///
    /// # Errors
    /// If a line is longer than 256 KiB.
    pub fn push(&mut self, input: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), BadDocument> {
        self.at += input.len() as u64;
        let mut rest = input;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, further) = rest.split_at(end + 1);
            self.keep(line)?;
            take(&self.line);
            self.line.clear();
            rest = further;
        }
        self.keep(rest)
    }

    /// Calls `take` with the last line, if it has no end of its own.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8])) {
        debug_assert!(memchr::memchr(b'\n', &self.line).is_none(), "whole lines were taken");
        if !self.line.is_empty() {
            take(&self.line);
            self.line.clear();
        }
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), BadDocument> {
        if self.line.len() + part.len() > LINE_MAX {
            return Err(BadDocument { at: self.at, why: "a longer line than any index has" });
        }
        self.line.extend_from_slice(part);
        debug_assert!(self.line.len() <= LINE_MAX);
        Ok(())
    }
}

/// Reader of versions and times.
pub struct LineSurvey {
    lines: Lines,
    read: LineReader,
    versions: Vec<(String, Option<i64>)>,
    bound: NameBound,
}

impl LineSurvey {
    /// Creates a reader of such lines.
    pub fn new(read: LineReader) -> Self {
        Self { lines: Lines::default(), read, versions: Vec::new(), bound: NameBound::default() }
    }
}

impl Survey for LineSurvey {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let Self { lines, read, versions, bound } = self;
        lines.push(input, |line| gather(line, *read, versions, bound))?;
        bound.check()
    }

    fn finish(&mut self) -> Result<Facts, BadDocument> {
        let Self { lines, read, versions, bound } = self;
        lines.finish(|line| gather(line, *read, versions, bound));
        bound.check()?;
        Ok(Facts { versions: std::mem::take(versions), tags: Vec::new() })
    }
}

fn gather(line: &[u8], read: LineReader, versions: &mut Vec<(String, Option<i64>)>, bound: &mut NameBound) {
    let found = read(&String::from_utf8_lossy(line));
    versions.extend(found.filter(|(version, _)| bound.take(version.len())));
}

/// Rewriter that leaves out the lines of other versions.
pub struct LineSelection {
    lines: Lines,
    read: LineReader,
    versions: HashSet<String>,
}

impl LineSelection {
    /// Keeps the lines of these versions, and those that are about no version.
    pub fn new(read: LineReader, versions: HashSet<String>) -> Self {
        Self { lines: Lines::default(), read, versions }
    }
}

impl Rewriter for LineSelection {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let Self { lines, read, versions } = self;
        lines.push(input, |line| select(line, *read, versions, output))
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let Self { lines, read, versions } = self;
        lines.finish(|line| select(line, *read, versions, output));
        Ok(())
    }
}

fn select(line: &[u8], read: LineReader, versions: &HashSet<String>, output: &mut Vec<u8>) {
    let version = read(&String::from_utf8_lossy(line));
    if version.is_none_or(|(version, _)| versions.contains(&version)) {
        output.extend_from_slice(line);
    }
}

/// Longest line in bytes.
const LINE_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// `1.0 7` is a version with its time, `# ...` is none.
    fn read(line: &str) -> Option<(String, Option<i64>)> {
        let line = line.trim_end();
        let (version, time) = line.split_once(' ').unwrap_or((line, ""));
        (version != "#").then(|| (version.to_owned(), time.parse().ok()))
    }

    const DOCUMENT: &str = "# 1\n1.0 7\n2.0\r\n\n3.0 9";

    #[test]
    fn lines_are_read_in_pieces() {
        for piece in [1, 4, 100] {
            let mut survey = LineSurvey::new(read);
            DOCUMENT.as_bytes().chunks(piece).for_each(|piece| survey.push(piece).expect("sound"));
            let found = survey.finish().expect("whole").versions;
            let wanted = [("1.0", Some(7)), ("2.0", None), ("", None), ("3.0", Some(9))];
            assert_eq!(found, wanted.map(|(version, time)| (version.to_owned(), time)), "{piece}");
        }
    }

    #[test]
    fn other_versions_are_left_out() {
        for piece in [1, 4, 100] {
            let versions = ["1.0", "3.0"].map(str::to_owned).into_iter().collect();
            let (mut selection, mut output) = (LineSelection::new(read, versions), Vec::new());
            for piece in DOCUMENT.as_bytes().chunks(piece) {
                selection.push(piece, &mut output).expect("sound");
            }
            selection.finish(&mut output).expect("whole");
            assert_eq!(String::from_utf8(output).expect("text"), "# 1\n1.0 7\n3.0 9", "{piece}");
        }
    }

    #[test]
    fn endless_line_is_refused() {
        let mut survey = LineSurvey::new(read);
        assert!((0..300).any(|_| survey.push(&[b'x'; 1024]).is_err()));
    }
}
