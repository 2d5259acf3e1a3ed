//! SIEVE: a queue without moves, and a hand that evicts objects not requested since it last passed.
//!
//! Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU: an efficient turn-key eviction
//! algorithm for web caches", NSDI 2024. The hand moves from the oldest towards the newest, spares
//! requested objects, and stays where it took its victim. Newcomers enter at the front, ahead of
//! the hand, so that the hand reaches them soon. Most leave before the objects that the hand has
//! already spared (quick demotion, lazy promotion).
//!
//! ```text
//!   newest ─ ○ ─ ○ ─ ● ─ ○ ─ ● ─ ● ─ oldest      ● requested since the hand was here
//!                        ▲ hand, moving left       ○ victim when the hand meets it
//! ```
//!
//! Fits web caches with a skewed popularity; a hit writes one byte. Does not fit block workloads
//! with scans and loops: it does not resist them, and a spared object stays a whole round. Insert
//! and hit are O(1). Evict is O(1) amortised, since a hit has paid for each spared object.

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// SIEVE. See the file's head.
#[derive(Debug)]
pub struct Sieve<K = Key> {
    nodes: Nodes<K>,
    queue: Queue,
    /// Next position of the hand; the oldest when `None`.
    hand: Option<Handle>,
}

impl<K: Fingerprint> Sieve<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self { nodes: Nodes::new(), queue: Queue::new(0), hand: None }
    }

    fn take_out(&mut self, handle: Handle) -> Victim<K> {
        self.queue.remove(&mut self.nodes, handle);
        self.nodes.release(handle)
    }
}

impl<K: Fingerprint> Default for Sieve<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for Sieve<K> {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if let Some(node) = self.nodes.queued(handle).filter(|node| node.mark == 0) {
            node.mark = 1;
        }
    }

    fn remove(&mut self, handle: Handle) {
        let Some(node) = self.nodes.queued(handle) else { return };
        if self.hand == Some(handle) {
            self.hand = node.towards_front();
        }
        self.take_out(handle);
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let mut handle = self.hand.or(self.queue.back())?;
        loop {
            let node = self.nodes.at(handle);
            let ahead = node.towards_front();
            if node.mark == 0 {
                self.hand = ahead;
                return Some(self.take_out(handle));
            }
            node.mark = 0;
            handle = ahead.or(self.queue.back())?;
        }
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.queue.weight()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, Object, agrees_with_model, misses};

    /// Algorithm 1 of the paper with a vector, oldest first; the hand is an index.
    #[derive(Default)]
    struct SlowSieve {
        objects: Vec<Object>,
        hand: usize,
    }

    impl Model for SlowSieve {
        fn insert(&mut self, object: Object) {
            // A hand that has passed the newest starts again at once, without waiting for a
            // newcomer.
            self.hand = if self.hand == self.objects.len() { 0 } else { self.hand };
            self.objects.push(object);
        }

        fn hit(&mut self, key: Key) {
            self.objects.iter_mut().find(|object| object.key == key).unwrap().mark = 1;
        }

        fn remove(&mut self, key: Key) {
            let position = self.objects.iter().position(|object| object.key == key).unwrap();
            self.objects.remove(position);
            self.hand -= usize::from(position < self.hand);
        }

        fn evict(&mut self) -> Option<Object> {
            if self.objects.is_empty() {
                return None;
            }
            loop {
                self.hand %= self.objects.len();
                let object = &mut self.objects[self.hand];
                if object.mark == 0 {
                    return Some(self.objects.remove(self.hand));
                }
                object.mark = 0;
                self.hand += 1;
            }
        }

        fn objects(&self) -> Vec<Object> {
            self.objects.clone()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(Sieve::new, SlowSieve::default);
    }

    /// Example of the paper's Figure 1: seven objects A to G, of which A, B and G were requested;
    /// then H, A, D, I, B, J.
    #[test]
    fn misses_match_hand_calculation() {
        // Oldest first A B C D E F G; A B G hit. H: A and B are spared, C leaves. A hits. D hits.
        // I: the hand is at D, which is spared, and E leaves. B hits. J: F leaves. The last seven:
        // A B D G H I J are all in.
        assert_eq!(misses(Sieve::new(), "abcdefgabghadibj", 7), 10);
        assert_eq!(misses(Sieve::new(), "abcdefgabghadibjabdghij", 7), 10);
        assert_eq!(misses(Sieve::new(), "abcdefgabghadibjcef", 7), 13);
    }
}
