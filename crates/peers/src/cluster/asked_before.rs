//! Keys that clients have asked this node for before, about. They tell a first request from a
//! repeat.
//!
//! Two bit tables, of which one takes new keys. Once that has taken [`KEYS_MAX`] keys, the other is
//! emptied and takes its place. A key is thus remembered for at least as many others. A first
//! request is taken for a repeat one time in twenty.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys asked for before. See the file's head.
pub struct AskedBefore {
    tables: [Box<[AtomicU64]>; 2],
    /// Number of the tables' changes; its parity is the table that takes new keys.
    turn: AtomicU64,
    /// Keys in that table.
    taken: AtomicU64,
}

impl AskedBefore {
    /// Creates the memory of no key.
    pub fn new() -> Self {
        let table = || (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { tables: [table(), table()], turn: AtomicU64::new(0), taken: AtomicU64::new(0) }
    }

    /// Notes a request for a key with this hash. Returns `true` if there was one before.
    pub fn note(&self, hash: u64) -> bool {
        let at = (hash >> 12) as usize % WORDS;
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63);
        let turn = (self.turn.load(Relaxed) & 1) as usize;
        let is_in = |word: u64| word & bits == bits;
        if is_in(self.tables[turn][at].fetch_or(bits, Relaxed)) {
            return true;
        }
        if self.taken.fetch_add(1, Relaxed) + 1 == KEYS_MAX {
            self.tables[1 - turn].iter().for_each(|word| word.store(0, Relaxed));
            self.taken.store(0, Relaxed);
            self.turn.fetch_add(1, Relaxed);
            return false;
        }
        is_in(self.tables[1 - turn][at].load(Relaxed))
    }
}

/// Words of a table, 128 KiB.
const WORDS: usize = 1 << 14;

/// Keys of a table: one for eight of its bits, since each sets two.
const KEYS_MAX: u64 = (WORDS * 64 / 8) as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn hash(key: u64) -> u64 {
        xxh3_64(&key.to_le_bytes())
    }

    #[test]
    fn repeats_are_told_from_first_requests() {
        let asked = AskedBefore::new();
        let first = (0..KEYS_MAX / 2).filter(|key| asked.note(hash(*key))).count() as u64;
        assert!(first < KEYS_MAX / 2 / 20, "{first} of {} were taken for repeats", KEYS_MAX / 2);
        assert!((0..KEYS_MAX / 2).all(|key| asked.note(hash(key))), "every repeat is known");
    }

    #[test]
    fn old_keys_are_forgotten_and_the_last_are_not() {
        let asked = AskedBefore::new();
        let last = 4 * KEYS_MAX;
        (0..last).for_each(|key| {
            asked.note(hash(key));
        });
        let known = |keys: std::ops::Range<u64>| keys.filter(|key| asked.note(hash(*key))).count() as u64;
        assert_eq!(known(last - KEYS_MAX / 2..last), KEYS_MAX / 2);
        let old = known(0..KEYS_MAX / 4);
        assert!(old < KEYS_MAX / 4 / 4, "{old} of {} are still known", KEYS_MAX / 4);
    }
}
