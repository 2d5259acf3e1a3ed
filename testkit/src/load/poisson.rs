//! Instants of a Poisson process: the gaps between requests of many independent clients.

use crate::seeded::Random;
use std::time::{Duration, Instant};

/// Arrivals one after the other, from a seed.
pub(super) struct Arrivals {
    /// Mean gap; zero when there are no arrivals.
    mean: Duration,
    /// When the next one is due, from the start.
    next: Duration,
    random: Random,
}

impl Arrivals {
    /// `rate` a second; none when that is 0.
    pub fn new(rate: f64, seed: u64) -> Self {
        let mean = if rate > 0.0 { Duration::from_secs_f64(1.0 / rate) } else { Duration::ZERO };
        let mut arrivals = Self { mean, next: Duration::ZERO, random: Random::new(seed) };
        arrivals.next = arrivals.gap();
        arrivals
    }

    /// The next arrival of a process that began at `start`, when it is due by `by`.
    pub fn due(&mut self, start: Instant, by: Instant) -> Option<Instant> {
        let due = start + self.next;
        if self.mean.is_zero() || due > by {
            return None;
        }
        let gap = self.gap();
        self.next += gap;
        Some(due)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    /// An exponentially distributed gap, by inversion.
    fn gap(&mut self) -> Duration {
        // 53 bits, so that the quotient is exact and below 1.
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.mean.mul_f64(-(1.0 - uniform).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_gaps_vary() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(1000.0, 5);
        let mut before = start;
        let (mut count, mut short) = (0, 0);
        while let Some(due) = arrivals.due(start, start + Duration::from_secs(20)) {
            count += 1;
            short += usize::from(due - before < Duration::from_millis(1));
            before = due;
        }
        assert!((19_400..20_600).contains(&count), "{count}");
        let share = short as f64 / f64::from(count);
        assert!((share - (1.0 - (-1.0f64).exp())).abs() < 0.02, "{share} of the gaps are below their mean");
    }
}
