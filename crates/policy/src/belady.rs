//! Belady's MIN: evicts the object with the latest next request. A bound for other policies, not a
//! policy to run.
//!
//! Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal,
//! 1966; proved best by Mattson, Gecsei, Slutz, Traiger (1970). It knows the trace ([`NextUses`]).
//! Exact for objects of one size, where each newcomer must be admitted; no policy misses less. With
//! sizes it is only a heuristic; see [`BeladySize`](crate::BeladySize) for one that considers them.
//!
//! Fits the lab, as a measure of the distance that remains. Every request of the trace must be
//! reported in order, by `insert`, `hit` or `declined`: these calls advance the time. O(log n)
//! each: every request puts an entry on a heap of next uses. Entries of earlier requests lie below
//! all valid ones, since their time is past. They are removed when they are more than half.

use crate::next_uses::{NEVER, NextUses};
use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;
use std::collections::BinaryHeap;

/// Belady's MIN. See the file's head.
#[derive(Debug)]
pub struct Belady<K = Key> {
    future: NextUses,
    /// Number of the next request.
    now: u32,
    nodes: Nodes<K>,
    /// All present objects; the heap keeps the order.
    present: Queue,
    /// Next uses with their nodes; some are void.
    uses: BinaryHeap<(u32, u32)>,
    /// Valid next use of each node.
    next: Vec<u32>,
}

impl<K: Fingerprint> Belady<K> {
    /// Makes an empty order at the start of a trace.
    pub fn new(future: NextUses) -> Self {
        let (nodes, present) = (Nodes::new(), Queue::new(0));
        Self { future, now: 0, nodes, present, uses: BinaryHeap::new(), next: Vec::new() }
    }

    /// Records the next use of the current request's object, and advances the time.
    fn set_next_use(&mut self, handle: Handle) {
        let next = self.future.after(self.now);
        self.now = self.now.saturating_add(1);
        let at = handle.0 as usize;
        self.next.resize(self.next.len().max(at + 1), NEVER);
        self.next[at] = next;
        if self.uses.len() > 2 * self.present.len() + SWEEP_MIN {
            self.sweep();
        }
        self.uses.push((next, handle.0));
    }

    fn is_valid(&mut self, (next, node): (u32, u32)) -> bool {
        self.next[node as usize] == next && self.nodes.queued(Handle(node)).is_some()
    }

    fn sweep(&mut self) {
        let mut uses = std::mem::take(&mut self.uses).into_vec();
        uses.retain(|entry| self.is_valid(*entry));
        uses.sort_unstable();
        uses.dedup();
        self.uses = uses.into();
    }
}

impl<K: Fingerprint> Replacement<K> for Belady<K> {
    fn name(&self) -> &'static str {
        "belady"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.present.push_front(&mut self.nodes, handle);
        self.set_next_use(handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.set_next_use(handle);
        }
    }

    fn declined(&mut self, _key: K) {
        self.now = self.now.saturating_add(1);
    }

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.present.remove(&mut self.nodes, handle);
            self.nodes.release(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        while let Some(last) = self.uses.pop() {
            if self.is_valid(last) {
                let handle = Handle(last.1);
                self.present.remove(&mut self.nodes, handle);
                return Some(self.nodes.release(handle));
            }
        }
        None
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.present.weight()
    }

    fn len(&self) -> usize {
        self.present.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + self.future.memory_bytes()
            + self.uses.capacity() * size_of::<(u32, u32)>()
            + self.next.capacity() * size_of::<u32>()
    }
}

/// Number of void entries below which no sweep pays.
const SWEEP_MIN: usize = 64;

#[cfg(test)]
mod tests;
