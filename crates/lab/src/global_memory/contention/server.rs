//! A memory server: pages by age, and a queue of one thing at a time.

use shoal_cooperation::global_memory::AgeGroup;
use std::collections::BTreeSet;

/// A page of a node: time of its last use in microseconds, its node, and its number.
pub(super) type Held = (u64, u32, u32);

/// One idle node.
pub(super) struct IdleServer {
    capacity: usize,
    /// Pages by last use, the oldest first.
    pages: BTreeSet<Held>,
    /// Time at which all requested work is done, in seconds.
    free_at: f64,
    /// Seconds of work since the last `take_busy`.
    busy: f64,
}

impl IdleServer {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, pages: BTreeSet::new(), free_at: 0.0, busy: 0.0 }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Queues a request that takes `seconds`. Returns the time of its end.
    pub fn serve(&mut self, now: f64, seconds: f64) -> f64 {
        self.free_at = self.free_at.max(now) + seconds;
        self.busy += seconds;
        self.free_at
    }

    /// Returns the seconds of work since the last call.
    pub fn take_busy(&mut self) -> f64 {
        std::mem::take(&mut self.busy)
    }

    /// Removes a page.
    pub fn remove(&mut self, page: Held) {
        self.pages.remove(&page);
    }

    /// Takes a page in. Evicts and returns the oldest page where there is no room.
    pub fn put(&mut self, page: Held) -> Option<Held> {
        let gone = if self.pages.len() >= self.capacity { self.pages.pop_first() } else { None };
        self.pages.insert(page);
        gone
    }

    /// Returns at most `most` of the oldest pages, by age. A free frame is older than any page.
    pub fn ages(&self, now: u64, most: usize) -> Vec<AgeGroup> {
        let free = AgeGroup { age: u64::MAX, pages: (self.capacity - self.pages.len()) as u64 };
        let page = |held: &Held| AgeGroup { age: now.saturating_sub(held.0), pages: 1 };
        std::iter::once(free).chain(self.pages.iter().take(most).map(page)).collect()
    }
}
