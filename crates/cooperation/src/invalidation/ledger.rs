//! Ledger: the purges that a node has issued and applied.
//!
//! A driver lets arriving purges in, applies those that are due to its cache, writes them down, and
//! then records them here. Only then it acknowledges them. It takes one such turn at a time.
//!
//! A purge ahead of a gap is held back, and is due when the gap is closed. It is not applied early:
//! until it is acknowledged, a peer that lacks it may give a body that it would have removed.

use super::trust::{Coverage, VectorHistory};
use super::vector::{Vector, VectorChange};
use super::{LogLimits, Purge, PurgeId, PurgeLog, Repair, Scope};
use crate::route::NodeId;
use shoal_core::Timestamp;
use std::collections::BTreeMap;

/// Purges that one node has issued and applied.
#[derive(Clone, Debug)]
pub struct PurgeLedger {
    node: NodeId,
    /// This start of the node.
    life: u64,
    /// Last number that this life has issued.
    issued: u64,
    vector: Vector,
    log: PurgeLog,
    limits: LogLimits,
    /// Purges ahead of a gap, not applied.
    held: BTreeMap<PurgeId, Purge>,
    history: VectorHistory,
}

impl PurgeLedger {
    /// Creates the ledger of a start of the node. `vector` and `log` are those of its last start.
    pub fn new(node: NodeId, life: u64, vector: Vector, log: PurgeLog, limits: LogLimits) -> Self {
        let latest = vector.lives_of(node).last().map_or(0, |(life, _)| *life);
        let mut history = VectorHistory::default();
        history.push(vector.hash());
        let life = life.max(latest + 1);
        assert_eq!(vector.number(node, life), 0, "a life that was used before");
        Self { node, life, issued: 0, vector, log, limits, held: BTreeMap::new(), history }
    }

    /// Returns the node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the number of this start.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Returns the last number that this life has issued.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Returns the vector.
    pub fn vector(&self) -> &Vector {
        &self.vector
    }

    /// Returns the log.
    pub fn log(&self) -> &PurgeLog {
        &self.log
    }

    /// Returns the hash of the vector as it will be once these purges are recorded. A node shows it
    /// to peers from before it applies the purges: a peer that lacks them then gives no body.
    pub fn hash_with(&self, purges: &[Purge]) -> u64 {
        let mut vector = self.vector.clone();
        for purge in purges {
            let _ = vector.advance(purge.id, &purge.scope);
        }
        vector.hash()
    }

    /// Numbers a purge of this node. The first purge of a life is preceded by the life's start.
    /// `is_caught_up` says that the node has compared with every member in this life: it then knows
    /// the last numbers of its earlier lives that anybody has.
    pub fn issue(&mut self, scope: Scope, is_caught_up: bool) -> Vec<Purge> {
        let mut purges = Vec::new();
        if self.issued == 0 {
            // Peers may know a later life, if this node's clock went back.
            let latest = self.vector.lives_of(self.node).last().map_or(0, |(life, _)| *life);
            self.life = self.life.max(latest + 1);
            let ended = if is_caught_up { self.vector.lives_of(self.node) } else { Vec::new() };
            purges.push(self.number(Scope::Start { ended }));
        }
        purges.push(self.number(scope));
        purges
    }

    /// Takes back the numbers of purges that were not recorded. With a gap, every later purge of
    /// this life would be held back everywhere.
    pub fn withdraw(&mut self) {
        self.issued = self.vector.number(self.node, self.life);
    }

    fn number(&mut self, scope: Scope) -> Purge {
        self.issued += 1;
        let purge = Purge { id: PurgeId { origin: self.node, life: self.life, number: self.issued }, scope };
        debug_assert!(purge.is_sound(), "a purge that cannot be sent");
        purge
    }

    /// Lets arriving purges in. Returns those that are due, each life in the order of its numbers:
    /// they are to be applied, written down and recorded before the next call. Purges that the
    /// vector cannot hold are among them: applying them does no harm.
    pub fn admit(&mut self, purges: Vec<Purge>) -> Vec<Purge> {
        let mut due: Vec<Purge> = Vec::new();
        let mut latest: BTreeMap<(NodeId, u64), u64> = BTreeMap::new();
        for purge in purges {
            let id = purge.id;
            if self.is_forged(id) || self.vector.has(id) {
                continue;
            }
            if !self.vector.has_room(id.origin) {
                due.push(purge);
                continue;
            }
            let known = self.vector.number(id.origin, id.life);
            let last = latest.entry((id.origin, id.life)).or_insert(known);
            if id.number <= *last {
                continue;
            }
            if id.number > *last + 1 {
                if self.held.len() < HELD_MAX {
                    self.held.insert(id, purge);
                }
                continue;
            }
            *last = id.number;
            due.push(purge);
            while let Some(next) = self.held.remove(&PurgeId { number: *last + 1, ..id }) {
                *last += 1;
                due.push(next);
            }
        }
        debug_assert!(self.held.len() <= HELD_MAX, "held back without a bound");
        due
    }

    /// Records purges that are applied and written down. `now` is the node's own time. Returns the
    /// most serious change.
    pub fn record(&mut self, purges: impl IntoIterator<Item = Purge>, now: Timestamp) -> VectorChange {
        let mut change = VectorChange::Unchanged;
        for purge in purges {
            if self.is_forged(purge.id) {
                continue;
            }
            let recorded = self.vector.advance(purge.id, &purge.scope);
            if matches!(recorded, VectorChange::Advanced | VectorChange::Uncertain) {
                self.log.push(purge, now, &self.limits);
                self.history.push(self.vector.hash());
            }
            change = if serious(recorded) > serious(change) { recorded } else { change };
        }
        self.held.retain(|id, _| !self.vector.has(*id));
        change
    }

    /// Returns `true` for a purge that this node would have issued, and did not.
    fn is_forged(&self, id: PurgeId) -> bool {
        id.origin == self.node && (id.life, id.number) > (self.life, self.issued)
    }

    /// Takes over a peer's vector. Its purges cannot be had one by one. The caller has
    /// written down that all responses stored so far need validation.
    pub fn take_whole(&mut self, theirs: &Vector) {
        let before = self.vector.clone();
        // This node alone knows the numbers of its own life.
        let _ = self.vector.merge(&theirs.without_lives_from(self.node, self.life));
        self.log.miss(&before, &self.vector);
        self.held.retain(|id, _| !self.vector.has(*id));
        self.history.push(self.vector.hash());
    }

    /// Returns the purges that a peer with this vector lacks, in at most `bytes`.
    pub fn repair(&self, theirs: &Vector, bytes: usize) -> Repair {
        self.log.repair(&self.vector, theirs, bytes)
    }

    /// Judges the vector of a peer that asks for a body, by its hash.
    pub fn coverage(&self, hash: u64) -> Coverage {
        self.history.coverage(hash)
    }

    /// Remembers a peer's vector for later asks with its hash, if this node covers it.
    pub fn note_covered(&mut self, theirs: &Vector) {
        if self.vector.covers(theirs) {
            self.history.push(theirs.hash());
        }
    }

    /// Lets go of log entries that are too old.
    pub fn trim(&mut self, now: Timestamp) {
        self.log.trim(now, &self.limits);
    }
}

fn serious(change: VectorChange) -> u8 {
    match change {
        VectorChange::Unchanged => 0,
        VectorChange::Advanced => 1,
        VectorChange::Full => 2,
        VectorChange::Uncertain => 3,
    }
}

/// Most purges that are held back.
const HELD_MAX: usize = 4096;
