//! First in, first out: evicts the oldest object, regardless of hits.
//!
//! Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal,
//! 1966, one of three yardsticks there. A queue that hits do not touch.
//!
//! Fits where a hit must write nothing, and as the floor below every other policy; its order is
//! that of a log on disk. Does not fit where some objects stay popular: they are evicted with the
//! rest and fetched again. Every operation is O(1).

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// First in, first out. See the file's head.
#[derive(Debug)]
pub struct Fifo<K = Key> {
    nodes: Nodes<K>,
    queue: Queue,
}

impl<K: Fingerprint> Fifo<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self { nodes: Nodes::new(), queue: Queue::new(0) }
    }
}

impl<K: Fingerprint> Default for Fifo<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for Fifo<K> {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, _handle: Handle) {}

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.queue.remove(&mut self.nodes, handle);
            self.nodes.release(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let handle = self.queue.pop_back(&mut self.nodes)?;
        Some(self.nodes.release(handle))
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

    /// Slow, obvious version: a list, newest first.
    #[derive(Default)]
    struct SlowFifo(Vec<Object>);

    impl Model for SlowFifo {
        fn insert(&mut self, object: Object) {
            self.0.insert(0, object);
        }

        fn hit(&mut self, _key: Key) {}

        fn remove(&mut self, key: Key) {
            self.0.retain(|object| object.key != key);
        }

        fn evict(&mut self) -> Option<Object> {
            self.0.pop()
        }

        fn objects(&self) -> Vec<Object> {
            self.0.clone()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(Fifo::new, SlowFifo::default);
    }

    /// Reference strings of the textbooks: Silberschatz, Galvin, Gagne, "Operating System
    /// Concepts", section on page replacement. Also the anomaly of Belady, Nelson, Shedler (CACM
    /// 1969): more room causes more misses.
    #[test]
    fn misses_match_hand_calculation() {
        assert_eq!(misses(Fifo::new(), "70120304230321201701", 3), 15);
        assert_eq!(misses(Fifo::new(), "123412512345", 3), 9);
        assert_eq!(misses(Fifo::new(), "123412512345", 4), 10);
    }
}
