//! Least recently used: evicts the object with the oldest last request.
//!
//! The classic (Mattson, Gecsei, Slutz, Traiger: "Evaluation techniques for storage hierarchies",
//! IBM Systems Journal, 1970), and Squid's default. A list in order of last use.
//!
//! Fits where recency predicts reuse, and as the yardstick for every other policy. Does not fit
//! where many objects are requested once: each must sink through the whole list before it leaves.
//! Does not fit where sizes differ much and requests, not bytes, are to be saved. Every operation
//! is O(1); a hit moves the object, so it writes.

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use crate::resident_first;
use shoal_core::Key;

/// Least recently used. See the file's head.
#[derive(Debug)]
pub struct Lru<K = Key> {
    nodes: Nodes<K>,
    queue: Queue,
}

impl<K: Fingerprint> Lru<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self { nodes: Nodes::new(), queue: Queue::new(0) }
    }

    /// Returns the objects in order of eviction, the least recently used first.
    pub fn oldest_first(&self) -> impl Iterator<Item = (Handle, K)> + '_ {
        let mut next = self.queue.back();
        std::iter::from_fn(move || {
            let handle = next?;
            next = self.nodes.queued_at(handle)?.towards_front();
            Some((handle, self.nodes.key(handle)?))
        })
    }

    /// Returns the victim by `lru_resident`: the least recently used object with a resident page,
    /// among the `window` least recently used that `may_go`. Without one it is the least recently
    /// used. The object stays in the order until it is removed. See [`resident_first`].
    ///
    /// At most `4 · window` objects are examined; `None` when none of them may go.
    pub fn victim_resident(
        &self,
        window: usize,
        mut may_go: impl FnMut(K) -> bool,
        mut resident: impl FnMut(K) -> bool,
    ) -> Option<Handle> {
        let looked_at = window.max(1).saturating_mul(LOOKED_AT);
        let candidates = self.oldest_first().take(looked_at).filter(|(_, key)| may_go(*key));
        resident_first(candidates, window, |(_, key)| resident(key)).map(|(handle, _)| handle)
    }
}

/// Objects that a search for a resident page examines, for each query that it may make.
const LOOKED_AT: usize = 4;

impl<K: Fingerprint> Default for Lru<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for Lru<K> {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.queue.move_to_front(&mut self.nodes, handle);
        }
    }

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
    use crate::testing::{Model, Object, agrees_with_model, misses, random_string};

    /// Slow, obvious version: a list, most recently used first.
    #[derive(Default)]
    struct SlowLru(Vec<Object>);

    impl Model for SlowLru {
        fn insert(&mut self, object: Object) {
            self.0.insert(0, object);
        }

        fn hit(&mut self, key: Key) {
            let position = self.0.iter().position(|object| object.key == key).unwrap();
            let object = self.0.remove(position);
            self.0.insert(0, object);
        }

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
        agrees_with_model(Lru::new, SlowLru::default);
    }

    #[test]
    fn misses_match_hand_calculation() {
        assert_eq!(misses(Lru::new(), "70120304230321201701", 3), 12);
        assert_eq!(misses(Lru::new(), "123412512345", 3), 10);
        assert_eq!(misses(Lru::new(), "123412512345", 4), 8);
    }

    /// Mattson's theorem: a request hits exactly when the number of other objects since the last
    /// request for it is less than the room.
    #[test]
    fn misses_match_reuse_distances() {
        for seed in 0..20 {
            let string = random_string(seed, 500);
            for room in 1..=20 {
                let far = |at: usize| {
                    let before = &string[..at];
                    let last = before.iter().rposition(|object| *object == string[at]);
                    let since =
                        last.map(|last| before[last + 1..].iter().collect::<std::collections::HashSet<_>>());
                    since.is_none_or(|others| others.len() >= room)
                };
                let expected = (0..string.len()).filter(|at| far(*at)).count();
                let text: String = string.iter().collect();
                assert_eq!(misses(Lru::new(), &text, room as u64), expected, "seed {seed}, room {room}");
            }
        }
    }

    #[test]
    fn a_resident_victim_is_preferred_within_the_window() {
        let mut lru = Lru::<u64>::new();
        let handles: Vec<Handle> = (0..100).map(|key| lru.insert(key, 1)).collect();
        lru.hit(handles[0]);
        assert!(lru.oldest_first().map(|(_, key)| key).eq((1..100).chain([0])));
        let resident = |key: u64| key >= 4;
        for (window, expected) in [(0, 1), (1, 1), (3, 1), (4, 4), (80, 4)] {
            let found = lru.victim_resident(window, |_| true, resident);
            assert_eq!(found, Some(handles[expected]), "window {window}");
        }
        assert_eq!(lru.victim_resident(4, |key| key > 2, resident), Some(handles[4]));
        assert_eq!(lru.victim_resident(4, |key| key > 40, resident), None, "too many may not go");
    }
}
