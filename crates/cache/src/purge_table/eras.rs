//! Numbers that processes gave to requests and purges, in eras: one for each process.
//!
//! A process begins at a random number, far behind the numbers of all processes that the purge
//! table knows. The number of a response therefore identifies the table with its purges. A number
//! in no known era belongs to another table: a later, foreign or lost one. Purges of such a
//! response are unknown, so it is not served.
//!
//! Chances: random distances have 40 bits, and an era uses few of these numbers. An unknown number
//! passes for a known one with a chance of about 2^-20. This detects mistakes, not forgeries: an
//! attacker with write access to the disk needs none.

use std::hash::{BuildHasher, RandomState};

/// Position in the order of requests and purges. A purge reaches requests at its number or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(u64);

/// Numbers from `start` up to `ceiling`, given out by one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Era {
    pub start: u64,
    /// Upper limit of the numbers given out.
    pub ceiling: u64,
}

/// Eras in order, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Eras(Vec<Era>);

impl Sequence {
    /// Creates a position from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl Era {
    /// Returns a new era behind this number.
    pub fn after(number: u64) -> Self {
        let distance = RandomState::new().hash_one(number) >> (64 - DISTANCE_BITS);
        let start = number.max(EARLIER_END).saturating_add(1 << 32).saturating_add(distance);
        Self { start, ceiling: start.saturating_add(STEP) }
    }

    /// Returns an era that has begun, and has reached `latest`.
    pub fn from_to(start: u64, latest: u64) -> Self {
        Self { start, ceiling: latest.saturating_add(STEP) }
    }

    /// Returns the era of earlier versions: times in milliseconds.
    pub const fn of_times() -> Self {
        Self { start: 0, ceiling: EARLIER_END }
    }

    /// Returns the new ceiling after this number was given out, if the ceiling must change.
    pub fn ceiling_for(&self, number: u64) -> Option<u64> {
        (number.saturating_add(STEP / 2) >= self.ceiling).then(|| number.saturating_add(STEP))
    }
}

impl Eras {
    /// Returns the eras of a table; eras out of order are left out.
    pub fn of(eras: impl IntoIterator<Item = Era>) -> Self {
        let mut known = Self::default();
        for era in eras {
            known.push(era);
        }
        known
    }

    /// Adds the latest era. Returns `false` if it does not come after all others.
    pub fn push(&mut self, era: Era) -> bool {
        let is_later = era.start <= era.ceiling && self.0.last().is_none_or(|last| last.ceiling < era.start);
        if is_later {
            if self.0.len() == ERAS_MAX {
                // The two oldest eras are merged: numbers between them were never given out.
                self.0[1].start = self.0[0].start;
                self.0.remove(0);
            }
            self.0.push(era);
        }
        is_later
    }

    /// Raises the ceiling of the last era.
    pub fn raise(&mut self, ceiling: u64) {
        if let Some(last) = self.0.last_mut() {
            last.ceiling = last.ceiling.max(ceiling);
        }
    }

    /// Returns `true` if this number may have been given out in one of the eras.
    pub fn knows(&self, sequence: Sequence) -> bool {
        let after = self.0.partition_point(|era| era.start <= sequence.0);
        after.checked_sub(1).is_some_and(|at| sequence.0 <= self.0[at].ceiling)
    }

    pub fn last(&self) -> Option<&Era> {
        self.0.last()
    }

    pub fn all(&self) -> &[Era] {
        &self.0
    }
}

/// Maximum eras in a table.
pub(super) const ERAS_MAX: usize = 496;
/// Last number that can be a time of an earlier version, in milliseconds: in the year 10889.
pub(super) const EARLIER_END: u64 = (1 << 48) - 1;
/// Lead of a ceiling over the numbers given out.
const STEP: u64 = 1 << 20;
const DISTANCE_BITS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_unknown_eras_are_not_known() {
        let first = Era::after(0);
        let second = Era::after(first.ceiling);
        let (older, all) = (Eras::of([first]), Eras::of([first, second]));
        for era in [first, second] {
            assert!([era.start, era.ceiling].iter().all(|number| all.knows(Sequence(*number))));
            assert!(![era.start - 1, era.ceiling + 1].iter().any(|number| all.knows(Sequence(*number))));
        }
        assert!(!older.knows(Sequence(second.start)) && !Eras::default().knows(Sequence(first.start)));
    }

    #[test]
    fn an_older_table_gives_out_other_numbers() {
        let first = Era::after(0);
        let (lost, again) = (Era::after(first.ceiling), Era::after(first.ceiling));
        assert!(!Eras::of([first, again]).knows(Sequence(lost.start)));
        assert!(!Eras::of([first, lost]).knows(Sequence(again.start)));
    }

    #[test]
    fn times_of_earlier_versions_are_an_era_of_their_own() {
        let eras = Eras::of([Era::of_times(), Era::after(0)]);
        assert_eq!(eras.all().len(), 2);
        assert!(eras.knows(Sequence(1_700_000_000_000)));
        assert!(!Eras::of([Era::after(0)]).knows(Sequence(1_700_000_000_000)));
    }

    #[test]
    fn the_oldest_eras_are_joined_when_there_are_too_many() {
        let mut eras = Eras::default();
        let mut last = Era::after(0);
        let first = last;
        for _ in 0..2 * ERAS_MAX {
            assert!(eras.push(last));
            last = Era::after(last.ceiling);
        }
        assert_eq!(eras.all().len(), ERAS_MAX);
        assert!(eras.knows(Sequence(first.start)) && !eras.knows(Sequence(last.start)));
        assert!(!eras.push(first), "it is not the latest");
    }
}
