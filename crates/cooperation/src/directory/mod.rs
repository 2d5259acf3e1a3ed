//! Directories: each node knows roughly which keys its peers hold, by digests that the nodes
//! exchange.
//!
//! Fan, Cao, Almeida, Broder, *Summary cache: a scalable wide-area Web cache sharing protocol*,
//! SIGCOMM 1998 and IEEE/ACM Transactions on Networking 2000; the directory scheme of Voelker 2000,
//! section 5.3. A node counts the keys added and removed since its last update. It sends its peers
//! an update when this count reaches a threshold's share of the keys that it holds:
//!
//! ```text
//!   stored, removed ─► own digest ─ threshold ─► update() ─► Update ─► each peer: receive()
//!                                                    ─► Applied, or Gap: send whole()
//!   a miss ─► holders(key) ─► ask the first; after a false hit ask the next, then the origin
//! ```
//!
//! Digests are wrong in two ways only. By chance, other keys have set a key's bits. By age, the key
//! has been removed (a false hit) or added (a false miss) since. Updates are numbered. An update
//! that does not follow the last one is a gap: the peer's digest is dropped rather than corrupted.
//! The same happens with an update of another life, since a restarted node numbers from the start.
//! The same happens with an update that names bits beyond the digest. An update is the list of
//! inverted bits, or the whole digest where that is shorter.
//!
//! The live cluster does not send updates: its nodes pull them. [`PublishedDigest`] is the side of
//! the node that holds the keys, [`KnownDigests`] that of the others, [`DigestAnswer`] the message.
//! [`DigestBudget`] keeps the messages within a share of the traffic. [`DigestTrust`] leaves out a
//! node with digests that name keys in vain.
//!
//! Costs O(hashes) for each added or removed key, O(nodes · hashes) a lookup, O(bits/64) an update.
//! Fits where a request to a node in vain is cheap beside the origin. Messages grow with the square
//! of the nodes.

mod answer;
mod bloom;
mod budget;
mod known;
mod published;

#[cfg(test)]
mod tests;

pub use answer::{ANSWER_BYTES_MAX, DigestAnswer, DigestDelta, DigestPull, DigestVersion, WholeDigest};
pub use bloom::{Digest, DigestShape};
pub use budget::{DigestBudget, DigestTrust};
pub use known::{DigestReceipt, HOLDERS_MAX, KnownDigests};
pub use published::{DIGEST_KEYS_MAX, PublishedDigest};

use crate::route::NodeId;
use bloom::CountingFilter;
use shoal_core::Key;
use std::collections::BTreeMap;

/// Keys that a node holds, and its knowledge of its peers.
#[derive(Clone, Debug)]
pub struct Directory {
    own: CountingFilter,
    /// Digest as the peers know it.
    told: Digest,
    held: u64,
    /// Keys added or removed since the last update.
    changes: u64,
    threshold: f64,
    life: u64,
    sequence: u64,
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Clone, Debug)]
struct Peer {
    digest: Digest,
    life: u64,
    sequence: u64,
}

/// Update that a node sends to all its peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Life of the sender: from its start, with no keys, to its end.
    pub life: u64,
    /// Number of the update: one more than that of the update before.
    pub sequence: u64,
    /// Content of the update.
    pub body: UpdateBody,
}

/// Content of an update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpdateBody {
    /// Whole digest.
    Whole(Digest),
    /// Bits inverted since the update before.
    Flips(Vec<u32>),
}

/// Result of receiving an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum UpdateOutcome {
    /// The peer's digest is up to date.
    Applied,
    /// An update is missing. The peer's digest is unknown until the peer sends it whole.
    Gap,
    /// The update is older than the known digest, and adds nothing.
    Old,
}

impl Update {
    /// Returns the size on the wire in bytes. A head of 16 (life and number), then 4 for each
    /// inverted bit, or one for eight bits of a whole digest.
    pub fn bytes(&self) -> u64 {
        16 + match &self.body {
            UpdateBody::Whole(digest) => digest.shape().bits() / 8,
            UpdateBody::Flips(flips) => flips.len() as u64 * 4,
        }
    }
}

impl Peer {
    /// Returns `true` if these inverted bits follow the known digest directly.
    fn is_followed_by(&self, sequence: u64, flips: &[u32]) -> bool {
        let bits = self.digest.shape().bits();
        self.sequence.checked_add(1) == Some(sequence) && flips.iter().all(|bit| u64::from(*bit) < bits)
    }
}

impl Directory {
    /// Makes a node that holds no keys and knows no peer. It sends an update when changes exceed
    /// this share of its keys; at 0 after every change. Its life is any number that it has not had
    /// before, such as a random one. Lives are not ordered, and need no clock.
    pub fn new(shape: DigestShape, threshold: f64, life: u64) -> Self {
        Self {
            own: CountingFilter::new(shape),
            told: Digest::new(shape),
            held: 0,
            changes: 0,
            threshold: threshold.max(0.0),
            life,
            sequence: 0,
            peers: BTreeMap::new(),
        }
    }

    /// Records a new key, which must not be in the set.
    pub fn stored(&mut self, key: Key) {
        self.own.insert(key);
        self.held += 1;
        self.changes += 1;
    }

    /// Records the removal of a key, which must be in the set.
    pub fn removed(&mut self, key: Key) {
        self.own.remove(key);
        self.held = self.held.saturating_sub(1);
        self.changes += 1;
    }

    /// Returns the update for the peers, if it is due.
    pub fn update(&mut self) -> Option<Update> {
        let due = self.changes > 0 && self.changes as f64 >= self.threshold * self.held as f64;
        due.then(|| self.publish())
    }

    /// Returns the whole digest as of the last update, for a peer that is new or lost an update.
    pub fn whole(&self) -> Update {
        self.update_with(UpdateBody::Whole(self.told.clone()))
    }

    fn publish(&mut self) -> Update {
        let flips = self.own.digest.differences(&self.told);
        for bit in &flips {
            self.told.flip(*bit);
        }
        debug_assert_eq!(self.told, self.own.digest, "others know all of it now");
        self.changes = 0;
        self.sequence += 1;
        if flips.len() as u64 * 32 < self.told.shape().bits() {
            self.update_with(UpdateBody::Flips(flips))
        } else {
            self.whole()
        }
    }

    fn update_with(&self, body: UpdateBody) -> Update {
        Update { life: self.life, sequence: self.sequence, body }
    }

    /// Applies a peer's update. After [`UpdateOutcome::Gap`] the caller asks the peer for its whole
    /// digest.
    pub fn receive(&mut self, from: NodeId, update: Update) -> UpdateOutcome {
        let known = self.peers.get_mut(&from).filter(|peer| peer.life == update.life);
        match (known, update.body) {
            (Some(peer), _) if update.sequence < peer.sequence => UpdateOutcome::Old,
            (_, UpdateBody::Whole(digest)) => {
                self.peers.insert(from, Peer { digest, life: update.life, sequence: update.sequence });
                UpdateOutcome::Applied
            }
            (Some(peer), UpdateBody::Flips(_)) if update.sequence == peer.sequence => UpdateOutcome::Old,
            (Some(peer), UpdateBody::Flips(flips)) if peer.is_followed_by(update.sequence, &flips) => {
                flips.into_iter().for_each(|bit| peer.digest.flip(bit));
                peer.sequence = update.sequence;
                UpdateOutcome::Applied
            }
            (_, UpdateBody::Flips(_)) => {
                self.peers.remove(&from);
                UpdateOutcome::Gap
            }
        }
    }

    /// Forgets a peer that is gone, or came back empty.
    pub fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Returns the peers that seem to hold a key, in the order of their names.
    pub fn holders(&self, key: Key) -> impl Iterator<Item = NodeId> {
        self.peers.iter().filter(move |(_, peer)| peer.digest.contains(key)).map(|(node, _)| *node)
    }

    /// Returns the number of keys that this node holds.
    pub fn held(&self) -> u64 {
        self.held
    }
}
