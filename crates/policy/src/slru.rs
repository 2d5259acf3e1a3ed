//! Segmented LRU: several LRU lists; each hit moves an object one list up.
//!
//! Karedla, Love, Wherry: "Caching strategies to improve disk system performance", IEEE Computer,
//! 1994, with two segments. Huang, Birman, van Renesse, Lloyd, Kumar, Li: "An analysis of Facebook
//! photo caching", SOSP 2013, with four equal ones (S4LRU), the default here. A newcomer enters the
//! lowest segment. A hit moves an object to the head of the next segment. A segment above its share
//! moves its tail to the head of the one below. The victim is the tail of the lowest segment that
//! is not empty.
//!
//! Fits where many objects are requested once, since these never leave the lowest segment. Does not
//! fit where popularity moves fast: a promoted object must sink through every segment. Every
//! operation is O(1), with at most one move for each segment when objects weigh the same.
//!
//! Each segment's share is of the present weight, not of a capacity, so that the policy needs no
//! capacity. Once the cache is full both are the same.
//!
//! **Two fillings.** The publications say nothing of a newcomer in a cache with free room.
//! [`Slru::new`] (`slru`) always starts it at the bottom, which has the room that upper segments do
//! not take. [`Slru::filling_upwards`] (`slru_fill`, as libCacheSim does) starts it in the lowest
//! segment with room, so that an empty cache fills from the bottom up. The policy is then told the
//! capacity. The two differ for as long as objects of the filling stay above the bottom. Only a
//! promotion moves them down, so that this is long where hits are few.

use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// Segmented LRU with `SEGMENTS` equal segments, at least one. See the file's head.
#[derive(Debug)]
pub struct Slru<K = Key, const SEGMENTS: usize = 4> {
    nodes: Nodes<K>,
    /// Segments, lowest first.
    segments: [Queue; SEGMENTS],
    weight: u64,
    entry: EntryRule,
}

/// Segment that a newcomer enters while the cache has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryRule {
    /// The lowest.
    Bottom,
    /// The lowest with room, by a capacity; 0 until it is told.
    Upwards { capacity: u64 },
}

impl<K: Fingerprint, const SEGMENTS: usize> Slru<K, SEGMENTS> {
    /// Makes an empty order.
    pub fn new() -> Self {
        const { assert!(0 < SEGMENTS && SEGMENTS < 255, "each segment has a number") };
        Self {
            nodes: Nodes::new(),
            segments: std::array::from_fn(|at| Queue::new(at as u8)),
            weight: 0,
            entry: EntryRule::Bottom,
        }
    }

    /// Makes an empty order that fills from the lowest segment up. Until it is told the capacity,
    /// newcomers start at the bottom.
    pub fn filling_upwards() -> Self {
        Self { entry: EntryRule::Upwards { capacity: 0 }, ..Self::new() }
    }

    /// Returns the weight that the segments share in equal parts.
    fn shared_weight(&self) -> u64 {
        match self.entry {
            EntryRule::Upwards { capacity } => capacity.max(self.weight),
            EntryRule::Bottom => self.weight,
        }
    }

    /// Returns the segment for a newcomer.
    fn entrance(&self, weight: u64) -> usize {
        let EntryRule::Upwards { capacity } = self.entry else { return 0 };
        let has_room = |segment: &Queue| (segment.weight() + weight) * SEGMENTS as u64 <= capacity;
        self.segments.iter().position(has_room).unwrap_or(0)
    }

    /// Moves objects beyond each segment's share one segment down, from this segment on.
    fn rebalance(&mut self, highest: usize) {
        for at in (1..=highest).rev() {
            while self.segments[at].weight() * SEGMENTS as u64 > self.shared_weight() {
                let Some(handle) = self.segments[at].pop_back(&mut self.nodes) else { break };
                self.segments[at - 1].push_front(&mut self.nodes, handle);
            }
        }
    }
}

impl<K: Fingerprint, const SEGMENTS: usize> Default for Slru<K, SEGMENTS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Fingerprint, const SEGMENTS: usize> Replacement<K> for Slru<K, SEGMENTS> {
    fn name(&self) -> &'static str {
        match self.entry {
            EntryRule::Bottom => "slru",
            EntryRule::Upwards { .. } => "slru_fill",
        }
    }

    fn set_capacity(&mut self, weight: u64) {
        if let EntryRule::Upwards { capacity } = &mut self.entry {
            *capacity = weight;
        }
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        let weight = self.nodes.at(handle).weight();
        self.weight += weight;
        let entrance = self.entrance(weight);
        self.segments[entrance].push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        let Some(at) = self.nodes.queued(handle).map(|node| node.place()) else { return };
        let to = (at + 1).min(SEGMENTS - 1);
        self.segments[at].remove(&mut self.nodes, handle);
        self.segments[to].push_front(&mut self.nodes, handle);
        self.rebalance(to);
    }

    fn remove(&mut self, handle: Handle) {
        let Some(at) = self.nodes.queued(handle).map(|node| node.place()) else { return };
        self.segments[at].remove(&mut self.nodes, handle);
        self.weight -= self.nodes.release(handle).weight;
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        let handle = self.segments.iter_mut().find_map(|segment| segment.pop_back(&mut self.nodes))?;
        let victim = self.nodes.release(handle);
        self.weight -= victim.weight;
        Some(victim)
    }

    fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.key(handle)
    }

    fn weight(&self) -> u64 {
        self.weight
    }

    fn len(&self) -> usize {
        self.segments.iter().map(Queue::len).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Model, Object, agrees_with_model, misses};

    /// Lists, lowest first, each with the newest first.
    struct SlowSlru(Vec<Vec<Object>>);

    impl SlowSlru {
        fn of(segments: usize) -> Self {
            Self(vec![Vec::new(); segments])
        }
    }

    impl Model for SlowSlru {
        fn insert(&mut self, object: Object) {
            self.0[0].insert(0, object);
        }

        fn hit(&mut self, key: Key) {
            let at = self.0.iter().position(|list| list.iter().any(|object| object.key == key)).unwrap();
            let position = self.0[at].iter().position(|object| object.key == key).unwrap();
            let object = self.0[at].remove(position);
            let to = (at + 1).min(self.0.len() - 1);
            self.0[to].insert(0, object);
            let weight = |objects: &[Object]| objects.iter().map(|object| object.weight).sum::<u64>();
            let share = weight(&self.objects()) as f64 / self.0.len() as f64;
            for above in (1..=to).rev() {
                while weight(&self.0[above]) as f64 > share {
                    let object = self.0[above].pop().unwrap();
                    self.0[above - 1].insert(0, object);
                }
            }
        }

        fn remove(&mut self, key: Key) {
            self.0.iter_mut().for_each(|list| list.retain(|object| object.key != key));
        }

        fn evict(&mut self) -> Option<Object> {
            self.0.iter_mut().find_map(Vec::pop)
        }

        fn objects(&self) -> Vec<Object> {
            self.0.concat()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(Slru::<Key, 1>::new, || SlowSlru::of(1));
        agrees_with_model(Slru::<Key, 2>::new, || SlowSlru::of(2));
        agrees_with_model(Slru::<Key, 4>::new, || SlowSlru::of(4));
    }

    #[test]
    fn with_one_segment_it_is_lru() {
        for seed in 0..20 {
            let string: String = crate::testing::random_string(seed, 500).iter().collect();
            let expected = misses(crate::Lru::new(), &string, 9);
            assert_eq!(misses(Slru::<Key, 1>::new(), &string, 9), expected, "seed {seed}");
        }
    }

    /// Room for four in two segments, `lower|upper`, newest first.
    #[test]
    fn misses_match_hand_calculation() {
        // `ba|`, a hits: `b|a`; c d: `dcb|a`; then e f g h push out b c d e, and a is still
        // present. LRU evicts a for f.
        assert_eq!(misses(Slru::<Key, 2>::new(), "abacdefgha", 4), 8);
        assert_eq!(misses(crate::Lru::new(), "abacdefgha", 4), 9);
        // `dcb|a`, b hits: `dc|ba`, c hits: `ad|cb`, d hits: `ba|dc`; e pushes out a.
        assert_eq!(misses(Slru::<Key, 2>::new(), "abacdbcdefa", 4), 7);
    }

    /// Room for four in two segments, `lower|upper`, newest first.
    #[test]
    fn empty_cache_fills_from_bottom_to_top() {
        let filled = |policy: Slru<Key, 2>, string| {
            let mut policy = policy;
            policy.set_capacity(4);
            misses(policy, string, 4)
        };
        // `ba|dc`: e and f push out a and b, and c and d stay; from the bottom, `fedc|`.
        assert_eq!(filled(Slru::filling_upwards(), "abcdefcd"), 6);
        assert_eq!(filled(Slru::new(), "abcdefcd"), 6);
        // g and h push out e and f, where the others push out c and d.
        assert_eq!(filled(Slru::filling_upwards(), "abcdefghcd"), 8);
        assert_eq!(filled(Slru::new(), "abcdefghcd"), 10);
    }
}
