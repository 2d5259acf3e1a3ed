//! A memory server: pages by age, and a queue of one thing at a time. A local node's own work is in
//! the queue too.

use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{AgeGroup, AskerCount, SpareTime};
use std::collections::BTreeSet;

/// A page of a node: time of its last use in microseconds, its node, and its number.
pub(super) type Held = (u64, u32, u32);

/// One idle node.
#[derive(Clone)]
pub(super) struct IdleServer {
    capacity: usize,
    /// Pages by last use, the oldest first.
    pages: BTreeSet<Held>,
    /// Time at which all requested work is done, in seconds.
    free_at: f64,
    /// Seconds of work for others since the last `take_busy`.
    busy: f64,
    own: OwnWork,
    /// Own work since the last `end_epoch`, in seconds.
    own_busy: f64,
    askers: AskerCount,
    spare: SpareTime,
}

/// Work of a node for itself: pieces of one length, evenly spaced.
#[derive(Clone, Copy, Debug, Default)]
struct OwnWork {
    share: f64,
    /// Arrival of the next piece, in seconds.
    next: f64,
    pieces: u64,
    waited_seconds: f64,
}

impl OwnWork {
    fn every_seconds(&self) -> f64 {
        OWN_PIECE_SECONDS / self.share
    }
}

impl IdleServer {
    pub fn new(capacity: usize, own_share: f64) -> Self {
        let own_share = own_share.clamp(0.0, 0.99);
        Self {
            capacity,
            pages: BTreeSet::new(),
            free_at: 0.0,
            busy: 0.0,
            own: OwnWork { share: own_share, ..OwnWork::default() },
            own_busy: 0.0,
            askers: AskerCount::default(),
            spare: SpareTime::new(if own_share > 0.0 { super::CAP } else { 1.0 }),
        }
    }

    /// Returns U*, from the true share of the node's own work.
    pub fn most_for_others(&self) -> f64 {
        if self.own.share > 0.0 { (super::CAP - self.own.share).max(0.0) } else { 1.0 }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Queues a node's request that takes `seconds`. Returns the time of its end.
    pub fn serve(&mut self, by: usize, now: f64, seconds: f64) -> f64 {
        self.work_for_itself(now);
        self.askers.asked(NodeId(by as u64));
        self.free_at = self.free_at.max(now) + seconds;
        self.busy += seconds;
        self.free_at
    }

    /// Queues the own pieces that have arrived until now.
    fn work_for_itself(&mut self, now: f64) {
        while self.own.share > 0.0 && self.own.next <= now {
            let begins = self.free_at.max(self.own.next);
            self.own.waited_seconds += begins - self.own.next;
            self.own.pieces += 1;
            self.own.next += self.own.every_seconds();
            self.own_busy += OWN_PIECE_SECONDS;
            self.free_at = begins + OWN_PIECE_SECONDS;
        }
        debug_assert!(self.own.waited_seconds >= 0.0);
    }

    /// Ends an epoch of this length. Returns N_g and U* as the server estimates them.
    pub fn end_epoch(&mut self, now: f64, seconds: f64) -> (u32, f64) {
        self.work_for_itself(now);
        if seconds > 0.0 {
            self.spare.worked(std::mem::take(&mut self.own_busy) / seconds);
        }
        (self.askers.end_epoch(), self.spare.most_for_others())
    }

    /// Returns the pieces of own work since the last call, and the seconds for which they waited.
    pub fn take_own_waits(&mut self) -> (u64, f64) {
        (std::mem::take(&mut self.own.pieces), std::mem::take(&mut self.own.waited_seconds))
    }

    /// Returns the seconds of work for others since the last call.
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

/// Length of a piece of a node's own work.
const OWN_PIECE_SECONDS: f64 = 1e-3;
