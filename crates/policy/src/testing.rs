//! Random operations against a slow, obvious version of the same policy, and misses of given
//! strings. The seed replays a failure.

use crate::replacement::{Handle, Replacement};
use shoal_core::Key;
use std::collections::HashMap;

/// Policy written for clarity alone; it finds objects by key.
pub(crate) trait Model {
    fn insert(&mut self, object: Object);
    fn hit(&mut self, key: Key);
    fn remove(&mut self, key: Key);
    fn evict(&mut self) -> Option<Object>;
    /// Returns all present objects, in any order.
    fn objects(&self) -> Vec<Object>;
}

/// Object as the slow versions keep it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) weight: u64,
    /// Mark for the slow version's own use, 0 at first.
    pub(crate) mark: u64,
}

impl Object {
    fn new(key: Key, weight: u64) -> Self {
        Self { key, weight, mark: 0 }
    }
}

/// Random numbers by splitmix64: small, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Runs both from 50 seeds, each through 2000 operations on at most 60 keys, and compares every
/// victim and weight.
pub(crate) fn agrees_with_model<P: Replacement, M: Model>(policy: impl Fn() -> P, model: impl Fn() -> M) {
    for seed in 0..50 {
        // Even seeds make room before each insert, as a full cache does; odd ones grow and shrink
        // at random.
        Comparison { policy: policy(), model: model(), present: Vec::new(), random: Random(seed) }.run(seed);
    }
}

/// Policy and model at the same point.
struct Comparison<P, M> {
    policy: P,
    model: M,
    present: Vec<(Key, Handle)>,
    random: Random,
}

impl<P: Replacement, M: Model> Comparison<P, M> {
    fn run(mut self, seed: u64) {
        let mut stale = None;
        for step in 0..2000 {
            let place = format!("{}, seed {seed}, step {step}", self.policy.name());
            match self.random.below(10) {
                0..4 => self.ask(seed.is_multiple_of(2), &place),
                4..7 => self.hit_some(),
                7 => stale = self.remove_some(),
                _ => self.evict(&place),
            }
            if let Some(handle) = stale.take_if(|handle| self.policy.key(*handle).is_none()) {
                // A handle that is no longer valid must change nothing.
                self.policy.hit(handle);
                self.policy.remove(handle);
            }
            let weight: u64 = self.model.objects().iter().map(|object| object.weight).sum();
            assert_eq!(self.policy.weight(), weight, "{place}");
            assert_eq!(self.policy.len(), self.present.len(), "{place}");
            for (key, handle) in &self.present {
                assert_eq!(self.policy.key(*handle), Some(*key), "{place}");
            }
        }
        while !self.present.is_empty() {
            self.evict(&format!("seed {seed}, at the end"));
        }
        assert_eq!((self.policy.evict(), self.policy.weight()), (None, 0));
    }

    fn ask(&mut self, bounded: bool, place: &str) {
        let key = Key::unkeyed(&self.random.below(60).to_le_bytes());
        if let Some((_, handle)) = self.present.iter().find(|(k, _)| *k == key) {
            self.policy.hit(*handle);
            self.model.hit(key);
            return;
        }
        let weight = 1 + self.random.below(9);
        while bounded && self.policy.weight() + weight > 150 {
            self.evict(place);
        }
        self.present.push((key, self.policy.insert(key, weight)));
        self.model.insert(Object::new(key, weight));
    }

    fn hit_some(&mut self) {
        if let Some((key, handle)) = self.some() {
            self.policy.hit(handle);
            self.model.hit(key);
        }
    }

    fn remove_some(&mut self) -> Option<Handle> {
        let (key, handle) = self.some()?;
        self.present.retain(|(k, _)| *k != key);
        self.policy.remove(handle);
        self.model.remove(key);
        Some(handle)
    }

    fn some(&mut self) -> Option<(Key, Handle)> {
        let count = self.present.len() as u64;
        (count > 0).then(|| self.present[self.random.below(count) as usize])
    }

    fn evict(&mut self, place: &str) {
        let victim = self.policy.evict();
        let expected = self.model.evict();
        assert_eq!(victim.map(|v| (v.key, v.weight)), expected.map(|o| (o.key, o.weight)), "{place}");
        if let Some(victim) = victim {
            let at = self.present.iter().position(|(key, _)| *key == victim.key).expect("it was in");
            assert_eq!(self.present.swap_remove(at).1, victim.handle, "{place}");
        }
    }
}

/// Returns the misses on a string of requests, one character an object, with room for `room`
/// objects.
pub(crate) fn misses(policy: impl Replacement, string: &str, room: u64) -> usize {
    let requests: Vec<(Key, u64)> = string.chars().map(|object| (name(object), 1)).collect();
    misses_by_weight(policy, &requests, room)
}

/// Returns the misses on requests for objects of given weights, with room for a weight of `room`.
pub(crate) fn misses_by_weight(mut policy: impl Replacement, requests: &[(Key, u64)], room: u64) -> usize {
    let mut handles: HashMap<Key, Handle> = HashMap::new();
    let mut misses = 0;
    for &(key, weight) in requests {
        if let Some(handle) = handles.get(&key) {
            policy.hit(*handle);
            continue;
        }
        misses += 1;
        if weight > room {
            policy.declined(key);
            continue;
        }
        while policy.weight() + weight > room {
            let victim = policy.evict().expect("something is in while there is weight");
            handles.remove(&victim.key);
        }
        handles.insert(key, policy.insert(key, weight));
    }
    misses
}

/// Returns the key of an object named by a character.
pub(crate) fn name(object: char) -> Key {
    Key::unkeyed(object.to_string().as_bytes())
}

/// Returns a string of requests for 26 objects, half of them for the first five.
pub(crate) fn random_string(seed: u64, len: usize) -> Vec<char> {
    let mut random = Random(seed);
    let mut object = || {
        let count = if random.below(2) == 0 { 5 } else { 26 };
        char::from(b'a' + random.below(count) as u8)
    };
    (0..len).map(|_| object()).collect()
}
