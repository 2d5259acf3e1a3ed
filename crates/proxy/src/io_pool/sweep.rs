//! The order in which reads that wait are begun: across the disk one way, then from its start again (C-SCAN).
//!
//! A disk with heads takes several times as long for reads in the order in which they are asked for as for the same reads in the order
//! of their places. Linux orders what it has been handed, which is one read for each thread of the pool; this orders what waits for a thread.
//! Each sweep goes one way only, so that no place has to wait longer than two of them, wherever the others lie (Seltzer, Chen
//! and Ousterhout, "Disk Scheduling Revisited", USENIX Winter 1990). Cost: logarithmic in what waits.

use std::collections::BTreeMap;

/// Reads that wait, by place and then in the order of their coming.
pub(super) struct Sweep<J> {
    waiting: BTreeMap<(u64, u64), J>,
    /// Where the last read was that was begun.
    head: u64,
    /// Reads that have come so far.
    came: u64,
}

impl<J> Sweep<J> {
    /// Nothing waits.
    pub fn new() -> Self {
        Self { waiting: BTreeMap::new(), head: 0, came: 0 }
    }

    /// Takes in a read at byte `at` of the disk; one of an unknown place is among the next.
    pub fn push(&mut self, at: Option<u64>, read: J) {
        self.came += 1;
        self.waiting.insert((at.unwrap_or(self.head), self.came), read);
    }

    /// The read to begin next.
    pub fn pop(&mut self) -> Option<J> {
        let ahead = self.waiting.range((self.head, 0)..).next().map(|(place, _)| *place);
        let place = ahead.or_else(|| self.waiting.keys().next().copied())?;
        self.head = place.0;
        self.waiting.remove(&place)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(sweep: &mut Sweep<u64>) -> Vec<u64> {
        std::iter::from_fn(|| sweep.pop()).collect()
    }

    #[test]
    fn reads_go_one_way_and_then_from_the_start() {
        let mut sweep = Sweep::new();
        [50, 10, 90, 40].into_iter().for_each(|at| sweep.push(Some(at), at));
        assert_eq!((sweep.pop(), sweep.pop()), (Some(10), Some(40)));
        [30, 60, 45].into_iter().for_each(|at| sweep.push(Some(at), at));
        assert_eq!(order(&mut sweep), [45, 50, 60, 90, 30]);
    }

    #[test]
    fn at_one_place_and_at_none_the_first_goes_first() {
        let mut sweep = Sweep::new();
        (0..4).for_each(|number| sweep.push(Some(7), number));
        assert_eq!(order(&mut sweep), [0, 1, 2, 3]);
        (0..4).for_each(|number| sweep.push(None, number));
        sweep.push(Some(8), 4);
        assert_eq!(order(&mut sweep), [0, 1, 2, 3, 4], "an unknown place is where the head is");
    }

    #[test]
    fn who_keeps_asking_ahead_keeps_nobody_behind_waiting_for_ever() {
        let mut sweep = Sweep::new();
        sweep.push(Some(500), 500);
        assert_eq!(sweep.pop(), Some(500));
        sweep.push(Some(1), 1);
        let mut ahead = 500;
        for begun in 0.. {
            // The disk has an end, and so has a sweep.
            ahead = (ahead + 100).min(1000);
            if ahead < 1000 {
                sweep.push(Some(ahead), ahead);
            }
            if sweep.pop() == Some(1) {
                assert!(begun <= 5, "after all of one sweep: {begun}");
                break;
            }
        }
    }
}
