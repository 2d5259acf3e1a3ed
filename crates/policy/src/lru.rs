//! Least recently used: gives up what has not been asked for the longest.
//!
//! The classic (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies", IBM Systems
//! Journal, 1970), and what Squid replaces by. A list in order of last use.
//!
//! Fits where recency predicts reuse and as the yardstick for every other policy. Does not fit where many
//! objects are asked for once (each must sink through the whole list before it leaves), or where sizes differ
//! much and requests, not bytes, are to be saved. Every operation is O(1); a hit moves the object, so it writes.

use crate::queue::{Nodes, Place, Queue};
use crate::{Handle, Replacement, Victim};
use shoal_core::Key;

/// Least recently used. See the file's head.
#[derive(Debug)]
pub struct Lru {
    nodes: Nodes,
    queue: Queue,
}

impl Lru {
    /// An empty order.
    pub fn new() -> Self {
        Self { nodes: Nodes::default(), queue: Queue::new(Place::Main) }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn insert(&mut self, key: Key, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.queue.remove(&mut self.nodes, handle);
            self.queue.push_front(&mut self.nodes, handle);
        }
    }

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.queue.remove(&mut self.nodes, handle);
            self.nodes.release(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim> {
        let handle = self.queue.pop_back(&mut self.nodes)?;
        Some(self.nodes.release(handle))
    }

    fn weight(&self) -> u64 {
        self.queue.weight()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, agrees_with_model};

    /// The slow, obvious version: a list, most recently used first.
    #[derive(Default)]
    struct SlowLru(Vec<(Key, u64)>);

    impl Model for SlowLru {
        fn insert(&mut self, key: Key, weight: u64) {
            self.0.insert(0, (key, weight));
        }

        fn hit(&mut self, key: Key) {
            let position = self.0.iter().position(|(k, _)| *k == key).unwrap();
            let object = self.0.remove(position);
            self.0.insert(0, object);
        }

        fn remove(&mut self, key: Key) {
            self.0.retain(|(k, _)| *k != key);
        }

        fn evict(&mut self) -> Option<Victim> {
            self.0.pop().map(|(key, weight)| Victim { key, weight })
        }

        fn weight(&self) -> u64 {
            self.0.iter().map(|(_, weight)| weight).sum()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        for seed in 0..50 {
            agrees_with_model(Lru::new(), SlowLru::default(), seed);
        }
    }
}
