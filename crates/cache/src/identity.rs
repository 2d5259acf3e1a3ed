//! Identity of a stored response, and the number of its renewals.
//!
//! Responses of one URL may arrive within one millisecond with one status, and both modes store
//! under one key. A renewed head must only be combined with its own body. Every response therefore
//! gets its own number on arrival, which its renewed heads keep.

use super::purge_table::Sequence;
use http::StatusCode;
use shoal_core::Timestamp;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Identity of a response. The stored form is [`Identity::BYTES`] bytes, little-endian: the
/// response's number (8), renewals (4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Practically random, so that no two responses share it, from any process.
    response: u64,
    /// Number of the head's renewals since its arrival.
    renewals: u32,
}

impl Identity {
    /// Length of the stored form.
    pub const BYTES: usize = 12;

    /// Creates the identity of a response that has just arrived.
    pub fn unique() -> Self {
        let number = COUNT.fetch_add(1, Relaxed);
        Self { response: SECRET.hash_one(number), renewals: 0 }
    }

    /// Returns the identity of a head stored by earlier versions, which identified responses by
    /// these values.
    pub fn of_unnumbered(requested: Sequence, response_time: Timestamp, status: StatusCode) -> Self {
        let times = requested.number().rotate_left(24) ^ response_time.millis();
        Self { response: times ^ u64::from(status.as_u16()).rotate_left(48), renewals: 0 }
    }

    /// Returns the identity of a head renewed from this one.
    pub fn renewed(self) -> Self {
        Self { renewals: self.renewals.saturating_add(1), ..self }
    }

    /// Returns the response's number.
    pub fn response(self) -> u64 {
        self.response
    }

    /// Returns the number of the head's renewals.
    pub fn renewals(self) -> u32 {
        self.renewals
    }

    /// Encodes the stored form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.response.to_le_bytes());
        bytes[8..].copy_from_slice(&self.renewals.to_le_bytes());
        bytes
    }

    /// Decodes the stored form.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (response, renewals) = bytes.split_at(8);
        Self {
            response: u64::from_le_bytes(response.try_into().expect("eight bytes")),
            renewals: u32::from_le_bytes(renewals.try_into().expect("four bytes")),
        }
    }
}

/// Different in every process.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static COUNT: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_responses_share_one() {
        let (one, other) = (Identity::unique(), Identity::unique());
        assert_ne!(one.response(), other.response());
        assert_eq!(one.renewed().response(), one.response());
        assert_eq!(Identity::from_bytes(&one.renewed().to_bytes()), one.renewed());
    }
}
