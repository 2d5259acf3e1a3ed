//! Sizes of objects: a lognormal body with a Pareto tail.

use super::{Impossible, normal};
use crate::random::Random;

/// Distribution of sizes, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizes {
    /// Median of the body.
    pub median: f64,
    /// Standard deviation of the body's natural logarithm.
    pub sigma: f64,
    /// Share of objects in the tail.
    pub tail: f64,
    /// Smallest size in the tail.
    pub tail_min: f64,
    /// Exponent of the tail: P(X > x) = (tail_min / x)^tail_alpha.
    pub tail_alpha: f64,
    /// Largest size. The few larger draws are cut to this size.
    pub max: f64,
}

impl Default for Sizes {
    /// A mean of about 13 KB; half the objects are below 3.1 KB, three quarters below 8 KB.
    fn default() -> Self {
        Self { median: 3000.0, sigma: 1.3, tail: 0.03, tail_min: 40_000.0, tail_alpha: 1.2, max: 64e6 }
    }
}

impl Sizes {
    /// Returns an object's size, always the same for equal arguments.
    pub(super) fn of(&self, seed: u64, object: u32) -> u64 {
        let mut random = Random::of(seed ^ SIZE, u64::from(object));
        let bytes = if random.unit() < self.tail {
            self.in_tail(random.unit())
        } else {
            self.in_body(random.normal())
        };
        bytes.clamp(LEAST, self.max) as u64
    }

    /// Returns the size of an object that correlates with a given normal deviate. The sum of both
    /// parts is a normal deviate again. Its quantile is the size's quantile.
    pub(super) fn correlated(&self, seed: u64, object: u32, (deviate, correlation): (f64, f64)) -> u64 {
        debug_assert!((-1.0..=1.0).contains(&correlation), "a correlation of {correlation}");
        let own = Random::of(seed ^ SIZE, u64::from(object)).normal();
        let joint = correlation * deviate + (1.0 - correlation * correlation).sqrt() * own;
        let quantile = normal::below(joint);
        let body = 1.0 - self.tail;
        let bytes = if quantile < body {
            self.in_body(normal::deviate(quantile / body))
        } else {
            self.in_tail((quantile - body) / self.tail)
        };
        bytes.clamp(LEAST, self.max) as u64
    }

    fn in_body(&self, deviate: f64) -> f64 {
        self.median * (self.sigma * deviate).exp()
    }

    fn in_tail(&self, quantile: f64) -> f64 {
        debug_assert!((0.0..=1.0).contains(&quantile), "{quantile} is no quantile");
        self.tail_min * (1.0 - quantile).powf(-1.0 / self.tail_alpha)
    }

    pub(super) fn check(
        &self,
        within: impl Fn(&str, f64, f64, f64) -> Result<(), Impossible>,
    ) -> Result<(), Impossible> {
        within("median", self.median, 1.0, 1e12)?;
        within("sigma", self.sigma, 0.0, 10.0)?;
        within("tail", self.tail, 0.0, 1.0)?;
        within("tail-min", self.tail_min, 1.0, 1e12)?;
        within("tail-alpha", self.tail_alpha, 0.1, 100.0)?;
        within("max", self.max, LEAST, 1e12)
    }
}

/// Smallest size of an object, in bytes.
const LEAST: f64 = 40.0;
/// Constant that keeps the draws of one seed apart.
const SIZE: u64 = 0x7369_7a65;
