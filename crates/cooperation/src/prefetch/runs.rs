//! Ranges read one after the other: a client that reads a file in pieces will want the next piece.
//!
//! The table has one run for each of the last URLs that were read in ranges. A request continues a
//! run if it begins where the last one ended. From the second continuation on, the next pieces of
//! the same length are hinted: two, then twice as many, up to [`AHEAD_MAX`], as the read-ahead of
//! file systems grows. A request elsewhere starts a new run. The table has a fixed size, and the
//! oldest run goes for a new one. O(1) a request.

use std::collections::{HashMap, VecDeque};

/// Runs of ranges, by the hash of their URL.
#[derive(Clone, Debug)]
pub struct RangeRuns {
    runs: HashMap<u64, RangeRun>,
    /// Keys by age of their entry.
    order: VecDeque<u64>,
    most: usize,
}

/// Pieces that are likely to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangesAhead {
    /// First byte of the first piece.
    pub start: u64,
    /// Length of each piece.
    pub length: u64,
    /// Number of pieces.
    pub pieces: u64,
}

#[derive(Clone, Copy, Debug)]
struct RangeRun {
    /// First byte after the last range.
    end: u64,
    length: u64,
    continued: u32,
    /// First byte that no hint covers.
    hinted_to: u64,
}

impl RangeRuns {
    /// Makes an empty table of at most `most` runs.
    pub fn new(most: usize) -> Self {
        Self { runs: HashMap::new(), order: VecDeque::new(), most: most.max(1) }
    }

    /// Records a request for bytes `start..end` of a URL. Returns the pieces to fetch ahead.
    pub fn asked(&mut self, url: u64, start: u64, end: u64) -> Option<RangesAhead> {
        let length = end.checked_sub(start).filter(|length| *length > 0)?;
        let first = RangeRun { end, length, continued: 0, hinted_to: end };
        let Some(run) = self.runs.get_mut(&url) else {
            self.insert(url, first);
            return None;
        };
        if run.end != start || run.length != length {
            *run = first;
            return None;
        }
        (run.end, run.continued) = (end, run.continued.saturating_add(1));
        run.hinted_to = run.hinted_to.max(end);
        if run.continued < LEAST_CONTINUED {
            return None;
        }
        let reach = (2_u64 << (run.continued - LEAST_CONTINUED).min(8)).min(AHEAD_MAX);
        let to = end.checked_add(length.checked_mul(reach)?)?;
        let start = run.hinted_to;
        let pieces = to.saturating_sub(start) / length;
        run.hinted_to = start + pieces * length;
        (pieces > 0).then_some(RangesAhead { start, length, pieces })
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns `true` if no run is known.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn insert(&mut self, url: u64, run: RangeRun) {
        if self.runs.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
        self.runs.insert(url, run);
        self.order.push_back(url);
        debug_assert_eq!(self.runs.len(), self.order.len(), "each run has its place in the order");
    }
}

/// Most pieces ahead of a client.
pub const AHEAD_MAX: u64 = 16;
/// Continuations from which pieces are hinted.
const LEAST_CONTINUED: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn third_piece_in_a_row_hints_the_next() {
        let mut runs = RangeRuns::new(10);
        assert_eq!(runs.asked(1, 0, 100), None);
        assert_eq!(runs.asked(1, 100, 200), None);
        assert_eq!(runs.asked(1, 200, 300), Some(RangesAhead { start: 300, length: 100, pieces: 2 }));
        assert_eq!(runs.asked(1, 300, 400), Some(RangesAhead { start: 500, length: 100, pieces: 3 }));
        assert_eq!(runs.asked(1, 0, 100), None, "a new run");
        assert_eq!(runs.asked(1, 100, 150), None, "another length is another run");
    }

    #[test]
    fn table_stays_within_its_size() {
        let mut runs = RangeRuns::new(3);
        (0..100).for_each(|url| assert_eq!(runs.asked(url, 0, 10), None));
        assert_eq!(runs.len(), 3);
        assert_eq!(runs.asked(99, 10, 20), None);
        assert!(runs.asked(99, 20, 30).is_some());
        assert_eq!(runs.asked(5, u64::MAX - 5, 3), None);
    }

    proptest! {
        #[test]
        fn no_piece_is_hinted_twice_and_none_far_ahead(length in 1u64..1000, pieces in 1u64..60) {
            let mut runs = RangeRuns::new(4);
            let mut covered = 0;
            for at in 0..pieces {
                let end = (at + 1) * length;
                if let Some(ahead) = runs.asked(7, at * length, end) {
                    prop_assert!(ahead.start >= covered.max(end));
                    covered = ahead.start + ahead.pieces * ahead.length;
                    prop_assert!(covered <= end + AHEAD_MAX * length);
                }
            }
        }

        #[test]
        fn any_requests_are_taken(asks in proptest::collection::vec((0u64..6, any::<u64>(), any::<u64>()), 0..60)) {
            let mut runs = RangeRuns::new(4);
            for (url, start, end) in asks {
                runs.asked(url, start, end);
                prop_assert!(runs.len() <= 4);
            }
        }
    }
}
