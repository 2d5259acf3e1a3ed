//! Name under which an object is stored: its full key, and a keyed hash that stands for the key.
//!
//! The hash finds an object in a table; the full key is compared before anything is joined, found
//! or removed. Two keys with one hash therefore cost a miss and never a wrong body. Nobody outside
//! can choose two keys with one hash, or many keys for one bucket. The hash is SipHash-1-3 under a
//! secret (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012). The standard
//! library uses SipHash-1-3 for the same purpose. Its 64 bits are the low half of a key; a
//! bijection that mixes makes the high half from them. Among 100 million keys, two share a hash
//! with a chance of 1 in 4,000.
//!
//! The secret belongs to the process. The binary draws the secret, or takes the one of its store,
//! and [installs](KeySecret::install) it before the first key is made. In simulations and tests
//! nothing is installed and the secret is zero, so that the same input gives the same result.
//!
//! Cost: 17 instructions for each 8 bytes, plus 90. A library's version takes 80 more, for a state
//! that accepts input in pieces; a whole lookup in RAM takes 4,000.

use crate::mixed;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Keyed hash of a full key, in two halves of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    /// Hashes a full key under the secret of the process.
    #[inline]
    pub fn of(full: &[u8]) -> Self {
        KeySecret::installed().key(full)
    }

    /// Hashes a full key with XXH3-128, which has no secret. Used for keys that may be public,
    /// where a collision benefits nobody. Such keys are stores of earlier versions, numbers of
    /// nodes and disks, and the choice of an upstream.
    pub fn unkeyed(full: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(full))
    }

    /// Decodes a key from 16 little-endian bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Returns the 16 bytes, little-endian, as stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Returns the low 64 bits, uniform enough to choose a bucket or a shard.
    pub fn low(self) -> u64 {
        self.0 as u64
    }

    /// Returns the high 64 bits, equally uniform. A few of these bits tell nothing about a few bits
    /// of [`Key::low`].
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Secret of keyed hashes: 128 random bits that nobody outside the node knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeySecret([u64; 2]);

impl KeySecret {
    /// Makes a secret of these random bits.
    pub fn new(random: [u8; 16]) -> Self {
        let (low, high) = random.split_at(8);
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes"));
        Self([word(low), word(high)])
    }

    /// Returns the secret's bytes. They may be stored only where the node's user alone reads them.
    pub fn to_bytes(self) -> [u8; 16] {
        let [low, high] = self.0;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// Secret of a process in which no secret is installed.
    pub const NONE: Self = Self([0; 2]);

    /// Makes this the secret of all keys of the process. Call it before the first key is made;
    /// later calls change nothing.
    pub fn install(self) {
        INSTALLED.get_or_init(|| self);
    }

    /// Returns the secret of the keys of this process.
    #[inline]
    pub fn installed() -> Self {
        INSTALLED.get().copied().unwrap_or(Self::NONE)
    }

    /// Returns the keyed hash of a full key.
    #[inline]
    pub fn key(self, full: &[u8]) -> Key {
        let low = sip_hash(self.0, full);
        Key(u128::from(low) | u128::from(mixed(low)) << 64)
    }
}

/// SipHash-1-3: one round for each eight bytes, three at the end.
#[inline]
fn sip_hash([low, high]: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        low ^ u64::from_be_bytes(*b"somepseu"),
        high ^ u64::from_be_bytes(*b"dorandom"),
        low ^ u64::from_be_bytes(*b"lygenera"),
        high ^ u64::from_be_bytes(*b"tedbytes"),
    ];
    let (words, rest) = bytes.as_chunks();
    for word in words {
        state = absorbed(state, u64::from_le_bytes(*word));
    }
    let rest = match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        // The last eight bytes end with the rest.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let [a, b, c, d] = absorbed(state, rest | (bytes.len() as u64) << 56);
    let [a, b, c, d] = round(round(round([a, b, c ^ 0xff, d])));
    a ^ b ^ c ^ d
}

#[inline]
fn absorbed([a, b, c, d]: [u64; 4], word: u64) -> [u64; 4] {
    let [a, b, c, d] = round([a, b, c, d ^ word]);
    [a ^ word, b, c, d]
}

/// SipRound (section 2.2).
#[inline]
fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    d = d.rotate_left(21) ^ a;
    b = b.rotate_left(17) ^ c;
    [a, b, c.rotate_left(32), d]
}

/// Hides the secret.
impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

/// Full key together with its hash, computed once.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    hash: Key,
    full: Arc<[u8]>,
}

impl ObjectKey {
    /// Hashes `full` under the secret of the process and keeps both.
    pub fn new(full: impl Into<Arc<[u8]>>) -> Self {
        let full = full.into();
        Self { hash: Key::of(&full), full }
    }

    /// Returns the same full key under another secret.
    pub fn under(&self, secret: KeySecret) -> Self {
        Self { hash: secret.key(&self.full), full: Arc::clone(&self.full) }
    }

    /// Returns the same full key with its hash in stores of earlier versions ([`Key::unkeyed`]).
    pub fn earlier(&self) -> Self {
        Self { hash: Key::unkeyed(&self.full), full: Arc::clone(&self.full) }
    }

    /// Makes an object key from a full key and its stored hash, under any secret.
    pub fn stored(full: impl Into<Arc<[u8]>>, hash: Key) -> Self {
        Self { hash, full: full.into() }
    }

    /// Returns the hash that finds the object in a table.
    pub fn hash(&self) -> Key {
        self.hash
    }

    /// Returns the full key as the object's header holds it.
    pub fn full(&self) -> &[u8] {
        &self.full
    }
}

/// Hashes the keyed hash alone; equality compares the full keys.
impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.hash, String::from_utf8_lossy(&self.full))
    }
}

static INSTALLED: OnceLock<KeySecret> = OnceLock::new();

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;

    #[test]
    fn bytes_round_trip() {
        let key = Key::of(b"GET http://example.org/");
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
        assert_ne!(key, Key::of(b"GET http://example.org/a"));
        let secret = KeySecret::new(*b"sixteen bytes, 1");
        assert_eq!(KeySecret::new(secret.to_bytes()), secret);
    }

    #[test]
    fn hash_is_siphash_1_3_under_the_secret() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(71)).collect();
        for secret in [*b"sixteen bytes, 1", [0; 16], [0xff; 16]] {
            for length in 0..bytes.len() {
                let expected = SipHasher13::new_with_key(&secret).hash(&bytes[..length]);
                assert_eq!(KeySecret::new(secret).key(&bytes[..length]).low(), expected, "{length}");
            }
        }
    }

    #[test]
    fn keys_of_one_hash_differ() {
        let (one, other) = (ObjectKey::new(*b"a"), ObjectKey::new(*b"b"));
        let colliding = ObjectKey::stored(*b"b", one.hash());
        assert!(colliding.hash() == one.hash() && colliding != one && colliding != other);
        assert_eq!(ObjectKey::stored(*b"a", one.hash()), one);
    }
}
