//! Adapter that runs a [`CyclicPolicy`] on objects in memory: a queue replaces the array that the
//! hand passes over.
//!
//! The hand stands at the oldest object. A kept object moves to the front of the queue, which is
//! behind the hand. So the queue is the circle of CLOCK, cut open at the hand (FIFO-reinsertion, as
//! Yang, Qiu, Zhang, Yue, Rashmi call it: "FIFO can be better than LRU", HotOS 2023). A hit writes
//! one byte. Insert and hit are O(1). Evict passes over as many objects as the policy keeps, O(1)
//! amortised when hits pay for each kept round.

use crate::cyclic::{CyclicPolicy, HandDecision};
use crate::queue::{Nodes, Queue};
use crate::replacement::{Fingerprint, Handle, Replacement, Victim};
use shoal_core::Key;

/// Cyclic policy over a queue. See the file's head.
#[derive(Debug)]
pub struct Ring<C, K = Key> {
    policy: C,
    nodes: Nodes<K>,
    queue: Queue,
}

impl<C: CyclicPolicy + Default, K: Fingerprint> Ring<C, K> {
    /// Makes an empty ring.
    pub fn new() -> Self {
        Self { policy: C::default(), nodes: Nodes::new(), queue: Queue::new(0) }
    }
}

impl<C: CyclicPolicy + Default, K: Fingerprint> Default for Ring<C, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: CyclicPolicy, K: Fingerprint> Replacement<K> for Ring<C, K> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn insert(&mut self, key: K, weight: u64) -> Handle {
        let handle = self.nodes.add(key, weight);
        // The newcomer enters behind the hand, a whole round away from it.
        self.nodes.at(handle).mark = self.policy.initial_bits(false);
        self.queue.push_front(&mut self.nodes, handle);
        handle
    }

    fn hit(&mut self, handle: Handle) {
        if let Some(node) = self.nodes.queued(handle) {
            let bits = self.policy.hit(node.mark);
            if bits != node.mark {
                node.mark = bits;
            }
        }
    }

    fn remove(&mut self, handle: Handle) {
        if self.nodes.queued(handle).is_some() {
            self.queue.remove(&mut self.nodes, handle);
            self.nodes.release(handle);
        }
    }

    fn evict(&mut self) -> Option<Victim<K>> {
        while let Some(handle) = self.queue.back() {
            match self.policy.on_pass(self.nodes.at(handle).mark) {
                HandDecision::Keep(bits) => {
                    self.nodes.at(handle).mark = bits;
                    self.queue.move_to_front(&mut self.nodes, handle);
                }
                HandDecision::Evict => {
                    self.queue.remove(&mut self.nodes, handle);
                    return Some(self.nodes.release(handle));
                }
            }
        }
        None
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
    use crate::{Clock, SecondChance};

    /// Circle as an array with a hand: a kept object stays in place and the hand moves on. A
    /// newcomer takes the place just behind the hand.
    struct SlowClock {
        circle: Vec<Object>,
        hand: usize,
        count_max: u64,
    }

    impl SlowClock {
        fn counting_to(count_max: u64) -> Self {
            Self { circle: Vec::new(), hand: 0, count_max }
        }
    }

    impl Model for SlowClock {
        fn insert(&mut self, object: Object) {
            self.circle.insert(self.hand, object);
            self.hand += 1;
        }

        fn hit(&mut self, key: Key) {
            let object = self.circle.iter_mut().find(|object| object.key == key).unwrap();
            object.mark = (object.mark + 1).min(self.count_max);
        }

        fn remove(&mut self, key: Key) {
            let position = self.circle.iter().position(|object| object.key == key).unwrap();
            self.circle.remove(position);
            self.hand -= usize::from(position < self.hand);
        }

        fn evict(&mut self) -> Option<Object> {
            if self.circle.is_empty() {
                return None;
            }
            loop {
                self.hand %= self.circle.len();
                let object = &mut self.circle[self.hand];
                if object.mark == 0 {
                    return Some(self.circle.remove(self.hand)).map(|object| Object { mark: 0, ..object });
                }
                object.mark -= 1;
                self.hand += 1;
            }
        }

        fn objects(&self) -> Vec<Object> {
            self.circle.clone()
        }
    }

    #[test]
    fn agrees_with_the_slow_version() {
        agrees_with_model(Ring::<SecondChance>::new, || SlowClock::counting_to(1));
        agrees_with_model(Ring::<Clock>::new, || SlowClock::counting_to(3));
    }

    /// Worked out by hand, frames from the hand on, with a bit behind each: `7 0 1`, 2 for 7, hit
    /// 0, 3: 0 is spared and 1 leaves; and so on.
    #[test]
    fn misses_match_hand_calculation() {
        // a b c in; a hit; d: a spared, b leaves; b: c leaves; a hit (a is still in).
        assert_eq!(misses(Ring::<SecondChance>::new(), "abcadba", 3), 5);
        // One bit remembers one hit: a leaves after two rounds. A count of three would have kept
        // it.
        assert_eq!(misses(Ring::<SecondChance>::new(), "aaaabcdea", 2), 6);
        assert_eq!(misses(Ring::<Clock>::new(), "aaaabcdea", 2), 5);
    }
}
