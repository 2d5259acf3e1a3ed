//! The oldest duplicate and the oldest singlet of each memory, at every moment.
//!
//! A block in one memory is a singlet; its copies in several memories are duplicates. Each memory
//! has a queue of each kind, ordered by the time of last use. A copy enters a queue when it comes
//! into the memory and when its kind changes. Nothing leaves a queue at once. [`AgeQueue::oldest`]
//! compares the entry in front with the copy itself. It drops the entry when the copy is gone or of
//! the other kind, and moves it back when the copy was used since. A copy's use is therefore free.
//!
//! A look at the front is O(1), a change O(log frames) amortized: a queue with more than two
//! entries a frame is rebuilt. Memory: 8 bytes an entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Copies of one memory by the time of their last use, with outdated entries among them.
///
/// The caller pushes a copy when it begins to belong here. From then on the copy's time of last use
/// may only grow.
#[derive(Clone, Debug, Default)]
pub(super) struct AgeQueue {
    entries: BinaryHeap<Reverse<AgedCopy>>,
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
        self.entries.push(Reverse(copy));
        if self.entries.len() > 2 * frames + LEAST_ENTRIES {
            let belongs = |Reverse(entry): Reverse<AgedCopy>| {
                current(entry.object()).map(|last_used| AgedCopy::new(entry.object(), last_used))
            };
            let mut kept: Vec<AgedCopy> =
                std::mem::take(&mut self.entries).into_iter().filter_map(belongs).collect();
            kept.sort_unstable();
            kept.dedup();
            debug_assert!(kept.len() <= frames, "{} copies in {frames} frames", kept.len());
            self.entries = kept.into_iter().map(Reverse).collect();
        }
    }

    /// Returns the oldest copy that belongs here.
    pub(super) fn oldest(&mut self, current: impl Fn(u32) -> Option<u32>) -> Option<AgedCopy> {
        while let Some(mut front) = self.entries.peek_mut() {
            let entry = front.0;
            match current(entry.object()) {
                Some(last_used) if last_used == entry.last_used() => return Some(entry),
                // used since
                Some(last_used) if last_used > entry.last_used() => {
                    front.0 = AgedCopy::new(entry.object(), last_used);
                }
                // gone, or come again with an earlier time and an entry of its own
                _ => _ = PeekMut::pop(front),
            }
        }
        None
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

    /// Adds a copy that came into a memory, or became one of this kind. `current` is that of
    /// [`AgeQueue::push`].
    pub(super) fn push(
        &mut self,
        node: usize,
        copy: AgedCopy,
        frames: usize,
        current: impl Fn(u32) -> Option<u32>,
    ) {
        self.queues[node].push(copy, frames, current);
        if copy <= self.fronts[node] {
            self.unknown |= 1 << node;
        }
    }

    /// Handles the use, the loss or the change of kind of a copy.
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

/// Entries that the queue of any memory may have.
const LEAST_ENTRIES: usize = 16;
