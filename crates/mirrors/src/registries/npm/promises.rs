//! Looks for one tarball in a package's document: its digest, its place, its time.

use super::urls::file_name;
use crate::json::{Path, Visitor, Walk, text};
use crate::npm_name::Name;
use crate::time::rfc3339;
use crate::{Algorithm, BadDocument, Digest, Mirror, Place, Promise, Promises};
use std::collections::HashMap;

/// TarballSearch for one tarball.
pub(super) struct TarballPromise {
    walk: Walk<TarballSearch>,
    /// Output that nobody reads.
    unread: Vec<u8>,
}

struct TarballSearch {
    upstream: String,
    /// Name of the package.
    name: Name,
    /// Name of the tarball.
    file: String,
    /// Facts of the current version.
    current: Version,
    /// The version found, and its facts.
    found: Option<(String, Version)>,
    /// Publication times by version. Registries write them behind the versions; others may not.
    times: HashMap<String, i64>,
    /// Bytes of the versions with a time.
    time_bytes: usize,
}

#[derive(Default)]
struct Version {
    tarball: Option<String>,
    integrity: Option<Digest>,
    shasum: Option<Digest>,
}

impl TarballPromise {
    pub fn new(mirror: &Mirror, name: &Name, file: &str) -> Self {
        let search = TarballSearch {
            upstream: mirror.upstream.clone(),
            name: name.clone(),
            file: file.to_owned(),
            current: Version::default(),
            found: None,
            times: HashMap::new(),
            time_bytes: 0,
        };
        Self { walk: Walk::new(search), unread: Vec::new() }
    }
}

impl Promises for TarballPromise {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        // In steps, so that the unread output stays small.
        for piece in input.chunks(STEP) {
            debug_assert!(self.unread.len() <= 4 * STEP, "the walk adds no more than it takes");
            self.unread.clear();
            self.walk.push(piece, &mut self.unread)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        self.walk.finish(&mut self.unread)?;
        let search = &mut self.walk.visitor;
        Ok(search.found.as_ref().map(|(name, version)| Promise {
            digest: version.integrity.clone().or_else(|| version.shasum.clone()),
            size: None,
            published: search.times.get(name).copied(),
            is_withdrawn: false,
        }))
    }

    fn place(&self) -> Option<Place> {
        let search = &self.walk.visitor;
        let url = search.found.as_ref()?.1.tarball.as_deref()?;
        Some(match url.strip_prefix(&search.upstream).filter(|below| below.starts_with('/')) {
            Some(below) => Place::Below(below.to_owned()),
            None => Place::Elsewhere(url.to_owned()),
        })
    }
}

impl Visitor for TarballSearch {
    fn wants(&mut self, path: &Path) -> bool {
        let of_dist = path.depth() == 4 && path.key(0) == "versions" && path.key(2) == "dist";
        // With the version known, its time is all that matters.
        let is_time = path.depth() == 2
            && path.key(0) == "time"
            && self.times.len() < TIMES_MAX
            && self.time_bytes + path.key(1).len() <= TIME_BYTES_MAX
            && self.found.as_ref().is_none_or(|(version, _)| version == path.key(1));
        of_dist && matches!(path.key(3), "tarball" | "integrity" | "shasum") || is_time
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let Some(value) = text(raw) else { return };
        match (path.key(0), path.key(3)) {
            ("time", _) => {
                self.time_bytes += path.key(1).len();
                self.times.extend(rfc3339(&value).map(|time| (path.key(1).to_owned(), time)));
            }
            (_, "tarball") => self.current.tarball = Some(value),
            (_, "integrity") => self.current.integrity = Digest::from_sri(&value),
            _ => self.current.shasum = Digest::from_hex(Algorithm::Sha1, &value),
        }
    }

    fn left(&mut self, path: &Path) {
        if path.depth() != 2 || path.key(0) != "versions" {
            return;
        }
        let version = std::mem::take(&mut self.current);
        let url = version.tarball.as_deref().and_then(|url| url.split(['?', '#']).next()).unwrap_or("");
        if self.found.is_none() && file_name(&self.name, url, path).as_deref() == Some(&self.file) {
            self.found = Some((path.key(1).to_owned(), version));
        }
    }
}

/// Most times that are kept. A version beyond has no known time.
const TIMES_MAX: usize = 200_000;

/// Most bytes of the versions with a time: one document may name few versions of great length.
const TIME_BYTES_MAX: usize = 8 << 20;

/// Bytes of a document taken at a time.
const STEP: usize = 64 << 10;
