//! A minimum age: versions that are too young, or of unknown time, are left out of documents.
//!
//! Times stand behind the versions, in the full document alone. So it is read twice: for the times,
//! then for the form that clients get. The short form is derived from the full one.

use super::urls::PackageUrls;
use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::survey::{self, JsonSurvey, NameBound};
use crate::time::rfc3339;
use crate::{BadDocument, Facts, Mirror, Rewriter};
use std::collections::{HashMap, HashSet};

/// Reader of versions, tags and times.
pub(super) type Times = JsonSurvey<TimesVisitor>;

#[derive(Default)]
pub(super) struct TimesVisitor {
    versions: Vec<String>,
    tags: Vec<(String, String)>,
    times: HashMap<String, i64>,
    bound: NameBound,
}

impl survey::Times for TimesVisitor {
    fn bound(&self) -> &NameBound {
        &self.bound
    }

    fn facts(self) -> Facts {
        let Self { versions, tags, times, .. } = self;
        let versions = versions.into_iter().map(|version| {
            let time = times.get(&version).copied();
            (version, time)
        });
        Facts { versions: versions.collect(), tags }
    }
}

impl Visitor for TimesVisitor {
    fn wants(&mut self, path: &Path) -> bool {
        path.depth() == 2 && matches!(path.key(0), "time" | "dist-tags")
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let Some(value) = text(raw) else { return };
        let is_kept = self.bound.take(path.key(1).len() + value.len());
        match path.key(0) {
            _ if !is_kept => {}
            "time" => self.times.extend(rfc3339(&value).map(|time| (path.key(1).to_owned(), time))),
            _ => self.tags.push((path.key(1).to_owned(), value)),
        }
    }

    fn left(&mut self, path: &Path) {
        if path.is(&["versions", "*"]) && self.bound.take(path.key(1).len()) {
            self.versions.push(path.key(1).to_owned());
        }
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
        let own = facts.tags.iter().filter(stays).map(|(tag, _)| tag.clone()).collect::<HashSet<_>>();
        let latest =
            tags(facts, &versions).into_iter().find(|(tag, _)| tag == "latest" && !own.contains(tag));
        let (tags, latest) = (own, latest.map(|(_, version)| version));
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

/// Returns the tags of a document with these versions alone. A hidden `latest` becomes the newest
/// older version.
pub(super) fn tags(facts: &Facts, versions: &HashSet<String>) -> Vec<(String, String)> {
    let tags = facts.tags.iter().filter_map(|(tag, version)| {
        if versions.contains(version) {
            return Some((tag.clone(), version.clone()));
        }
        let older = versions.iter().filter(|older| numbers(older) <= numbers(version));
        let older = older.filter(|older| numbers(older).is_some()).max_by_key(|older| numbers(older));
        older.filter(|_| tag == "latest").map(|older| (tag.clone(), older.clone()))
    });
    tags.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Survey;

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
            let mut document = format!("{{\"{member}\":{{");
            for number in 0..500 {
                let comma = if number == 0 { "" } else { "," };
                document += &format!("{comma}\"{number}{name}\":{value}");
            }
            document += "}}";
            let pushed = times.push(document.as_bytes());
            assert!(pushed.and_then(|()| times.finish()).is_err(), "{member}");
        }
    }

    #[test]
    fn nothing_stays_of_a_young_package() {
        let short = selected(&[], true);
        assert_eq!(short, r#"{"name":"a","dist-tags":{},"versions":{}}"#);
    }
}
