//! The history as bytes, to be kept over a restart.
//!
//! ```text
//!   "SHOALHI1"  8
//!   each level, the finest first:
//!     step in seconds  u32
//!     entries  u32
//!     step number of the newest entry since 1970  u64
//!     entries, the oldest first: a value of each series  f32
//!   XXH3-64 of all before  u64
//! ```
//!
//! All numbers are little-endian. An unknown value is NaN. Bytes in any doubt are refused as a
//! whole, and the history begins empty. A step that is not whole is not kept.

use super::{History, Level, SERIES, STEPS, Sample};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Reason why bytes are no history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryFileError {
    /// Another format, or another version.
    OtherFormat,
    /// The checksum does not match.
    Corrupt,
    /// A length or a number is out of its range.
    OutOfRange,
}

impl History {
    /// Encodes all whole steps.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for level in &self.levels {
            bytes.extend_from_slice(&(level.step_s as u32).to_le_bytes());
            bytes.extend_from_slice(&(level.entries.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&level.newest.to_le_bytes());
            for value in level.entries.iter().flatten() {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        debug_assert!(bytes.len() <= Self::BYTES_MAX);
        bytes
    }

    /// Decodes a history at `unix_s`. Entries of later times are dropped: the clock was wrong.
    ///
    /// # Errors
    /// If the bytes are in any doubt.
    pub fn from_bytes(bytes: &[u8], unix_s: u64) -> Result<Self, HistoryFileError> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(HistoryFileError::OutOfRange);
        }
        let (content, sum) = bytes.split_last_chunk().ok_or(HistoryFileError::OtherFormat)?;
        let mut rest = content.strip_prefix(MAGIC).ok_or(HistoryFileError::OtherFormat)?;
        if xxh3_64(content) != u64::from_le_bytes(*sum) {
            return Err(HistoryFileError::Corrupt);
        }
        let mut history = Self::default();
        for level in &mut history.levels {
            rest = level.read(rest).ok_or(HistoryFileError::OutOfRange)?;
            level.forget_from(unix_s / level.step_s + 1);
        }
        if !rest.is_empty() {
            return Err(HistoryFileError::OutOfRange);
        }
        history.invariants();
        Ok(history)
    }

    /// Largest length of the bytes.
    pub const BYTES_MAX: usize = {
        let (mut at, mut bytes) = (0, MAGIC.len() + 8);
        while at < STEPS.len() {
            bytes += LEVEL_HEAD_BYTES + STEPS[at].1 * size_of::<Sample>();
            at += 1;
        }
        bytes
    };
}

impl Level {
    /// Reads the level and returns the rest of the bytes.
    fn read<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (step_s, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (newest, rest) = rest.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        let newest = u64::from_le_bytes(*newest);
        // Multiplied by a step, the number must stay a time.
        let is_sound = u64::from(u32::from_le_bytes(*step_s)) == self.step_s
            && count <= self.kept
            && newest <= u64::from(u32::MAX) * 16
            && count as u64 <= newest + 1;
        if !is_sound {
            return None;
        }
        let (entries, rest) = rest.split_at_checked(count * size_of::<Sample>())?;
        let (values, _) = entries.as_chunks::<4>();
        for entry in values.chunks_exact(SERIES.len()) {
            let entry: Sample = std::array::from_fn(|at| f32::from_le_bytes(entry[at]));
            if entry.iter().any(|value| !(value.is_nan() || (value.is_finite() && *value >= 0.0))) {
                return None;
            }
            self.entries.push_back(entry);
        }
        self.newest = newest;
        Some(rest)
    }
}

impl fmt::Display for HistoryFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherFormat => "not a history of this version",
            Self::Corrupt => "its checksum does not match",
            Self::OutOfRange => "a number in it is out of range",
        })
    }
}

impl std::error::Error for HistoryFileError {}

const MAGIC: &[u8] = b"SHOALHI1";

/// Bytes of a level before its entries.
const LEVEL_HEAD_BYTES: usize = 16;
