//! Random operations against a slow, obvious version of the same policy. The seed replays a failure.

use crate::{Handle, Replacement, Victim};
use shoal_core::Key;

/// A policy written for clarity alone; it finds objects by key.
pub(crate) trait Model {
    fn insert(&mut self, key: Key, weight: u64);
    fn hit(&mut self, key: Key);
    fn remove(&mut self, key: Key);
    fn evict(&mut self) -> Option<Victim>;
    fn weight(&self) -> u64;
}

/// splitmix64: small, and the same everywhere.
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

/// Drives both through 2000 operations on at most 60 keys and compares every victim and weight.
pub(crate) fn agrees_with_model(mut policy: impl Replacement, mut model: impl Model, seed: u64) {
    let mut random = Random(seed);
    let mut present: Vec<(Key, Handle)> = Vec::new();
    for step in 0..2000 {
        match random.below(10) {
            0..4 => {
                let key = Key::of(&random.below(60).to_le_bytes());
                if let Some((_, handle)) = present.iter().find(|(k, _)| *k == key) {
                    policy.hit(*handle);
                    model.hit(key);
                } else {
                    let weight = 1 + random.below(9);
                    present.push((key, policy.insert(key, weight)));
                    model.insert(key, weight);
                }
            }
            4..7 if !present.is_empty() => {
                let (key, handle) = present[random.below(present.len() as u64) as usize];
                policy.hit(handle);
                model.hit(key);
            }
            7 if !present.is_empty() => {
                let (key, handle) = present.swap_remove(random.below(present.len() as u64) as usize);
                policy.remove(handle);
                model.remove(key);
            }
            _ => {
                let victim = policy.evict();
                assert_eq!(victim, model.evict(), "seed {seed}, step {step}");
                present.retain(|(key, _)| victim.is_none_or(|v| v.key != *key));
            }
        }
        assert_eq!(policy.weight(), model.weight(), "seed {seed}, step {step}");
        assert_eq!(policy.len(), present.len(), "seed {seed}, step {step}");
    }
}
