//! Rules for trusting stored bodies: those of peers, and those of a node that was away.

use crate::route::NodeId;
use shoal_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Hashes of the vectors that a node has had. Its vector only grows, so it covers all of them.
#[derive(Clone, Debug, Default)]
pub struct VectorHistory {
    order: VecDeque<u64>,
    known: BTreeSet<u64>,
}

/// Relation of a node's vector to that of the peer that asks for a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// The node covers the peer's vector: the body may be given.
    Covered,
    /// The node does not know the peer's vector: it compares first, and pulls purges.
    CatchUp,
}

/// Right to serve without validation, as long as a majority of the members was heard lately.
#[derive(Clone, Debug)]
pub struct Lease {
    lasts: Duration,
    heard: BTreeMap<NodeId, Timestamp>,
}

impl VectorHistory {
    /// Adds the hash of the node's current vector.
    pub fn push(&mut self, hash: u64) {
        if !self.known.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > HISTORY_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        debug_assert_eq!(self.order.len(), self.known.len());
    }

    /// Judges a peer's vector by its hash.
    pub fn coverage(&self, theirs: u64) -> Coverage {
        if self.known.contains(&theirs) { Coverage::Covered } else { Coverage::CatchUp }
    }
}

impl Lease {
    /// Creates a lease of which nobody was heard yet. `lasts` is the time after which a member
    /// counts as not heard.
    pub fn new(lasts: Duration) -> Self {
        Self { lasts, heard: BTreeMap::new() }
    }

    /// Notes that a comparison with the member, begun at `begun`, has succeeded.
    pub fn hear(&mut self, member: NodeId, begun: Timestamp) {
        if self.heard.len() < MEMBERS_MAX || self.heard.contains_key(&member) {
            self.heard.insert(member, begun);
        }
    }

    /// Returns `true` if the node and the members heard lately are a majority of all. `others` are
    /// the members without the node itself.
    pub fn holds(&self, others: impl IntoIterator<Item = NodeId>, now: Timestamp) -> bool {
        let is_heard = |member: &NodeId| {
            self.heard.get(member).is_some_and(|at| *at <= now && now.since(*at) <= self.lasts)
        };
        let (mut all, mut heard) = (1, 1);
        for member in others {
            all += 1;
            heard += usize::from(is_heard(&member));
        }
        2 * heard > all
    }
}

/// Returns `true` if a node that last compared at `last`, by its own clock, was away for longer
/// than logs last. A clock that went back says nothing, so the node counts as away.
pub fn absence_needs_validation(last: Option<Timestamp>, now: Timestamp, log_age: Duration) -> bool {
    last.is_none_or(|last| last > now || now.since(last) > log_age)
}

/// Most hashes that a node remembers.
const HISTORY_MAX: usize = 4096;

/// Most members that a lease hears.
const MEMBERS_MAX: usize = 1024;
