//! Keys of a cluster, and the derivations from them.
//!
//! A node knows the other nodes by a key that they share. HKDF (RFC 5869) makes a key for each
//! purpose: one for the datagrams of each sender and life, one for the authority of certificates.
//! The name of the cluster is part of each derivation. Nodes of two clusters that share a file
//! therefore cannot read each other.

mod call;
mod certificates;
mod datagram;
mod file;
mod replay;

pub use call::CallDirection;
pub use certificates::{PeerIdentity, PeerTls, node_name_in, node_name_of};
pub use datagram::{DATAGRAM_BYTES_MAX, DatagramFault, Opener, PlainDatagram, SEAL_BYTES, Sealer};
pub use file::KeyFile;

use crate::ClusterError;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use shoal_core::KeySecret;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One key of a cluster: 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey([u8; 32]);

/// Keys that a node accepts, under the name of its cluster. Without keys, datagrams carry a
/// checksum alone.
#[derive(Clone, Debug)]
pub struct KeyRing {
    cluster: Arc<str>,
    keys: Vec<ClusterKey>,
    placement: Option<[u8; 16]>,
}

impl ClusterKey {
    /// Makes a key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Draws a new key.
    pub fn generate() -> Result<Self, ClusterError> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Derives 32 bytes for a purpose. The parts of `info` have fixed lengths, or come last.
    fn derived(&self, purpose: &'static str, info: &[&[u8]]) -> [u8; 32] {
        let extracted = Salt::new(HKDF_SHA256, SALT).extract(&self.0);
        let mut parts = vec![purpose.as_bytes()];
        parts.extend(info);
        let mut out = [0; 32];
        let expanded = extracted.expand(&parts, ThirtyTwoBytes).and_then(|material| material.fill(&mut out));
        expanded.expect("HKDF gives up to 8,160 bytes");
        out
    }
}

impl KeyRing {
    /// Makes a ring of the keys of a file.
    pub fn new(cluster: impl Into<Arc<str>>, file: &KeyFile) -> Self {
        let (keys, placement) = (file.keys().to_vec(), file.placement());
        assert!(!keys.is_empty() && keys.len() <= KEYS_MAX, "a file has one to eight keys");
        Self { cluster: cluster.into(), keys, placement }
    }

    /// Makes a ring without keys, for nodes on loopback.
    pub fn keyless(cluster: impl Into<Arc<str>>) -> Self {
        Self { cluster: cluster.into(), keys: Vec::new(), placement: None }
    }

    /// Reads the ring of a key file, or makes one without keys.
    pub fn read(cluster: &str, file: Option<&Path>) -> Result<Self, ClusterError> {
        Ok(match file {
            Some(path) => Self::new(cluster, &KeyFile::read(path)?),
            None => Self::keyless(cluster),
        })
    }

    /// Returns `true` if the ring has no keys.
    pub fn is_keyless(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the name of the cluster.
    pub fn cluster(&self) -> &Arc<str> {
        &self.cluster
    }

    /// Returns the keys, the sealing one first.
    pub fn keys(&self) -> &[ClusterKey] {
        &self.keys
    }

    /// Returns the secret under which objects get their homes. Without a line `placement` the
    /// cluster's name gives it.
    pub fn placement_secret(&self) -> KeySecret {
        let from_name = || {
            let derived = ClusterKey([0; 32]).derived("placement", &[self.cluster.as_bytes()]);
            *derived.first_chunk().expect("32 bytes")
        };
        KeySecret::new(self.placement.unwrap_or_else(from_name))
    }

    /// Returns a number that tells keys apart and says nothing about them: of the first key, for
    /// `shoal cluster status`.
    pub fn sealing_key_id(&self) -> u32 {
        self.keys.first().map_or(datagram::KEYLESS, |key| datagram::key_id(key, &self.cluster))
    }
}

/// Hides the key.
impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

/// Length of a derivation.
struct ThirtyTwoBytes;

impl KeyType for ThirtyTwoBytes {
    fn len(&self) -> usize {
        32
    }
}

/// Fills bytes from the system's source of randomness.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), ClusterError> {
    SystemRandom::new().fill(bytes).map_err(|_| ClusterError::Randomness)
}

const SALT: &[u8] = b"shoal cluster 1";

/// Most keys of a file.
pub const KEYS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_stays_through_rotations() {
        let old = KeyFile::generate().expect("randomness");
        let new = old.clone().with_key_added().expect("randomness").with_second_first().expect("two");
        let [one, other] = [&old, &new].map(|file| KeyRing::new("prod", file));
        assert!(one.placement_secret() == other.placement_secret());
        assert_ne!(one.sealing_key_id(), other.sealing_key_id());
        let keyless = |name| KeyRing::keyless(name).placement_secret();
        assert!(keyless("a") == keyless("a") && keyless("a") != keyless("b"));
        assert!(keyless("a") != one.placement_secret());
    }
}
