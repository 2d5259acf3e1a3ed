//! The oldest duplicate and the oldest singlet of each memory, at every moment.
//!
//! A block in one memory is a singlet; its copies in several memories are duplicates. Each memory
//! has a queue of each kind, ordered by the time of last use. A copy enters a queue when it comes
//! into the memory, when it is used and when its kind changes. Nothing leaves a queue at once.
//! [`AgeQueue::oldest`] compares the entry in front with the copy itself. It drops the entry when
//! the copy is gone, of the other kind, or used since.
//!
//! Copies that come or are used now are the newest of all, so that they go to the end of a list.
//! Only a change of kind and a block passed on bring an older time; a heap has these.
//!
//! A look at the front is O(1) amortized, a use O(1), another change O(log frames). A queue with
//! more than four entries a frame is cleaned. Memory: 8 bytes an entry.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Copies of one memory by the time of their last use, with outdated entries among them.
///
/// The caller pushes a copy when it begins to belong here, and at each use.
#[derive(Clone, Debug, Default)]
pub(super) struct AgeQueue {
    /// Entries in ascending order.
    in_order: VecDeque<AgedCopy>,
    /// Entries that came later than a newer one.
    late: BinaryHeap<Reverse<AgedCopy>>,
}

/// Time of last use above, object below: the oldest copy is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AgedCopy(u64);

impl AgedCopy {
    /// A value above every copy.
    const NONE: Self = Self(u64::MAX);

    pub(super) fn new(object: u32, last_used: u32) -> Self {
        Self(u64::from(last_used) << 32 | u64::from(object))
    }

    pub(super) fn object(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn last_used(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl AgeQueue {
    /// Adds a copy. `current` returns a copy's time of last use, or `None` when the copy does not
    /// belong here; at most `frames` copies do.
    pub(super) fn push(&mut self, copy: AgedCopy, frames: usize, current: impl Fn(u32) -> Option<u32>) {
        match self.in_order.back() {
            Some(last) if copy < *last => self.late.push(Reverse(copy)),
            _ => self.in_order.push_back(copy),
        }
        if self.in_order.len() + self.late.len() > ENTRIES_A_FRAME * frames + LEAST_ENTRIES {
            self.clean(frames, current);
        }
    }

    /// Drops entries that are outdated or there twice.
    #[cold]
    fn clean(&mut self, frames: usize, current: impl Fn(u32) -> Option<u32>) {
        let is_current = |entry: &AgedCopy| current(entry.object()) == Some(entry.last_used());
        self.in_order.retain(&is_current);
        let late = std::mem::take(&mut self.late).into_iter().map(|Reverse(entry)| entry);
        let mut late: Vec<AgedCopy> = late.filter(is_current).collect();
        late.sort_unstable();
        late.dedup();
        debug_assert!(late.len() <= frames, "{} copies in {frames} frames", late.len());
        self.late = late.into_iter().map(Reverse).collect();
    }

    /// Returns the oldest copy that belongs here.
    pub(super) fn oldest(&mut self, current: impl Fn(u32) -> Option<u32>) -> Option<AgedCopy> {
        loop {
            let front = self.in_order.front().copied().unwrap_or(AgedCopy::NONE);
            let late = self.late.peek().map_or(AgedCopy::NONE, |Reverse(entry)| *entry);
            let entry = front.min(late);
            if entry == AgedCopy::NONE {
                return None;
            }
            if current(entry.object()) == Some(entry.last_used()) {
                return Some(entry);
            }
            if late < front {
                self.late.pop();
            } else {
                self.in_order.pop_front();
            }
        }
    }
}

/// Copies of one kind in all memories.
#[derive(Clone, Debug)]
pub(super) struct KindAges {
    queues: Vec<AgeQueue>,
    /// The oldest copy of each memory, [`AgedCopy::NONE`] where there is none.
    fronts: Vec<AgedCopy>,
    /// Memories with an unknown oldest copy, a bit each.
    unknown: u64,
}

/// Kind of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyKind {
    /// Another memory has the block too.
    Duplicate,
    /// The only copy in all memories.
    Singlet,
}

impl KindAges {
    /// Creates empty queues for `nodes` memories, at most 64.
    pub(super) fn new(nodes: usize) -> Self {
        assert!(nodes <= u64::BITS as usize, "a memory has a bit");
        Self { queues: vec![AgeQueue::default(); nodes], fronts: vec![AgedCopy::NONE; nodes], unknown: 0 }
    }

    /// Adds a copy that came into a memory, became one of this kind, or was used. `current` is that
    /// of [`AgeQueue::push`].
    pub(super) fn push(
        &mut self,
        node: usize,
        copy: AgedCopy,
        frames: usize,
        current: impl Fn(u32) -> Option<u32>,
    ) {
        self.queues[node].push(copy, frames, current);
        if copy <= self.fronts[node] || copy.object() == self.fronts[node].object() {
            self.unknown |= 1 << node;
        }
    }

    /// Handles the loss or the change of kind of a copy.
    pub(super) fn changed(&mut self, node: usize, object: u32) {
        if self.fronts[node].object() == object {
            self.unknown |= 1 << node;
        }
    }

    /// Returns a memory's oldest copy. `current` is told the memory too.
    pub(super) fn oldest(
        &mut self,
        node: usize,
        current: impl Fn(usize, u32) -> Option<u32>,
    ) -> Option<AgedCopy> {
        if self.unknown & 1 << node != 0 {
            self.find(node, current);
        }
        Some(self.fronts[node]).filter(|front| *front != AgedCopy::NONE)
    }

    /// Returns the oldest copy of all memories, and its memory.
    pub(super) fn oldest_of_all(
        &mut self,
        current: impl Fn(usize, u32) -> Option<u32>,
    ) -> Option<(usize, AgedCopy)> {
        while self.unknown != 0 {
            self.find(self.unknown.trailing_zeros() as usize, &current);
        }
        debug_assert_eq!(self.unknown, 0, "all fronts are known");
        let oldest = *self.fronts.iter().min()?;
        let node = self.fronts.iter().position(|front| *front == oldest)?;
        (oldest != AgedCopy::NONE).then_some((node, oldest))
    }

    fn find(&mut self, node: usize, current: impl Fn(usize, u32) -> Option<u32>) {
        debug_assert!(self.unknown & 1 << node != 0, "the front of memory {node} is known");
        let found = self.queues[node].oldest(|object| current(node, object));
        self.fronts[node] = found.unwrap_or(AgedCopy::NONE);
        self.unknown &= !(1 << node);
    }
}

/// Entries for each frame from which on a queue is cleaned.
const ENTRIES_A_FRAME: usize = 4;
/// Entries that the queue of any memory may have.
const LEAST_ENTRIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_trace::Random;

    #[test]
    fn oldest_is_that_of_all_copies() {
        let mut random = Random::new(11);
        let mut queue = AgeQueue::default();
        let mut held: Vec<Option<u32>> = vec![None; 40];
        for now in 1..20_000 {
            let object = random.below(40) as usize;
            let last_used = match random.below(4) {
                // of the other kind, or gone
                0 => None,
                // comes with an earlier time
                1 if held[object].is_none() => Some(now - random.below(u64::from(now.min(50))) as u32),
                _ => Some(now),
            };
            held[object] = last_used;
            if let Some(last_used) = last_used {
                queue.push(AgedCopy::new(object as u32, last_used), 40, |object| held[object as usize]);
            }
            let found = queue.oldest(|object| held[object as usize]);
            let copies =
                held.iter().enumerate().filter_map(|(at, used)| Some(AgedCopy::new(at as u32, (*used)?)));
            assert_eq!(found, copies.min(), "{now}");
            let entries = queue.in_order.len() + queue.late.len();
            assert!(entries <= ENTRIES_A_FRAME * 40 + LEAST_ENTRIES, "{entries} entries");
        }
    }
}
