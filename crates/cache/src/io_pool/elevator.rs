//! Order of waiting reads: across the disk in one direction, then from its start again (C-SCAN).
//!
//! A disk with heads is several times slower if reads run in order of arrival instead of place.
//! Linux orders the reads that it has received, one for each thread of the pool. This elevator
//! orders the reads that wait for a thread. Each sweep goes up only. No read therefore waits longer
//! than two sweeps, for any places of the other reads (Seltzer, Chen and Ousterhout, "Disk
//! Scheduling Revisited", USENIX Winter 1990). Cost: logarithmic in the number of waiting reads.

use std::collections::{BTreeMap, VecDeque};

/// Reads that wait.
pub(super) struct Elevator<J> {
    /// Reads by place, then by arrival.
    placed: BTreeMap<(u64, u64), J>,
    /// Reads of unknown place, by arrival. They take turns with the placed reads.
    unplaced: VecDeque<J>,
    is_turn_of_unplaced: bool,
    /// Place of the last read begun.
    head: u64,
    /// Number of placed reads that have arrived.
    came: u64,
}

impl<J> Elevator<J> {
    /// Creates an empty elevator.
    pub fn new() -> Self {
        let (placed, unplaced) = (BTreeMap::new(), VecDeque::new());
        Self { placed, unplaced, is_turn_of_unplaced: false, head: 0, came: 0 }
    }

    /// Adds a read at byte `at` of the disk, if known.
    pub fn push(&mut self, at: Option<u64>, read: J) {
        let Some(at) = at else { return self.unplaced.push_back(read) };
        self.came += 1;
        self.placed.insert((at, self.came), read);
    }

    /// Removes and returns the next read.
    pub fn pop(&mut self) -> Option<J> {
        self.is_turn_of_unplaced = !self.is_turn_of_unplaced;
        match self.is_turn_of_unplaced {
            true => self.unplaced.pop_front().or_else(|| self.pop_placed()),
            false => self.pop_placed().or_else(|| self.unplaced.pop_front()),
        }
    }

    fn pop_placed(&mut self) -> Option<J> {
        let ahead = self.placed.range((self.head, 0)..).next().map(|(place, _)| *place);
        let place = ahead.or_else(|| self.placed.keys().next().copied())?;
        self.head = place.0;
        self.placed.remove(&place)
    }

    /// Returns the number of waiting reads.
    pub fn len(&self) -> usize {
        self.placed.len() + self.unplaced.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(elevator: &mut Elevator<u64>) -> Vec<u64> {
        std::iter::from_fn(|| elevator.pop()).collect()
    }

    #[test]
    fn reads_go_one_way_and_then_from_the_start() {
        let mut elevator = Elevator::new();
        [50, 10, 90, 40].into_iter().for_each(|at| elevator.push(Some(at), at));
        assert_eq!((elevator.pop(), elevator.pop()), (Some(10), Some(40)));
        [30, 60, 45].into_iter().for_each(|at| elevator.push(Some(at), at));
        assert_eq!(order(&mut elevator), [45, 50, 60, 90, 30]);
    }

    #[test]
    fn at_one_place_and_at_none_the_first_goes_first() {
        let mut elevator = Elevator::new();
        (0..4).for_each(|number| elevator.push(Some(7), number));
        assert_eq!(order(&mut elevator), [0, 1, 2, 3]);
        (0..4).for_each(|number| elevator.push(None, number));
        elevator.push(Some(8), 8);
        let begun = order(&mut elevator);
        assert!(begun[..2].contains(&8), "they take turns: {begun:?}");
        assert!(begun.iter().filter(|number| **number < 8).is_sorted());
    }

    #[test]
    fn reads_ahead_do_not_starve_reads_behind() {
        let mut elevator = Elevator::new();
        elevator.push(Some(500), 500);
        assert_eq!(elevator.pop(), Some(500));
        elevator.push(Some(1), 1);
        let mut ahead = 500;
        for begun in 0.. {
            // The disk has an end, and so has a sweep.
            ahead = (ahead + 100).min(1000);
            if ahead < 1000 {
                elevator.push(Some(ahead), ahead);
            }
            if elevator.pop() == Some(1) {
                assert!(begun <= 5, "after all of one way up: {begun}");
                break;
            }
        }
    }
}
