//! Files without an object that wait to be overwritten instead of being removed.
//!
//! Andres Kroonmaa ("Clustered Store", squid-dev, 1998) measured 40 ms for an unlink and 12 ms for
//! opening a file to write, and concluded: "as we almost immediately overwrite released files, we
//! can think of dropping unlinkd altogether". An evicted or replaced object therefore keeps its
//! file and its charge, and the next object goes into the file of the lowest number.
//!
//! - No reader uses a released file: a number comes here only when its last reader has let go of
//!   it.
//! - The index holds such a number as busy. A killed process thus leaves the number in a berth, and
//!   the next opening removes its file.
//! - When another object needs the space and not the file, the file is *emptied*: it is truncated
//!   to length zero, still without touching its folder.
//! - The number of waiting files is bounded, and files beyond the bound are removed. A file that no
//!   object has overwritten for a while is removed where the store has room. A full store empties
//!   it, since its next objects need files. Evicted objects thus do not come back if the index is
//!   lost later. The file of an object removed on demand never waits here.
//!
//! A release costs no call. An object written into a released file costs one open, its writes, and
//! one call that truncates the rest of a longer file. An emptied file has no rest.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Pool of file numbers that wait.
pub(super) struct ReleasedFilePool {
    most: usize,
    waiting: Mutex<WaitingFiles>,
}

#[derive(Default)]
struct WaitingFiles {
    numbers: BTreeMap<u32, ReleasedFile>,
    round: u64,
}

/// File that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReleasedFile {
    /// `true` for a file of length zero.
    pub(super) is_empty: bool,
    /// Value of `WaitingFiles::round` when the number came here.
    round: u64,
}

impl ReleasedFilePool {
    /// Sets the bound so that the index keeps half of its berths for inserts. A large object takes
    /// the space of many files at once, which wait here until it goes; a store of files of many
    /// sizes thus needs a large bound.
    pub(super) fn new(berths: u32) -> Self {
        Self { most: (berths / 2).max(1) as usize, waiting: Mutex::default() }
    }

    /// Returns the number of waiting files.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().numbers.len()
    }

    /// Takes a number in. Returns `false` when there is no room.
    pub(super) fn put(&self, number: u32, is_empty: bool) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.numbers.len() >= self.most {
            return false;
        }
        let round = waiting.round;
        let before = waiting.numbers.insert(number, ReleasedFile { is_empty, round });
        debug_assert!(before.is_none(), "a number waits once");
        debug_assert!(waiting.numbers.len() <= self.most);
        true
    }

    /// Takes out the lowest number, if it is below `bound`.
    pub(super) fn take_lowest(&self, bound: Option<u32>) -> Option<(u32, ReleasedFile)> {
        let mut waiting = self.waiting.lock();
        let number = *waiting.numbers.first_key_value()?.0;
        if bound.is_some_and(|bound| bound < number) {
            return None;
        }
        waiting.numbers.pop_first()
    }

    /// Takes out the highest number with a file that takes space.
    pub(super) fn take_full(&self) -> Option<u32> {
        let mut waiting = self.waiting.lock();
        let number =
            waiting.numbers.iter().rev().find(|(_, file)| !file.is_empty).map(|(number, _)| *number)?;
        waiting.numbers.remove(&number).map(|_| number)
    }

    /// Takes out the highest number.
    pub(super) fn take_highest(&self) -> Option<u32> {
        self.waiting.lock().numbers.pop_last().map(|(number, _)| number)
    }

    /// Takes out at most `most` numbers that were already there at the last call. Leaves those of
    /// empty files if `keeps_empty`.
    pub(super) fn take_lingering(&self, most: usize, keeps_empty: bool) -> Vec<u32> {
        let mut waiting = self.waiting.lock();
        let round = waiting.round;
        waiting.round += 1;
        let lingers = |(number, file): (&u32, &ReleasedFile)| {
            (file.round < round && !(keeps_empty && file.is_empty)).then_some(*number)
        };
        let numbers: Vec<u32> = waiting.numbers.iter().filter_map(lingers).take(most).collect();
        waiting.numbers.retain(|number, _| !numbers.contains(number));
        debug_assert!(numbers.len() <= most);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_number_is_reused_and_highest_is_emptied() {
        let released = ReleasedFilePool::new(16);
        for number in [9, 3, 7] {
            assert!(released.put(number, number == 9));
        }
        assert_eq!(released.take_lowest(Some(2)), None, "a lower number is free");
        let lowest = |bound| released.take_lowest(bound).map(|(number, file)| (number, file.is_empty));
        assert_eq!(lowest(Some(5)), Some((3, false)));
        assert_eq!(released.take_full(), Some(7));
        assert_eq!(released.take_full(), None, "9 is empty");
        assert!(released.put(4, true));
        assert_eq!(lowest(None), Some((4, true)));
        assert_eq!(released.take_highest(), Some(9));
        assert_eq!(lowest(None), None);
    }

    #[test]
    fn there_are_few_and_they_do_not_linger() {
        let released = ReleasedFilePool::new(16);
        assert_eq!((0..20).filter(|number| released.put(*number, false)).count(), 8);
        assert_eq!(released.take_lingering(99, false), []);
        released.take_lowest(None);
        released.put(30, true);
        assert_eq!(released.take_lingering(3, false), [1, 2, 3]);
        assert_eq!(released.take_lingering(99, true), [4, 5, 6, 7], "the empty one stays");
        assert_eq!(released.take_lingering(99, false), [30]);
        assert_eq!(released.len(), 0);
    }
}
