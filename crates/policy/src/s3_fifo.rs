//! S3-FIFO: three first-in-first-out queues that sort out one-hit wonders early.
//!
//! Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023. New objects
//! enter a small queue (a tenth of the weight). What is asked for again while there goes on to the main queue;
//! the rest leaves quickly, and only its key is remembered, in a ghost queue. An object that comes back while
//! its key is remembered goes straight to the main queue, which gives asked-for objects another round.
//!
//! ```text
//!   insert ─▶ small ──asked twice──▶ main ─┐ asked since: another round
//!      │        └──else──▶ ghost      ▲ └──┘
//!      └──key in ghost ───────────────┘──▶ out
//! ```
//!
//! Fits the RAM tier of a web cache: most objects are asked for once, and a hit writes one byte and moves
//! nothing. Does not fit loops somewhat longer than the cache, nor where bursts of two requests are typical of
//! objects that are then forgotten. Insert and hit are O(1); evict is O(1) amortised, since each step back
//! into the main queue spends a frequency that a hit has paid for.
//!
//! Weights: queues are bounded by weight where the paper counts objects; the ghost holds as many keys as the
//! main queue holds objects (the paper's size), and at least [`GHOST_MIN`].

use crate::queue::{Nodes, Place, Queue};
use crate::{Handle, Replacement, Victim};
use shoal_core::Key;
use std::collections::{HashMap, VecDeque};

/// S3-FIFO. See the file's head.
#[derive(Debug)]
pub struct S3Fifo {
    nodes: Nodes,
    small: Queue,
    main: Queue,
    ghost: Ghost,
}

impl S3Fifo {
    /// An empty order.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::default(),
            small: Queue::new(Place::Small),
            main: Queue::new(Place::Main),
            ghost: Ghost::default(),
        }
    }

    fn evict_from_small(&mut self) -> Option<Victim> {
        while let Some(handle) = self.small.pop_back(&mut self.nodes) {
            let node = self.nodes.at(handle);
            if node.frequency > 1 {
                node.frequency = 0;
                self.main.push_front(&mut self.nodes, handle);
                continue;
            }
            let victim = self.nodes.release(handle);
            self.ghost.remember(victim.key, self.main.len().max(GHOST_MIN));
            return Some(victim);
        }
        None
    }

    fn evict_from_main(&mut self) -> Option<Victim> {
        while let Some(handle) = self.main.pop_back(&mut self.nodes) {
            let node = self.nodes.at(handle);
            if node.frequency > 0 {
                node.frequency -= 1;
                self.main.push_front(&mut self.nodes, handle);
                continue;
            }
            return Some(self.nodes.release(handle));
        }
        None
    }
}

impl Default for S3Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for S3Fifo {
    fn name(&self) -> &'static str {
        "s3_fifo"
    }

    fn insert(&mut self, key: Key, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        let queue = if self.ghost.forget(key) { &mut self.main } else { &mut self.small };
        queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if let Some(node) = self.nodes.queued(handle) {
            node.frequency = (node.frequency + 1).min(FREQUENCY_MAX);
        }
    }

    fn remove(&mut self, handle: Handle) {
        let Some(place) = self.nodes.queued(handle).map(|node| node.place) else { return };
        let queue = if place == Place::Small { &mut self.small } else { &mut self.main };
        queue.remove(&mut self.nodes, handle);
        self.nodes.release(handle);
    }

    fn evict(&mut self) -> Option<Victim> {
        let small_is_full = self.small.weight() * SMALL_PARTS >= self.weight();
        if small_is_full || self.main.len() == 0 {
            // The small queue may be empty, or pass everything on to the main one.
            return self.evict_from_small().or_else(|| self.evict_from_main());
        }
        self.evict_from_main()
    }

    fn weight(&self) -> u64 {
        self.small.weight() + self.main.weight()
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

/// Keys of objects that left the small queue, oldest forgotten first.
#[derive(Debug, Default)]
struct Ghost {
    /// Fingerprints with the turn they came in, oldest at the back. An entry whose turn is not the map's is void.
    order: VecDeque<(u64, u32)>,
    turns: HashMap<u64, u32>,
    turn: u32,
}

impl Ghost {
    fn remember(&mut self, key: Key, limit: usize) {
        self.turn = self.turn.wrapping_add(1);
        self.turns.insert(key.high(), self.turn);
        self.order.push_front((key.high(), self.turn));
        // Void entries count too, so that the queue itself is bounded and not only the live ones.
        while self.order.len() > limit {
            let Some((fingerprint, turn)) = self.order.pop_back() else { break };
            if self.turns.get(&fingerprint) == Some(&turn) {
                self.turns.remove(&fingerprint);
            }
        }
    }

    /// Whether the key was remembered; it no longer is.
    fn forget(&mut self, key: Key) -> bool {
        self.turns.remove(&key.high()).is_some()
    }
}

/// The small queue gets one of so many parts of the weight.
const SMALL_PARTS: u64 = 10;
/// Frequencies are capped here, so that nothing keeps its place for long on old fame.
const FREQUENCY_MAX: u8 = 3;
/// Keys remembered at least.
const GHOST_MIN: usize = 16;

#[cfg(test)]
mod tests;
