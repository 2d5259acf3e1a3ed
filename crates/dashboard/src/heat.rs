//! Heat map of times by source: a column of buckets for each ten seconds of the last ten minutes.

use std::collections::VecDeque;

/// Columns of each source. The counters that come in are since the start.
#[derive(Debug)]
pub struct HeatMap {
    buckets: usize,
    /// Number of the newest column's ten seconds.
    newest: Option<u64>,
    /// Columns by source, the oldest first. The last one grows.
    columns: Vec<VecDeque<Vec<u32>>>,
    /// Counters when the newest column began.
    begun: Vec<Vec<u64>>,
}

/// Seconds of a column.
pub const COLUMN_S: u64 = 10;

/// Columns kept.
pub const COLUMNS: usize = 60;

impl HeatMap {
    /// Creates an empty map of `sources` sources with `buckets` buckets each.
    pub fn new(sources: usize, buckets: usize) -> Self {
        let columns = (0..sources).map(|_| VecDeque::new()).collect();
        Self { buckets, newest: None, columns, begun: vec![vec![0; buckets]; sources] }
    }

    /// Takes the counters of all sources at `now_s`, on a clock that does not go back.
    pub fn record(&mut self, now_s: u64, counters: &[Vec<u64>]) {
        assert_eq!(counters.len(), self.columns.len(), "counters of each source");
        assert!(counters.iter().all(|source| source.len() == self.buckets), "counters of each bucket");
        let column = now_s / COLUMN_S;
        let passed = self.newest.map_or(1, |newest| column.saturating_sub(newest));
        if passed > 0 {
            // The column that ends has all that came until now.
            self.fill(counters);
            let empty = vec![0; self.buckets];
            for columns in &mut self.columns {
                for _ in 0..passed.min(COLUMNS as u64) {
                    if columns.len() == COLUMNS {
                        columns.pop_front();
                    }
                    columns.push_back(empty.clone());
                }
            }
            self.begun = counters.to_vec();
            self.newest = Some(column);
        } else {
            self.fill(counters);
        }
    }

    /// Returns the columns of a source, the oldest first.
    pub fn columns(&self, source: usize) -> Vec<Vec<u32>> {
        self.columns[source].iter().cloned().collect()
    }

    /// Returns the sums of a source's buckets over the last `columns` columns.
    pub fn sums(&self, source: usize, columns: usize) -> Vec<u64> {
        let mut sums = vec![0; self.buckets];
        for column in self.columns[source].iter().rev().take(columns) {
            sums.iter_mut().zip(column).for_each(|(sum, count)| *sum += u64::from(*count));
        }
        sums
    }

    /// Sets the newest columns to the growth since they began.
    fn fill(&mut self, counters: &[Vec<u64>]) {
        debug_assert!(self.columns.iter().all(|columns| columns.len() <= COLUMNS), "columns have a limit");
        for ((columns, begun), now) in self.columns.iter_mut().zip(&self.begun).zip(counters) {
            let Some(column) = columns.back_mut() else { continue };
            for (count, (begun, now)) in column.iter_mut().zip(begun.iter().zip(now)) {
                *count = u32::try_from(now.saturating_sub(*begun)).unwrap_or(u32::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_growth_of_their_time() {
        let mut map = HeatMap::new(2, 3);
        map.record(100, &[vec![5, 0, 0], vec![0, 0, 0]]);
        map.record(104, &[vec![6, 0, 0], vec![0, 2, 0]]);
        assert_eq!(map.columns(0), [[1, 0, 0]]);
        map.record(111, &[vec![8, 1, 0], vec![0, 2, 0]]);
        map.record(112, &[vec![8, 1, 4], vec![0, 2, 0]]);
        assert_eq!(map.columns(0), [[3, 1, 0], [0, 0, 4]]);
        assert_eq!((map.columns(1), map.sums(1, 6)), (vec![vec![0, 2, 0], vec![0, 0, 0]], vec![0, 2, 0]));
        map.record(142, &[vec![9, 1, 4], vec![0, 2, 0]]);
        assert_eq!(map.columns(0), [[3, 1, 0], [1, 0, 4], [0, 0, 0], [0, 0, 0], [0, 0, 0]]);
    }

    #[test]
    fn columns_are_bounded() {
        let mut map = HeatMap::new(1, 1);
        for second in 0..2000 {
            map.record(second, &[vec![second]]);
        }
        assert_eq!((map.columns(0).len(), map.sums(0, COLUMNS)[0]), (COLUMNS, 599));
        map.record(1_000_000, &[vec![5000]]);
        assert_eq!((map.columns(0).len(), map.sums(0, COLUMNS)[0]), (COLUMNS, 0));
    }
}
