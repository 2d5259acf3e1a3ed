//! Layout of the index, and the meaning of an entry's words.
//!
//! ```text
//! word 0        512           512+S         ...+B                  ...+4·N       ...+N   ...+N/63
//! ┌─────────────┬─────────────┬─────────────┬──────────────────────┬─────────────┬──────────────┐
//! │ header      │ berths      │ buckets     │ entries              │ side words, │ numbers in   │
//! │ and journal │ S words     │ B/2 words   │ N entries of 4 words │ if any: N   │ use, or none │
//! └─────────────┴─────────────┴─────────────┴──────────────────────┴─────────────┴──────────────┘
//! ```
//! `docs/FORMATS.md` has the layout byte by byte. Numbers outside entries are *sealed*: 40 bits of
//! value and 24 bits of check in one word, so that one store changes both. Each architecture
//! defines the meaning of its *side word*. A side word carries no check: it leads to an object with
//! the full key in its own header.

mod geometry;

pub use geometry::{IndexGeometry, IndexShape};

use super::words::PAGE_WORDS;
use shoal_core::Key;
use xxhash_rust::xxh3::xxh3_64;

/// Entry of the index for one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) key: Key,
    /// Next entry of the chain, or of the list of free entries.
    pub(super) next: Option<u32>,
    /// Number that changes with each reuse, so that two objects under one number can be told apart.
    pub(crate) generation: u8,
    /// Bits of the replacement policy.
    pub(super) policy_bits: u8,
    /// Blocks charged.
    pub(crate) blocks: u32,
    pub(crate) state: EntryState,
}

/// State of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryState {
    /// No object; there is no file of this number.
    Free,
    /// A file is being written or removed; lookups do not find it.
    Busy,
    /// Whole object.
    Stored,
}

impl IndexEntry {
    /// Reads an entry. Returns `None` if its words fail their checks.
    pub(super) fn decode(number: u32, words: [u64; ENTRY_WORDS]) -> Option<Self> {
        let [low, high, link, rest] = words;
        let state = match (rest >> 32) as u8 {
            0 => EntryState::Free,
            1 => EntryState::Busy,
            2 => EntryState::Stored,
            _ => return None,
        };
        let is_sound = words == [0; ENTRY_WORDS]
            || (link >> 48 == link_check(number, link as u32)
                && rest >> 40 == entry_check(number, low, high, rest));
        is_sound.then(|| Self {
            key: key_of(low, high),
            next: (link as u32).checked_sub(1),
            generation: (link >> 32) as u8,
            policy_bits: (link >> 40) as u8,
            blocks: rest as u32,
            state,
        })
    }

    pub(super) fn encode(&self, number: u32) -> [u64; ENTRY_WORDS] {
        let next = self.next.map_or(0, |next| next + 1);
        let link = u64::from(next)
            | u64::from(self.generation) << 32
            | u64::from(self.policy_bits) << 40
            | link_check(number, next) << 48;
        let rest = u64::from(self.blocks) | (self.state as u64) << 32;
        let (low, high) = (self.key.low(), self.key.high());
        let words = [low, high, link, rest | entry_check(number, low, high, rest) << 40];
        debug_assert_eq!(Self::decode(number, words), Some(*self));
        words
    }
}

/// Returns the link word of an entry with other policy bits. Neither check covers the bits, since
/// any bits are valid.
pub(super) fn with_policy_bits(link: u64, bits: u8) -> u64 {
    let changed = link & !(0xff << 40) | u64::from(bits) << 40;
    debug_assert_eq!(policy_bits_of(changed), bits);
    changed
}

pub(super) fn policy_bits_of(link: u64) -> u8 {
    (link >> 40) as u8
}

/// Returns a number below 2^40 with its check, for the word at `at`.
pub(super) fn seal(at: usize, value: u64) -> u64 {
    debug_assert!(value >> 40 == 0, "a sealed number has 40 bits");
    let value = value & SEALED_MAX;
    value | seal_check(at, value) << 40
}

/// Returns the number in a sealed word; `None` if the check fails.
pub(super) fn unseal(at: usize, word: u64) -> Option<u64> {
    let value = word & SEALED_MAX;
    (word == 0 || word >> 40 == seal_check(at, value)).then_some(value)
}

fn seal_check(at: usize, value: u64) -> u64 {
    // Zero means zero, as in a new file.
    if value == 0 { 0 } else { hash(&[at as u64, value]) >> 40 }
}

fn link_check(number: u32, next: u32) -> u64 {
    if next == 0 { 0 } else { hash(&[u64::from(number), u64::from(next)]) >> 48 }
}

fn entry_check(number: u32, low: u64, high: u64, rest: u64) -> u64 {
    hash(&[u64::from(number), low, high, rest & SEALED_MAX]) >> 40
}

/// Returns xxh3-64 of the words' little-endian bytes.
pub(super) fn hash(words: &[u64]) -> u64 {
    debug_assert!(words.len() <= HASHED_WORDS_MAX);
    let mut bytes = [0; HASHED_WORDS_MAX * 8];
    for (target, word) in bytes.chunks_exact_mut(8).zip(words) {
        target.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes[..words.len() * 8])
}

fn key_of(low: u64, high: u64) -> Key {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    Key::from_bytes(bytes)
}

pub(super) const ENTRY_WORDS: usize = 4;
/// Most words hashed together: a full journal and its count.
const HASHED_WORDS_MAX: usize = 2 * JOURNAL_PAIRS + 1;
pub(super) const SEALED_MAX: u64 = (1 << 40) - 1;

/// Boot of the machine that wrote last.
pub(super) const BOOT_AT: usize = 8;
/// Sealed: the flags below.
pub(super) const CONDITION_AT: usize = 9;
/// Sealed: blocks charged for all objects, those in transition included.
pub(super) const CHARGED_AT: usize = 10;
/// Sealed: objects stored.
pub(super) const OBJECTS_AT: usize = 11;
/// Sealed: first number that has never been used.
pub(super) const FRESH_AT: usize = 12;
/// Sealed: first of the free numbers below, plus 1.
pub(super) const FREE_AT: usize = 13;
/// Sealed: mark of the list of free numbers that is valid.
pub(super) const FREE_LIST_AT: usize = 14;
/// Sealed: most blocks that may be charged, on disk before charges rise to it.
pub(super) const CEILING_AT: usize = 15;
/// Sealed: number that the replacement hand passes next.
pub(super) const HAND_AT: usize = 16;
/// Sequence number of the last object.
pub(super) const SEQUENCE_AT: usize = 17;
/// Sealed: number from which counting up continues.
pub(super) const CURSOR_AT: usize = 18;
/// Journal: a word that makes it valid, then pairs of position and value.
pub(super) const JOURNAL_AT: usize = 64;
pub(super) const JOURNAL_PAIRS: usize = 48;

/// Flag of the condition: closed in order.
pub(super) const CLEAN: u64 = 1;
/// Flag of the condition: entries may be wrong; a repair is due.
pub(super) const SUSPECT: u64 = 2;
/// Flag of the condition: nothing is known of some files on disk.
pub(super) const UNSURVEYED: u64 = 4;
/// Flags that outlast the session, with any end.
pub(super) const DUE: u64 = SUSPECT | UNSURVEYED;

const _: () = assert!(JOURNAL_AT + 1 + 2 * JOURNAL_PAIRS <= PAGE_WORDS);
const _: () = assert!(ENTRY_WORDS * 8 <= 32);
const _: () = {
    assert!(ENTRY_WORDS.is_power_of_two());
    assert!(CURSOR_AT < JOURNAL_AT);
    assert!(CLEAN & DUE == 0);
    assert!(SUSPECT & UNSURVEYED == 0);
    assert!(SEALED_MAX.count_ones() == 40);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_notice_flipped_bits() {
        let entry = IndexEntry {
            key: Key::of(b"k"),
            next: Some(7),
            generation: 9,
            policy_bits: 3,
            blocks: 12,
            state: EntryState::Stored,
        };
        let words = entry.encode(5);
        assert_eq!(IndexEntry::decode(5, words), Some(entry));
        assert_eq!(IndexEntry::decode(6, words), None, "an entry is valid in its own place only");
        for bit in (0..256).filter(|bit| !(128 + 32..128 + 48).contains(bit)) {
            let mut damaged = words;
            damaged[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(IndexEntry::decode(5, damaged), None, "bit {bit}");
        }
        let blank = IndexEntry::decode(5, [0; 4]).expect("a new file is full of free entries");
        assert_eq!((blank.state, blank.next), (EntryState::Free, None));
    }

    #[test]
    fn sealed_numbers_notice_flipped_bits() {
        for value in [1, 4711, SEALED_MAX] {
            let word = seal(10, value);
            assert_eq!(unseal(10, word), Some(value));
            let noticed = (0..64).filter(|bit| unseal(10, word ^ (1 << bit)).is_none()).count();
            assert_eq!(noticed, 64);
        }
        assert_eq!(unseal(3, 0), Some(0));
    }
}
