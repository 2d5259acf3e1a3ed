//! Fixed part of an index: its size, its maker, and the positions of its parts.

use super::{ENTRY_WORDS, hash};
use crate::index::free_map::{FreeMap, Numbers};
use crate::index::words::{PAGE_WORDS, Words};
use shoal_core::Key;

/// The fixed part of an index's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexGeometry {
    version: u32,
    /// Number of entries, and so of file numbers.
    pub max_objects: u32,
    /// Most objects in transition at once.
    pub berths: u32,
    /// Unit of space accounting, in bytes.
    pub block_bytes: u32,
    /// Numbers that the architecture keeps, such as numbers of folders.
    pub parameters: [u32; PARAMETERS],
    /// `true` if each entry has a side word.
    pub sides: bool,
    /// `true` if the index has a map of the numbers in use, and no list of the free ones.
    has_free_map: bool,
    maker: [u8; MAKER_BYTES],
}

/// Properties of an index to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexShape<'a> {
    /// Name of the cache architecture; at most 24 bytes are kept.
    pub architecture: &'a str,
    /// Objects held at most.
    pub max_objects: u32,
    /// Unit of space accounting, in bytes.
    pub block_bytes: u32,
    /// Numbers that the architecture needs when it opens the index again.
    pub parameters: [u32; PARAMETERS],
    /// `true` if each entry has a side word.
    pub sides: bool,
    /// Rule for the free number that the next object gets.
    pub numbers: Numbers,
}

impl IndexGeometry {
    /// Returns the geometry of a new index.
    pub fn new(shape: &IndexShape<'_>) -> Self {
        let berths = (shape.max_objects / 8).clamp(64, BERTHS_MAX);
        let mut maker = [0; MAKER_BYTES];
        let kept = shape.architecture.len().min(MAKER_BYTES);
        maker[..kept].copy_from_slice(&shape.architecture.as_bytes()[..kept]);
        Self {
            version: VERSION,
            max_objects: shape.max_objects.clamp(1, OBJECTS_MAX),
            berths,
            block_bytes: shape.block_bytes,
            parameters: shape.parameters,
            sides: shape.sides,
            has_free_map: shape.numbers != Numbers::Any,
            maker,
        }
    }

    /// Returns the architecture that the index was made for. Version 1 has no word for it: there
    /// was only one then.
    pub fn architecture(&self) -> &str {
        if self.version == 1 {
            return "squid";
        }
        let end = self.maker.iter().position(|byte| *byte == 0).unwrap_or(MAKER_BYTES);
        std::str::from_utf8(&self.maker[..end]).unwrap_or("an architecture of another program")
    }

    /// Returns the size of the whole index, in words.
    pub fn words(&self) -> usize {
        let map = if self.has_free_map { FreeMap::words(self.max_objects) } else { 0 };
        (self.end_of_sides().next_multiple_of(PAGE_WORDS) + map).next_multiple_of(PAGE_WORDS)
    }

    pub(in crate::index) fn berth(&self, berth: u32) -> usize {
        debug_assert!(berth <= self.berths);
        BERTHS_AT + berth as usize
    }

    /// Returns the word that holds a bucket, and the bucket's shift in the word.
    pub(in crate::index) fn bucket(&self, bucket: u32) -> (usize, u32) {
        debug_assert!(bucket < self.max_objects);
        (self.berth(self.berths) + bucket as usize / 2, bucket % 2 * 32)
    }

    pub(in crate::index) fn entry(&self, number: u32) -> usize {
        debug_assert!(number <= self.max_objects);
        let buckets = (self.max_objects as usize).div_ceil(2);
        let entries_at = (self.berth(self.berths) + buckets).next_multiple_of(PAGE_WORDS);
        entries_at + number as usize * ENTRY_WORDS
    }

    /// Returns the position of a number's side word; `None` if there are none.
    pub(crate) fn side(&self, number: u32) -> Option<usize> {
        let sides_at = self.entry(self.max_objects).next_multiple_of(PAGE_WORDS);
        debug_assert!(number <= self.max_objects);
        self.sides.then(|| sides_at + number as usize)
    }

    /// Returns the position of the map of numbers in use; `None` if the index has a list of free
    /// ones.
    pub(crate) fn free_map(&self) -> Option<usize> {
        self.has_free_map.then(|| self.end_of_sides().next_multiple_of(PAGE_WORDS))
    }

    fn end_of_sides(&self) -> usize {
        self.side(self.max_objects).unwrap_or_else(|| self.entry(self.max_objects))
    }

    /// Returns the bucket of a key: one for each entry, chosen by the key's high bits.
    pub(in crate::index) fn bucket_of(&self, key: Key) -> u32 {
        ((u128::from(key.high()) * u128::from(self.max_objects)) >> 64) as u32
    }

    /// Writes the header's fixed part, the magic number last.
    pub(in crate::index) fn write(&self, words: &dyn Words) {
        assert_eq!(words.count(), self.words(), "room for all parts");
        for (at, word) in FIXED_AT.into_iter().zip(self.fixed()).skip(1) {
            words.store(at, word);
        }
        words.store(CHECK_AT, self.check());
        words.store(0, MAGIC);
        debug_assert_eq!(self.fixed()[0], MAGIC);
    }

    /// Reads the geometry back. The error says in which respect the words are no index of ours.
    pub(crate) fn read(words: &dyn Words) -> Result<Self, &'static str> {
        if words.count() < PAGE_WORDS {
            return Err("too short");
        }
        let low = |at: usize| words.load(at) as u32;
        let high = |at: usize| (words.load(at) >> 32) as u32;
        if words.load(0) != MAGIC {
            return Err("not an index");
        }
        let version = low(1);
        if !(1..=VERSION).contains(&version) || high(1) != ENTRY_WORDS as u32 {
            return Err("of another version");
        }
        let mut geometry = Self {
            version,
            max_objects: low(2),
            berths: high(2),
            block_bytes: low(3),
            parameters: [low(4), high(4), 0, 0],
            sides: false,
            has_free_map: false,
            maker: [0; MAKER_BYTES],
        };
        if version > 1 {
            geometry.sides = high(3) & SIDES != 0;
            geometry.has_free_map = high(3) & FREE_MAP != 0;
            geometry.parameters[2..].copy_from_slice(&[low(PARAMETERS_AT), high(PARAMETERS_AT)]);
            for (bytes, at) in geometry.maker.as_chunks_mut::<8>().0.iter_mut().zip(MAKER_AT..) {
                *bytes = words.load(at).to_le_bytes();
            }
        }
        // Words that differ from those that `write` would write, such as unknown flags, fail here.
        let is_as_written = geometry.is_fixed(|at| words.load(at));
        if !is_as_written || words.load(CHECK_AT) != geometry.check() {
            return Err("damaged in its header");
        }
        let is_plausible = (1..=OBJECTS_MAX).contains(&geometry.max_objects)
            && (1..=BERTHS_MAX).contains(&geometry.berths)
            && geometry.block_bytes > 0;
        if !is_plausible || words.count() != geometry.words() {
            return Err("of the wrong size");
        }
        Ok(geometry)
    }

    /// Returns the fixed words, in the order of [`FIXED_AT`].
    fn fixed(&self) -> [u64; FIXED_AT.len()] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let flags = if self.sides { SIDES } else { 0 } | if self.has_free_map { FREE_MAP } else { 0 };
        let [first, second, third, fourth] = self.parameters;
        let maker = |n: usize| u64::from_le_bytes(self.maker.as_chunks::<8>().0[n]);
        [
            MAGIC,
            pair(self.version, ENTRY_WORDS as u32),
            pair(self.max_objects, self.berths),
            pair(self.block_bytes, flags),
            pair(first, second),
            maker(0),
            maker(1),
            maker(2),
            pair(third, fourth),
        ]
    }

    /// Returns the number of fixed words of this version.
    fn fixed_count(&self) -> usize {
        if self.version == 1 { FIXED_OF_VERSION_1 } else { FIXED_AT.len() }
    }

    fn is_fixed(&self, load: impl Fn(usize) -> u64) -> bool {
        FIXED_AT.into_iter().zip(self.fixed()).take(self.fixed_count()).all(|(at, word)| load(at) == word)
    }

    fn check(&self) -> u64 {
        hash(&self.fixed()[..self.fixed_count()])
    }
}

/// "SHOALIDX", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"SHOALIDX");
const VERSION: u32 = 2;
/// Most objects: more would need wider links.
const OBJECTS_MAX: u32 = u32::MAX - 1;
const BERTHS_MAX: u32 = 4096;
/// Numbers that an architecture may keep in the header.
const PARAMETERS: usize = 4;
/// Length of an architecture's name, padded with zeros.
const MAKER_BYTES: usize = 24;
/// Flag: entries have side words.
const SIDES: u32 = 1;
/// Flag: there is a map of the numbers in use.
const FREE_MAP: u32 = 2;
/// Positions of the fixed words. Version 1 has the first five.
const FIXED_AT: [usize; 9] = [0, 1, 2, 3, 4, MAKER_AT, MAKER_AT + 1, MAKER_AT + 2, PARAMETERS_AT];
const FIXED_OF_VERSION_1: usize = 5;
const CHECK_AT: usize = 5;
const MAKER_AT: usize = 24;
const PARAMETERS_AT: usize = 27;
/// The berths follow the header's page.
const BERTHS_AT: usize = PAGE_WORDS;

const _: () = {
    assert!(BERTHS_AT.is_multiple_of(PAGE_WORDS));
    assert!(MAKER_BYTES == 8 * (PARAMETERS_AT - MAKER_AT));
    assert!(FIXED_OF_VERSION_1 < FIXED_AT.len() && CHECK_AT == FIXED_OF_VERSION_1);
    assert!(SIDES & FREE_MAP == 0);
    // A link is a number plus one.
    assert!(OBJECTS_MAX < u32::MAX);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::words::RamWords;

    fn shape(max_objects: u32, sides: bool) -> IndexShape<'static> {
        IndexShape {
            architecture: "squid",
            max_objects,
            block_bytes: 4096,
            parameters: [16, 256, 384, 7],
            sides,
            numbers: if sides { Numbers::Lowest } else { Numbers::Any },
        }
    }

    #[test]
    fn an_object_costs_well_below_64_bytes_all_in() {
        for (objects, bytes) in [(1_000_u32, 50), (100_000, 38), (100_000_000, 37)] {
            for (sides, more) in [(false, 0), (true, 9)] {
                let all = IndexGeometry::new(&shape(objects, sides)).words() * 8;
                let most = (bytes + more) * u64::from(objects) + 8192;
                assert!(all as u64 <= most, "{all} bytes for {objects}");
            }
        }
    }

    #[test]
    fn geometry_round_trips_and_notices_flipped_bits() {
        for sides in [false, true] {
            let geometry = IndexGeometry::new(&shape(1000, sides));
            let words = RamWords::new(geometry.words());
            geometry.write(&words);
            assert_eq!(IndexGeometry::read(&words), Ok(geometry));
            assert_eq!(geometry.architecture(), "squid");
            let fixed = FIXED_AT.into_iter().chain([CHECK_AT]);
            for (at, bit) in fixed.flat_map(|at| (0..64).map(move |bit| (at, bit))) {
                words.store(at, words.load(at) ^ 1 << bit);
                assert!(IndexGeometry::read(&words).is_err(), "word {at}, bit {bit}");
                words.store(at, words.load(at) ^ 1 << bit);
            }
            assert_eq!(IndexGeometry::read(&RamWords::new(geometry.words() + 512)), Err("not an index"));
        }
    }

    #[test]
    fn an_index_of_version_1_is_read() {
        let now = IndexGeometry::new(&shape(1000, false));
        let words = RamWords::new(now.words());
        let fixed = [MAGIC, 1 | 4 << 32, 1000 | 125 << 32, 4096, 16 | 256 << 32];
        fixed.iter().enumerate().for_each(|(at, word)| words.store(at, *word));
        words.store(CHECK_AT, hash(&fixed));
        let read = IndexGeometry::read(&words).expect("version 1 is known");
        let as_now = IndexGeometry { version: 2, maker: now.maker, parameters: now.parameters, ..read };
        assert_eq!(as_now, now);
        assert_eq!((read.architecture(), read.parameters), ("squid", [16, 256, 0, 0]));
    }

    #[test]
    fn parts_do_not_overlap() {
        for objects in [1, 2, 127, 128, 1000] {
            let geometry = IndexGeometry::new(&shape(objects, true));
            let last_bucket = geometry.bucket(objects - 1).0;
            let last_entry_word = geometry.entry(objects - 1) + ENTRY_WORDS - 1;
            let (first, last) = (geometry.side(0).unwrap(), geometry.side(objects - 1).unwrap());
            assert!(geometry.berth(geometry.berths - 1) < geometry.bucket(0).0);
            let map = geometry.free_map().unwrap();
            assert!(last_bucket < geometry.entry(0) && last_entry_word < first && last < map);
            assert!(map + FreeMap::words(objects) <= geometry.words());
        }
    }
}
