//! Walking the chain of a bucket, with suspicion: every link is checked and the number of steps is
//! bounded.
//!
//! A chain holds stored objects whose keys fall into its bucket, newest first. Whatever else is
//! found (an entry that does not decode, a free one, one of another bucket, too many steps) ends
//! the chain: what stood behind is a miss until the repair has linked it again.

use super::layout::{Geometry, IndexEntry, State};

/// A walk along one chain.
pub(super) struct Chain<'a> {
    geometry: &'a Geometry,
    load: &'a dyn Fn(usize) -> u64,
    bucket: u32,
    /// Where the link at hand stands: in this entry, or in the bucket.
    after: Option<u32>,
    next: Option<u32>,
    steps: usize,
    broken: bool,
}

/// One entry of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: u32,
    pub(super) entry: IndexEntry,
    /// The entry whose link leads here; `None` when the bucket does.
    pub(super) after: Option<u32>,
}

impl<'a> Chain<'a> {
    /// Begins at the bucket. `load` reads words: the index's own, or as a transaction will leave
    /// them.
    pub(super) fn new(geometry: &'a Geometry, load: &'a dyn Fn(usize) -> u64, bucket: u32) -> Self {
        let (at, shift) = geometry.bucket(bucket);
        let next = ((load(at) >> shift) as u32).checked_sub(1);
        Self { geometry, load, bucket, after: None, next, steps: 0, broken: false }
    }

    /// Where a broken link stands, once the walk has ended at one.
    pub(super) fn broken_after(&self) -> Option<Option<u32>> {
        self.broken.then_some(self.after)
    }

    /// Entries passed so far.
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
                && entry.state == State::Stored
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

/// The entry of a number; `None` when there is none or it is damaged.
pub(super) fn read_entry(
    geometry: &Geometry,
    load: &dyn Fn(usize) -> u64,
    number: u32,
) -> Option<IndexEntry> {
    (number < geometry.max_objects).then_some(())?;
    let at = geometry.entry(number);
    IndexEntry::decode(number, [load(at), load(at + 1), load(at + 2), load(at + 3)])
}

/// Longest chain. With a bucket for each entry and keys that are hashes, one of 20 is not to be
/// expected in any number of objects; who makes keys collide on purpose gets misses.
pub(super) const CHAIN_MAX: usize = 64;
