//! Generations of an archive: a release document and the lists that it names belong together.
//!
//! ```text
//!   release of the origin ─┬─ as published ─► serve
//!                          ├─ older ────────► serve the published one: an old edge
//!                          └─ newer ─► fetch the lists in use ─┬─ all came ─► publish it
//!                                                              └─ else ─────► the published one
//! ```
//!
//! A client that asks for a list by name gets the one of the release that it has read. A newer
//! release may have been published since. All decisions are here; time and clients are arguments.

use crate::{Algorithm, Digest};
use shoal_core::Timestamp;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A release document, `InRelease` or `Release`, with the lists that it names.
#[derive(Debug, PartialEq, Eq)]
pub struct Generation {
    /// The document.
    pub body: Vec<u8>,
    /// `true` if the archive serves its lists by digest too.
    pub by_hash: bool,
    /// Last-Modified of the document, as the origin sent it.
    pub last_modified: Option<String>,
    date: Option<i64>,
    lists: HashMap<Box<str>, Digest>,
}

impl Generation {
    /// Reads a release document. `None` if it has no date or names no list.
    pub fn parse(body: Vec<u8>, last_modified: Option<String>) -> Option<Self> {
        let text = std::str::from_utf8(&body).ok()?;
        let (mut date, mut by_hash, mut in_lists) = (None, false, false);
        let mut lists = HashMap::new();
        for line in text.lines() {
            if let Some(entry) = line.strip_prefix(' ') {
                let mut words = entry.split_ascii_whitespace();
                let (hex, path) = (words.next().unwrap_or_default(), words.nth(1));
                let digest = Digest::from_hex(Algorithm::Sha256, hex).filter(|_| in_lists);
                if let (Some(digest), Some(path)) = (digest, path)
                    && lists.len() < LISTS_MAX
                {
                    lists.insert(path.into(), digest);
                }
                continue;
            }
            in_lists = line.trim_end() == "SHA256:";
            if let Some(value) = line.strip_prefix("Date:") {
                date = crate::time::of_mail(value.trim());
            } else if let Some(value) = line.strip_prefix("Acquire-By-Hash:") {
                by_hash = value.trim().eq_ignore_ascii_case("yes");
            }
        }
        (date.is_some() && !lists.is_empty()).then_some(Self { body, by_hash, last_modified, date, lists })
    }

    /// Returns the digest of a list, by its path from the release's folder.
    pub fn list(&self, path: &str) -> Option<&Digest> {
        self.lists.get(path)
    }

    /// Returns the path of the list with this digest.
    fn path_of(&self, digest: &Digest) -> Option<&str> {
        self.lists.iter().find(|(_, of)| *of == digest).map(|(path, _)| &**path)
    }
}

/// Releases of one mirror.
#[derive(Default)]
pub struct Generations {
    releases: HashMap<String, Release>,
    /// Lists that no edge had, each with the time of the next try.
    missing: HashMap<Digest, Timestamp>,
}

struct Release {
    published: Arc<Generation>,
    older: VecDeque<Arc<Generation>>,
    /// Paths of lists that clients have asked for.
    used: BTreeSet<String>,
    /// Generation that each client read last.
    readers: HashMap<IpAddr, Arc<Generation>>,
    /// Number of the stored response that has the bytes of the published one.
    number: Option<u64>,
    /// Time before which no newer release is looked at: one is being fetched, or was not whole.
    busy_until: Timestamp,
}

/// Next step for a release that the origin has.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Serve this generation.
    Serve(Arc<Generation>),
    /// Fetch these lists of the newer release, each with its digest; then call
    /// [`Generations::fetched`].
    Fetch(Vec<(String, Digest)>),
}

/// List of a generation that a client asks for by name.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedList {
    /// Folder of the release, with a slash at its end.
    pub folder: String,
    /// Digest of the list.
    pub digest: Digest,
    /// `true` if the archive serves it by digest too.
    pub by_hash: bool,
}

impl Generations {
    /// Returns `true` if a generation of the release at this path is published.
    pub fn knows(&self, path: &str) -> bool {
        self.releases.contains_key(path)
    }

    /// Returns the published generation if the document has the same bytes.
    pub fn same(&self, path: &str, body: &[u8]) -> Option<Arc<Generation>> {
        let published = &self.releases.get(path)?.published;
        (published.body == body).then(|| Arc::clone(published))
    }

    /// Returns the published generation if the stored response with this number has its bytes.
    pub fn published_as(&self, path: &str, number: u64) -> Option<Arc<Generation>> {
        let release = self.releases.get(path).filter(|release| release.number == Some(number))?;
        Some(Arc::clone(&release.published))
    }

    /// Remembers the number of a stored response that has the bytes of this generation, if it is
    /// still published.
    pub fn note_number(&mut self, path: &str, published: &Arc<Generation>, number: Option<u64>) {
        let release = self.releases.get_mut(path);
        if let Some(release) = release.filter(|release| Arc::ptr_eq(&release.published, published)) {
            release.number = number;
        }
    }

    /// Takes the release that the origin has now.
    pub fn offer(&mut self, path: &str, newer: &Arc<Generation>, now: Timestamp) -> Step {
        let Some(release) = self.releases.get_mut(path) else {
            self.publish(path, newer);
            return Step::Serve(Arc::clone(newer));
        };
        if release.published.date > newer.date || release.published == *newer || now < release.busy_until {
            return Step::Serve(Arc::clone(&release.published));
        }
        let changed = release.used.iter().filter_map(|list| {
            let digest = newer.list(list)?;
            (release.published.list(list) != Some(digest)).then(|| (list.clone(), digest.clone()))
        });
        let changed: Vec<(String, Digest)> = changed.collect();
        if changed.is_empty() {
            self.publish(path, newer);
            return Step::Serve(Arc::clone(newer));
        }
        release.busy_until = now.plus(FETCH_TIME);
        Step::Fetch(changed)
    }

    /// Takes the end of a fetch of lists, and returns the generation to serve.
    pub fn fetched(
        &mut self,
        path: &str,
        newer: &Arc<Generation>,
        are_whole: bool,
        now: Timestamp,
    ) -> Arc<Generation> {
        if are_whole {
            self.publish(path, newer);
        } else if let Some(release) = self.releases.get_mut(path) {
            release.busy_until = now.plus(PAUSE);
        }
        self.releases.get(path).map_or_else(|| Arc::clone(newer), |release| Arc::clone(&release.published))
    }

    /// Remembers that no edge has the list, so that another try costs the archive nothing.
    pub fn miss(&mut self, digest: &Digest, now: Timestamp) {
        if self.missing.len() >= MISSING_MAX {
            self.missing.clear();
        }
        self.missing.insert(digest.clone(), now.plus(PAUSE));
    }

    /// Returns `true` for a list that no edge had a moment ago.
    pub fn is_missing(&self, digest: &Digest, now: Timestamp) -> bool {
        self.missing.get(digest).is_some_and(|until| now < *until)
    }

    /// Remembers the generation that a client reads.
    pub fn read_by(&mut self, path: &str, client: IpAddr, generation: &Arc<Generation>) {
        let Some(release) = self.releases.get_mut(path) else { return };
        if release.readers.len() >= READERS_MAX {
            release.readers.clear();
        }
        release.readers.insert(client, Arc::clone(generation));
    }

    /// Returns the list that a client means by this path, or by a path by digest, and remembers
    /// that it is used. Without a client, it is that of the published release. `None` if no release
    /// that was read here names it.
    pub fn named(&mut self, path: &str, client: Option<IpAddr>) -> Option<NamedList> {
        let mut end = path.rfind('/')?;
        loop {
            let folder = &path[..=end];
            let documents = ["InRelease", "Release"].map(|name| format!("{folder}{name}"));
            if let Some(document) = documents.iter().find(|document| self.knows(document)) {
                let release = self.releases.get_mut(document)?;
                return release.named(folder, &path[end + 1..], client);
            }
            end = path[..end].rfind('/')?;
        }
    }

    /// Returns the package lists of the published releases, those that clients use first: path and
    /// digest of each.
    pub fn package_lists(&self) -> Vec<(String, Digest)> {
        let mut lists = Vec::new();
        for (path, release) in &self.releases {
            let folder = &path[..=path.rfind('/').unwrap_or_default()];
            let named = |list: &str| list.rsplit('/').next().is_some_and(is_package_list);
            let used = release.used.iter().filter(|list| named(list));
            let others = release.published.lists.keys().map(|list| &**list);
            let others = others.filter(|list| named(list) && !release.used.contains(*list));
            for list in used.map(|list| &**list).chain(others).take(PACKAGE_LISTS_MAX) {
                let digest = release.published.list(list);
                lists.extend(digest.map(|digest| (format!("{folder}{list}"), digest.clone())));
            }
        }
        lists
    }

    fn publish(&mut self, path: &str, newer: &Arc<Generation>) {
        if let Some(release) = self.releases.get_mut(path) {
            let before = std::mem::replace(&mut release.published, Arc::clone(newer));
            debug_assert!(before.date <= newer.date, "no step back");
            release.older.push_front(before);
            release.older.truncate(OLDER_MAX);
            // A generation that is kept for nobody would be kept for its readers alone.
            let kept = &release.older;
            release
                .readers
                .retain(|_, read| Arc::ptr_eq(read, newer) || kept.iter().any(|old| Arc::ptr_eq(read, old)));
            (release.number, release.busy_until) = (None, Timestamp::default());
            return;
        }
        if self.releases.len() >= RELEASES_MAX {
            self.releases.clear();
        }
        let release = Release {
            published: Arc::clone(newer),
            older: VecDeque::new(),
            used: BTreeSet::new(),
            readers: HashMap::new(),
            number: None,
            busy_until: Timestamp::default(),
        };
        self.releases.insert(path.to_owned(), release);
    }
}

impl Release {
    fn named(&mut self, folder: &str, path: &str, client: Option<IpAddr>) -> Option<NamedList> {
        let generation =
            Arc::clone(client.and_then(|client| self.readers.get(&client)).unwrap_or(&self.published));
        let by_digest = path
            .rsplit_once("/by-hash/SHA256/")
            .or(path.strip_prefix("by-hash/SHA256/").map(|hex| ("", hex)));
        if let Some((_, hex)) = by_digest {
            let digest = Digest::from_hex(Algorithm::Sha256, hex)?;
            let path = generation.path_of(&digest)?.to_owned();
            self.use_list(&path);
            return None;
        }
        let digest = generation.list(path)?.clone();
        self.use_list(path);
        Some(NamedList { folder: folder.to_owned(), digest, by_hash: generation.by_hash })
    }

    fn use_list(&mut self, path: &str) {
        if self.used.len() < USED_MAX {
            self.used.insert(path.to_owned());
        }
    }
}

/// Returns `true` for the name of a package list in a coding that is read.
fn is_package_list(file: &str) -> bool {
    matches!(file, "Packages" | "Packages.gz" | "Packages.xz")
}

/// Most package lists of a release that are looked for.
const PACKAGE_LISTS_MAX: usize = 128;
/// Most lists of a release that are read.
const LISTS_MAX: usize = 16_384;
/// Most releases of a mirror; the next one makes it forget all.
const RELEASES_MAX: usize = 16;
/// Most generations of a release that are kept for clients that read them.
const OLDER_MAX: usize = 2;
/// Most lists that a newer release waits for.
const USED_MAX: usize = 256;
/// Most clients with a generation; the next one makes a release forget all.
const READERS_MAX: usize = 4_096;
/// Most lists that are remembered as missing; the next one makes a mirror forget all.
const MISSING_MAX: usize = 1_024;
/// Time for fetching the lists of a newer release.
const FETCH_TIME: Duration = Duration::from_secs(60);
/// Time before the next try after lists that were not whole.
const PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
