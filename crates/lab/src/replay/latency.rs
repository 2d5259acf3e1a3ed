//! Durations of calls: a histogram of fixed size that many threads fill.
//!
//! Sixteen steps for each power of two, so that a percentile is at most 6.25% above the truth. One
//! atomic addition a call; 8 KiB a histogram. (The layout is that of G. Tene's HdrHistogram.)

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Collects durations.
pub(super) struct LatencyHistogram {
    steps: Box<[AtomicU64]>,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let steps = (0..STEPS).map(|_| AtomicU64::new(0)).collect();
        Self { steps, total_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }
}

/// Durations of one kind of call, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// Calls.
    pub calls: u64,
    /// Sum of the durations.
    pub total_ns: u64,
    /// Longest duration.
    pub max_ns: u64,
    /// Median duration.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
}

/// One [`Latency`] a kind of call, with the bytes that were moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    /// Latencies by kind, in the order of [`super::CallKind::ALL`].
    pub calls: [Latency; super::CallKind::ALL.len()],
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
}

impl Latencies {
    /// Returns the latency of one kind of call.
    pub fn of(&self, call: super::CallKind) -> &Latency {
        &self.calls[call as usize]
    }

    /// Returns the time spent in calls of all kinds, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.calls.iter().map(|latency| latency.total_ns).sum()
    }
}

impl LatencyHistogram {
    /// Adds one duration.
    pub(super) fn add(&self, nanos: u64) {
        self.steps[step_of(nanos)].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(nanos, Relaxed);
        self.max_ns.fetch_max(nanos, Relaxed);
    }

    /// Returns the durations added since the last call.
    pub(super) fn take(&self) -> Latency {
        let counts: Vec<u64> = self.steps.iter().map(|count| count.swap(0, Relaxed)).collect();
        let calls: u64 = counts.iter().sum();
        let max_ns = self.max_ns.swap(0, Relaxed);
        let percentile = |per_mille: u64| {
            let rank = (calls * per_mille).div_ceil(1000).max(1);
            let mut seen = 0;
            let step = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            step.map_or(0, |step| top_of(step).min(max_ns))
        };
        debug_assert!(percentile(500) <= percentile(999), "percentiles grow");
        Latency {
            calls,
            total_ns: self.total_ns.swap(0, Relaxed),
            max_ns,
            p50_ns: percentile(500),
            p90_ns: percentile(900),
            p99_ns: percentile(990),
            p999_ns: percentile(999),
        }
    }
}

/// Returns the step of a duration.
fn step_of(nanos: u64) -> usize {
    if nanos < PER_POWER {
        return nanos as usize;
    }
    let power = nanos.ilog2() - PER_POWER.ilog2();
    let step = ((u64::from(power) * PER_POWER) + (nanos >> power)) as usize;
    debug_assert!(step < STEPS && top_of(step) >= nanos, "step {step} of {nanos} ns");
    step
}

/// Returns the longest duration of a step.
fn top_of(step: usize) -> u64 {
    let step = step as u64;
    if step < 2 * PER_POWER {
        return step;
    }
    let power = step / PER_POWER - 1;
    let first = (PER_POWER + step % PER_POWER) << power;
    first + ((1 << power) - 1)
}

/// Steps for each power of two.
const PER_POWER: u64 = 16;
/// Steps for all durations of 64 bits.
const STEPS: usize = 61 * PER_POWER as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_near_the_top_of_its_step() {
        let mut duration = 0u64;
        while duration < u64::MAX / 2 {
            let top = top_of(step_of(duration));
            assert!(top >= duration && top - duration <= duration / 16, "{duration} {top}");
            assert_eq!(step_of(top) + 1, step_of(top + 1), "{duration}");
            duration += duration / 37 + 1;
        }
        assert!(step_of(u64::MAX) < STEPS);
        assert_eq!(top_of(step_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_durations() {
        let histogram = LatencyHistogram::default();
        let mut durations: Vec<u64> = (1..=10_000u64).map(|n| n * n % 7919 * 13).collect();
        durations.iter().for_each(|duration| histogram.add(*duration));
        durations.sort_unstable();
        let taken = histogram.take();
        for (found, rank) in
            [(taken.p50_ns, 5000), (taken.p90_ns, 9000), (taken.p99_ns, 9900), (taken.p999_ns, 9990)]
        {
            let truth = durations[rank - 1];
            assert!(found >= truth && found <= truth + truth / 16, "{found} {truth}");
        }
        assert_eq!((taken.calls, taken.max_ns), (10_000, durations[9999]));
        assert_eq!(taken.total_ns, durations.iter().sum::<u64>());
        assert_eq!(histogram.take(), Latency::default());
    }
}
