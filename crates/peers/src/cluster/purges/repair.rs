//! Repair: comparing vectors with members, and pulling the purges that this node lacks.

use super::turn::TurnJob;
use super::{ALONE_FOR, ClusterPurges};
use shoal_cooperation::invalidation::{Message, Repair, Vector};
use shoal_cooperation::{Member, MemberState, NodeId, View};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tokio::sync::oneshot;

impl ClusterPurges {
    /// Compares with a random member, and with those due for the lease.
    pub(super) fn compare_some(self: &Arc<Self>) {
        let members = self.others();
        let drawn = RandomState::new().hash_one(self.node.0) as usize % members.len().max(1);
        self.state.lock().ledger.trim(crate::clock::now());
        let leased = self.due_for_lease(&members);
        for member in members.get(drawn).cloned().into_iter().chain(leased) {
            self.compare_soon(member);
        }
    }

    /// Compares with all members that were not compared with in their lives, or since they were
    /// out.
    pub(super) fn compare_new(self: &Arc<Self>) {
        let new: Vec<NodeId> = {
            let (members, state) = (self.others(), self.state.lock());
            let is_new = |member: &&Member| state.compared.get(&member.id) != Some(&member.life);
            members.iter().filter(is_new).map(|member| member.id).collect()
        };
        if new.is_empty() {
            self.lift_if_caught_up();
        }
        new.into_iter().for_each(|node| self.compare_with_node(node));
    }

    /// Takes a change of the members. Those that came or came back are compared with at once, and
    /// get the purges that they lack: a purge that a cut kept back waits for no tick.
    pub fn members_changed(self: &Arc<Self>, before: &View) {
        {
            let (members, mut state) = (self.others(), self.state.lock());
            let is_known = |member: &Member| {
                let was = before.member(member.id);
                was.is_some_and(|was| was.life == member.life && was.state != MemberState::Out)
            };
            for member in members.iter().filter(|member| !is_known(member)) {
                state.compared.remove(&member.id);
            }
        }
        self.compare_new();
        self.spread_to_all();
    }

    /// Compares with a member, in the background.
    pub(super) fn compare_soon(self: &Arc<Self>, member: Member) {
        let purges = Arc::clone(self);
        self.runtime.spawn(async move { purges.compare(&member).await });
    }

    /// Compares with a node of the view, in the background. A node that asks for this again and
    /// again gets one comparison at a time.
    pub(super) fn compare_with_node(self: &Arc<Self>, node: NodeId) {
        let Some(member) = self.others().into_iter().find(|member| member.id == node) else { return };
        if !self.state.lock().comparing.insert(node) {
            return;
        }
        let purges = Arc::clone(self);
        self.runtime.spawn(async move {
            purges.compare(&member).await;
            let was_noted = purges.state.lock().comparing.remove(&member.id);
            debug_assert!(was_noted, "one comparison at a time on demand");
        });
    }

    /// Compares with the member, and pulls the purges that this node lacks. Returns `true` if this
    /// node now covers the member's vector. For a peer that asks for a body with an unknown hash.
    pub async fn catch_up_with(self: &Arc<Self>, node: NodeId) -> bool {
        let Some(member) = self.others().into_iter().find(|member| member.id == node) else { return false };
        let purges = Arc::clone(self);
        self.runtime.spawn(async move { purges.compare(&member).await }).await.unwrap_or(false)
    }

    async fn compare(&self, member: &Member) -> bool {
        let hash = self.state.lock().ledger.vector().hash();
        let body = Message::Compare { from: self.node, hash }.encode();
        let answer = self.calls.call(member.address, "purges/compare", body.into()).await;
        let theirs = match answer.ok().and_then(|bytes| Message::decode(&bytes)) {
            Some(Message::Same) => None,
            Some(Message::Current { vector, .. }) => Some(vector),
            _ => return false,
        };
        let is_covered = match &theirs {
            None => true,
            Some(vector) => self.catch_up(member, vector).await,
        };
        if !is_covered {
            return false;
        }
        let is_first = {
            let mut state = self.state.lock();
            state.unreached.remove(&member.id);
            let life = state.ledger.life();
            let acked = match &theirs {
                None => state.ledger.vector().number(self.node, life),
                Some(vector) => {
                    state.ledger.note_covered(vector);
                    vector.number(self.node, life)
                }
            };
            if state.compared.len() >= COMPARED_MAX {
                state.compared.clear();
            }
            let is_first = state.compared.insert(member.id, member.life) != Some(member.life);
            drop(state);
            self.note_acked(member.id, acked);
            self.heard(member.id);
            is_first
        };
        if is_first {
            self.lift_if_caught_up();
        }
        let _ = self.jobs.try_send(TurnJob::Compared);
        true
    }

    /// Lifts the demand for validation once all members were compared with.
    fn lift_if_caught_up(&self) {
        let members = self.others();
        let mut state = self.state.lock();
        let is_known = |member: &Member| state.compared.get(&member.id) == Some(&member.life);
        // The membership may still be on its way.
        let is_alone = members.is_empty() && self.started.elapsed() < ALONE_FOR;
        if !state.is_caught_up && !is_alone && members.iter().all(is_known) {
            state.is_caught_up = true;
            self.target.validate_earlier_processes(false);
        }
    }

    /// Pulls until this node covers the vector of the member. Returns `false` if that fails.
    async fn catch_up(&self, member: &Member, theirs: &Vector) -> bool {
        for _ in 0..PULLS_MAX {
            let ours = self.state.lock().ledger.vector().clone();
            if ours.covers(theirs) {
                return true;
            }
            let body = Message::Current { from: self.node, vector: ours }.encode();
            let answer = self.calls.call(member.address, "purges/pull", body.into()).await;
            let (reply, told) = oneshot::channel();
            let job = match answer.ok().and_then(|bytes| Message::decode(&bytes)) {
                Some(Message::Repaired(Repair::Entries { purges, .. })) if !purges.is_empty() => {
                    self.metrics.cluster_purges_repaired.add(purges.len() as u64);
                    TurnJob::Foreign { purges, reply }
                }
                Some(Message::Repaired(Repair::Whole(vector))) => TurnJob::Whole { vector, reply },
                _ => return false,
            };
            if self.jobs.send(job).await.is_err() || !told.await.unwrap_or(false) {
                return false;
            }
        }
        false
    }
}

/// Most pulls of one comparison; the next comparison goes on.
const PULLS_MAX: usize = 64;

/// Most comparisons that are remembered.
const COMPARED_MAX: usize = 4096;
