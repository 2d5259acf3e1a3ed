//! A minimum age: lines of an index file that are too young, or of unknown time, are left out. A
//! line may have `pubtime`.

use super::CrateFile;
use crate::json::{Path, Visitor, Walk, text};
use crate::lines::Lines;
use crate::time::rfc3339;
use crate::{Algorithm, BadDocument, Digest, Promise, Promises};

/// Facts of a line.
#[derive(Default)]
struct IndexLine {
    version: Option<String>,
    digest: Option<Digest>,
    published: Option<i64>,
    is_yanked: bool,
}

impl IndexLine {
    /// Reads a line; `None` if it is no JSON object.
    fn read(line: &str) -> Option<Self> {
        let (mut walk, mut unread) = (Walk::new(Self::default()), Vec::new());
        walk.push(line.as_bytes(), &mut unread).ok()?;
        walk.finish(&mut unread).ok()?;
        Some(walk.visitor)
    }
}

impl Visitor for IndexLine {
    fn wants(&mut self, path: &Path) -> bool {
        path.depth() == 1 && matches!(path.key(0), "vers" | "cksum" | "pubtime" | "yanked")
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let value = text(raw);
        match path.key(0) {
            "vers" => self.version = value,
            "cksum" => self.digest = value.and_then(|hex| Digest::from_hex(Algorithm::Sha256, &hex)),
            "pubtime" => self.published = value.and_then(|time| rfc3339(&time)),
            _ => self.is_yanked = raw == b"true",
        }
    }
}

/// Reads version and time of a line.
pub(super) fn version_of_line(line: &str) -> Option<(String, Option<i64>)> {
    if line.trim().is_empty() {
        return None;
    }
    let line = IndexLine::read(line).unwrap_or_default();
    Some((line.version.unwrap_or_default(), line.published))
}

/// Search for one crate file in the index file of its crate.
pub(super) struct LineOfFile {
    lines: Lines,
    file: CrateFile,
    found: Option<Promise>,
}

impl LineOfFile {
    pub fn new(file: CrateFile) -> Self {
        Self { lines: Lines::default(), file, found: None }
    }
}

impl Promises for LineOfFile {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        let Self { lines, file, found } = self;
        lines.push(input, |line| look(line, file, found))
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        let Self { lines, file, found } = self;
        lines.finish(|line| look(line, file, found));
        Ok(found.take())
    }
}

/// Looks for the file in a line. Version and digest must be those of the request.
fn look(line: &[u8], file: &CrateFile, found: &mut Option<Promise>) {
    // Most lines are of other versions.
    if found.is_some() || memchr::memmem::find(line, file.version.as_bytes()).is_none() {
        return;
    }
    debug_assert!(!file.version.is_empty(), "a file has a version");
    let Some(line) = IndexLine::read(&String::from_utf8_lossy(line)) else { return };
    if line.version.as_deref() == Some(&file.version) && line.digest.as_ref() == Some(&file.digest) {
        let (digest, published) = (line.digest, line.published);
        *found = Some(Promise { digest, size: None, published, is_withdrawn: line.is_yanked });
    }
}
