//! Digests of the other nodes as this one knows them, and the probable holders of a key.

use super::answer::{DigestAnswer, DigestDelta, DigestVersion, WholeDigest};
use super::bloom::Digest;
use crate::route::NodeId;
use shoal_core::Key;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Digests of other nodes. Copies are cheap: the digests are shared.
#[derive(Clone, Debug, Default)]
pub struct KnownDigests {
    nodes: BTreeMap<NodeId, KnownDigest>,
    /// Bytes of all digests.
    bytes: u64,
}

#[derive(Clone, Debug)]
struct KnownDigest {
    digest: Arc<Digest>,
    version: DigestVersion,
    /// Time at which the node last confirmed that this is its newest.
    confirmed: Duration,
}

/// Result of receiving an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum DigestReceipt {
    /// The digest is another one now.
    Changed,
    /// The digest is the newest already, or stays for now.
    Unchanged,
    /// The delta does not fit: the digest is unknown until the node sends it whole.
    Gap,
    /// The digest names nearly every key, or there is no room for it.
    Refused,
    /// The node keeps no digest.
    Off,
}

impl KnownDigests {
    /// Returns the version that is known of a node.
    pub fn version(&self, node: NodeId) -> DigestVersion {
        self.nodes.get(&node).map_or(DigestVersion::default(), |known| known.version)
    }

    /// Returns the digest of a node.
    pub fn digest(&self, node: NodeId) -> Option<&Arc<Digest>> {
        Some(&self.nodes.get(&node)?.digest)
    }

    /// Returns `true` if no digest is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Takes the answer of a node at time `now`. After [`DigestReceipt::Gap`] the next pull gets
    /// the whole.
    pub fn receive(&mut self, from: NodeId, answer: DigestAnswer, now: Duration) -> DigestReceipt {
        match answer {
            DigestAnswer::Off => {
                self.forget(from);
                DigestReceipt::Off
            }
            DigestAnswer::Same => {
                self.nodes.get_mut(&from).into_iter().for_each(|known| known.confirmed = now);
                DigestReceipt::Unchanged
            }
            DigestAnswer::Later => DigestReceipt::Unchanged,
            DigestAnswer::Whole(whole) => self.take_whole(from, whole, now),
            DigestAnswer::Delta(delta) => self.take_delta(from, &delta, now),
        }
    }

    fn take_whole(&mut self, from: NodeId, whole: WholeDigest, now: Duration) -> DigestReceipt {
        self.forget(from);
        let WholeDigest { version, digest, .. } = whole;
        let bytes = digest.shape().bits() / 8;
        if digest.filled() > FILLED_MAX || self.bytes + bytes > BYTES_MAX || self.nodes.len() >= NODES_MAX {
            return DigestReceipt::Refused;
        }
        self.bytes += bytes;
        self.nodes.insert(from, KnownDigest { digest: Arc::new(digest), version, confirmed: now });
        DigestReceipt::Changed
    }

    fn take_delta(&mut self, from: NodeId, delta: &DigestDelta, now: Duration) -> DigestReceipt {
        let before = DigestVersion { life: delta.life, number: delta.from };
        let Some(known) = self.nodes.get_mut(&from) else { return DigestReceipt::Gap };
        let bits = known.digest.shape().bits();
        if known.version == before && delta.flips.iter().all(|bit| u64::from(*bit) < bits) {
            let digest = Arc::make_mut(&mut known.digest);
            delta.flips.iter().for_each(|bit| digest.flip(*bit));
            if digest.sum() == delta.sum && digest.filled() <= FILLED_MAX {
                known.version.number = delta.to;
                known.confirmed = now;
                return DigestReceipt::Changed;
            }
        }
        self.forget(from);
        DigestReceipt::Gap
    }

    /// Forgets the digest of a node.
    pub fn forget(&mut self, node: NodeId) {
        if let Some(known) = self.nodes.remove(&node) {
            self.bytes -= known.digest.shape().bits() / 8;
        }
        debug_assert_eq!(
            self.bytes,
            self.nodes.values().map(|known| known.digest.shape().bits() / 8).sum::<u64>()
        );
    }

    /// Forgets nodes that `is_member` refuses, and digests that nobody has confirmed for too long.
    pub fn keep(&mut self, now: Duration, is_member: impl Fn(NodeId) -> bool) {
        let is_over = |(node, known): (&NodeId, &KnownDigest)| {
            (!is_member(*node) || now.saturating_sub(known.confirmed) > AGE_MAX).then_some(*node)
        };
        let gone: Vec<NodeId> = self.nodes.iter().filter_map(is_over).collect();
        gone.into_iter().for_each(|node| self.forget(node));
    }

    /// Returns the longest time since a node confirmed its digest.
    pub fn age(&self, now: Duration) -> Duration {
        let ages = self.nodes.values().map(|known| now.saturating_sub(known.confirmed));
        ages.max().unwrap_or_default()
    }

    /// Returns the probable holders of a key, the lowest rank first. `rank` returns `None` for a
    /// node that must not be asked, such as this one.
    pub fn holders(&self, key: Key, rank: impl Fn(NodeId) -> Option<u64>) -> [Option<NodeId>; HOLDERS_MAX] {
        let mut best = [(u64::MAX, None); HOLDERS_MAX];
        for (node, _) in self.nodes.iter().filter(|(_, known)| known.digest.contains(key)) {
            let Some(rank) = rank(*node) else { continue };
            let at = best.partition_point(|(other, held)| held.is_some() && *other <= rank);
            if at < HOLDERS_MAX {
                best[at..].rotate_right(1);
                best[at] = (rank, Some(*node));
            }
        }
        best.map(|(_, node)| node)
    }
}

/// Most holders that a miss asks.
pub const HOLDERS_MAX: usize = 2;

/// Share of set bits above which a digest is refused. A sound one has at most 0.4.
const FILLED_MAX: f64 = 0.6;

/// Time after which a digest that nobody confirms is forgotten.
const AGE_MAX: Duration = Duration::from_secs(300);

/// Most digests, and most bytes of all together.
const NODES_MAX: usize = 256;
const BYTES_MAX: u64 = 64 << 20;
