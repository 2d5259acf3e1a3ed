//! Map of the numbers in use: a bit for each, and summaries above, so that the next free number is
//! found at once.
//!
//! Used by namings that choose among the free numbers (Kroonmaa 1998: the lowest, or the next one
//! counting up). A bit is 1 for a number in use, so that a new file of zeros is right. Level 0 has
//! a bit for each number. A bit of a higher level is 1 if the word below it is all ones. The
//! highest level is one word.
//!
//! Finding, setting and clearing touch one word a level: four levels at 10^6 numbers. All levels
//! take 1/64 more than a bit a number.
//!
//! The bits are a guide, and the entries decide: after a power loss the two may be of different
//! age. A used number marked free is corrected when a claim meets it. A free number marked in use
//! is found by the hand or an audit.

use super::layout::IndexGeometry;

/// Positions of the levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeMap {
    levels: [MapLevel; LEVELS_MAX],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct MapLevel {
    at: usize,
    bits: usize,
}

/// Rule for the number that the next object gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// Number freed last; the index has a list of free numbers, and no map.
    Any,
    /// Next number counting up from the last one given, wrapping at the end.
    Next,
    /// Lowest number.
    Lowest,
}

impl FreeMap {
    /// Returns the map of an index; `None` if it has none.
    pub(super) fn of(geometry: &IndexGeometry) -> Option<Self> {
        let mut at = geometry.free_map()?;
        let mut map = Self { levels: [MapLevel::default(); LEVELS_MAX], count: 0 };
        let mut bits = geometry.max_objects as usize;
        loop {
            assert!(map.count < LEVELS_MAX);
            map.levels[map.count] = MapLevel { at, bits };
            map.count += 1;
            let words = bits.div_ceil(64);
            if words == 1 {
                return Some(map);
            }
            at += words;
            bits = words;
        }
    }

    /// Returns the words that the map of `numbers` numbers takes.
    pub(super) fn words(numbers: u32) -> usize {
        let levels = std::iter::successors(Some((numbers as usize).div_ceil(64)), |words| {
            (*words > 1).then(|| words.div_ceil(64))
        });
        levels.sum()
    }

    /// Returns the first number from `from` on that is marked free.
    pub(super) fn find(&self, load: &dyn Fn(usize) -> u64, from: u32) -> Option<u32> {
        let found = self.find_in(load, 0, from as usize)?;
        debug_assert!(found >= from as usize && found < self.levels[0].bits);
        u32::try_from(found).ok()
    }

    fn find_in(&self, load: &dyn Fn(usize) -> u64, level: usize, from: usize) -> Option<usize> {
        debug_assert!(level < self.count);
        let MapLevel { at, bits } = self.levels[level];
        let mut from = from;
        // Repeats only if a summary disagrees with the word below it.
        for _ in 0..STALE_MAX {
            if from >= bits {
                return None;
            }
            let word = from / 64;
            let clear = !load(at + word) & (u64::MAX << (from % 64));
            if clear != 0 {
                let found = word * 64 + clear.trailing_zeros() as usize;
                return (found < bits).then_some(found);
            }
            if level + 1 == self.count {
                return None;
            }
            from = self.find_in(load, level + 1, word + 1)? * 64;
        }
        None
    }

    /// Returns `true` if a number is marked free.
    pub(super) fn is_free(&self, load: &dyn Fn(usize) -> u64, number: u32) -> bool {
        let at = self.levels[0].at + number as usize / 64;
        load(at) >> (number % 64) & 1 == 0
    }

    /// Marks a number. Calls `store` with each word that changes, and its value.
    pub(super) fn mark(
        &self,
        load: &dyn Fn(usize) -> u64,
        number: u32,
        is_free: bool,
        mut store: impl FnMut(usize, u64),
    ) {
        let mut bit = number as usize;
        debug_assert!(bit < self.levels[0].bits, "a number behind the map");
        for level in &self.levels[..self.count] {
            let at = level.at + bit / 64;
            let (before, mask) = (load(at), 1 << (bit % 64));
            let after = if is_free { before & !mask } else { before | mask };
            if after != before {
                store(at, after);
            }
            // A summary stays as it is while a free number is left below it. A freed number is
            // marked in all levels, since one may be wrong.
            if !is_free && after != u64::MAX {
                return;
            }
            bit /= 64;
        }
    }
}

/// Most levels: 64^6 is more than there are numbers.
const LEVELS_MAX: usize = 6;
/// Wrong summaries that a search meets in one level before it gives up.
const STALE_MAX: usize = 64;

const _: () = assert!(64_u128.pow(LEVELS_MAX as u32) > u32::MAX as u128);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{IndexShape, RamWords, Words};
    use std::collections::BTreeSet;

    fn map(max_objects: u32) -> (FreeMap, RamWords) {
        let geometry = IndexGeometry::new(&IndexShape {
            architecture: "squid_lowest",
            max_objects,
            block_bytes: 4096,
            parameters: [1; 4],
            sides: false,
            numbers: Numbers::Lowest,
        });
        (FreeMap::of(&geometry).expect("it has one"), RamWords::new(geometry.words()))
    }

    fn mark(map: &FreeMap, words: &RamWords, number: u32, is_free: bool) {
        map.mark(&|at| words.load(at), number, is_free, |at, word| words.store(at, word));
    }

    #[test]
    fn agrees_with_a_sorted_set() {
        let mut state = 1_u64;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % u64::from(limit)) as u32
        };
        for objects in [1, 63, 64, 65, 4096, 5000, 300_000] {
            let (map, words) = map(objects);
            let load = |at: usize| words.load(at);
            let mut free: BTreeSet<u32> = (0..objects).collect();
            for round in 0..3000 {
                // Runs, so that words and summaries fill up.
                let (first, run) = (below(objects), below(1 + round));
                for number in first..(first + run).min(objects) {
                    let is_free = round % 3 == 0;
                    mark(&map, &words, number, is_free);
                    if is_free {
                        free.insert(number)
                    } else {
                        free.remove(&number)
                    };
                }
                let from = below(objects);
                assert_eq!(map.find(&load, from), free.range(from..).next().copied());
                assert_eq!(map.find(&load, 0), free.first().copied());
                assert_eq!(map.is_free(&load, from), free.contains(&from));
            }
        }
    }

    #[test]
    fn full_map_finds_the_one_freed_number() {
        let (map, words) = map(10_000);
        let load = |at: usize| words.load(at);
        (0..10_000).for_each(|number| mark(&map, &words, number, false));
        assert_eq!(map.find(&load, 0), None);
        for number in [0, 63, 64, 4_095, 4_096, 9_999] {
            mark(&map, &words, number, true);
            assert_eq!(map.find(&load, 0), Some(number));
            assert_eq!(map.find(&load, number), Some(number));
            assert_eq!(map.find(&load, number + 1), None);
            mark(&map, &words, number, false);
        }
    }

    #[test]
    fn wrong_bits_do_no_harm_and_freeing_mends_them() {
        let (map, words) = map(300_000);
        let load = |at: usize| words.load(at);
        let first = map.levels[0].at;
        (first..words.count()).for_each(|at| words.store(at, u64::MAX));
        assert_eq!(map.find(&load, 0), None);
        mark(&map, &words, 123_456, true);
        assert_eq!(map.find(&load, 5), Some(123_456));
        // Summaries that promise free numbers where there are none.
        (first..words.count()).for_each(|at| words.store(at, u64::MAX));
        (map.levels[1].at..words.count()).for_each(|at| words.store(at, 0));
        assert_eq!(map.find(&load, 0), None, "and it comes to an end");
    }
}
