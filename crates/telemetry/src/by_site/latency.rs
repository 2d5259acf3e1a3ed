//! Times to answer by source, in buckets fine enough for hits in RAM.
//!
//! A bucket counts the times up to its bound. A quantile is the bound of the bucket in which the
//! quantile lies, so that a shown time is never too short.

/// Source of a response, by which times are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The RAM tier.
    Ram,
    /// The disk.
    Disk,
    /// A stale response, at once or after the origin's failure.
    Stale,
    /// The origin was asked, or its answer awaited.
    Origin,
}

impl Source {
    /// Every source, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Ram, Self::Disk, Self::Stale, Self::Origin];

    /// Returns the name for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::Disk => "disk",
            Self::Stale => "stale",
            Self::Origin => "origin",
        }
    }
}

/// Returns the bucket of a time.
pub(super) fn bucket(duration_us: u64) -> usize {
    BOUNDS.partition_point(|(bound_us, _)| *bound_us < duration_us)
}

/// Returns the quantile `q` of the times in these buckets, as the bound of its bucket. Times above
/// all bounds count as the last bound. Returns `None` without times.
pub fn quantile_us(buckets: &[u64; BUCKETS], q: f64) -> Option<u64> {
    let count: u64 = buckets.iter().sum();
    let rank = ((count as f64 * q).ceil() as u64).max(1);
    let mut seen = 0;
    let bucket = buckets.iter().position(|bucket| {
        seen += bucket;
        seen >= rank
    })?;
    Some(BOUNDS[bucket.min(BOUNDS.len() - 1)].0)
}

/// Bounds in microseconds, and in seconds as the metrics page shows them.
pub const BOUNDS: [(u64, &str); 16] = [
    (25, "0.000025"),
    (50, "0.00005"),
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (60_000_000, "60"),
];

/// Number of buckets: one for each bound, and one for times above all bounds.
pub const BUCKETS: usize = BOUNDS.len() + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_and_match_their_names() {
        assert!(BOUNDS.is_sorted_by(|one, next| one.0 < next.0));
        for (bound_us, seconds) in BOUNDS {
            assert_eq!(seconds.parse::<f64>().map(|seconds| (seconds * 1e6).round() as u64), Ok(bound_us));
        }
    }

    #[test]
    fn quantile_is_the_bound_of_its_bucket() {
        let mut buckets = [0; BUCKETS];
        assert_eq!(quantile_us(&buckets, 0.5), None);
        for (duration_us, count) in [(20, 50), (90, 40), (3_000, 9), (90_000_000, 1)] {
            buckets[bucket(duration_us)] += count;
        }
        let quantiles = [0.0, 0.5, 0.51, 0.9, 0.99, 1.0].map(|q| quantile_us(&buckets, q));
        assert_eq!(quantiles, [25, 25, 100, 100, 5_000, 60_000_000].map(Some));
    }
}
