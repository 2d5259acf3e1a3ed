//! Curves of any policy: caches of all sizes beside one another over a sample of the objects, each
//! as much smaller as the sample is.
//!
//! Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and Optimization using Miniature
//! Simulations*, USENIX ATC 2017. The policies are the code that the RAM tier runs. Objects larger
//! than the miniature cache would distort it. Objects that the full cache would take are therefore
//! taken as long as they fit at all.
//!
//! A hash a request; for a sampled request one step of the policy for each size, and one more for
//! the error.

use super::{Curve, GROUPS, Point, mixed, spread};
use crate::forecast::unrest;
use crate::simulator::{Capacity, Counts, Request, Simulator};
use shoal_policy::Replacement;

/// Constructor of an empty policy.
pub type Construct = fn() -> Box<dyn Replacement<u64>>;

type Cache = Simulator<Box<dyn Replacement<u64>>>;

/// Caches of several sizes over one stream.
pub struct MiniSimulation {
    seed: u64,
    threshold: u64,
    rate: f64,
    sizes: Vec<u64>,
    caches: Vec<Cache>,
    /// For each group, caches of all sizes, smaller again by the number of groups.
    groups: Vec<Vec<Cache>>,
    requests: u64,
    bytes: u64,
    /// Counts at the end of the warm-up and at each mark after it.
    marks: Vec<CountsSnapshot>,
}

/// Counts at one moment.
#[derive(Clone, Default)]
struct CountsSnapshot {
    requests: u64,
    bytes: u64,
    caches: Vec<Counts>,
    groups: Vec<Vec<Counts>>,
}

impl MiniSimulation {
    /// Creates caches of these sizes in bytes under one policy, over this share of the objects:
    /// from more than 0 to 1, where 1 is all of them.
    pub fn new(construct: Construct, sizes: &[u64], rate: f64, seed: u64) -> Self {
        let rate = rate.clamp(f64::MIN_POSITIVE, 1.0);
        let caches = |rate: f64| -> Vec<Cache> {
            let cache = |size: &u64| {
                Simulator::new(construct(), Capacity::Bytes((*size as f64 * rate).ceil() as u64))
            };
            sizes.iter().map(cache).collect()
        };
        let groups = if rate < 1.0 { GROUPS } else { 0 };
        Self {
            seed,
            threshold: (rate * u64::MAX as f64) as u64,
            rate,
            sizes: sizes.to_vec(),
            caches: caches(rate),
            groups: (0..groups).map(|_| caches(rate / GROUPS as f64)).collect(),
            requests: 0,
            bytes: 0,
            marks: Vec::new(),
        }
    }

    /// Counts the next request.
    #[inline]
    pub fn request(&mut self, object: u64, bytes: u64) {
        self.request_weighing(object, bytes, bytes);
    }

    /// Counts the next request, for an object with another weight than the requested bytes.
    #[inline]
    pub fn request_weighing(&mut self, object: u64, bytes: u64, weight_bytes: u64) {
        let request = Request { object, bytes };
        self.each(object, bytes, |cache| {
            cache.request_weighing(request, weight_bytes);
        });
    }

    /// Counts the next request as a miss of all caches: its object is never admitted.
    #[inline]
    pub fn pass(&mut self, object: u64, bytes: u64) {
        self.each(object, bytes, |cache| cache.pass(bytes));
    }

    /// Counts a request, and calls `ask` with each cache that has the request's object in its
    /// sample.
    #[inline]
    fn each(&mut self, object: u64, bytes: u64, mut ask: impl FnMut(&mut Cache)) {
        self.requests += 1;
        self.bytes += bytes;
        let hash = mixed(object, self.seed);
        if hash > self.threshold {
            return;
        }
        self.caches.iter_mut().for_each(&mut ask);
        if !self.groups.is_empty() {
            let group = ((u128::from(hash.reverse_bits()) * GROUPS as u128) >> 64) as usize;
            self.groups[group].iter_mut().for_each(ask);
        }
    }

    /// Ends the warm-up: earlier requests only warmed the caches.
    pub fn end_warm_up(&mut self) {
        self.marks = vec![self.now()];
    }

    /// Ends a block of the measured part. Blocks of equal length show the change of the hit ratio
    /// from one stretch of time to the next. That change is then part of the error ([`unrest`]).
    pub fn end_block(&mut self) {
        self.marks.push(self.now());
    }

    /// Returns the curve.
    pub fn curve(&self) -> Curve {
        let start = self.marks.first().cloned().unwrap_or_else(|| self.nothing());
        let end = self.now();
        let point = |at: usize| {
            let (hit_ratio, byte_hit_ratio) = self.ratios(&start, &end, |mark| mark.caches[at], 1.0);
            let groups = (0..self.groups.len())
                .map(|group| self.ratios(&start, &end, |mark| mark.groups[group][at], GROUPS as f64));
            let blocks = self
                .marks
                .windows(2)
                .map(|pair| self.ratios(&pair[0], &pair[1], |mark| mark.caches[at], 1.0));
            let error = |pick: fn(&(f64, f64)) -> f64| {
                let of = |ratios: &mut dyn Iterator<Item = (f64, f64)>| -> Vec<f64> {
                    ratios.map(|r| pick(&r)).collect()
                };
                spread(&of(&mut groups.clone())).hypot(unrest(&of(&mut blocks.clone())))
            };
            Point {
                size: self.sizes[at],
                hit_ratio,
                byte_hit_ratio,
                error: error(|ratios| ratios.0),
                byte_error: error(|ratios| ratios.1),
            }
        };
        Curve { points: (0..self.sizes.len()).map(point).collect() }
    }

    /// Returns the evictions of each cache, scaled to the whole trace.
    pub fn evictions(&self) -> Vec<f64> {
        self.caches.iter().map(|cache| cache.counts().evictions as f64 / self.rate).collect()
    }

    fn now(&self) -> CountsSnapshot {
        let counts = |caches: &[Cache]| caches.iter().map(Simulator::counts).collect::<Vec<_>>();
        CountsSnapshot {
            requests: self.requests,
            bytes: self.bytes,
            caches: counts(&self.caches),
            groups: self.groups.iter().map(|group| counts(group)).collect(),
        }
    }

    /// Returns the mark of a stream that has not begun.
    fn nothing(&self) -> CountsSnapshot {
        let caches = vec![Counts::default(); self.caches.len()];
        CountsSnapshot {
            groups: vec![caches.clone(); self.groups.len()],
            caches,
            ..CountsSnapshot::default()
        }
    }

    /// Returns the hit ratios between two marks, from the sample's misses. The few objects with
    /// most requests hit, in or out of the sample; they therefore hardly move the number of misses.
    fn ratios(
        &self,
        from: &CountsSnapshot,
        to: &CountsSnapshot,
        of: impl Fn(&CountsSnapshot) -> Counts,
        parts: f64,
    ) -> (f64, f64) {
        let counts = of(to).since(&of(from));
        let ratio = |missed: u64, all: u64| {
            let missed = missed as f64 * parts / self.rate;
            if all == 0 { 0.0 } else { (1.0 - missed / all as f64).clamp(0.0, 1.0) }
        };
        let (requests, bytes) = (to.requests - from.requests, to.bytes - from.bytes);
        (ratio(counts.misses(), requests), ratio(counts.bytes - counts.hit_bytes, bytes))
    }
}
