//! Digest of this node for others to pull: its newest version, and the changes since earlier ones.
//!
//! Bits inverted by the latest versions are kept, so that an asker with one of these versions gets
//! a delta. Any other asker gets the whole, and so does one for which the delta would be longer.

use super::answer::{DigestAnswer, DigestDelta, DigestVersion, WholeDigest};
use super::bloom::{Digest, DigestShape};
use shoal_core::Key;
use std::collections::VecDeque;

/// Newest digest of this node.
#[derive(Clone, Debug)]
pub struct PublishedDigest {
    version: DigestVersion,
    keys: u64,
    digest: Digest,
    sum: u64,
    /// Bits inverted by the latest versions, the newest last.
    flips: VecDeque<Vec<u32>>,
    /// Sum of their lengths.
    kept_flips: usize,
}

impl PublishedDigest {
    /// Makes the digest of a node that has published nothing in this life.
    pub fn new(life: u64) -> Self {
        let digest = Digest::new(shape_for(0, None));
        let sum = digest.sum();
        let version = DigestVersion { life, number: 0 };
        Self { version, keys: 0, digest, sum, flips: VecDeque::new(), kept_flips: 0 }
    }

    /// Returns the newest version.
    pub fn version(&self) -> DigestVersion {
        self.version
    }

    /// Returns the number of keys in the digest.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Publishes the digest of these keys, at most [`DIGEST_KEYS_MAX`]. Returns `false` if nothing
    /// has changed.
    pub fn publish(&mut self, keys: impl ExactSizeIterator<Item = Key>) -> bool {
        let count = (keys.len() as u64).min(DIGEST_KEYS_MAX);
        let mut digest = Digest::new(shape_for(count, Some(self.digest.shape())));
        keys.take(DIGEST_KEYS_MAX as usize).for_each(|key| digest.insert(key));
        if self.version.number > 0 && digest == self.digest {
            return false;
        }
        if digest.shape() == self.digest.shape() && self.version.number > 0 {
            let flips = digest.differences(&self.digest);
            self.kept_flips += flips.len();
            self.flips.push_back(flips);
        } else {
            self.flips.clear();
            self.kept_flips = 0;
        }
        let most = (digest.shape().bits() / 32) as usize;
        while self.flips.len() > VERSIONS_MAX || self.kept_flips > most {
            self.kept_flips -= self.flips.pop_front().map_or(0, |flips| flips.len());
        }
        self.version.number += 1;
        (self.sum, self.digest, self.keys) = (digest.sum(), digest, count);
        debug_assert_eq!(self.kept_flips, self.flips.iter().map(Vec::len).sum::<usize>());
        true
    }

    /// Returns the answer for an asker that knows this version.
    pub fn since(&self, known: DigestVersion) -> DigestAnswer {
        if self.version.number == 0 || known == self.version {
            return DigestAnswer::Same;
        }
        let whole = || {
            let (version, keys) = (self.version, self.keys);
            DigestAnswer::Whole(WholeDigest { version, keys, digest: self.digest.clone() })
        };
        let behind = self.version.number.saturating_sub(known.number);
        let is_kept =
            known.life == self.version.life && 0 < known.number && known.number < self.version.number;
        if !is_kept || behind > self.flips.len() as u64 {
            return whole();
        }
        let missed = self.flips.range(self.flips.len() - behind as usize..);
        let mut all: Vec<u32> = missed.flatten().copied().collect();
        all.sort_unstable();
        // A bit inverted twice is as it was.
        let flips: Vec<u32> = all
            .chunk_by(|one, next| one == next)
            .filter(|same| same.len() % 2 == 1)
            .map(|same| same[0])
            .collect();
        if flips.len() as u64 * 32 >= self.digest.shape().bits() {
            return whole();
        }
        let (from, DigestVersion { life, number: to }) = (known.number, self.version);
        DigestAnswer::Delta(DigestDelta { life, from, to, keys: self.keys, sum: self.sum, flips })
    }
}

/// Returns the shape for `keys` keys. The shape of before is kept while it fits well enough, since
/// another shape costs a whole transfer.
fn shape_for(keys: u64, before: Option<DigestShape>) -> DigestShape {
    let rounded = keys.next_power_of_two().clamp(KEYS_MIN, DIGEST_KEYS_MAX);
    let shape = DigestShape::new(rounded, BITS_PER_KEY, HASHES);
    before
        .filter(|before| shape.bits() <= before.bits() && before.bits() <= 4 * shape.bits())
        .unwrap_or(shape)
}

/// Bits for each key at the least: 2.4% of foreign keys are found.
const BITS_PER_KEY: u32 = 8;
const HASHES: u32 = 4;

/// Keys for which a digest has room at the least.
const KEYS_MIN: u64 = 1024;

/// Most keys in a digest, so that the whole fits one message.
pub const DIGEST_KEYS_MAX: u64 = 1_000_000;

/// Most versions to which there is a delta.
const VERSIONS_MAX: usize = 64;

const _: () = assert!(DIGEST_KEYS_MAX * BITS_PER_KEY as u64 / 8 + 64 < super::ANSWER_BYTES_MAX as u64);
