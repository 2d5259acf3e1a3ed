//! Counters over the last seconds: a short row of snapshots, from which rates and shares are taken.

use std::collections::VecDeque;

/// Snapshots of counters. All have the same counters in the same order.
#[derive(Debug, Default)]
pub struct Rates {
    /// Most snapshots kept.
    kept: usize,
    /// Number of the set of counters; another number begins anew.
    set: u64,
    snapshots: VecDeque<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    at_ms: u64,
    values: Vec<u64>,
}

impl Rates {
    /// Creates an empty row of at most `kept` snapshots.
    pub fn new(kept: usize) -> Self {
        Self { kept: kept.max(2), set: 0, snapshots: VecDeque::new() }
    }

    /// Adds a snapshot of the counters at `at_ms`, on a clock that does not go back. `set` stands
    /// for the names of the counters: snapshots of other names are dropped.
    pub fn record(&mut self, at_ms: u64, set: u64, values: Vec<u64>) {
        let last = self.snapshots.back();
        let fits = set == self.set
            && last.is_none_or(|last| last.values.len() == values.len() && last.at_ms <= at_ms);
        if !fits {
            self.snapshots.clear();
        }
        self.set = set;
        if self.snapshots.len() == self.kept {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back(Snapshot { at_ms, values });
        debug_assert!(self.snapshots.len() <= self.kept);
    }

    /// Returns the latest value of a counter, 0 without a snapshot.
    pub fn value(&self, counter: usize) -> u64 {
        self.snapshots.back().and_then(|last| last.values.get(counter)).copied().unwrap_or(0)
    }

    /// Returns the growth of a counter over about the last `window_ms`.
    pub fn growth(&self, counter: usize, window_ms: u64) -> u64 {
        let Some((first, last)) = self.ends(window_ms) else { return 0 };
        let at = |snapshot: &Snapshot| snapshot.values.get(counter).copied().unwrap_or(0);
        at(last).saturating_sub(at(first))
    }

    /// Returns the growth of a counter a second, over about the last `window_ms`.
    pub fn per_s(&self, counter: usize, window_ms: u64) -> f64 {
        let Some((first, last)) = self.ends(window_ms) else { return 0.0 };
        let seconds = (last.at_ms - first.at_ms) as f64 / 1000.0;
        if seconds > 0.0 { self.growth(counter, window_ms) as f64 / seconds } else { 0.0 }
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        let values: usize = self.snapshots.iter().map(|one| one.values.capacity() * size_of::<u64>()).sum();
        values + self.snapshots.capacity() * size_of::<Snapshot>()
    }

    /// Returns the snapshot at the window's beginning, or the earliest one, and the latest one.
    fn ends(&self, window_ms: u64) -> Option<(&Snapshot, &Snapshot)> {
        let last = self.snapshots.back()?;
        let begin = last.at_ms.saturating_sub(window_ms);
        let first = self.snapshots.iter().rev().find(|one| one.at_ms <= begin);
        first.or(self.snapshots.front()).map(|first| (first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_window() {
        let mut rates = Rates::new(4);
        assert_eq!((rates.value(0), rates.growth(0, 5000), rates.per_s(0, 5000)), (0, 0, 0.0));
        for (at_ms, value) in [(0, 0), (1000, 10), (2000, 40), (3000, 100), (4000, 200)] {
            rates.record(at_ms, 1, vec![value, 7]);
        }
        assert_eq!((rates.value(0), rates.value(1), rates.value(2)), (200, 7, 0));
        assert_eq!((rates.growth(0, 1000), rates.per_s(0, 2000)), (100, 80.0));
        // The first snapshot has left.
        assert_eq!((rates.growth(0, 60_000), rates.growth(1, 60_000)), (190, 0));
    }

    #[test]
    fn other_counters_begin_anew() {
        let mut rates = Rates::new(4);
        rates.record(0, 1, vec![100]);
        rates.record(1000, 2, vec![5]);
        assert_eq!((rates.growth(0, 5000), rates.value(0)), (0, 5));
        rates.record(2000, 2, vec![3]);
        assert_eq!(rates.growth(0, 5000), 0, "a counter that fell");
        rates.record(1500, 2, vec![9]);
        assert_eq!(rates.growth(0, 5000), 0, "a clock that went back");
    }
}
