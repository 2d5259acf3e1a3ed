//! LFU with dynamic ageing: gives up what was asked for least, where a newcomer starts at the level of what left last.
//!
//! Arlitt, Cherkasova, Dilley, Friedrich, Jin: "Evaluating content management techniques for web proxy caches", ACM
//! Performance Evaluation Review, 2000 (HPL-98-173), which is also where Squid's heap policies come from. The key of
//! an object is K = F + L: how often it was asked for since it came in, and the cache's age, which is the key of the
//! object given up last. On a hit F grows by one and L is taken anew. Among equal keys the least recently used goes.
//!
//! Fits where bytes are to be saved, since it looks at frequency and not at size, and where popularity is stable. Does
//! not fit popularity that moves faster than the age rises. A hit is O(1), insert and evict O(log n): see [`Ranks`].

use crate::ranks::Ranks;
use crate::replacement::{Handle, Identity, Replacement, Victim};
use shoal_core::Key;

/// LFU with dynamic ageing. See the file's head.
#[derive(Debug)]
pub struct LfuDa<K = Key> {
    ranks: Ranks<K>,
    /// The key of the object given up last: L.
    age: f64,
}

impl<K: Identity> LfuDa<K> {
    /// An empty order.
    pub fn new() -> Self {
        Self { ranks: Ranks::new(), age: 0.0 }
    }
}

impl<K: Identity> Default for LfuDa<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Identity> Replacement<K> for LfuDa<K> {
    fn name(&self) -> &'static str {
        "lfu_da"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        self.ranks.insert(key, weight, self.age + 1.0)
    }

    fn hit(&mut self, handle: Handle) {
        let age = self.age;
        self.ranks.hit(handle, |requests, _| age + f64::from(requests));
    }

    fn remove(&mut self, handle: Handle) {
        self.ranks.remove(handle);
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let (victim, key) = self.ranks.take_lowest()?;
        self.age = key;
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
    use crate::testing::{Model, Object, agrees_with_model, misses};

    /// A list, least recently used first; a mark is a key in twice 32 bits: K, F.
    #[derive(Default)]
    struct SlowLfuDa {
        objects: Vec<Object>,
        age: u64,
    }

    impl Model for SlowLfuDa {
        fn insert(&mut self, object: Object) {
            self.objects.push(Object { mark: (self.age + 1) << 32 | 1, ..object });
        }

        fn hit(&mut self, key: Key) {
            let position = self.objects.iter().position(|object| object.key == key).unwrap();
            let mut object = self.objects.remove(position);
            let requests = (object.mark & 0xffff_ffff) + 1;
            object.mark = (self.age + requests) << 32 | requests;
            self.objects.push(object);
        }

        fn remove(&mut self, key: Key) {
            self.objects.retain(|object| object.key != key);
        }

        fn evict(&mut self) -> Option<Object> {
            // `min_by_key` takes the first of equals, the least recently used.
            let lowest = self.objects.iter().copied().min_by_key(|object| object.mark >> 32)?;
            self.age = lowest.mark >> 32;
            self.remove(lowest.key);
            Some(lowest)
        }

        fn objects(&self) -> Vec<Object> {
            self.objects.clone()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(LfuDa::new, SlowLfuDa::default);
    }

    /// Room for two. a has K = 3 after three requests. b leaves with 1, c comes with 2 and leaves with 2 when d comes with
    /// 3; then a, asked for less recently than d, leaves when e comes. Without ageing a would have stayed.
    #[test]
    fn misses_what_is_worked_out_by_hand() {
        assert_eq!(misses(LfuDa::new(), "aaabcdea", 2), 6);
        assert_eq!(misses(LfuDa::new(), "aaabcda", 2), 4);
        assert_eq!(misses(LfuDa::new(), "aaaabcdea", 2), 5);
    }
}
