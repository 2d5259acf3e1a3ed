//! S3-FIFO: three first-in-first-out queues that sort out one-hit wonders early.
//!
//! Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023. New
//! objects enter a small queue (a tenth of the weight). Objects that are requested again there move
//! to the main queue. The rest leaves quickly, and only its keys are remembered, in a ghost queue.
//! An object that returns while its key is remembered goes straight to the main queue, which gives
//! requested objects another round.
//!
//! ```text
//!   insert ─▶ small ──asked twice──▶ main ─┐ asked since: another round
//!      │        └──else──▶ ghost      ▲ └──┘
//!      └──key in ghost ───────────────┘──▶ out
//! ```
//!
//! Fits the RAM tier of a web cache: most objects are requested once, and a hit writes one byte and
//! moves nothing. Does not fit loops somewhat longer than the cache. Does not fit bursts of two
//! requests for objects that are then forgotten. Insert and hit are O(1). Evict is O(1) amortised,
//! since each step back into the main queue spends a frequency that a hit has paid for.
//!
//! Weights: queues are bounded by weight where the paper counts objects. Shares are of the present
//! weight where the paper takes shares of a capacity. The ghost remembers as many keys as the main
//! queue holds objects (the paper's size), and at least [`GHOST_MIN`]. Before the first eviction, a
//! newcomer enters the main queue once the small queue has its share. The authors do so in
//! libCacheSim since December 2024. Both queues then have their shares at the first eviction, where
//! by the paper all objects would stand in the small queue.

use crate::ghost::Ghost;
use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// S3-FIFO. See the file's head.
#[derive(Debug)]
pub struct S3Fifo<K = Key> {
    nodes: Nodes<K>,
    small: Queue,
    main: Queue,
    ghost: Ghost,
    /// `true` if room has ever run short.
    has_evicted: bool,
}

impl<K: Fingerprint> S3Fifo<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::new(),
            small: Queue::new(SMALL),
            main: Queue::new(SMALL + 1),
            ghost: Ghost::new(),
            has_evicted: false,
        }
    }

    fn evict_from_small(&mut self) -> Option<Victim<K>> {
        while let Some(handle) = self.small.pop_back(&mut self.nodes) {
            let node = self.nodes.at(handle);
            debug_assert!(node.mark <= FREQUENCY_MAX);
            if node.mark > 1 {
                node.mark = 0;
                self.main.push_front(&mut self.nodes, handle);
                continue;
            }
            let victim = self.nodes.release(handle);
            self.ghost.remember(victim.key.fingerprint(), self.ghosts());
            return Some(victim);
        }
        None
    }

    fn evict_from_main(&mut self) -> Option<Victim<K>> {
        while let Some(handle) = self.main.back() {
            let node = self.nodes.at(handle);
            if node.mark == 0 {
                self.main.remove(&mut self.nodes, handle);
                return Some(self.nodes.release(handle));
            }
            node.mark -= 1;
            self.main.move_to_front(&mut self.nodes, handle);
        }
        None
    }

    /// Returns the number of keys to remember.
    fn ghosts(&self) -> usize {
        self.main.len().max(GHOST_MIN)
    }
}

impl<K: Fingerprint> Default for S3Fifo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for S3Fifo<K> {
    fn name(&self) -> &'static str {
        "s3_fifo"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        let is_remembered = self.ghost.forget(key.fingerprint(), self.ghosts());
        let is_filling = !self.has_evicted && self.small.weight() * SMALL_PARTS > self.weight();
        let queue = if is_remembered || is_filling { &mut self.main } else { &mut self.small };
        queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if let Some(node) = self.nodes.queued(handle).filter(|node| node.mark < FREQUENCY_MAX) {
            node.mark += 1;
        }
    }

    fn remove(&mut self, handle: Handle) {
        let Some(place) = self.nodes.queued(handle).map(|node| node.place()) else { return };
        let queue = if place == usize::from(SMALL) { &mut self.small } else { &mut self.main };
        queue.remove(&mut self.nodes, handle);
        self.nodes.release(handle);
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        self.has_evicted = true;
        let small_is_full = self.small.weight() * SMALL_PARTS >= self.weight();
        if small_is_full || self.main.len() == 0 {
            // The small queue may be empty, or pass all its objects on to the main one.
            return self.evict_from_small().or_else(|| self.evict_from_main());
        }
        self.evict_from_main()
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.small.weight() + self.main.weight()
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.ghost.memory_bytes()
    }
}

/// Place of the small queue.
const SMALL: u8 = 0;
/// Divisor of the weight that gives the small queue's share.
const SMALL_PARTS: u64 = 10;
/// Largest frequency, so that no object keeps its place for long by old hits.
const FREQUENCY_MAX: u8 = 3;
/// Least number of remembered keys.
const GHOST_MIN: usize = 16;

#[cfg(test)]
mod tests;
