//! Durations in Prometheus' form: the number of events up to each of a fixed row of bounds.
//!
//! An observation adds one to the bucket of the smallest bound that holds it, and its microseconds
//! to the sum. Both additions happen at the thread's own place. The metrics page accumulates over
//! the bounds, as the format requires.

use super::Counter;
use crate::per_core::{CacheLine, PLACES, place};
use std::fmt::Write;

/// A histogram kept per core. Takes 4 KiB in its own allocation, since a hit in RAM touches no
/// histogram.
#[derive(Debug)]
pub struct Histogram(Box<[CacheLine<Times>]>);

/// Observations at one place.
#[derive(Debug, Default)]
struct Times {
    /// Counts by bound; the last is for durations above all bounds.
    buckets: [Counter; BOUNDS.len() + 1],
    sum_us: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self((0..PLACES).map(|_| CacheLine::default()).collect())
    }
}

impl Histogram {
    /// Records a duration.
    pub fn observe(&self, duration_us: u64) {
        let place = place();
        let times = &self.0[place].0;
        let bucket = BOUNDS.partition_point(|(bound_us, _)| *bound_us < duration_us);
        times.buckets[bucket].add_at(place, 1);
        times.sum_us.add_at(place, duration_us);
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        (0..=BOUNDS.len()).map(|bucket| self.bucket(bucket)).sum()
    }

    /// Appends the histogram's rows to a page, under `name`, each with `labels`.
    pub fn write(&self, page: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        let bounds = BOUNDS.iter().map(|(_, seconds)| *seconds).chain(["+Inf"]);
        for (bucket, bound) in bounds.enumerate() {
            count += self.bucket(bucket);
            let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum_us: u64 = self.0.iter().map(|place| place.0.sum_us.value()).sum();
        let _ = writeln!(page, "{name}_sum{{{labels}}} {}.{:06}", sum_us / 1_000_000, sum_us % 1_000_000);
        let _ = writeln!(page, "{name}_count{{{labels}}} {count}");
    }

    fn bucket(&self, bucket: usize) -> u64 {
        self.0.iter().map(|place| place.0.buckets[bucket].value()).sum()
    }
}

/// Bounds in microseconds, and in seconds as the page shows them.
const BOUNDS: [(u64, &str); 14] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up_over_the_bounds() {
        let histogram = Histogram::default();
        let times = [0, 500, 501, 999_999, 1_000_000, 10_000_001, 3_000_000_000];
        std::thread::scope(|scope| {
            for time in times {
                let histogram = &histogram;
                scope.spawn(move || histogram.observe(time));
            }
        });
        let mut page = String::new();
        histogram.write(&mut page, "t", "a=\"b\"");
        let expected = "\
t_bucket{a=\"b\",le=\"0.0005\"} 2
t_bucket{a=\"b\",le=\"0.001\"} 3
t_bucket{a=\"b\",le=\"0.0025\"} 3
t_bucket{a=\"b\",le=\"0.005\"} 3
t_bucket{a=\"b\",le=\"0.01\"} 3
t_bucket{a=\"b\",le=\"0.025\"} 3
t_bucket{a=\"b\",le=\"0.05\"} 3
t_bucket{a=\"b\",le=\"0.1\"} 3
t_bucket{a=\"b\",le=\"0.25\"} 3
t_bucket{a=\"b\",le=\"0.5\"} 3
t_bucket{a=\"b\",le=\"1\"} 5
t_bucket{a=\"b\",le=\"2.5\"} 5
t_bucket{a=\"b\",le=\"5\"} 5
t_bucket{a=\"b\",le=\"10\"} 5
t_bucket{a=\"b\",le=\"+Inf\"} 7
t_sum{a=\"b\"} 3012.001001
t_count{a=\"b\"} 7
";
        assert_eq!(page, expected);
        assert_eq!(histogram.count(), times.len() as u64);
    }

    #[test]
    fn bounds_grow_and_match_their_labels() {
        assert!(BOUNDS.is_sorted_by(|one, next| one.0 < next.0));
        for (bound_us, seconds) in BOUNDS {
            assert_eq!(seconds.parse::<f64>().map(|seconds| (seconds * 1e6).round() as u64), Ok(bound_us));
        }
    }
}
