//! The name under which an object is stored: its full key, and a keyed hash that stands for it.
//!
//! The hash finds an object in a table; the full key is compared before anything is joined, found or
//! removed. So two keys with one hash cost a miss and never a wrong body. Nobody outside can choose two
//! keys with one hash, or many keys for one bucket, since the hash is SipHash-1-3 with 128 bits under
//! a secret (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012).
//!
//! The secret belongs to the process: the binary draws it, or takes the one of its store, and
//! [installs](KeySecret::install) it before the first key is made. Where nothing is installed, as in
//! simulations and tests, it is zero, so that the same input gives the same result.
//!
//! Cost: 2.2 instructions a byte and 150 more.

use siphasher::sip128::SipHasher13;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The 128-bit keyed hash of a full key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    /// Hashes a full key under the secret of the process.
    pub fn of(full: &[u8]) -> Self {
        KeySecret::installed().key(full)
    }

    /// Hashes a full key with XXH3-128, which has no secret. For what everybody may know and nobody
    /// gains by colliding: stores of earlier versions, numbers of nodes and disks, choice of an upstream.
    pub fn unkeyed(full: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(full))
    }

    /// The key that these 16 little-endian bytes encode.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// The 16 bytes, little-endian, as stored.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The low 64 bits, uniform enough to choose a bucket or a shard by.
    pub fn low(self) -> u64 {
        self.0 as u64
    }

    /// The high 64 bits, independent of [`Key::low`].
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The secret of keyed hashes: 128 random bits that nobody outside the node knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeySecret([u64; 2]);

impl KeySecret {
    /// A secret of these random bits.
    pub fn new(random: [u8; 16]) -> Self {
        let (low, high) = random.split_at(8);
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes"));
        Self([word(low), word(high)])
    }

    /// Its bytes, to be stored where only the node's user reads.
    pub fn to_bytes(self) -> [u8; 16] {
        let [low, high] = self.0;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// The secret of nobody: where none is installed.
    pub const NONE: Self = Self([0; 2]);

    /// Makes it the secret of all keys of this process, before any is made. The first one stays.
    pub fn install(self) {
        INSTALLED.get_or_init(|| self);
    }

    /// The secret of the keys of this process.
    #[inline]
    pub fn installed() -> Self {
        INSTALLED.get().copied().unwrap_or(Self::NONE)
    }

    /// The keyed hash of a full key.
    #[inline]
    pub fn key(self, full: &[u8]) -> Key {
        let [low, high] = self.0;
        Key(SipHasher13::new_with_keys(low, high).hash(full).as_u128())
    }
}

/// Never tells the secret.
impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(..)")
    }
}

/// A full key together with its hash, computed once.
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

    /// The same full key under another secret.
    pub fn under(&self, secret: KeySecret) -> Self {
        Self { hash: secret.key(&self.full), full: Arc::clone(&self.full) }
    }

    /// The same full key as a store of an earlier version knows it: by [`Key::unkeyed`].
    pub fn earlier(&self) -> Self {
        Self { hash: Key::unkeyed(&self.full), full: Arc::clone(&self.full) }
    }

    /// A full key with the hash that it was stored with, under whatever secret that was.
    pub fn stored(full: impl Into<Arc<[u8]>>, hash: Key) -> Self {
        Self { hash, full: full.into() }
    }

    /// The hash that finds the object in a table.
    pub fn hash(&self) -> Key {
        self.hash
    }

    /// The full key as it stands in the object's header.
    pub fn full(&self) -> &[u8] {
        &self.full
    }
}

/// By the keyed hash alone; equality compares the full keys.
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

    #[test]
    fn bytes_round_trip() {
        let key = Key::of(b"GET http://example.org/");
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
        assert_ne!(key, Key::of(b"GET http://example.org/a"));
        let secret = KeySecret::new(*b"sixteen bytes, 1");
        assert_eq!(KeySecret::new(secret.to_bytes()), secret);
    }

    /// Bytes 0 to 14 under bytes 0 to 15, as the paper's own example has them.
    #[test]
    fn hash_is_siphash_1_3_under_the_secret() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8);
        let (one, other) = (KeySecret::new(bytes), KeySecret::new([0; 16]));
        let hash = 0x0901_7e1e_eccd_2129_6c52_bdb2_0555_7ec1_u128;
        assert_eq!(one.key(&bytes[..15]).to_bytes(), hash.to_le_bytes());
        assert_ne!(one.key(b"a"), other.key(b"a"));
    }

    #[test]
    fn keys_of_one_hash_differ() {
        let (one, other) = (ObjectKey::new(*b"a"), ObjectKey::new(*b"b"));
        let colliding = ObjectKey::stored(*b"b", one.hash());
        assert!(colliding.hash() == one.hash() && colliding != one && colliding != other);
        assert_eq!(ObjectKey::stored(*b"a", one.hash()), one);
    }
}
