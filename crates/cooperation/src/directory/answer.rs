//! Messages about digests: the question for a newer version, and the answers.
//!
//! A pull is `1, node (8), life (8), version (8)`. An answer begins with its version and kind.
//! `docs/FORMATS.md` has the tables. Numbers are little-endian. Each length is bounded before
//! memory is taken, and an answer has exactly one encoding.

use super::bloom::{Digest, DigestShape};
use crate::route::NodeId;
use shoal_core::mixed;

/// Version of a node's digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DigestVersion {
    /// Start of the node. Versions of different lives do not follow each other.
    pub life: u64,
    /// Number of the version in this life, from 1; 0 for none.
    pub number: u64,
}

impl DigestVersion {
    /// Returns a number that tells this version from others; 0 for none.
    pub fn mark(self) -> u64 {
        if self.number == 0 { 0 } else { mixed(self.life ^ mixed(self.number)).max(1) }
    }
}

/// Question for a node's digest, with the version that the asker has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DigestPull {
    /// The asker.
    pub from: NodeId,
    /// Version that the asker knows.
    pub known: DigestVersion,
}

/// Answer to a pull.
#[derive(Clone, PartialEq, Debug)]
pub enum DigestAnswer {
    /// The node keeps no digest: it runs with another placement.
    Off,
    /// The asker has the newest version.
    Same,
    /// There is a newer version, but the node's share of bytes is used up.
    Later,
    /// The digest.
    Whole(WholeDigest),
    /// Changes since the asker's version.
    Delta(DigestDelta),
}

/// A whole digest.
#[derive(Clone, PartialEq, Debug)]
pub struct WholeDigest {
    /// Version of the digest.
    pub version: DigestVersion,
    /// Keys in the digest.
    pub keys: u64,
    /// The digest.
    pub digest: Digest,
}

/// Changes from one version of a digest to a later one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestDelta {
    /// Life of the node.
    pub life: u64,
    /// Version to which the changes apply.
    pub from: u64,
    /// Version that follows.
    pub to: u64,
    /// Keys in the digest that follows.
    pub keys: u64,
    /// Sum of the digest that follows.
    pub sum: u64,
    /// Inverted bits, in ascending order.
    pub flips: Vec<u32>,
}

impl DigestPull {
    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for number in [self.from.0, self.known.life, self.known.number] {
            bytes.extend(number.to_le_bytes());
        }
        debug_assert_eq!(Self::decode(&bytes), Some(*self));
        bytes
    }

    /// Reads the message; `None` if it deviates.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut read = UnreadBytes(bytes);
        read.is_byte(FORMAT)?;
        let (from, life, number) = (NodeId(read.word()?), read.word()?, read.word()?);
        read.end(Self { from, known: DigestVersion { life, number } })
    }
}

impl DigestAnswer {
    /// Writes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.kind()];
        match self {
            Self::Off | Self::Same | Self::Later => {}
            Self::Whole(WholeDigest { version, keys, digest }) => {
                for number in [version.life, version.number, *keys] {
                    bytes.extend(number.to_le_bytes());
                }
                bytes.push(digest.shape().hashes() as u8);
                bytes.extend((digest.words().len() as u32).to_le_bytes());
                bytes.extend(digest.words().iter().flat_map(|word| word.to_le_bytes()));
            }
            Self::Delta(DigestDelta { life, from, to, keys, sum, flips }) => {
                for number in [life, from, to, keys, sum] {
                    bytes.extend(number.to_le_bytes());
                }
                bytes.extend((flips.len() as u32).to_le_bytes());
                bytes.extend(flips.iter().flat_map(|bit| bit.to_le_bytes()));
            }
        }
        assert!(bytes.len() <= ANSWER_BYTES_MAX, "an answer fits a call");
        bytes
    }

    /// Reads the message; `None` if it deviates.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > ANSWER_BYTES_MAX {
            return None;
        }
        let mut read = UnreadBytes(bytes);
        read.is_byte(FORMAT)?;
        match read.byte()? {
            0 => read.end(Self::Off),
            1 => read.end(Self::Same),
            2 => read.end(Self::Later),
            3 => {
                let version = DigestVersion { life: read.word()?, number: read.word()? };
                let (keys, hashes, count) = (read.word()?, read.byte()?, read.half()?);
                let shape = DigestShape::of_words(count, u32::from(hashes))?;
                let words = read.rest(count, u64::from_le_bytes)?;
                (version.number > 0).then_some(())?;
                Some(Self::Whole(WholeDigest { version, keys, digest: Digest::of_words(shape, words) }))
            }
            4 => {
                let [life, from, to, keys, sum] = [(); 5].map(|()| read.word());
                let count = read.half()?;
                let flips = read.rest(count, u32::from_le_bytes)?;
                let (life, from, to, keys, sum) = (life?, from?, to?, keys?, sum?);
                let is_sound = 0 < from && from < to && flips.is_sorted_by(|one, next| one < next);
                is_sound.then_some(Self::Delta(DigestDelta { life, from, to, keys, sum, flips }))
            }
            _ => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Same => 1,
            Self::Later => 2,
            Self::Whole(_) => 3,
            Self::Delta(_) => 4,
        }
    }
}

/// Bytes that are not read yet.
struct UnreadBytes<'a>(&'a [u8]);

impl UnreadBytes<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn is_byte(&mut self, expected: u8) -> Option<()> {
        (self.byte()? == expected).then_some(())
    }

    fn half(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads exactly `count` numbers up to the end.
    fn rest<const N: usize, T>(&self, count: u32, number: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (numbers, rest) = self.0.as_chunks::<N>();
        let is_whole = rest.is_empty() && numbers.len() == count as usize;
        is_whole.then(|| numbers.iter().map(|bytes| number(*bytes)).collect())
    }

    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Version of the messages.
const FORMAT: u8 = 1;

/// Most bytes of an answer: as many as a call between nodes carries.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
