//! A minimum age: the time of a version stands in its `.info`, a small JSON object. A list of
//! versions has no times; the node asks for those of each version.

use crate::json::{Path, Visitor, Walk, text};
use crate::lines::{LineSelection, LineSurvey};
use crate::time::rfc3339;
use crate::{BadDocument, Facts, Promise, Promises, Rewriter, Survey};
use std::collections::HashSet;

/// Version and time of an `.info`.
#[derive(Default)]
struct Info {
    version: Option<String>,
    time: Option<i64>,
}

impl Info {
    /// Reads an `.info`.
    fn read(document: &[u8]) -> Result<Self, BadDocument> {
        let (mut walk, mut unread) = (Walk::new(Self::default()), Vec::new());
        walk.push(document, &mut unread)?;
        walk.finish(&mut unread)?;
        Ok(walk.visitor)
    }
}

impl Visitor for Info {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["Version"]) || path.is(&["Time"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let value = text(raw);
        match path.key(0) {
            "Version" => self.version = value,
            _ => self.time = value.and_then(|time| rfc3339(&time)),
        }
    }
}

/// Reader of a list, or of one version's `.info`. The latter has the tag `latest`.
pub(super) enum VersionSurvey {
    /// Nothing came yet.
    Unknown,
    /// A list.
    List(LineSurvey),
    /// An `.info`.
    Info(InfoBytes),
}

impl Survey for VersionSurvey {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        if let (Self::Unknown, Some(first)) = (&self, input.first()) {
            *self = match first {
                b'{' => Self::Info(InfoBytes::default()),
                _ => Self::List(LineSurvey::new(version_of_line)),
            };
        }
        match self {
            Self::Unknown => Ok(()),
            Self::List(survey) => survey.push(input),
            Self::Info(bytes) => bytes.push(input),
        }
    }

    fn finish(&mut self) -> Result<Facts, BadDocument> {
        match self {
            Self::Unknown => Ok(Facts::default()),
            Self::List(survey) => survey.finish(),
            Self::Info(bytes) => {
                let Info { version, time } = Info::read(&bytes.0)?;
                let version = version.unwrap_or_default();
                Ok(Facts {
                    versions: vec![(version.clone(), time)],
                    tags: vec![(LATEST.to_owned(), version)],
                })
            }
        }
    }
}

/// Gives the rewriter of a document with these facts that leaves versions out. `None` if nothing of
/// it stays.
pub(super) fn selection(facts: &Facts, versions: HashSet<String>) -> Option<Box<dyn Rewriter + Send>> {
    match facts.tags.first() {
        None => Some(Box::new(LineSelection::new(version_of_line, versions))),
        Some((_, version)) if versions.contains(version) => {
            Some(Box::new(InfoOf { bytes: InfoBytes::default(), versions }))
        }
        Some(_) => None,
    }
}

/// Rewriter of an `.info`, which must be that of a version that stays.
struct InfoOf {
    bytes: InfoBytes,
    versions: HashSet<String>,
}

impl Rewriter for InfoOf {
    fn push(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.bytes.push(input)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        let version = Info::read(&self.bytes.0)?.version.unwrap_or_default();
        if !self.versions.contains(&version) {
            return Err(BadDocument { at: 0, why: "another version than the one that is old enough" });
        }
        output.append(&mut self.bytes.0);
        Ok(())
    }
}

/// Reader of the time of a version's files in its `.info`.
#[derive(Default)]
pub(super) struct TimeOfFile(InfoBytes);

impl Promises for TimeOfFile {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        self.0.push(input)
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        let published = Info::read(&self.0.0)?.time;
        Ok(Some(Promise { digest: None, size: None, published, is_withdrawn: false }))
    }
}

/// Bytes of a small document.
#[derive(Default)]
pub(super) struct InfoBytes(Vec<u8>);

impl InfoBytes {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        if self.0.len() + input.len() > INFO_MAX {
            return Err(BadDocument { at: self.0.len() as u64, why: "a longer .info than any version has" });
        }
        self.0.extend_from_slice(input);
        debug_assert!(self.0.len() <= INFO_MAX);
        Ok(())
    }
}

/// Reads the version of a line of a list.
fn version_of_line(line: &str) -> Option<(String, Option<i64>)> {
    let version = line.split_ascii_whitespace().next()?;
    Some((version.to_owned(), None))
}

const LATEST: &str = "latest";
/// Longest `.info` in bytes.
const INFO_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(document: &str) -> Facts {
        let mut survey = VersionSurvey::Unknown;
        document.as_bytes().chunks(5).for_each(|piece| survey.push(piece).expect("sound"));
        survey.finish().expect("whole")
    }

    fn selected(document: &str, versions: &[&str]) -> Option<String> {
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        let (mut selection, mut output) = (selection(&surveyed(document), versions)?, Vec::new());
        document.as_bytes().chunks(5).for_each(|piece| selection.push(piece, &mut output).expect("sound"));
        selection.finish(&mut output).expect("whole");
        Some(String::from_utf8(output).expect("text"))
    }

    const INFO: &str = r#"{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z","Origin":{"VCS":"git"}}"#;

    #[test]
    fn info_has_the_time_and_a_list_has_none() {
        assert_eq!(surveyed(INFO).versions, [("v1.0.0".to_owned(), Some(1_767_225_600))]);
        let list = surveyed("v1.0.0\nv1.1.0\n").versions;
        assert_eq!(list, ["v1.0.0", "v1.1.0"].map(|version| (version.to_owned(), None)));
        assert_eq!(surveyed(""), Facts::default());
        let mut time = TimeOfFile::default();
        time.push(INFO.as_bytes()).expect("sound");
        assert_eq!(time.finish().expect("whole").and_then(|it| it.published), Some(1_767_225_600));
    }

    #[test]
    fn young_versions_are_left_out() {
        assert_eq!(selected("v1.0.0\nv1.1.0\n", &["v1.0.0"]).as_deref(), Some("v1.0.0\n"));
        assert_eq!(selected("v1.1.0\n", &[]).as_deref(), Some(""));
        assert_eq!(selected(INFO, &["v1.0.0"]).as_deref(), Some(INFO));
        assert_eq!(selected(INFO, &[]), None);
    }

    /// The document may change between both readings.
    #[test]
    fn another_version_is_cut() {
        let versions = ["v1.0.0".to_owned()].into_iter().collect();
        let mut selection = selection(&surveyed(INFO), versions).expect("it stays");
        selection.push(INFO.replace("v1.0.0", "v1.0.1").as_bytes(), &mut Vec::new()).expect("so far");
        assert!(selection.finish(&mut Vec::new()).is_err());
    }
}
