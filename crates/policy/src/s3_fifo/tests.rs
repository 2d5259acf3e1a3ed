//! S3-FIFO against the paper's pseudocode written out plainly, and on a workload it is made for.

use super::*;
use crate::Lru;
use crate::testing::{Model, Random, agrees_with_model};

/// The paper's Algorithm 1 with vectors; index 0 is the newest.
#[derive(Default)]
struct SlowS3Fifo {
    small: Vec<(Key, u64, u8)>,
    main: Vec<(Key, u64, u8)>,
    /// Keys, and whether the place in the queue is still meant.
    ghost: Vec<(Key, bool)>,
}

impl Model for SlowS3Fifo {
    fn insert(&mut self, key: Key, weight: u64) {
        match self.ghost.iter_mut().find(|(k, live)| *k == key && *live) {
            Some((_, live)) => {
                *live = false;
                self.main.insert(0, (key, weight, 0));
            }
            None => self.small.insert(0, (key, weight, 0)),
        }
    }

    fn hit(&mut self, key: Key) {
        for (k, _, frequency) in self.small.iter_mut().chain(&mut self.main) {
            if *k == key {
                *frequency = (*frequency + 1).min(3);
            }
        }
    }

    fn remove(&mut self, key: Key) {
        self.small.retain(|(k, ..)| *k != key);
        self.main.retain(|(k, ..)| *k != key);
    }

    fn evict(&mut self) -> Option<Victim> {
        let small: u64 = self.small.iter().map(|o| o.1).sum();
        if small * 10 >= self.weight() || self.main.is_empty() {
            while let Some((key, weight, frequency)) = self.small.pop() {
                if frequency > 1 {
                    self.main.insert(0, (key, weight, 0));
                } else {
                    self.ghost.iter_mut().filter(|(k, _)| *k == key).for_each(|(_, live)| *live = false);
                    self.ghost.insert(0, (key, true));
                    self.ghost.truncate(self.main.len().max(16));
                    return Some(Victim { key, weight });
                }
            }
        }
        while let Some((key, weight, frequency)) = self.main.pop() {
            if frequency == 0 {
                return Some(Victim { key, weight });
            }
            self.main.insert(0, (key, weight, frequency - 1));
        }
        None
    }

    fn weight(&self) -> u64 {
        self.small.iter().chain(&self.main).map(|o| o.1).sum()
    }
}

#[test]
fn agrees_with_the_slow_version() {
    for seed in 0..50 {
        agrees_with_model(S3Fifo::new(), SlowS3Fifo::default(), seed);
    }
}

#[test]
fn one_hit_wonders_leave_before_what_is_asked_for_again() {
    let (lru, s3_fifo) = (hits(Lru::new()), hits(S3Fifo::new()));
    assert!(s3_fifo > lru + lru / 10, "s3_fifo {s3_fifo}, lru {lru}");
}

/// Hits of a cache of 1000 objects: half of the requests go to 900 objects, half to objects never asked again.
fn hits(mut policy: impl Replacement) -> usize {
    let mut random = Random(7);
    let mut handles = HashMap::new();
    let mut hits = 0;
    for request in 0..100_000_u64 {
        let name = if random.below(2) == 0 { random.below(900) } else { 1_000_000 + request };
        let key = Key::of(&name.to_le_bytes());
        if let Some(handle) = handles.get(&key) {
            policy.hit(*handle);
            hits += 1;
            continue;
        }
        if policy.weight() >= 1000 {
            let victim = policy.evict().expect("1000 objects are in");
            handles.remove(&victim.key);
        }
        handles.insert(key, policy.insert(key, 1));
    }
    hits
}
