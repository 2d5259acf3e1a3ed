//! Directories: every node knows roughly what each other holds, from digests that they send each
//! other.
//!
//! Fan, Cao, Almeida, Broder, *Summary cache: a scalable wide-area Web cache sharing protocol*,
//! SIGCOMM 1998 and IEEE/ACM Transactions on Networking 2000; the directory scheme of Voelker 2000,
//! section 5.3. A node tells the others its digest when the keys that came or went since the last
//! time are a threshold's share of those it holds:
//!
//! ```text
//!   stored, removed ─► own digest ─ threshold ─► update() ─► Update ─► each peer: receive() ─► Applied, or Gap: send whole()
//!   a miss ─► holders(key) ─► ask the first; it does not hold it (a false hit) ─► the next, then the origin
//! ```
//!
//! Digests lie in three ways: by chance (a bit set by other keys), by age (the key has left: a
//! false hit; it has come: a false miss), and never otherwise. An update numbers itself, and one
//! that does not follow the last is a gap: the peer's digest is dropped rather than bent. So is one
//! that tells of another life, since a node that began anew numbers from the start, and one that
//! names bits that its digest does not have. Updates are the bits that turned over, or the whole
//! digest where that is shorter.
//!
//! Costs O(hashes) for each key that comes or goes, O(nodes · hashes) a lookup, O(bits/64) an
//! update. Fits where asking a node in vain is cheap beside the origin; messages grow with the
//! square of the nodes.

mod bloom;

#[cfg(test)]
mod tests;

pub use bloom::{Digest, DigestShape};

use crate::route::NodeId;
use bloom::CountingFilter;
use shoal_core::Key;
use std::collections::BTreeMap;

/// What a node holds and what it knows of its peers.
#[derive(Clone, Debug)]
pub struct Directory {
    own: CountingFilter,
    /// What the peers know of us.
    told: Digest,
    held: u64,
    /// Keys that came or went since the last update.
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

/// What a node tells all its peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The life of the node that tells it: from its start, with nothing held, to its end.
    pub life: u64,
    /// Its number: one more than that of the update before.
    pub sequence: u64,
    /// What it tells.
    pub body: UpdateBody,
}

/// What an update tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpdateBody {
    /// All of the digest.
    Whole(Digest),
    /// The bits that turned over since the update before.
    Flips(Vec<u32>),
}

/// What became of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum UpdateOutcome {
    /// The peer's digest is up to date.
    Applied,
    /// An update is missing, and nothing is known of the peer until it sends its whole digest.
    Gap,
    /// It is older than what is known, and tells nothing.
    Old,
}

impl Update {
    /// Its size on the wire, in bytes: a head of 16 (life and number), and 4 for each bit or one
    /// for eight of all.
    pub fn bytes(&self) -> u64 {
        16 + match &self.body {
            UpdateBody::Whole(digest) => digest.shape().bits() / 8,
            UpdateBody::Flips(flips) => flips.len() as u64 * 4,
        }
    }
}

impl Peer {
    /// Whether these flips are the next that it tells of its digest.
    fn is_followed_by(&self, sequence: u64, flips: &[u32]) -> bool {
        let bits = self.digest.shape().bits();
        self.sequence.checked_add(1) == Some(sequence) && flips.iter().all(|bit| u64::from(*bit) < bits)
    }
}

impl Directory {
    /// A node that holds nothing and knows of no peer. It tells the others when changes exceed this
    /// share of what it holds; at 0 after every change. Its life is any number that it has not had
    /// before, such as a random one; lives are not in order, and need no clock.
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

    /// A key came that was not in.
    pub fn stored(&mut self, key: Key) {
        self.own.insert(key);
        self.held += 1;
        self.changes += 1;
    }

    /// A key left that was in.
    pub fn removed(&mut self, key: Key) {
        self.own.remove(key);
        self.held = self.held.saturating_sub(1);
        self.changes += 1;
    }

    /// What the peers are to be told now, if it is time.
    pub fn update(&mut self) -> Option<Update> {
        let due = self.changes > 0 && self.changes as f64 >= self.threshold * self.held as f64;
        due.then(|| self.publish())
    }

    /// Our whole digest as it was told last, for a peer that is new or lost an update.
    pub fn whole(&self) -> Update {
        self.telling(UpdateBody::Whole(self.told.clone()))
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
            self.telling(UpdateBody::Flips(flips))
        } else {
            self.whole()
        }
    }

    fn telling(&self, body: UpdateBody) -> Update {
        Update { life: self.life, sequence: self.sequence, body }
    }

    /// What a peer tells. The caller answers a gap by asking the peer for its whole digest.
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

    /// A peer is gone, or came back empty: nothing is known of it.
    pub fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Peers that seem to hold a key, by name.
    pub fn holders(&self, key: Key) -> impl Iterator<Item = NodeId> {
        self.peers.iter().filter(move |(_, peer)| peer.digest.contains(key)).map(|(node, _)| *node)
    }

    /// Keys that we hold.
    pub fn held(&self) -> u64 {
        self.held
    }
}
