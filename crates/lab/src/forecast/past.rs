//! A past that is being written: which requests hit, how long ago their objects were asked for
//! before, and since when the cache is full.

use std::collections::HashMap;

/// What became of each request. See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Past {
    since: Vec<u32>,
    last: HashMap<u64, u32>,
    /// How many requests there were when the cache had first given something up.
    full_from: Option<usize>,
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Became {
    /// Whether it hit.
    pub hits: bool,
    /// Whether the cache has given anything up by now.
    pub is_full: bool,
}

/// A past up to some request.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// For each request 0 where it missed, and for a hit the requests since the last one for its
    /// object.
    pub since: &'a [u32],
    /// The first request that tells what the cache does from now on. One that is full does not do
    /// what it did while it took everything.
    pub from: usize,
}

impl Past {
    /// The next request. False when there is no more room, after 2³² − 1 of them; it is not taken
    /// then.
    pub fn push(&mut self, object: u64, became: Became) -> bool {
        let Ok(now) = u32::try_from(self.since.len() + 1) else { return false };
        let before = self.last.insert(object, now);
        let since = before.filter(|_| became.hits).map_or(0, |before| now - before);
        self.since.push(since);
        if became.is_full {
            self.full_from.get_or_insert(self.since.len());
        }
        true
    }

    /// All of it.
    pub fn all(&self) -> Seen<'_> {
        self.until(self.since.len())
    }

    /// The first so many requests of it, or all.
    pub fn until(&self, requests: usize) -> Seen<'_> {
        let requests = requests.min(self.since.len());
        // A cache that has just become full has little to tell, and half of what it served must do.
        let from = self.full_from.filter(|from| *from < requests).map_or(0, |from| from.min(requests / 2));
        Seen { since: &self.since[..requests], from }
    }

    /// As it was after so many requests.
    #[cfg(test)]
    pub(crate) fn forget_after(&mut self, requests: usize) {
        self.since.truncate(requests);
        self.full_from = self.full_from.filter(|from| *from < requests);
    }

    /// Its requests.
    pub fn requests(&self) -> usize {
        self.since.len()
    }
}

impl Seen<'_> {
    /// What became of those requests that tell what comes.
    pub fn telling(&self) -> &[u32] {
        &self.since[self.from..]
    }
}
