//! A minimum age: versions that are too young, or of unknown time, are left out of documents.
//!
//! Times stand behind the versions, in the full document alone. So it is read twice: for the times,
//! then for the form that clients get. The short form is derived from the full one.

use super::urls::PackageUrls;
use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::time::rfc3339;
use crate::{BadDocument, Facts, Mirror, Rewriter, Survey};
use std::collections::{HashMap, HashSet};

/// Reader of versions, tags and times.
pub(super) struct Times {
    walk: Walk<TimesVisitor>,
    unread: Vec<u8>,
}

#[derive(Default)]
struct TimesVisitor {
    versions: Vec<String>,
    tags: Vec<(String, String)>,
    times: HashMap<String, i64>,
    /// Bytes of all names and versions.
    bytes: usize,
    has_too_many: bool,
}

impl Times {
    pub fn new() -> Self {
        Self { walk: Walk::new(TimesVisitor::default()), unread: Vec::new() }
    }
}

impl Survey for Times {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        for piece in input.chunks(STEP) {
            self.unread.clear();
            self.walk.push(piece, &mut self.unread)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Facts, BadDocument> {
        self.walk.finish(&mut self.unread)?;
        let TimesVisitor { versions, tags, times, has_too_many, .. } = std::mem::take(&mut self.walk.visitor);
        if has_too_many {
            return Err(BadDocument { at: 0, why: "more versions than any package has" });
        }
        let versions = versions.into_iter().map(|version| {
            let time = times.get(&version).copied();
            (version, time)
        });
        Ok(Facts { versions: versions.collect(), tags })
    }
}

impl Visitor for TimesVisitor {
    fn wants(&mut self, path: &Path) -> bool {
        path.depth() == 2 && matches!(path.key(0), "time" | "dist-tags")
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let Some(value) = text(raw) else { return };
        self.count(self.times.len() + self.tags.len(), path.key(1).len() + value.len());
        match path.key(0) {
            _ if self.has_too_many => {}
            "time" => self.times.extend(rfc3339(&value).map(|time| (path.key(1).to_owned(), time))),
            _ => self.tags.push((path.key(1).to_owned(), value)),
        }
    }

    fn left(&mut self, path: &Path) {
        if path.is(&["versions", "*"]) {
            self.count(self.versions.len(), path.key(1).len());
            if !self.has_too_many {
                self.versions.push(path.key(1).to_owned());
            }
        }
    }
}

impl TimesVisitor {
    /// Counts one more name of this length, beside `held` others.
    fn count(&mut self, held: usize, bytes: usize) {
        debug_assert!(held <= VERSIONS_MAX && self.times.len() <= VERSIONS_MAX, "no more are kept");
        self.bytes += bytes;
        self.has_too_many |= held >= VERSIONS_MAX || self.bytes > BYTES_MAX;
    }
}

/// Rewriter that leaves versions out.
pub(super) struct Selection(Walk<SelectionVisitor>);

struct SelectionVisitor {
    urls: PackageUrls,
    versions: HashSet<String>,
    /// Tags of versions that stay.
    tags: HashSet<String>,
    /// Version for the tag `latest`, if the origin's own is left out.
    latest: Option<String>,
    is_short: bool,
}

impl Selection {
    /// Keeps these versions of a document with these facts, in the short form or the full one.
    pub fn new(mirror: &Mirror, facts: &Facts, versions: HashSet<String>, is_short: bool) -> Self {
        let stays = |(_, version): &&(String, String)| versions.contains(version);
        let tags = facts.tags.iter().filter(stays).map(|(tag, _)| tag.clone()).collect::<HashSet<_>>();
        let latest = facts.tags.iter().find(|(tag, _)| tag == "latest");
        let latest = latest.filter(|_| !tags.contains("latest")).and_then(|(_, hidden)| {
            let older = versions.iter().filter(|version| numbers(version) <= numbers(hidden));
            older.filter(|version| numbers(version).is_some()).max_by_key(|version| numbers(version)).cloned()
        });
        Self(Walk::new(SelectionVisitor { urls: PackageUrls::new(mirror), versions, tags, latest, is_short }))
    }
}

impl Rewriter for Selection {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.push(input, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.finish(output)
    }
}

impl Visitor for SelectionVisitor {
    fn keeps(&mut self, path: &Path) -> bool {
        match (path.depth(), path.key(0)) {
            (1, key) => !self.is_short || OF_SHORT.contains(&key),
            (2, "versions") => self.versions.contains(path.key(1)),
            (2, "time") => {
                matches!(path.key(1), "created" | "modified") || self.versions.contains(path.key(1))
            }
            (2, "dist-tags") => {
                self.tags.contains(path.key(1)) || path.key(1) == "latest" && self.latest.is_some()
            }
            (3, "versions") => !self.is_short || OF_SHORT_VERSION.contains(&path.key(2)),
            _ => true,
        }
    }

    fn wants(&mut self, path: &Path) -> bool {
        self.latest.is_some() && path.is(&["dist-tags", "latest"]) || self.urls.wants(path)
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], output: &mut Vec<u8>) {
        match self.latest.as_ref().filter(|_| path.key(0) == "dist-tags") {
            Some(latest) => output.extend_from_slice(quoted(latest).as_bytes()),
            None => self.urls.scalar(path, raw, output),
        }
    }
}

/// Returns the numbers of a version that is no prerelease. Such versions compare as these numbers.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let version = version.split('+').next()?;
    let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Members of the short document.
const OF_SHORT: &[&str] = &["name", "modified", "dist-tags", "versions"];

/// Members of a version in the short document, and those from which clients tell install scripts.
const OF_SHORT_VERSION: &[&str] = &[
    "name",
    "version",
    "deprecated",
    "dependencies",
    "optionalDependencies",
    "devDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "acceptDependencies",
    "bin",
    "directories",
    "dist",
    "engines",
    "cpu",
    "os",
    "libc",
    "scripts",
    "gypfile",
    "hasInstallScript",
    "_hasShrinkwrap",
    "funding",
];

/// Bytes of a document taken at a time.
const STEP: usize = 64 << 10;

/// Most versions of a package, and most of its times and tags.
const VERSIONS_MAX: usize = 200_000;

/// Most bytes of their names together.
const BYTES_MAX: usize = 24 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"_id":"a","name":"a","dist-tags":{"latest":"2.0.0","old":"1.0.0","next":"3.0.0-b"},"versions":{"1.0.0":{"name":"a","readme":"r","dist":{"tarball":"https://npm.example/a/-/a-1.0.0.tgz"}},"1.5.0":{"name":"a"},"2.0.0":{"name":"a"},"3.0.0-b":{"name":"a"}},"time":{"created":"2014-01-01T00:00:00Z","1.0.0":"2015-01-01T00:00:00Z","2.0.0":"2026-01-01T00:00:00Z","3.0.0-b":"x"}}"#;

    fn facts() -> Facts {
        let mut times = Times::new();
        DOCUMENT.as_bytes().chunks(11).for_each(|piece| times.push(piece).expect("sound"));
        times.finish().expect("whole")
    }

    fn selected(versions: &[&str], is_short: bool) -> String {
        let mirror = Mirror { external: "http://c.test/npm".into(), upstream: "https://npm.example".into() };
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        let (mut selection, mut output) = (Selection::new(&mirror, &facts(), versions, is_short), Vec::new());
        DOCUMENT.as_bytes().chunks(7).for_each(|piece| selection.push(piece, &mut output).expect("sound"));
        selection.finish(&mut output).expect("whole");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn times_are_found_for_each_version() {
        let versions = facts().versions;
        let times: Vec<_> = versions.iter().map(|(version, time)| (&**version, *time)).collect();
        let wanted = [
            ("1.0.0", Some(1_420_070_400)),
            ("1.5.0", None),
            ("2.0.0", Some(1_767_225_600)),
            ("3.0.0-b", None),
        ];
        assert_eq!(times, wanted);
    }

    #[test]
    fn short_form_has_the_old_versions_alone() {
        let wanted = r#"{"name":"a","dist-tags":{"latest":"1.0.0","old":"1.0.0"},"versions":{"1.0.0":{"name":"a","dist":{"tarball":"http://c.test/npm/a/-/a-1.0.0.tgz"}}}}"#;
        assert_eq!(selected(&["1.0.0"], true), wanted);
    }

    #[test]
    fn full_form_keeps_its_other_members() {
        let full = selected(&["1.0.0", "2.0.0"], false);
        assert!(full.contains(r#""dist-tags":{"latest":"2.0.0","old":"1.0.0"}"#), "{full}");
        assert!(full.contains(r#""readme":"r""#) && full.contains(r#""_id":"a""#), "{full}");
        assert!(full.ends_with(r#""time":{"created":"2014-01-01T00:00:00Z","1.0.0":"2015-01-01T00:00:00Z","2.0.0":"2026-01-01T00:00:00Z"}}"#), "{full}");
    }

    #[test]
    fn long_names_are_too_many() {
        let name = "9".repeat(60 << 10);
        for member in ["time", "versions", "dist-tags"] {
            let value = if member == "versions" { "{}" } else { r#""2020-01-01T00:00:00Z""# };
            let mut times = Times::new();
            times.push(format!("{{\"{member}\":{{").as_bytes()).expect("sound");
            for number in 0..500 {
                let comma = if number == 0 { "" } else { "," };
                times.push(format!("{comma}\"{number}{name}\":{value}").as_bytes()).expect("sound");
            }
            times.push(b"}}").expect("sound");
            let visitor = &times.walk.visitor;
            let held: usize = visitor.versions.iter().map(String::len).sum();
            assert!(held + visitor.times.keys().map(String::len).sum::<usize>() <= BYTES_MAX, "{member}");
            assert!(times.finish().is_err(), "{member}");
        }
    }

    #[test]
    fn nothing_stays_of_a_young_package() {
        let short = selected(&[], true);
        assert_eq!(short, r#"{"name":"a","dist-tags":{},"versions":{}}"#);
    }
}
