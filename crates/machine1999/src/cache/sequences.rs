//! SEQ: recognizes long sequences of page faults, and takes memory from them rather than from the
//! rest.
//!
//! Glass and Cao, "Adaptive Page Replacement Based on Memory Reference Behavior" (SIGMETRICS 1997).
//! LRU fails on a loop over more pages than memory holds: each page goes just before it is used
//! again. SEQ looks at faults alone. A fault next to the head of a known sequence extends that
//! sequence; any other fault begins one.
//!
//! When a page is needed, the sequences of at least L pages are compared by the time of their N-th
//! last fault. The sequence with the latest time grows fastest, and gives up its resident page
//! nearest to the head that is at least M pages behind. Thus the most recently used pages go,
//! except those in use. Without such a sequence the choice is LRU.
//!
//! Cost: O(sequences) at a fault, at most 200 by default, and O(length) in the worst case for a
//! victim.

use super::PageKey;
use crate::machine::SequenceLimits;
use std::collections::VecDeque;

/// Sequences known.
#[derive(Debug)]
pub(super) struct Sequences {
    limits: SequenceLimits,
    known: Vec<Sequence>,
    /// Number of faults so far, which is the time.
    faults: u64,
}

#[derive(Debug)]
struct Sequence {
    /// Page of the last fault.
    head: PageKey,
    length: u32,
    direction: Direction,
    /// Times of the last faults, the latest first, at most N.
    times: VecDeque<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Sequence of one page, which may go either way.
    Open,
    Up,
    Down,
}

impl Sequences {
    pub(super) fn new(limits: SequenceLimits) -> Self {
        Self { limits, known: Vec::new(), faults: 0 }
    }

    /// Notes a page fault.
    pub(super) fn fault(&mut self, page: PageKey) {
        self.faults += 1;
        let (now, recent) = (self.faults, self.limits.recent_faults as usize);
        if let Some(sequence) = self.known.iter_mut().find(|sequence| sequence.is_extended_by(page)) {
            sequence.extend(page, now, recent);
            let head = sequence.head;
            // The fault also ends another sequence with that head.
            let mut first = true;
            self.known.retain(|sequence| sequence.head != head || std::mem::take(&mut first));
            return;
        }
        if self.known.len() >= self.limits.sequences_max {
            let oldest = (0..self.known.len()).min_by_key(|at| self.known[*at].times.front().copied());
            if let Some(oldest) = oldest {
                self.known.swap_remove(oldest);
            }
        }
        let times = VecDeque::from([now]);
        self.known.push(Sequence { head: page, length: 1, direction: Direction::Open, times });
        debug_assert!(self.known.len() <= self.limits.sequences_max.max(1), "too many sequences");
    }

    /// Returns the page to evict, of those in memory; `None` leaves the choice to LRU.
    pub(super) fn victim(&self, is_resident: impl Fn(PageKey) -> bool) -> Option<PageKey> {
        let recent = self.limits.recent_faults as usize;
        let is_long = |sequence: &&Sequence| {
            sequence.length >= self.limits.length_min.max(1) && sequence.times.len() >= recent.max(1)
        };
        let mut long: Vec<_> = self.known.iter().filter(is_long).collect();
        long.sort_by_key(|sequence| std::cmp::Reverse(sequence.times.back().copied()));
        long.iter().find_map(|sequence| {
            let behind = self.limits.head_spared..sequence.length;
            behind.filter_map(|distance| sequence.behind(distance)).find(|page| is_resident(*page))
        })
    }
}

impl Sequence {
    fn is_extended_by(&self, page: PageKey) -> bool {
        page.file == self.head.file
            && match self.direction {
                Direction::Open => page.page.abs_diff(self.head.page) == 1,
                Direction::Up => page.page == self.head.page + 1,
                Direction::Down => page.page + 1 == self.head.page,
            }
    }

    fn extend(&mut self, page: PageKey, now: u64, recent: usize) {
        debug_assert!(self.is_extended_by(page), "{page:?} does not follow {:?}", self.head);
        self.direction = if page.page > self.head.page { Direction::Up } else { Direction::Down };
        self.head = page;
        self.length += 1;
        self.times.push_front(now);
        self.times.truncate(recent.max(1));
    }

    /// Returns the page at this distance behind the head.
    fn behind(&self, distance: u32) -> Option<PageKey> {
        let page = match self.direction {
            Direction::Down => self.head.page.checked_add(distance)?,
            Direction::Open | Direction::Up => self.head.page.checked_sub(distance)?,
        };
        Some(PageKey { page, ..self.head })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::FileId;

    fn key(page: u32) -> PageKey {
        PageKey { file: FileId { disk: 0, inode: 3 }, page }
    }

    fn sequences(length_min: u32, head_spared: u32) -> Sequences {
        let limits = SequenceLimits { length_min, head_spared, recent_faults: 2, sequences_max: 3 };
        Sequences::new(limits)
    }

    #[test]
    fn long_sequence_gives_up_pages_behind_its_head() {
        let mut seq = sequences(5, 2);
        for page in 100..104 {
            seq.fault(key(page));
            assert_eq!(seq.victim(|_| true), None, "too short");
        }
        seq.fault(key(104));
        assert_eq!(seq.victim(|_| true), Some(key(102)));
        assert_eq!(seq.victim(|page| page.page < 101), Some(key(100)));
        assert_eq!(seq.victim(|page| page.page > 102), None);
    }

    #[test]
    fn the_fastest_growing_sequence_is_taken_downward_too() {
        let mut seq = sequences(3, 1);
        for (up, down) in [(10, 90), (11, 89), (12, 88)] {
            seq.fault(key(up));
            seq.fault(key(down));
        }
        assert_eq!(seq.victim(|_| true), Some(key(89)));
        seq.fault(key(13));
        seq.fault(key(14));
        assert_eq!(seq.victim(|_| true), Some(key(13)));
    }

    #[test]
    fn sequences_are_bounded_and_the_stalest_goes() {
        let mut seq = sequences(2, 0);
        for page in [10, 20, 30, 40] {
            seq.fault(key(page));
        }
        assert_eq!(seq.known.len(), 3);
        seq.fault(key(11));
        seq.fault(key(31));
        assert_eq!(seq.victim(|_| true), Some(key(31)), "the one begun at 10 was forgotten");
    }
}
