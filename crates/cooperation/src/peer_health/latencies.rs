//! Latencies: a decayed histogram of one peer's answers, and its 99th percentile.

use std::time::Duration;

/// Histogram with buckets that grow by the fourth root of two, from 100 µs to 100 s.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    buckets: [f32; BUCKETS],
    total: f32,
    halved: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [0.0; BUCKETS], total: 0.0, halved: Duration::ZERO }
    }
}

impl Latencies {
    /// Adds an answer.
    pub(super) fn add(&mut self, latency: Duration, now: Duration) {
        let half_lives = now.saturating_sub(self.halved).as_secs() / HALF_LIFE.as_secs();
        if half_lives > 0 || self.total >= TOTAL_MAX {
            let factor = 0.5_f32.powi(half_lives.clamp(1, 64) as i32);
            self.buckets.iter_mut().for_each(|bucket| *bucket *= factor);
            self.total = self.buckets.iter().sum();
            self.halved = now;
        }
        self.buckets[bucket(latency)] += 1.0;
        self.total += 1.0;
        debug_assert!(self.total <= TOTAL_MAX + 1.0, "old answers fade");
    }

    /// Returns the 99th percentile, once enough answers are known.
    pub(super) fn p99(&self) -> Option<Duration> {
        if self.total < TOTAL_MIN {
            return None;
        }
        let mut above = self.total * 0.01;
        let at = self.buckets.iter().rposition(|count| {
            above -= count;
            above < 0.0
        });
        at.map(upper_bound)
    }
}

fn bucket(latency: Duration) -> usize {
    let ratio = latency.as_secs_f32() / FIRST.as_secs_f32();
    if ratio <= 1.0 { 0 } else { ((ratio.log2() * 4.0).ceil() as usize).min(BUCKETS - 1) }
}

fn upper_bound(bucket: usize) -> Duration {
    FIRST.mul_f32((bucket as f32 / 4.0).exp2())
}

const FIRST: Duration = Duration::from_micros(100);

/// Buckets: 20 octaves of four.
const BUCKETS: usize = 81;

/// Time after which an answer counts half.
const HALF_LIFE: Duration = Duration::from_secs(30);

/// Answers after which all count half: the percentile follows a busy peer sooner.
const TOTAL_MAX: f32 = 2_000.0;

/// Answers without which there is no percentile.
const TOTAL_MIN: f32 = 20.0;
