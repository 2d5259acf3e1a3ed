//! The secret that keeps records out which somebody else made.

use shoal_core::KeySecret;

/// The secret with which the checks of records are sealed. A body may hold whatever its origin likes, a record for somebody else's URL too, and an index
/// that is older than the log may lead to it. Nobody outside ever sees a check, and so it is enough that he cannot tell one in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal(KeySecret);

impl Seal {
    /// Made of the secret by which the store's keys are hashed.
    pub(super) fn new(secret: KeySecret) -> Self {
        Self(secret)
    }

    /// What stands in a record for this check: SipHash-1-3 of it and a word that no key begins with.
    pub(super) fn check(self, check: u64) -> u64 {
        let mut bytes = *b"\0record\0\0\0\0\0\0\0\0\0";
        bytes[8..].copy_from_slice(&check.to_le_bytes());
        self.0.key(&bytes).low()
    }
}
