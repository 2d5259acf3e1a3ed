//! Digests: sets of keys in a few bits each, with false positives but no false negatives.
//!
//! Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 1970. A node counts
//! how many of its keys set each bit, so that keys can be removed. This is due to Fan, Cao,
//! Almeida, Broder, *Summary cache*, IEEE/ACM Transactions on Networking 2000. The counters have
//! four bits, and a full one stays full. With b bits a key and h hashes, a key that is not in the
//! set is found with probability about (1 − e^(−h/b))^h. This is 2.4% for 8 bits and 4 hashes,
//! 0.24% for 16 bits. O(hashes) an operation. A node's own digest takes five bits of memory where a
//! peer's copy takes one.

use shoal_core::Key;

/// Size of a digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestShape {
    /// Words of 64 bits.
    words: u32,
    /// Number of bits that a key sets.
    hashes: u32,
}

impl DigestShape {
    /// Makes a shape of `bits_per_key` bits for each of `keys` keys, and `hashes` hashes, each from
    /// 1 to 32; at most 2^32 bits.
    pub fn new(keys: u64, bits_per_key: u32, hashes: u32) -> Self {
        let bits = keys.saturating_mul(u64::from(bits_per_key.clamp(1, 32)));
        let words = bits.div_ceil(64).clamp(1, MOST_WORDS) as u32;
        Self { words, hashes: hashes.clamp(1, 32) }
    }

    /// Makes a shape of exactly this many words of 64 bits; `None` beyond the limits.
    pub(super) fn of_words(words: u32, hashes: u32) -> Option<Self> {
        let is_sound = (1..=MOST_WORDS).contains(&u64::from(words)) && (1..=32).contains(&hashes);
        is_sound.then_some(Self { words, hashes })
    }

    /// Returns the number of bits that a key sets.
    pub(super) fn hashes(self) -> u32 {
        self.hashes
    }

    /// Returns the number of bits.
    pub fn bits(self) -> u64 {
        u64::from(self.words) * 64
    }

    /// Returns the bits of a key: double hashing with the halves of its hash (Kirsch and
    /// Mitzenmacher 2008).
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

/// Digest of a node's keys at its last update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    shape: DigestShape,
    words: Vec<u64>,
}

impl Digest {
    /// Makes the digest of no keys.
    pub fn new(shape: DigestShape) -> Self {
        Self { shape, words: vec![0; shape.words as usize] }
    }

    /// Makes a digest of these words, as many as the shape has.
    pub(super) fn of_words(shape: DigestShape, words: Vec<u64>) -> Self {
        assert_eq!(words.len(), shape.words as usize, "the words of the shape");
        Self { shape, words }
    }

    /// Returns the words of 64 bits.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a key.
    pub fn insert(&mut self, key: Key) {
        for bit in self.shape.bits_of(key) {
            self.words[bit as usize / 64] |= 1 << (bit % 64);
        }
        debug_assert!(self.contains(key));
    }

    /// Returns a number that differs, with near certainty, for different digests.
    pub fn sum(&self) -> u64 {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Key::unkeyed(&bytes).low()
    }

    /// Returns the size of the digest.
    pub fn shape(&self) -> DigestShape {
        self.shape
    }

    /// Returns `true` if a key may be in the set.
    pub fn contains(&self, key: Key) -> bool {
        self.shape.bits_of(key).all(|bit| self.words[bit as usize / 64] >> (bit % 64) & 1 == 1)
    }

    /// Inverts a bit; bits beyond the end are ignored.
    pub(super) fn flip(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(bit as usize / 64) {
            *word ^= 1 << (bit % 64);
        }
    }

    /// Returns the numbers of the bits in which two digests of one shape differ.
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

    /// Returns the share of set bits, which is the probability that a hash of a foreign key finds
    /// its bit set.
    pub fn filled(&self) -> f64 {
        let set: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        set as f64 / self.shape.bits() as f64
    }
}

/// Counting filter of a node's own keys.
#[derive(Clone, Debug)]
pub(super) struct CountingFilter {
    pub digest: Digest,
    /// Counters of four bits, two in a byte, one for each bit of the digest.
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

    /// Removes a key, which must be in the set. A full counter no longer knows its count and stays
    /// full.
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
/// Largest number of words: 2^32 bits, so that a bit's number fits a message.
const MOST_WORDS: u64 = 1 << 26;

const _: () = {
    // A bit's number is 32 bits.
    assert!(MOST_WORDS * 64 <= 1 << 32);
    assert!(FULL == 15);
};
