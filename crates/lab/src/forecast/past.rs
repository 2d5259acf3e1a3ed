//! A past that is being written: hits, the age of each object's last request, and the time since
//! which the cache is full.

use std::collections::HashMap;

/// Outcomes of a cache's requests.
#[derive(Clone, Debug, Default)]
pub struct Past {
    since: Vec<u32>,
    last: HashMap<u64, u32>,
    /// Number of requests at the first eviction.
    full_from: Option<usize>,
}

/// Outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Became {
    /// `true` if the request hit.
    pub hits: bool,
    /// `true` if the cache has evicted anything so far.
    pub is_full: bool,
}

/// A past up to some request.
#[derive(Clone, Copy, Debug)]
pub struct PastView<'a> {
    /// For each request 0 where it missed, and for a hit the requests since the last one for its
    /// object.
    pub since: &'a [u32],
    /// First request that tells the cache's future behaviour. A full cache behaves otherwise than
    /// one that took everything.
    pub from: usize,
}

impl Past {
    /// Adds the next request. Returns `false` when there is no more room, after 2³² − 1 requests;
    /// the request is not taken then.
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

    /// Returns the whole past.
    pub fn all(&self) -> PastView<'_> {
        self.until(self.since.len())
    }

    /// Returns the first `requests` requests of the past, or all.
    pub fn until(&self, requests: usize) -> PastView<'_> {
        let requests = requests.min(self.since.len());
        // A cache that has just become full has little to tell. Half of its requests must then do.
        let from = self.full_from.filter(|from| *from < requests).map_or(0, |from| from.min(requests / 2));
        PastView { since: &self.since[..requests], from }
    }

    /// Cuts the past off after `requests` requests.
    pub fn forget_after(&mut self, requests: usize) {
        self.since.truncate(requests);
        self.full_from = self.full_from.filter(|from| *from < requests);
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.since.len()
    }
}

impl PastView<'_> {
    /// Returns the outcomes that tell the future.
    pub fn steady_outcomes(&self) -> &[u32] {
        &self.since[self.from..]
    }
}
