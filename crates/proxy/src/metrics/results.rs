//! What is kept apart by what the cache did with a request: the label `result` of the metrics.

use crate::message::Outcome;

/// A value for each result.
#[derive(Debug, Default)]
pub struct ByResult<T>([T; RESULTS.len()]);

impl<T> ByResult<T> {
    /// That of `outcome`.
    #[inline]
    pub fn of(&self, outcome: Outcome) -> &T {
        &self.0[number(outcome)]
    }

    /// Each with its label, and an outcome that has it.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Outcome, &T)> {
        RESULTS.into_iter().zip(&self.0).map(|((label, outcome), value)| (label, outcome, value))
    }
}

/// The place of an outcome in [`RESULTS`].
#[inline]
fn number(outcome: Outcome) -> usize {
    match outcome {
        Outcome::MemoryHit => 0,
        Outcome::Hit => 1,
        Outcome::Miss => 2,
        Outcome::Collapsed => 3,
        Outcome::RefreshUnmodified => 4,
        Outcome::RefreshModified => 5,
        Outcome::StaleWhileRevalidate | Outcome::StaleIfError => 6,
        Outcome::Pass => 7,
        Outcome::Tunnel => 8,
        Outcome::Denied => 9,
        Outcome::Abandoned => 10,
        Outcome::None => 11,
    }
}

const RESULTS: [(&str, Outcome); 12] = [
    ("result=\"memory_hit\"", Outcome::MemoryHit),
    ("result=\"hit\"", Outcome::Hit),
    ("result=\"miss\"", Outcome::Miss),
    ("result=\"collapsed\"", Outcome::Collapsed),
    ("result=\"refresh_unmodified\"", Outcome::RefreshUnmodified),
    ("result=\"refresh_modified\"", Outcome::RefreshModified),
    ("result=\"stale\"", Outcome::StaleWhileRevalidate),
    ("result=\"pass\"", Outcome::Pass),
    ("result=\"tunnel\"", Outcome::Tunnel),
    ("result=\"denied\"", Outcome::Denied),
    ("result=\"abandoned\"", Outcome::Abandoned),
    ("result=\"none\"", Outcome::None),
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
