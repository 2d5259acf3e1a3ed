//! LFU with dynamic ageing: evicts the least requested object; a newcomer starts at the level of
//! the last victim.
//!
//! Arlitt, Cherkasova, Dilley, Friedrich, Jin: "Evaluating content management techniques for web
//! proxy caches", ACM Performance Evaluation Review, 2000 (HPL-98-173), also the source of Squid's
//! heap policies. The key of an object is K = F + L. F is the number of requests since the object
//! came in; L is the cache's age, the key of the object evicted last. A hit increases F by one and
//! takes L anew. Among equal keys the least recently used is evicted.
//!
//! Fits where bytes are to be saved, since it considers frequency and not size, and where
//! popularity is stable. Does not fit popularity that moves faster than the age rises.
//!
//! No key is ever below L, so a radix heap holds the keys (Ahuja, Mehlhorn, Orlin, Tarjan: "Faster
//! algorithms for the shortest path problem", Journal of the ACM, 1990). Queue 0 has the objects
//! with key L. Queue b has the objects with a key that first differs from L in bit b − 1. When
//! queue 0 is empty, L becomes the least key of the lowest queue that is not. The objects of this
//! queue then move to lower queues, oldest first, so that equal keys stay in the order of their
//! last use. Insert and hit are O(1). Evict is O(log F) amortised: an object moves down at most log
//! F times between two of its hits.

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// LFU with dynamic ageing. See the file's head.
#[derive(Debug)]
pub struct LfuDa<K = Key> {
    nodes: Nodes<K>,
    /// Rank of each node.
    ranks: Vec<Rank>,
    queues: [Queue; QUEUES],
    /// Key of the object evicted last: L.
    age: u64,
    weight: u64,
    len: usize,
}

/// Rank of an object, in twelve bytes. The key needs more than 32 bits only after years, and stands
/// in two halves.
#[derive(Clone, Copy, Debug)]
struct Rank {
    key_low: u32,
    key_high: u32,
    /// Requests: F.
    requests: u32,
}

const _: () = assert!(size_of::<Rank>() == 12);

impl Rank {
    fn new(key: u64, requests: u32) -> Self {
        Self { key_low: key as u32, key_high: (key >> 32) as u32, requests }
    }

    /// Returns the key: K.
    fn key(self) -> u64 {
        u64::from(self.key_low) | u64::from(self.key_high) << 32
    }
}

impl<K: Fingerprint> LfuDa<K> {
    /// Makes an empty order.
    pub fn new() -> Self {
        Self {
            nodes: Nodes::new(),
            ranks: Vec::new(),
            queues: std::array::from_fn(|at| Queue::new(at as u8)),
            age: 0,
            weight: 0,
            len: 0,
        }
    }

    /// Puts an object that is in no queue into the queue of its rank.
    fn put(&mut self, handle: Handle) {
        let key = self.ranks[handle.number() as usize].key();
        debug_assert!(key >= self.age);
        let queue = u64::BITS - (key ^ self.age).leading_zeros();
        self.queues[queue as usize].push_front(&mut self.nodes, handle);
    }

    /// Sets the rank of a new object.
    fn rank(&mut self, handle: Handle, rank: Rank) {
        let at = handle.number() as usize;
        if at < self.ranks.len() {
            self.ranks[at] = rank;
            return;
        }
        if self.ranks.len() == self.ranks.capacity() {
            self.ranks.reserve_exact(self.ranks.len() / 16 + 64);
        }
        // A new node has the next number.
        self.ranks.push(rank);
    }

    /// Raises the age to the least key, so that queue 0 has an object if there is any.
    fn age(&mut self) {
        let Some(lowest) = self.queues.iter().position(|queue| queue.len() > 0).filter(|lowest| *lowest > 0)
        else {
            return;
        };
        let mut least = u64::MAX;
        let mut next = self.queues[lowest].back();
        while let Some(handle) = next {
            least = least.min(self.ranks[handle.number() as usize].key());
            next = self.nodes.at(handle).towards_front();
        }
        self.age = least;
        while let Some(handle) = self.queues[lowest].pop_back(&mut self.nodes) {
            self.put(handle);
        }
    }

    fn take_out(&mut self, handle: Handle, queue: usize) -> Victim<K> {
        self.queues[queue].remove(&mut self.nodes, handle);
        let victim = self.nodes.release(handle);
        self.weight -= victim.weight;
        self.len -= 1;
        victim
    }
}

impl<K: Fingerprint> Default for LfuDa<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint> Replacement<K> for LfuDa<K> {
    fn name(&self) -> &'static str {
        "lfu_da"
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        self.rank(handle, Rank::new(self.age + 1, 1));
        self.put(handle);
        self.weight += self.nodes.at(handle).weight();
        self.len += 1;
        handle
    }

    fn hit(&mut self, handle: Handle) {
        let Some(queue) = self.nodes.queued(handle).map(|node| node.place()) else { return };
        let rank = &mut self.ranks[handle.number() as usize];
        let requests = rank.requests.saturating_add(1);
        *rank = Rank::new(self.age + u64::from(requests), requests);
        self.queues[queue].remove(&mut self.nodes, handle);
        self.put(handle);
    }

    fn remove(&mut self, handle: Handle) {
        if let Some(queue) = self.nodes.queued(handle).map(|node| node.place()) {
            self.take_out(handle, queue);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        self.age();
        let handle = self.queues[0].back()?;
        Some(self.take_out(handle, 0))
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    fn len(&self) -> usize {
        self.len
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.ranks.capacity() * size_of::<Rank>()
    }
}

/// One for each bit in which a key may differ first, and one for keys that do not differ.
const QUEUES: usize = u64::BITS as usize + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, Object, agrees_with_model, misses};

    /// List, least recently used first; a mark is a key in twice 32 bits: K, F.
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
            // `min_by_key` returns the first of equals, the least recently used.
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

    #[test]
    fn keys_beyond_32_bits_keep_their_order() {
        let mut policy = LfuDa { age: u64::from(u32::MAX) - 1, ..LfuDa::new() };
        let names = ['a', 'b', 'c'].map(|object| (object, policy.insert(crate::testing::name(object), 1)));
        // a: 2^32 + 1, b: 2^32 − 1, c: 2^32.
        policy.hit(names[0].1);
        policy.hit(names[0].1);
        policy.hit(names[2].1);
        let order = std::iter::from_fn(|| policy.evict()).map(|victim| victim.key);
        assert_eq!(order.collect::<Vec<_>>(), ['b', 'c', 'a'].map(crate::testing::name));
    }

    /// Room for two. a has K = 3 after three requests. b leaves with 1; c comes with 2 and leaves
    /// with 2 when d comes with 3. Then a, requested less recently than d, leaves when e comes.
    /// Without ageing a would have stayed.
    #[test]
    fn misses_match_hand_calculation() {
        assert_eq!(misses(LfuDa::new(), "aaabcdea", 2), 6);
        assert_eq!(misses(LfuDa::new(), "aaabcda", 2), 4);
        assert_eq!(misses(LfuDa::new(), "aaaabcdea", 2), 5);
    }
}
