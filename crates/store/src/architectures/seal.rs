//! Secret that keeps out forged records.

use super::signature::{self, Signature};
use crate::Error;
use crate::fs::FileSystem;
use shoal_core::KeySecret;

/// Secret that seals the checks of records. A body holds any bytes that its origin chooses, even a
/// record for another site's URL. An index older than the records may lead to such bytes. Checks
/// never leave the node, so it suffices that no outsider can predict one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal(KeySecret);

impl Seal {
    /// Makes the seal from the secret that hashes the store's keys. A store of an earlier version
    /// is about to get the secret of this process.
    pub(super) fn of(files: &dyn FileSystem) -> Result<Self, Error> {
        let signature = Signature::read(files)
            .map_err(|error| Error::Unusable(format!("could not read {}: {error}", signature::PATH)))?;
        let keys = signature.and_then(|signature| signature.keys);
        Ok(Self::new(keys.map_or_else(KeySecret::installed, |keys| keys.secret)))
    }

    /// Makes the seal from `secret`.
    pub(super) fn new(secret: KeySecret) -> Self {
        Self(secret)
    }

    /// Returns the check word of the record of `number`: SipHash-1-3 of the number and a word with
    /// which no key begins.
    pub(super) fn check(self, number: u64) -> u64 {
        let mut bytes = *b"\0record\0\0\0\0\0\0\0\0\0";
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        self.0.key(&bytes).low()
    }
}
