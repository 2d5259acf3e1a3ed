//! Version of a registry's index.

use shoal_core::Timestamp;

/// The index of a registry, as this node last saw it.
#[derive(Default)]
pub struct IndexVersion {
    /// Validator of the index.
    pub validator: Vec<u8>,
    /// Time since which the index has this validator.
    pub since: Timestamp,
}
