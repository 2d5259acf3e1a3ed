//! GreedyDual-Size with frequency: evicts the object that saves the fewest requests for its size.
//!
//! Cherkasova: "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy",
//! HPL-98-69R1, 1998; after Cao and Irani ("Cost-aware WWW proxy caching algorithms", USITS 1997).
//! The priority of an object is Clock + F · C / S. Clock is the priority of the object evicted
//! last. F is the number of requests since the object came in, C the cost of a miss, here one, and
//! S the size. A hit increases F by one and takes Clock anew. Among equals the least recently used
//! is evicted.
//!
//! Fits where requests are to be saved and sizes differ, as in the RAM tier of a proxy: ten small
//! objects for one large. Does not fit where bytes are to be saved; for equal sizes it is LFU-DA. A
//! hit is O(1), insert and evict O(log n): see [`Ranks`].

use crate::ranks::Ranks;
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// GreedyDual-Size with frequency. See the file's head.
#[derive(Debug)]
pub struct Gdsf<K = Key> {
    ranks: Ranks<K>,
    /// Priority of the object evicted last.
    clock: f64,
}

impl<K: Fingerprint> Gdsf<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self { ranks: Ranks::new(), clock: 0.0 }
    }
}

/// Returns the requests saved for a unit of room. An object of no weight counts as one of weight 1.
fn earning(requests: u32, weight: u64) -> f64 {
    f64::from(requests) / weight.max(1) as f64
}

impl<K: Fingerprint> Default for Gdsf<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for Gdsf<K> {
    fn name(&self) -> &'static str {
        "gdsf"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        self.ranks.insert(key, weight, self.clock + earning(1, weight))
    }

    fn hit(&mut self, handle: Handle) {
        let clock = self.clock;
        self.ranks.hit(handle, |requests, weight| clock + earning(requests, weight));
    }

    fn remove(&mut self, handle: Handle) {
        self.ranks.remove(handle);
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let (victim, priority) = self.ranks.take_lowest()?;
        self.clock = priority;
        Some(victim)
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.ranks.key(handle)
    }

    fn weight(&self) -> u64 {
        self.ranks.weight()
    }

    fn len(&self) -> usize {
        self.ranks.len()
    }

    fn memory_bytes(&self) -> usize {
        self.ranks.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LfuDa;
    use crate::testing::{Model, Object, agrees_with_model, misses_by_weight, name, random_string};

    /// List, least recently used first; a mark is an object's number of requests.
    #[derive(Default)]
    struct SlowGdsf {
        objects: Vec<(Object, f64)>,
        clock: f64,
    }

    impl Model for SlowGdsf {
        fn insert(&mut self, object: Object) {
            self.objects.push((Object { mark: 1, ..object }, self.clock + 1.0 / object.weight as f64));
        }

        fn hit(&mut self, key: Key) {
            let position = self.objects.iter().position(|(object, _)| object.key == key).unwrap();
            let (mut object, _) = self.objects.remove(position);
            object.mark += 1;
            self.objects.push((object, self.clock + object.mark as f64 / object.weight as f64));
        }

        fn remove(&mut self, key: Key) {
            self.objects.retain(|(object, _)| object.key != key);
        }

        fn evict(&mut self) -> Option<Object> {
            let (object, priority) = self.objects.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
            self.clock = priority;
            self.remove(object.key);
            Some(object)
        }

        fn objects(&self) -> Vec<Object> {
            self.objects.iter().map(|(object, _)| *object).collect()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(Gdsf::new, SlowGdsf::default);
    }

    #[test]
    fn for_equal_sizes_it_is_lfu_da() {
        for seed in 0..20 {
            let requests: Vec<_> =
                random_string(seed, 500).into_iter().map(|object| (name(object), 4)).collect();
            let expected = misses_by_weight(LfuDa::new(), &requests, 36);
            assert_eq!(misses_by_weight(Gdsf::new(), &requests, 36), expected, "seed {seed}");
        }
    }

    /// Room for ten bytes: a large object leaves for a small one, although it was requested later
    /// and as often.
    #[test]
    fn large_objects_leave_first() {
        let sized = |string: &str| -> Vec<(Key, u64)> {
            string.chars().map(|object| (name(object), if object.is_uppercase() { 8 } else { 1 })).collect()
        };
        // a, b, A; c: A leaves (1/8); a b c hit; A again: A needs eight of ten, so two of three
        // leave, a and b.
        assert_eq!(misses_by_weight(Gdsf::new(), &sized("abAcabc"), 10), 4);
        assert_eq!(misses_by_weight(Gdsf::new(), &sized("abAcabcAc"), 10), 5);
        assert_eq!(misses_by_weight(Gdsf::new(), &sized("abAcabcAab"), 10), 7);
    }
}
