//! W-TinyLFU: a small window of newcomers, and a main cache that admits only newcomers requested
//! more often than their victim.
//!
//! Einziger, Friedman, Manes: "TinyLFU: a highly efficient cache admission policy", ACM
//! Transactions on Storage, 2017. A window of 1% is replaced by LRU. The main part is a segmented
//! LRU, four fifths of it protected. Frequencies of all requests stand in a sketch of small
//! counters that are halved as it ages ([`Sketch`]).
//!
//! ```text
//!   insert ─▶ window 1% ──the oldest──▶ contest ──wins──▶ probation ──hit──▶ protected 80%
//!                                          │                  ▲  │              │
//!                                          └─loses─▶ out ◀────│──┘◀── oldest ───┘
//! ```
//!
//! Fits a popularity that is skewed and moves slowly, and small caches most. Does not fit bursts of
//! new objects longer than the window, nor sizes that differ much: the contest considers requests
//! alone. Hit and insert are O(1) and touch one line of the sketch. Evict is O(1) amortised, as
//! each object leaves the window once. The sketch's ageing visits all counters once in 32 requests
//! an object: O(1) amortised, but not at each instant.
//!
//! Window and segments are shares of the present weight. The room that a single victim leaves may
//! be too small for the newcomer; another contest then finds the next victim.

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use crate::sketch::Sketch;
use shoal_core::Key;

/// W-TinyLFU. See the file's head.
#[derive(Debug)]
pub struct WTinyLfu<K = Key> {
    nodes: Nodes<K>,
    window: Queue,
    probation: Queue,
    protected: Queue,
    sketch: Sketch,
}

impl<K: Fingerprint> WTinyLfu<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::new(),
            window: Queue::new(WINDOW),
            probation: Queue::new(PROBATION),
            protected: Queue::new(PROTECTED),
            sketch: Sketch::new(),
        }
    }

    fn main_weight(&self) -> u64 {
        self.probation.weight() + self.protected.weight()
    }

    /// Takes the oldest object out of the window, when the window has its share or more. Objects
    /// beyond the share move on to probation: there was room for them.
    fn candidate(&mut self) -> Option<Handle> {
        let total = self.weight();
        let is_full = |window: &Queue| window.weight() * WINDOW_PARTS >= total;
        if !is_full(&self.window) {
            return None;
        }
        loop {
            let candidate = self.window.pop_back(&mut self.nodes)?;
            if !is_full(&self.window) || self.window.len() == 0 {
                return Some(candidate);
            }
            self.probation.push_front(&mut self.nodes, candidate);
        }
    }

    /// Returns the object that the main part would evict.
    fn main_victim(&self) -> Option<Handle> {
        self.probation.back().or(self.protected.back())
    }

    fn frequency(&mut self, handle: Handle) -> u8 {
        let fingerprint = self.nodes.at(handle).fingerprint();
        self.sketch.estimate(fingerprint)
    }

    fn take_out(&mut self, handle: Handle) -> Victim<K> {
        let queue = match self.nodes.at(handle).place() as u8 {
            WINDOW => &mut self.window,
            PROBATION => &mut self.probation,
            _ => &mut self.protected,
        };
        queue.remove(&mut self.nodes, handle);
        self.nodes.release(handle)
    }

    fn promote(&mut self, handle: Handle) {
        self.probation.remove(&mut self.nodes, handle);
        self.protected.push_front(&mut self.nodes, handle);
        while self.protected.weight() * PROTECTED_OF > self.main_weight() * PROTECTED_PARTS {
            let Some(demoted) = self.protected.pop_back(&mut self.nodes) else { break };
            self.probation.push_front(&mut self.nodes, demoted);
        }
    }
}

impl<K: Fingerprint> Default for WTinyLfu<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for WTinyLfu<K> {
    fn name(&self) -> &'static str {
        "w_tinylfu"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.window.push_front(&mut self.nodes, handle);
        self.sketch.count(key.fingerprint(), self.len());
        handle
    }

    fn hit(&mut self, handle: Handle) {
        let Some(node) = self.nodes.queued(handle) else { return };
        let (place, fingerprint) = (node.place() as u8, node.fingerprint());
        self.sketch.count(fingerprint, self.len());
        match place {
            WINDOW => self.window.move_to_front(&mut self.nodes, handle),
            PROBATION => self.promote(handle),
            _ => self.protected.move_to_front(&mut self.nodes, handle),
        }
    }

    fn declined(&mut self, key: K) {
        self.sketch.count(key.fingerprint(), self.len());
    }

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.take_out(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let candidate = self.candidate();
        match (candidate, self.main_victim()) {
            (Some(candidate), Some(victim)) if self.frequency(candidate) > self.frequency(victim) => {
                self.probation.push_front(&mut self.nodes, candidate);
                Some(self.take_out(victim))
            }
            (Some(candidate), _) => Some(self.nodes.release(candidate)),
            (None, Some(victim)) => Some(self.take_out(victim)),
            (None, None) => self.window.back().map(|handle| self.take_out(handle)),
        }
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.window.weight() + self.main_weight()
    }

    fn len(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.sketch.memory_bytes()
    }
}

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;
/// Divisor of the weight that gives the window's share.
const WINDOW_PARTS: u64 = 100;
/// Share of the protected segment, as parts of `PROTECTED_OF`.
const PROTECTED_PARTS: u64 = 4;
/// Parts of the main cache.
const PROTECTED_OF: u64 = 5;

#[cfg(test)]
mod tests;
