//! The secret that keeps records out which somebody else made.

use super::signature::{self, Signature};
use crate::Error;
use crate::fs::FileSystem;
use shoal_core::KeySecret;

/// The secret with which the checks of records are sealed. A body may hold whatever its origin
/// likes, a record for somebody else's URL too, and an index that is older than the records may
/// lead to it. Nobody outside ever sees a check, and so it is enough that he cannot tell one in
/// advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal(KeySecret);

impl Seal {
    /// Made of the secret by which the store's keys are hashed. A store of an earlier version is
    /// about to get this process's.
    pub(super) fn of(files: &dyn FileSystem) -> Result<Self, Error> {
        let signature = Signature::read(files)
            .map_err(|error| Error::Unusable(format!("could not read {}: {error}", signature::PATH)))?;
        let keys = signature.and_then(|signature| signature.keys);
        Ok(Self::new(keys.map_or_else(KeySecret::installed, |keys| keys.secret)))
    }

    /// Made of this secret.
    pub(super) fn new(secret: KeySecret) -> Self {
        Self(secret)
    }

    /// What stands in a record for this number: SipHash-1-3 of it and a word that no key begins
    /// with.
    pub(super) fn check(self, number: u64) -> u64 {
        let mut bytes = *b"\0record\0\0\0\0\0\0\0\0\0";
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        self.0.key(&bytes).low()
    }
}
