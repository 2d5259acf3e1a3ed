//! Hit ratios of LRU caches of other sizes, from a sample of a running node's requests.
//!
//! SHARDS with a fixed number of objects (`shoal_policy::curve`): an object is watched if its keyed
//! hash is below a threshold. The threshold falls so that at most [`OBJECTS`] objects are watched,
//! and so that the node need not record more requests than it can. Old requests fade: after a day
//! they count half. The curve takes at most 1 MB, and 1 us for each watched request.
//!
//! Variants of a URL count as one object. A request for a response that nothing may store counts as
//! a miss at every size.

use crate::documents::CurvePoint;
use shoal_policy::curve::{Curve, Shards, sizes_between};

/// The curve.
pub struct LiveCurve {
    shards: Shards,
    /// Second of the last fading, on a clock that does not go back.
    faded_s: u64,
}

/// The threshold of a new curve: every object is watched.
pub const THRESHOLD_START: u64 = u64::MAX;

impl LiveCurve {
    /// Creates an empty curve at `now_s`, on a clock that does not go back.
    pub fn new(now_s: u64) -> Self {
        Self { shards: Shards::hashed(OBJECTS), faded_s: now_s }
    }

    /// Records a request of an object with this hash and body length. Objects above the threshold
    /// change nothing.
    pub fn watch(&mut self, hash: u64, bytes: u64) {
        self.shards.watch(hash, bytes);
    }

    /// Records a request for a response that nothing may store.
    pub fn watch_miss(&mut self, hash: u64, bytes: u64) {
        self.shards.watch_miss(hash, bytes);
    }

    /// Counts all requests and their bytes, watched or not, and lets old ones fade.
    pub fn note_all(&mut self, now_s: u64, requests: u64, bytes: u64) {
        self.shards.note_all(requests, bytes);
        let hours = now_s.saturating_sub(self.faded_s) / FADING_S;
        if hours > 0 {
            self.faded_s += hours * FADING_S;
            debug_assert!(self.faded_s <= now_s, "no request fades before its time");
            self.shards.fade(0.5_f64.powf(hours.min(240) as f64 * FADING_S as f64 / HALF_LIFE_S));
        }
    }

    /// Returns the threshold: only objects with a hash of at most this are recorded.
    pub fn threshold(&self) -> u64 {
        self.shards.threshold()
    }

    /// Halves the threshold, since more requests came than can be recorded.
    pub fn watch_fewer(&mut self) {
        self.shards.lower_to(self.shards.threshold() / 2);
    }

    /// Returns the hit ratios of these growing sizes in bytes.
    pub fn curve(&self, sizes: &[u64]) -> Curve {
        self.shards.distances().curve(sizes)
    }

    /// Returns points from a part of the smallest size to a multiple of the largest one.
    pub fn points(&self, smallest: u64, largest: u64) -> (Vec<CurvePoint>, f64) {
        let sizes = sizes_between((smallest / 16).max(1 << 16), largest.saturating_mul(8), POINTS);
        debug_assert!(sizes.is_sorted(), "sizes grow");
        let curve = self.curve(&sizes);
        let error = curve.points.iter().map(|point| point.error).fold(0.0, f64::max);
        let point = |at: &shoal_policy::curve::Point| CurvePoint {
            bytes: at.size,
            hit_ratio: at.hit_ratio,
            byte_hit_ratio: at.byte_hit_ratio,
        };
        (curve.points.iter().map(point).collect(), error)
    }

    /// Returns the objects watched, their share of all objects, and the requests behind the curve.
    pub fn sample(&self) -> (usize, f64, u64) {
        let distances = self.shards.distances();
        (distances.watched, distances.rate, distances.requests)
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.shards.memory_bytes()
    }
}

/// Objects watched at most.
pub const OBJECTS: usize = 8192;

/// Points of the curve.
const POINTS: usize = 48;

/// Seconds between two fadings.
const FADING_S: u64 = 3600;

/// Seconds after which a request counts half.
const HALF_LIFE_S: f64 = 86_400.0;

#[cfg(test)]
mod tests;
