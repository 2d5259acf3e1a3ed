//! Cache digest, version 5, as Squid exchanges it: a Bloom filter over the keys of a cache.
//!
//! ```text
//! 0..2 version 5 | 2..4 required version 3 | 4..8 capacity | 8..12 entries | 12..16 deletions
//! 16..20 bytes of the mask | 20 bits per entry | 21 hash functions | 22..24 0 | 24..128 0
//! 128.. the mask: bit b is byte b / 8, bit b mod 8 from the lowest
//! ```
//!
//! The key is the MD5 of the method's number and the URL. Its four words of 32 bits, each modulo
//! the bits of the mask, are the four bits of an entry. The design is that of Rousskov and Wessels,
//! *Cache Digests*, 1998. Nothing is ever removed from a digest; a new one is built instead.

use crate::reader::Reader;
use md5::{Digest, Md5};
use std::fmt;

/// A digest.
#[derive(Clone, PartialEq, Eq)]
pub struct CacheDigest {
    capacity: u32,
    entries: u32,
    mask: Vec<u8>,
}

/// Reason for refusing a digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DigestError {
    /// Another version, other bits per entry, or another number of hash functions.
    Version,
    /// The sizes in the head contradict each other or the bytes.
    Size,
    /// More bits are set than a digest of a sound size has.
    Full,
}

/// Key of an entry: the MD5 of method and URL.
pub type DigestKey = [u8; 16];

/// Returns the key of a GET of `url`.
pub fn digest_key(url: &str) -> DigestKey {
    let mut hash = Md5::new();
    hash.update([METHOD_GET]);
    hash.update(url.as_bytes());
    hash.finalize().into()
}

impl CacheDigest {
    /// Makes an empty digest that is sound for this number of entries.
    pub fn with_capacity(entries: usize) -> Self {
        let capacity = entries.clamp(CAPACITY_MIN, CAPACITY_MAX) as u32;
        Self { capacity, entries: 0, mask: vec![0; mask_bytes(capacity)] }
    }

    /// Adds a key. Further keys than the capacity are not added.
    pub fn insert(&mut self, key: &DigestKey) {
        if self.entries >= self.capacity {
            return;
        }
        for bit in self.bits(key) {
            self.mask[bit >> 3] |= 1 << (bit & 7);
        }
        self.entries += 1;
    }

    /// Returns `false` if the digest lacks the key; `true` means that the cache may have it.
    pub fn contains(&self, key: &DigestKey) -> bool {
        self.bits(key).iter().all(|bit| self.mask[bit >> 3] & (1 << (bit & 7)) != 0)
    }

    /// Returns the number of entries, as its maker counted them.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the bytes of the digest: its head of [`DIGEST_HEAD_BYTES`], then its mask.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DIGEST_HEAD_BYTES + self.mask.len());
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(REQUIRED_VERSION.to_be_bytes());
        for number in [self.capacity, self.entries, 0, self.mask.len() as u32] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend([BITS_PER_ENTRY as u8, FUNCTIONS as u8]);
        assert!(bytes.len() <= DIGEST_HEAD_BYTES, "the head has room for its numbers");
        bytes.resize(DIGEST_HEAD_BYTES, 0);
        bytes.extend(&self.mask);
        debug_assert_eq!(bytes.len(), DIGEST_HEAD_BYTES + self.mask.len());
        bytes
    }

    /// Returns the length of a whole digest by its head, so that a reader knows when to stop.
    ///
    /// # Errors
    /// If the head is cut or wrong.
    pub fn announced_bytes(head: &[u8]) -> Result<usize, DigestError> {
        let (_, _, mask) = read_head(head)?;
        Ok(DIGEST_HEAD_BYTES + mask)
    }

    /// Reads a whole digest.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn read(bytes: &[u8]) -> Result<Self, DigestError> {
        let (capacity, entries, mask_len) = read_head(bytes)?;
        let mask = &bytes[DIGEST_HEAD_BYTES..];
        if mask.len() != mask_len {
            return Err(DigestError::Size);
        }
        let set: u64 = mask.iter().map(|byte| u64::from(byte.count_ones())).sum();
        if set * 100 > mask.len() as u64 * 8 * FULL_PERCENT {
            return Err(DigestError::Full);
        }
        Ok(Self { capacity, entries, mask: mask.to_vec() })
    }

    fn bits(&self, key: &DigestKey) -> [usize; FUNCTIONS] {
        let bits = self.mask.len() as u64 * 8;
        debug_assert!(bits > 0, "a mask has at least a byte");
        let mut words = key.chunks_exact(4).map(|word| {
            let word = u32::from_be_bytes(word.try_into().expect("four bytes"));
            (u64::from(word) % bits) as usize
        });
        std::array::from_fn(|_| words.next().expect("four words in sixteen bytes"))
    }
}

/// Reads the head: capacity, entries and bytes of the mask.
fn read_head(bytes: &[u8]) -> Result<(u32, u32, usize), DigestError> {
    let mut reader = Reader::new(bytes.get(..DIGEST_HEAD_BYTES).ok_or(DigestError::Size)?);
    let mut fields = || {
        let versions = (reader.u16()?, reader.u16()?);
        let sizes = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        Some((versions, sizes, (reader.u8()?, reader.u8()?)))
    };
    let (versions, (capacity, entries, _deletions, mask), kind) = fields().ok_or(DigestError::Size)?;
    // The required version is the oldest that can read this digest.
    if versions.0 < REQUIRED_VERSION || versions.1 > VERSION {
        return Err(DigestError::Version);
    }
    if kind != (BITS_PER_ENTRY as u8, FUNCTIONS as u8) {
        return Err(DigestError::Version);
    }
    let sound = (1..=CAPACITY_MAX as u32).contains(&capacity) && mask as usize == mask_bytes(capacity);
    if !sound {
        return Err(DigestError::Size);
    }
    Ok((capacity, entries, mask as usize))
}

fn mask_bytes(capacity: u32) -> usize {
    (capacity as usize * BITS_PER_ENTRY).div_ceil(8)
}

impl fmt::Debug for CacheDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheDigest({} of {}, {} bytes)", self.entries, self.capacity, self.mask.len())
    }
}

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the digest is of another version",
            Self::Size => "the sizes of the digest are wrong",
            Self::Full => "too many bits of the digest are set",
        })
    }
}

impl std::error::Error for DigestError {}

/// Path under which Squid looks for a neighbour's digest.
pub const DIGEST_PATH: &str = "/squid-internal-periodic/store_digest";
/// Bytes before the mask.
pub const DIGEST_HEAD_BYTES: usize = 128;
/// Most bytes of a digest that is read or built.
pub const DIGEST_BYTES_MAX: usize = DIGEST_HEAD_BYTES + CAPACITY_MAX * BITS_PER_ENTRY / 8 + 1;
const VERSION: u16 = 5;
const REQUIRED_VERSION: u16 = 3;
const BITS_PER_ENTRY: usize = 5;
const FUNCTIONS: usize = 4;
/// Number of GET among Squid's methods.
const METHOD_GET: u8 = 1;
/// Share of set bits above which a digest says yes to nearly everything.
const FULL_PERCENT: u64 = 65;
const CAPACITY_MIN: usize = 100;
/// Most entries: a mask of 10 MB.
const CAPACITY_MAX: usize = 16_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn key_and_bits_are_those_of_squid() {
        let key = digest_key("http://www.squid-cache.org/");
        let hex: String = key.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(hex, "69677C33244C8D776D1ED1210E07C120");
        let digest = CacheDigest { capacity: 1_000_000, entries: 0, mask: vec![0; 625_000] };
        assert_eq!(digest.bits(&key), [3_389_683, 3_996_727, 736_161, 389_216]);
    }

    #[test]
    fn digest_is_read_as_written() {
        let mut digest = CacheDigest::with_capacity(1000);
        let url = |number: u32| format!("http://a.test/{number}");
        (0..1000).for_each(|number| digest.insert(&digest_key(&url(number))));
        let bytes = digest.write();
        assert_eq!(bytes.len(), DIGEST_HEAD_BYTES + 625);
        assert_eq!(
            &bytes[..24],
            [0, 5, 0, 3, 0, 0, 3, 0xe8, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0, 0, 2, 0x71, 5, 4, 0, 0]
        );
        assert_eq!(CacheDigest::announced_bytes(&bytes[..DIGEST_HEAD_BYTES]), Ok(bytes.len()));
        let read = CacheDigest::read(&bytes).expect("it was written");
        assert_eq!(read, digest);
        assert!((0..1000).all(|number| read.contains(&digest_key(&url(number)))));
        let wrong = (1000..11_000).filter(|number| read.contains(&digest_key(&url(*number)))).count();
        assert!(wrong < 1200, "{wrong} of 10,000 are wrong");
        digest.insert(&digest_key(&url(5000)));
        assert_eq!(digest.entries(), 1000, "beyond its capacity it would say yes to everything");
    }

    #[test]
    fn bad_digests_are_refused() {
        let good = CacheDigest::with_capacity(800).write();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let mut full = good.clone();
        full[DIGEST_HEAD_BYTES..].fill(0xff);
        for (bytes, expected) in [
            (with(1, 2), DigestError::Version),
            (with(3, 6), DigestError::Version),
            (with(20, 6), DigestError::Version),
            (with(21, 3), DigestError::Version),
            (with(4, 0xff), DigestError::Size),
            (with(16, 1), DigestError::Size),
            (with(19, 1), DigestError::Size),
            (good[..good.len() - 1].to_vec(), DigestError::Size),
            ([&good[..], &[0]].concat(), DigestError::Size),
            (good[..100].to_vec(), DigestError::Size),
            (full, DigestError::Full),
        ] {
            assert_eq!(CacheDigest::read(&bytes), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(digest) = CacheDigest::read(&bytes) {
                prop_assert!(digest.write().len() == bytes.len());
            }
        }
    }
}
