//! The name under which an object is stored: its full key, and the hash that stands for it.
//!
//! The hash addresses the index; the full key stands in the object's own header and is compared on
//! every open, so that two keys with one hash cost a miss and never a wrong body.

use std::fmt;
use std::sync::Arc;

/// The 128-bit hash of a full key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    /// Hashes a full key with xxh3-128.
    pub fn of(full: &[u8]) -> Self {
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

/// A full key together with its hash, computed once.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    hash: Key,
    full: Arc<[u8]>,
}

impl ObjectKey {
    /// Hashes `full` and keeps both.
    pub fn new(full: impl Into<Arc<[u8]>>) -> Self {
        let full = full.into();
        Self { hash: Key::of(&full), full }
    }

    /// The hash that addresses the index.
    pub fn hash(&self) -> Key {
        self.hash
    }

    /// The full key as it stands in the object's header.
    pub fn full(&self) -> &[u8] {
        &self.full
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.hash, String::from_utf8_lossy(&self.full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        let key = Key::of(b"GET http://example.org/");
        assert_eq!(Key::from_bytes(key.to_bytes()), key);
        assert_ne!(key, Key::of(b"GET http://example.org/a"));
    }
}
