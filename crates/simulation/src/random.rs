//! Random numbers of a run: a function of its seed.

use shoal_core::mixed;
use std::time::Duration;

/// Generator of uniform numbers (splitmix64, Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(mixed(seed ^ 0x5a0a_1000))
    }

    /// Returns 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// Returns a number below `limit`, which is at least one.
    pub fn below(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0, "no number is below zero");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns an index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let index = self.below(length as u64) as usize;
        debug_assert!(index < length, "an index beyond the list");
        index
    }

    /// Returns a number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        debug_assert!((0.0..1.0).contains(&unit), "one is not reached");
        unit
    }

    /// Returns `true` with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        debug_assert!((0.0..=1.0).contains(&probability), "{probability} is no probability");
        probability > 0.0 && self.unit() < probability
    }

    /// Returns a time between two, evenly.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.unit())
    }

    /// Returns a time with this mean, at most ten times the mean (exponential).
    pub fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64((-(1.0 - self.unit()).ln()).min(10.0))
    }
}
