//! Files that stand for no object any more and wait to be overwritten, instead of being removed.
//!
//! Andres Kroonmaa ("Clustered Store", squid-dev, 1998) measured 40 ms for an unlink and 12 ms for
//! opening a file to write, and concluded: "as we almost immediately overwrite released files, we
//! can think of dropping unlinkd altogether". So what replacement gives up, and what a newer object
//! has replaced, keeps its file and its charge, and the next object goes into the file of the
//! lowest number.
//!
//! - Nobody reads a released file: a number comes here only when its last reader has let go of it.
//! - For the index such a number is busy. So a killed process leaves it in a berth, and the next
//!   opening removes its file.
//! - Where another object needs the space and not the file, the file is *emptied*: cut off at
//!   length zero, still without touching its folder.
//! - There are few: beyond a bound files are removed, and so are those that nobody has overwritten
//!   for a while. What was given up thus does not come back when the index is lost later. What is
//!   removed on demand never waits here.
//!
//! A release costs no call; an object written into a released file costs opening it, its writes,
//! and one call to cut off what is left of a longer one.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The numbers that wait.
pub(super) struct ReleasedFilePool {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    numbers: BTreeMap<u32, File>,
    round: u64,
}

#[derive(Clone, Copy)]
struct File {
    is_empty: bool,
    /// When it came here.
    round: u64,
}

impl ReleasedFilePool {
    /// Takes as many as leave the index enough berths.
    pub(super) fn new(berths: u32) -> Self {
        Self { most: (berths / 8).max(1) as usize, waiting: Mutex::default() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().numbers.len()
    }

    /// Takes a number in. False when there is no room.
    pub(super) fn put(&self, number: u32, is_empty: bool) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.numbers.len() >= self.most {
            return false;
        }
        let round = waiting.round;
        waiting.numbers.insert(number, File { is_empty, round });
        true
    }

    /// Gives out the lowest number, if it is below `bound`.
    pub(super) fn take_lowest(&self, bound: Option<u32>) -> Option<u32> {
        let mut waiting = self.waiting.lock();
        let (number, _) = waiting.numbers.first_key_value().map(|(number, file)| (*number, *file))?;
        if bound.is_some_and(|bound| bound < number) {
            return None;
        }
        waiting.numbers.remove(&number).map(|_| number)
    }

    /// Gives out the highest number whose file takes space.
    pub(super) fn take_full(&self) -> Option<u32> {
        let mut waiting = self.waiting.lock();
        let number =
            waiting.numbers.iter().rev().find(|(_, file)| !file.is_empty).map(|(number, _)| *number)?;
        waiting.numbers.remove(&number).map(|_| number)
    }

    /// Gives out the highest number.
    pub(super) fn take_highest(&self) -> Option<u32> {
        self.waiting.lock().numbers.pop_last().map(|(number, _)| number)
    }

    /// Gives out at most `most` numbers that were there at the last call already.
    pub(super) fn take_lingering(&self, most: usize) -> Vec<u32> {
        let mut waiting = self.waiting.lock();
        let round = waiting.round;
        waiting.round += 1;
        let lingers = |(number, file): (&u32, &File)| (file.round < round).then_some(*number);
        let numbers: Vec<u32> = waiting.numbers.iter().filter_map(lingers).take(most).collect();
        waiting.numbers.retain(|number, _| !numbers.contains(number));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_goes_to_objects_and_the_highest_gives_its_space() {
        let released = ReleasedFilePool::new(64);
        for number in [9, 3, 7] {
            assert!(released.put(number, number == 9));
        }
        assert_eq!(released.take_lowest(Some(2)), None, "a lower number is free");
        assert_eq!(released.take_lowest(Some(5)), Some(3));
        assert_eq!(released.take_full(), Some(7));
        assert_eq!(released.take_full(), None, "9 is empty");
        assert_eq!(released.take_highest(), Some(9));
        assert_eq!(released.take_lowest(None), None);
    }

    #[test]
    fn there_are_few_and_they_do_not_linger() {
        let released = ReleasedFilePool::new(64);
        assert_eq!((0..20).filter(|number| released.put(*number, false)).count(), 8);
        assert_eq!(released.take_lingering(99), []);
        released.take_lowest(None);
        released.put(30, false);
        assert_eq!(released.take_lingering(3), [1, 2, 3]);
        assert_eq!(released.take_lingering(99), [4, 5, 6, 7, 30]);
        assert_eq!(released.len(), 0);
    }
}
