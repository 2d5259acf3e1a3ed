//! Walk along the chain of a bucket, with suspicion: every link is checked, and the number of steps
//! is bounded.
//!
//! A chain holds the stored objects of one bucket, newest first. An invalid link ends the walk: a
//! damaged or free entry, an entry of another bucket, or too many steps. Objects behind that link
//! are misses until the audit links them again.

use super::layout::{EntryState, IndexEntry, IndexGeometry};

/// Walk along one chain.
pub(super) struct Chain<'a> {
    geometry: &'a IndexGeometry,
    load: &'a dyn Fn(usize) -> u64,
    bucket: u32,
    /// Entry that holds the link to `next`; `None` for the bucket.
    after: Option<u32>,
    next: Option<u32>,
    steps: usize,
    broken: bool,
}

/// Entry of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: u32,
    pub(super) entry: IndexEntry,
    /// Entry with the link to this one; `None` for the bucket.
    pub(super) after: Option<u32>,
}

impl<'a> Chain<'a> {
    /// Begins at the bucket. `load` reads words of the index, or those that a transaction will
    /// leave.
    pub(super) fn new(geometry: &'a IndexGeometry, load: &'a dyn Fn(usize) -> u64, bucket: u32) -> Self {
        let (at, shift) = geometry.bucket(bucket);
        let next = ((load(at) >> shift) as u32).checked_sub(1);
        Self { geometry, load, bucket, after: None, next, steps: 0, broken: false }
    }

    /// Returns the place of the broken link that ended the walk, if one did.
    pub(super) fn broken_after(&self) -> Option<Option<u32>> {
        self.broken.then_some(self.after)
    }

    /// Returns the number of entries passed.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}

impl Iterator for Chain<'_> {
    type Item = Link;

    fn next(&mut self) -> Option<Link> {
        let number = self.next.take()?;
        let sound = read_entry(self.geometry, self.load, number).filter(|entry| {
            self.steps < CHAIN_MAX
                && entry.state == EntryState::Stored
                && self.geometry.bucket_of(entry.key) == self.bucket
        });
        let Some(entry) = sound else {
            self.broken = true;
            return None;
        };
        let link = Link { number, entry, after: self.after };
        self.steps += 1;
        debug_assert!(self.steps <= CHAIN_MAX);
        debug_assert!(number < self.geometry.max_objects);
        (self.after, self.next) = (Some(number), entry.next);
        Some(link)
    }
}

/// Returns the entry of a number; `None` if the number is too large or the entry damaged.
pub(super) fn read_entry(
    geometry: &IndexGeometry,
    load: &dyn Fn(usize) -> u64,
    number: u32,
) -> Option<IndexEntry> {
    (number < geometry.max_objects).then_some(())?;
    let at = geometry.entry(number);
    IndexEntry::decode(number, [load(at), load(at + 1), load(at + 2), load(at + 3)])
}

/// Longest chain. With a bucket for each entry and hashed keys, no chain of 20 is expected in any
/// number of objects. An attacker with colliding keys gets misses.
pub(super) const CHAIN_MAX: usize = 64;
