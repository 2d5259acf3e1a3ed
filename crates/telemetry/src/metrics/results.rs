//! Values by cache result, the label `result` of the metrics.

use crate::record::CacheResult;

/// A value for each result.
#[derive(Debug, Default)]
pub struct ByResult<T>([T; RESULTS.len()]);

impl<T> ByResult<T> {
    /// Returns the value of `outcome`.
    #[inline]
    pub fn of(&self, outcome: CacheResult) -> &T {
        &self.0[number(outcome)]
    }

    /// Iterates over the values, each with its label and one outcome with this label.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, CacheResult, &T)> {
        RESULTS.into_iter().zip(&self.0).map(|((label, outcome), value)| (label, outcome, value))
    }
}

/// Returns the index of an outcome in [`RESULTS`].
#[inline]
pub(crate) fn number(outcome: CacheResult) -> usize {
    match outcome {
        CacheResult::MemoryHit => 0,
        CacheResult::Hit => 1,
        CacheResult::Miss => 2,
        CacheResult::Collapsed => 3,
        CacheResult::RefreshUnmodified => 4,
        CacheResult::RefreshModified => 5,
        CacheResult::StaleWhileRevalidate | CacheResult::StaleIfError => 6,
        CacheResult::Pass => 7,
        CacheResult::Tunnel => 8,
        CacheResult::Denied => 9,
        CacheResult::Abandoned => 10,
        CacheResult::None => 11,
    }
}

/// Every result with its label.
pub(crate) const RESULTS: [(&str, CacheResult); 12] = [
    ("result=\"memory_hit\"", CacheResult::MemoryHit),
    ("result=\"hit\"", CacheResult::Hit),
    ("result=\"miss\"", CacheResult::Miss),
    ("result=\"collapsed\"", CacheResult::Collapsed),
    ("result=\"refresh_unmodified\"", CacheResult::RefreshUnmodified),
    ("result=\"refresh_modified\"", CacheResult::RefreshModified),
    ("result=\"stale\"", CacheResult::StaleWhileRevalidate),
    ("result=\"pass\"", CacheResult::Pass),
    ("result=\"tunnel\"", CacheResult::Tunnel),
    ("result=\"denied\"", CacheResult::Denied),
    ("result=\"abandoned\"", CacheResult::Abandoned),
    ("result=\"none\"", CacheResult::None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_stands_where_its_label_does() {
        let numbers = RESULTS.map(|(_, outcome)| number(outcome));
        assert_eq!(Vec::from(numbers), Vec::from_iter(0..RESULTS.len()));
    }
}
