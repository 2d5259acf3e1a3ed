//! A minimum age: files that are too young, or of unknown time, are left out of a project's
//! document. Each file has its own `upload-time` (PEP 700).

use super::file_name::version_of;
use super::json::relative;
use super::page_url;
use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::survey::{self, JsonSurvey, NameBound};
use crate::time::rfc3339;
use crate::{BadDocument, Facts, Mirror, Rewriter};
use std::collections::HashSet;

/// Reader of the names and times of files.
pub(super) type UploadTimes = JsonSurvey<UploadVisitor>;

#[derive(Default)]
pub(super) struct UploadVisitor {
    name: Option<String>,
    time: Option<i64>,
    files: Vec<(String, Option<i64>)>,
    bound: NameBound,
}

impl survey::Times for UploadVisitor {
    fn bound(&self) -> &NameBound {
        &self.bound
    }

    fn facts(self) -> Facts {
        Facts { versions: self.files, tags: Vec::new() }
    }
}

impl Visitor for UploadVisitor {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["files", "*", "filename"]) || path.is(&["files", "*", "upload-time"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        match path.key(2) {
            "filename" => self.name = text(raw),
            _ => self.time = text(raw).and_then(|time| rfc3339(&time)),
        }
    }

    fn left(&mut self, path: &Path) {
        if !path.is(&["files", "*"]) {
            return;
        }
        let (name, time) = (self.name.take(), self.time.take());
        if let Some(name) = name.filter(|name| self.bound.take(name.len())) {
            self.files.push((name, time));
        }
    }
}

/// Rewriter that leaves files out, and versions without a file.
pub(super) struct FileSelection(Walk<FileVisitor>);

struct FileVisitor {
    upstream: String,
    page: String,
    /// Links stay the registry's own.
    is_own: bool,
    files: HashSet<String>,
    /// Versions of these files, in a form that compares.
    versions: HashSet<String>,
    /// Name of the current file, or the current version.
    current: Option<String>,
}

impl FileSelection {
    /// Keeps the files of these names.
    pub fn new(mirror: &Mirror, files: HashSet<String>) -> Self {
        let versions = files.iter().filter_map(|file| version_of(file)).map(comparable).collect();
        Self(Walk::new(FileVisitor {
            upstream: mirror.upstream.clone(),
            page: page_url(mirror),
            is_own: mirror.is_registry_itself(),
            files,
            versions,
            current: None,
        }))
    }
}

impl Rewriter for FileSelection {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.push(input, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.finish(output)
    }
}

impl Visitor for FileVisitor {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["files", "*", "filename"])
            || path.is(&["files", "*", "url"]) && !self.is_own
            || path.is(&["versions", "*"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], output: &mut Vec<u8>) {
        let value = text(raw);
        let url = match path.key(2) {
            "url" => value.and_then(|url| relative(&self.upstream, &self.page, &url)),
            _ => {
                self.current = value;
                None
            }
        };
        match url {
            Some(url) => output.extend_from_slice(quoted(&url).as_bytes()),
            None => output.extend_from_slice(raw),
        }
    }

    fn weighs(&mut self, path: &Path) -> bool {
        self.current = None;
        path.is(&["files", "*"]) || path.is(&["versions", "*"])
    }

    fn passes(&mut self, path: &Path) -> bool {
        debug_assert!(path.depth() == 2, "elements of two arrays are weighed");
        let Some(current) = self.current.take() else { return false };
        match path.key(0) {
            "files" => self.files.contains(&current),
            _ => self.versions.contains(&comparable(&current)),
        }
    }
}

/// Returns a version in a form that is one for the spellings in names of files and in `versions`.
fn comparable(version: &str) -> String {
    version.to_ascii_lowercase().replace(['-', '_'], ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Survey;

    const DOCUMENT: &str = r#"{"name":"a", "files":[
 {"filename":"a-1.tar.gz", "url":"https://f.example/a-1.tar.gz", "upload-time":"2015-01-01T00:00:00Z"} ,
 {"filename":"a-2-py3-none-any.whl", "url":"https://f.example/a-2-py3-none-any.whl"},
 {"url":"../../p/A-3.0_rc.1.zip","size":3,"upload-time":"2026-01-01T00:00:00.5Z","filename":"A-3.0_rc.1.zip"} ],
 "versions": ["1","2", "3.0-rc.1"]}"#;

    fn mirror() -> Mirror {
        Mirror { external: "http://c.test/pypi".into(), upstream: "https://index.example/simple".into() }
    }

    fn selected(files: &[&str], piece: usize) -> String {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        let (mut selection, mut output) = (FileSelection::new(&mirror(), files), Vec::new());
        for piece in DOCUMENT.as_bytes().chunks(piece) {
            selection.push(piece, &mut output).expect("sound");
        }
        selection.finish(&mut output).expect("whole");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn times_are_found_for_each_file() {
        let mut times = UploadTimes::new();
        DOCUMENT.as_bytes().chunks(11).for_each(|piece| times.push(piece).expect("sound"));
        let wanted = [
            ("a-1.tar.gz", Some(1_420_070_400)),
            ("a-2-py3-none-any.whl", None),
            ("A-3.0_rc.1.zip", Some(1_767_225_600)),
        ];
        let found = times.finish().expect("whole").versions;
        assert_eq!(found, wanted.map(|(name, time)| (name.to_owned(), time)));
    }

    #[test]
    fn files_and_their_versions_are_left_out() {
        let first = r#"{"filename":"a-1.tar.gz", "url":"../../files/f.example/a-1.tar.gz", "upload-time":"2015-01-01T00:00:00Z"}"#;
        let last = r#"{"url":"../../files/index.example/p/A-3.0_rc.1.zip","size":3,"upload-time":"2026-01-01T00:00:00.5Z","filename":"A-3.0_rc.1.zip"}"#;
        for piece in [1, 7, 1000] {
            let one = format!("{{\"name\":\"a\", \"files\":[\n {first}  ],\n \"versions\": [\"1\"]}}");
            assert_eq!(selected(&["a-1.tar.gz"], piece), one);
            let other =
                format!("{{\"name\":\"a\", \"files\":[\n  \n {last} ],\n \"versions\": [ \"3.0-rc.1\"]}}");
            assert_eq!(selected(&["A-3.0_rc.1.zip"], piece), other);
            let none = "{\"name\":\"a\", \"files\":[\n   ],\n \"versions\": []}";
            assert_eq!(selected(&[], piece), none);
        }
    }
}
