//! W-TinyLFU against the same rules with vectors, and on a workload that suits it. Both share the
//! sketch, which has its own tests and is a fixed function of the requests. The test thus covers
//! contests and moves.

use super::*;
use crate::Lru;
use crate::testing::{Model, Object, Random, agrees_with_model, misses, misses_by_weight};

/// Slow version with vectors; index 0 is the newest.
struct SlowWTinyLfu {
    window: Vec<Object>,
    probation: Vec<Object>,
    protected: Vec<Object>,
    sketch: Sketch,
}

impl SlowWTinyLfu {
    fn new() -> Self {
        let empty = Vec::new;
        Self { window: empty(), probation: empty(), protected: empty(), sketch: Sketch::new() }
    }

    fn frequency(&self, object: Object) -> u8 {
        self.sketch.estimate(object.key.fingerprint())
    }
}

fn weight(objects: &[Object]) -> u64 {
    objects.iter().map(|object| object.weight).sum()
}

fn take(objects: &mut Vec<Object>, key: Key) -> Option<Object> {
    let position = objects.iter().position(|object| object.key == key)?;
    Some(objects.remove(position))
}

impl Model for SlowWTinyLfu {
    fn insert(&mut self, object: Object) {
        self.window.insert(0, object);
        self.sketch.count(object.key.fingerprint(), self.objects().len());
    }

    fn hit(&mut self, key: Key) {
        self.sketch.count(key.fingerprint(), self.objects().len());
        if let Some(object) = take(&mut self.window, key) {
            self.window.insert(0, object);
        } else if let Some(object) = take(&mut self.protected, key) {
            self.protected.insert(0, object);
        } else if let Some(object) = take(&mut self.probation, key) {
            self.protected.insert(0, object);
            let main = weight(&self.protected) + weight(&self.probation);
            while weight(&self.protected) as f64 > 0.8 * main as f64 {
                let demoted = self.protected.pop().unwrap();
                self.probation.insert(0, demoted);
            }
        }
    }

    fn remove(&mut self, key: Key) {
        for part in [&mut self.window, &mut self.probation, &mut self.protected] {
            part.retain(|object| object.key != key);
        }
    }

    fn evict(&mut self) -> Option<Object> {
        let total = weight(&self.objects());
        let mut candidate = None;
        while !self.window.is_empty() && weight(&self.window) * 100 >= total {
            if let Some(uncontested) = candidate.replace(self.window.pop().unwrap()) {
                self.probation.insert(0, uncontested);
            }
        }
        let victim = self.probation.last().or(self.protected.last()).copied();
        let (loser, winner) = match (candidate, victim) {
            (Some(candidate), Some(victim)) if self.frequency(candidate) > self.frequency(victim) => {
                (victim, Some(candidate))
            }
            (Some(candidate), _) => (candidate, None),
            (None, Some(victim)) => (victim, None),
            (None, None) => return self.window.pop(),
        };
        winner.into_iter().for_each(|winner| self.probation.insert(0, winner));
        self.remove(loser.key);
        Some(loser)
    }

    fn objects(&self) -> Vec<Object> {
        [self.window.clone(), self.probation.clone(), self.protected.clone()].concat()
    }
}

#[test]
fn agrees_with_the_slow_version() {
    agrees_with_model(WTinyLfu::new, SlowWTinyLfu::new);
}

/// Room for three. The window has at least one object, as one object more than fills a hundredth.
#[test]
fn misses_match_hand_calculation() {
    // When d comes, a and b are on probation, and c is the candidate. All were requested once, so
    // the present one wins: c leaves, and so do d, e, f in turn. a and b stay.
    assert_eq!(misses(WTinyLfu::new(), "abcdefab", 3), 6);
    // e is requested twice, so it replaces a when f comes; then e hits and a does not.
    assert_eq!(misses(WTinyLfu::new(), "abcdeefea", 3), 7);
}

#[test]
fn rare_object_does_not_replace_popular_one() {
    let mut random = Random(11);
    let mut object =
        |request: u64| if random.below(2) == 0 { random.below(900) } else { 1_000_000 + request };
    let requests: Vec<_> = (0..100_000).map(|at| (Key::unkeyed(&object(at).to_le_bytes()), 1)).collect();
    let hits = |misses: usize| requests.len() - misses;
    let lru = hits(misses_by_weight(Lru::new(), &requests, 1000));
    let w_tinylfu = hits(misses_by_weight(WTinyLfu::new(), &requests, 1000));
    assert!(w_tinylfu > lru + lru / 10, "w_tinylfu {w_tinylfu}, lru {lru}");
}
