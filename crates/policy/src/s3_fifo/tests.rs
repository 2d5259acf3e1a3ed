//! S3-FIFO against the paper's pseudocode written out plainly, and on a workload that suits it.

use super::*;
use crate::Lru;
use crate::testing::{Model, Object, Random, agrees_with_model, misses, misses_by_weight};

/// Algorithm 1 of the paper with vectors; index 0 is the newest. A mark is a frequency.
#[derive(Default)]
struct SlowS3Fifo {
    small: Vec<Object>,
    main: Vec<Object>,
    /// Every key that was remembered, with `true` while it still is.
    ghost: Vec<(Key, bool)>,
    has_evicted: bool,
}

fn weight(objects: &[Object]) -> u64 {
    objects.iter().map(|object| object.weight).sum()
}

impl Model for SlowS3Fifo {
    fn insert(&mut self, object: Object) {
        let limit = self.main.len().max(16);
        let known = self.ghost.iter().position(|(key, live)| *key == object.key && *live);
        if let Some(position) = known {
            self.ghost[position].1 = false;
        }
        let is_filling = !self.has_evicted && weight(&self.small) * 10 > weight(&self.objects());
        let is_known = known.is_some_and(|at| at < limit);
        let queue = if is_known || is_filling { &mut self.main } else { &mut self.small };
        queue.insert(0, object);
    }

    fn hit(&mut self, key: Key) {
        for object in self.small.iter_mut().chain(&mut self.main).filter(|object| object.key == key) {
            object.mark = (object.mark + 1).min(3);
        }
    }

    fn remove(&mut self, key: Key) {
        self.small.retain(|object| object.key != key);
        self.main.retain(|object| object.key != key);
    }

    fn evict(&mut self) -> Option<Object> {
        self.has_evicted = true;
        if weight(&self.small) * 10 >= weight(&self.objects()) || self.main.is_empty() {
            while let Some(object) = self.small.pop() {
                if object.mark > 1 {
                    self.main.insert(0, Object { mark: 0, ..object });
                } else {
                    self.ghost
                        .iter_mut()
                        .filter(|(key, _)| *key == object.key)
                        .for_each(|(_, live)| *live = false);
                    self.ghost.insert(0, (object.key, true));
                    return Some(object);
                }
            }
        }
        while let Some(object) = self.main.pop() {
            if object.mark == 0 {
                return Some(object);
            }
            self.main.insert(0, Object { mark: object.mark - 1, ..object });
        }
        None
    }

    fn objects(&self) -> Vec<Object> {
        [self.small.clone(), self.main.clone()].concat()
    }
}

#[test]
fn agrees_with_the_slow_version() {
    agrees_with_model(S3Fifo::new, SlowS3Fifo::default);
}

/// Room for ten. At first a fills the small queue's share, and b to j enter the main one.
#[test]
fn misses_match_hand_calculation() {
    // a was requested three times in all, so it moves to main when k comes. Small is empty then, so
    // b leaves. When b comes, k leaves and is remembered. So when k comes, b leaves and k enters
    // main.
    assert_eq!(misses(S3Fifo::new(), "abcdefghijaakbk", 10), 13);
    // k stays there when m pushes l out of small; from small it would have left.
    assert_eq!(misses(S3Fifo::new(), "abcdefghijaakbklmk", 10), 15);
}

#[test]
fn one_hit_wonders_leave_before_popular_objects() {
    // Half of the requests are for 900 objects, half for objects never requested again; room for
    // 1000.
    let mut random = Random(7);
    let mut object =
        |request: u64| if random.below(2) == 0 { random.below(900) } else { 1_000_000 + request };
    let requests: Vec<_> = (0..100_000).map(|at| (Key::unkeyed(&object(at).to_le_bytes()), 1)).collect();
    let hits = |misses: usize| requests.len() - misses;
    let lru = hits(misses_by_weight(Lru::new(), &requests, 1000));
    let s3_fifo = hits(misses_by_weight(S3Fifo::new(), &requests, 1000));
    assert!(s3_fifo > lru + lru / 10, "s3_fifo {s3_fifo}, lru {lru}");
}
