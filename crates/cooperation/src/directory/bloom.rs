//! Digests: sets of keys in a few bits each, which may say that they hold what they do not, and
//! never the reverse.
//!
//! Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 1970. A node counts
//! how many of its keys set each bit, so that keys can leave (Fan, Cao, Almeida, Broder, *Summary
//! cache*, IEEE/ACM Transactions on Networking 2000): counters of four bits, which stick when they
//! are full. With b bits a key and h hashes a key that is not in is found with probability about (1
//! − e^(−h/b))^h: 2.4% for 8 bits and 4 hashes, 0.24% for 16. O(hashes) an operation; a node's own
//! digest takes five bits of memory where a peer's copy takes one.

use shoal_core::Key;

/// How large a digest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestShape {
    /// Words of 64 bits.
    words: u32,
    /// Bits that a key sets.
    hashes: u32,
}

impl DigestShape {
    /// So many bits for each of so many keys, and so many hashes, each at least one and at most 32;
    /// 2^32 bits at most.
    pub fn new(keys: u64, bits_per_key: u32, hashes: u32) -> Self {
        let bits = keys.saturating_mul(u64::from(bits_per_key.clamp(1, 32)));
        let words = bits.div_ceil(64).clamp(1, MOST_WORDS) as u32;
        Self { words, hashes: hashes.clamp(1, 32) }
    }

    /// All its bits.
    pub fn bits(self) -> u64 {
        u64::from(self.words) * 64
    }

    /// The bits of a key: double hashing with the halves of its hash (Kirsch and Mitzenmacher
    /// 2008).
    fn bits_of(self, key: Key) -> impl Iterator<Item = u32> {
        let (first, step, bits) = (key.low(), key.high() | 1, self.bits());
        (0..u64::from(self.hashes)).map(move |index| {
            let hash = first.wrapping_add(index.wrapping_mul(step));
            let bit = (u128::from(hash) * u128::from(bits)) >> 64;
            debug_assert!(bit < u128::from(bits));
            bit as u32
        })
    }
}

/// A digest of what a node held when it was told last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    shape: DigestShape,
    words: Vec<u64>,
}

impl Digest {
    /// The digest of nothing.
    pub fn new(shape: DigestShape) -> Self {
        Self { shape, words: vec![0; shape.words as usize] }
    }

    /// Its size.
    pub fn shape(&self) -> DigestShape {
        self.shape
    }

    /// Whether a key may be in.
    pub fn contains(&self, key: Key) -> bool {
        self.shape.bits_of(key).all(|bit| self.words[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    /// Turns a bit over; bits beyond the end are ignored.
    pub(super) fn flip(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(bit as usize / 64) {
            *word ^= 1 << (bit % 64);
        }
    }

    /// The bits in which two digests of one shape differ, by number.
    pub(super) fn differences(&self, other: &Self) -> Vec<u32> {
        let mut differences = Vec::new();
        for (index, (ours, theirs)) in self.words.iter().zip(&other.words).enumerate() {
            let mut left = ours ^ theirs;
            while left != 0 {
                differences.push(index as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        differences
    }

    /// The share of bits that are set: the probability that a hash of a strange key finds its bit
    /// set.
    pub fn filled(&self) -> f64 {
        let set: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        set as f64 / self.shape.bits() as f64
    }
}

/// A node's own keys, counted.
#[derive(Clone, Debug)]
pub(super) struct CountingFilter {
    pub digest: Digest,
    /// Two counters of four bits in a byte, one for each bit of the digest.
    counters: Vec<u8>,
}

impl CountingFilter {
    pub fn new(shape: DigestShape) -> Self {
        Self { digest: Digest::new(shape), counters: vec![0; shape.bits() as usize / 2] }
    }

    pub fn insert(&mut self, key: Key) {
        for bit in self.digest.shape.bits_of(key) {
            let count = self.count(bit);
            if count == 0 {
                self.digest.flip(bit);
            }
            self.set(bit, (count + 1).min(FULL));
            debug_assert!(self.count(bit) > count || count == FULL);
        }
    }

    /// The key must be in. A full counter no longer knows its count and stays.
    pub fn remove(&mut self, key: Key) {
        for bit in self.digest.shape.bits_of(key) {
            let count = self.count(bit);
            if count == 1 {
                self.digest.flip(bit);
            }
            if count != FULL {
                self.set(bit, count.saturating_sub(1));
            }
        }
    }

    fn count(&self, bit: u32) -> u8 {
        self.counters[bit as usize / 2] >> (bit % 2 * 4) & FULL
    }

    fn set(&mut self, bit: u32, count: u8) {
        debug_assert!(count <= FULL, "four bits a counter");
        let counter = &mut self.counters[bit as usize / 2];
        *counter = *counter & !(FULL << (bit % 2 * 4)) | count << (bit % 2 * 4);
    }
}

const FULL: u8 = 15;
/// 2^32 bits, so that a bit's number fits a message.
const MOST_WORDS: u64 = 1 << 26;

const _: () = {
    // A bit's number is 32 bits.
    assert!(MOST_WORDS * 64 <= 1 << 32);
    assert!(FULL == 15);
};
