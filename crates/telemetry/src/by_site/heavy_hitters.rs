//! Summary of the keys with the most weight in a stream, in constant memory.
//!
//! Space-Saving: Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k
//! elements in data streams", ICDT 2005. Its filter: Homem and Carvalho, "Finding top-k elements in
//! data streams", Information Sciences 180, 2010.
//!
//! `capacity` keys are listed, each with a count. A key that is not listed adds its weight to one
//! of many cells, by its hash. Once the cell exceeds the least count listed, the key takes the
//! place of that entry.
//!
//! With `total` the weight of the whole stream, at any time:
//!
//! - The weight of a listed key is at most its count, and at least its count less its error.
//! - The least count, and so every error, is at most `total / capacity`.
//! - A key with more weight than the least count is listed.
//!
//! A stream of keys that come once each therefore displaces a key of weight `w` only after weight
//! of `w * capacity` in all. The filter makes such a stream displace less than the bound allows.
//! The callers' keys are keyed hashes, so that nobody outside can aim at a cell.
//!
//! It does not fit where old weight must fade: counts are since the start. Cost of an addition: a
//! lookup, and `log2(capacity)` steps of a heap where the count moves.

use shoal_core::Key;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The summary. Each listed key has a value of the caller's.
#[derive(Debug)]
pub struct HeavyHitters<T> {
    capacity: usize,
    /// Binary heap: the least count comes first.
    entries: Vec<HeavyEntry<T>>,
    /// Places in `entries` by key.
    places: HashMap<Key, usize, BuildHasherDefault<KeyHasher>>,
    /// Bounds on the weight of keys that are not listed, by hash; empty until the list is full.
    cells: Vec<u64>,
    total: u64,
}

/// A listed key.
#[derive(Clone, Debug)]
pub struct HeavyEntry<T> {
    key: Key,
    /// Bound on the key's weight.
    pub count: u64,
    /// Part of `count` that may belong to other keys.
    pub error: u64,
    /// The caller's value.
    pub value: T,
}

impl<T> HeavyHitters<T> {
    /// Creates a summary that lists `capacity` keys. Memory is taken as it is needed.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a summary lists something");
        Self { capacity, entries: Vec::new(), places: HashMap::default(), cells: Vec::new(), total: 0 }
    }

    /// Adds `weight` to `key`. Returns the value of the key if the key is listed now. `make` builds
    /// the value of a key that comes onto the list.
    pub fn add(&mut self, key: Key, weight: u64, make: impl FnOnce() -> T) -> Option<&mut T> {
        self.total = self.total.saturating_add(weight);
        let place = match self.places.get(&key) {
            Some(&place) => {
                let entry = &mut self.entries[place];
                entry.count = entry.count.saturating_add(weight);
                self.sift_down(place)
            }
            None if weight == 0 => return None,
            None if self.entries.len() < self.capacity => {
                let entry = HeavyEntry { key, count: weight, error: 0, value: make() };
                self.push(entry)
            }
            None => self.displace_least(key, weight, make)?,
        };
        debug_assert!(self.entries[place].error < self.entries[place].count, "a listed key has weight");
        debug_assert!(self.least() <= self.total / self.capacity as u64, "the error keeps its bound");
        debug_assert_eq!(self.places.len(), self.entries.len(), "each listed key has a place");
        Some(&mut self.entries[place].value)
    }

    /// Returns the listed keys, in no particular order.
    pub fn entries(&self) -> &[HeavyEntry<T>] {
        &self.entries
    }

    /// Returns the weight of the whole stream.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the bound on the weight of any key that is not listed.
    pub fn least(&self) -> u64 {
        if self.entries.len() < self.capacity { 0 } else { self.entries[0].count }
    }

    /// Puts an unlisted key in place of the least one, if its cell allows the key more weight.
    fn displace_least(&mut self, key: Key, weight: u64, make: impl FnOnce() -> T) -> Option<usize> {
        if self.cells.is_empty() {
            self.cells = vec![0; self.capacity * CELLS_PER_ENTRY];
        }
        let least = self.entries[0].count;
        let cells = self.cells.len();
        let own = cell(key, cells);
        let error = self.cells[own];
        debug_assert!(error <= least, "an unlisted key has at most the least count");
        let count = error.saturating_add(weight);
        if count <= least {
            self.cells[own] = count;
            return None;
        }
        let displaced =
            std::mem::replace(&mut self.entries[0], HeavyEntry { key, count, error, value: make() });
        self.places.remove(&displaced.key);
        let bound = &mut self.cells[cell(displaced.key, cells)];
        *bound = (*bound).max(displaced.count);
        self.places.insert(key, 0);
        Some(self.sift_down(0))
    }

    /// Adds an entry. Returns its place.
    fn push(&mut self, entry: HeavyEntry<T>) -> usize {
        let mut place = self.entries.len();
        self.places.insert(entry.key, place);
        self.entries.push(entry);
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent].count <= self.entries[place].count {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    /// Moves an entry that has grown to its place, and returns the place.
    fn sift_down(&mut self, mut place: usize) -> usize {
        let count = self.entries[place].count;
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let count_of = |at: usize| self.entries.get(at).map_or(u64::MAX, |entry| entry.count);
            let (left_count, right_count) = (count_of(left), count_of(right));
            let child = if right_count < left_count { right } else { left };
            if left_count.min(right_count) >= count {
                return place;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        for place in [one, other] {
            self.places.insert(self.entries[place].key, place);
        }
    }
}

/// Returns the number of a key's cell among `cells`.
fn cell(key: Key, cells: usize) -> usize {
    (key.high() % cells as u64) as usize
}

/// Hasher that takes half of a key as the hash. A key is a keyed hash already.
#[derive(Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is hashed as one number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Cells for each key that can be listed, of 8 bytes each.
const CELLS_PER_ENTRY: usize = 8;

#[cfg(test)]
mod tests;
