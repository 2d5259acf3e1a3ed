//! Miss-ratio curves of LRU from stack distances: the hits of a cache of any size, from one pass
//! over a stream of requests, of all objects or of a sample ([`Shards`]).
//!
//! Requests and bytes are both counted. The estimate's error is not guessed from the sample's size.
//! The sample is parted into groups by other bits of the same hash, and each group makes a curve of
//! its own. The spread of these curves gives the error of the whole.

mod doublings;
mod histogram;
mod shards;
mod stack;

pub use histogram::DistanceHistogram;
pub use shards::{SampledDistances, Shards};
pub use stack::{Distance, Stack};

/// Hit ratios of caches of growing size.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Curve {
    /// The points, by growing size.
    pub points: Vec<Point>,
}

/// Hit ratios of a cache of one size.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Point {
    /// Size of the cache, in bytes or in objects, as the curve's maker counts.
    pub size: u64,
    /// Hits over requests.
    pub hit_ratio: f64,
    /// Bytes hit over bytes requested.
    pub byte_hit_ratio: f64,
    /// Error of the hit ratio at 95% confidence; 0 where nothing was sampled.
    pub error: f64,
    /// Error of the byte hit ratio at 95% confidence.
    pub byte_error: f64,
}

impl Curve {
    /// Returns the least size with a hit ratio of at least `target`. Between points, the curve is a
    /// straight line over the size's logarithm. `None` when no size reaches the target.
    pub fn size_for(&self, target: f64) -> Option<u64> {
        let above = self.points.iter().position(|point| point.hit_ratio >= target)?;
        let right = self.points[above];
        let Some(left) = above.checked_sub(1).map(|left| self.points[left]) else { return Some(right.size) };
        let along = (target - left.hit_ratio) / (right.hit_ratio - left.hit_ratio);
        let (low, high) = ((left.size.max(1) as f64).ln(), (right.size.max(1) as f64).ln());
        Some((low + (high - low) * along).exp() as u64)
    }

    /// Returns the hit ratio and the byte hit ratio at a size. Between points, the curve is a
    /// straight line over the size's logarithm.
    pub fn at(&self, size: u64) -> (f64, f64) {
        let right = self.points.partition_point(|point| point.size < size);
        let Some(after) = self.points.get(right) else {
            return self.points.last().map_or((0.0, 0.0), |last| (last.hit_ratio, last.byte_hit_ratio));
        };
        let zero = Point::default();
        let before = right.checked_sub(1).map_or(&zero, |left| &self.points[left]);
        let (low, high) = ((before.size.max(1) as f64).ln(), (after.size.max(1) as f64).ln());
        let along = if high > low { ((size.max(1) as f64).ln() - low) / (high - low) } else { 1.0 };
        let between = |from: f64, to: f64| from + (to - from) * along;
        (between(before.hit_ratio, after.hit_ratio), between(before.byte_hit_ratio, after.byte_hit_ratio))
    }

    /// Returns the knee: the point farthest above the straight line from the first to the last,
    /// sizes by their logarithm. `None` for fewer than three points or a curve that does not rise.
    /// Satopää, Albrecht, Irwin, Raghavan, *Finding a "Kneedle" in a Haystack*, ICDCS Workshops
    /// 2011.
    pub fn knee(&self) -> Option<Point> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let (low, high) = ((first.size.max(1) as f64).ln(), (last.size.max(1) as f64).ln());
        let rise = last.hit_ratio - first.hit_ratio;
        if self.points.len() < 3 || high <= low || rise <= 0.0 {
            return None;
        }
        let above = |point: &Point| {
            let along = ((point.size.max(1) as f64).ln() - low) / (high - low);
            (point.hit_ratio - first.hit_ratio) / rise - along
        };
        self.points.iter().copied().max_by(|a, b| above(a).total_cmp(&above(b)))
    }
}

/// Returns sizes from `low` to `high` at even steps of their logarithm, both included.
pub fn sizes_between(low: u64, high: u64, count: usize) -> Vec<u64> {
    let (low, high) = (low.max(1), high.max(low.max(1)));
    let ratio = high as f64 / low as f64;
    let steps = count.saturating_sub(1).max(1) as f64;
    let size = |step: usize| (low as f64 * ratio.powf(step as f64 / steps)).round() as u64;
    let mut sizes: Vec<u64> = (0..count).map(size).collect();
    sizes.dedup();
    sizes
}

/// Parts of a sample that make curves of their own.
pub const GROUPS: usize = 10;

/// Returns the error of the mean of some values at 95% confidence: Student's t times the standard
/// error. 0 for fewer than three values.
pub fn spread(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let Some(t) = values.len().checked_sub(3).map(|at| STUDENT_T.get(at).copied().unwrap_or(2.0)) else {
        return 0.0;
    };
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    t * (variance / count).sqrt()
}

/// Student's t, two-sided, 95%, from two degrees of freedom on.
const STUDENT_T: [f64; 9] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Returns 64 uniform bits of an object's number and a seed: the finalizer of splitmix64, twice.
pub fn mixed(object: u64, seed: u64) -> u64 {
    let mix = |z: u64| {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(object))
}
