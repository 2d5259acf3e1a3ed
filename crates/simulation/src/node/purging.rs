//! Purges of this node and of others: written to disk, confirmed and repaired.

use super::{Effect, Mutation, Node, Restart, Surroundings, Timer};
use crate::message::{Message, ObjectId};
use crate::shelf::{Reach, Shelf};
use shoal_cooperation::invalidation::{
    Coverage, LogLimits, Purge, PurgeId, PurgeLedger, PurgeLog, Repair, Scope, Vector, VectorChange,
    absence_needs_validation,
};
use shoal_cooperation::{MemberState, NodeId};
use shoal_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Purges of a node.
#[derive(Debug)]
pub struct PurgeState {
    ledger: PurgeLedger,
    caught_up: bool,
    /// Members that this life has compared with.
    compared: BTreeSet<NodeId>,
    /// Members to count as compared with once the purges under way are written.
    comparing: BTreeMap<u64, NodeId>,
    /// Nodes that compared with this one and may not be in its view yet.
    joiners: BTreeMap<NodeId, Duration>,
    /// Purges of others that wait for their turn.
    arrivals: VecDeque<Arc<Vec<Purge>>>,
    /// Purges of others that are being written.
    admitted: Option<Arc<Vec<Purge>>>,
    /// Applied purges on their way to the disk.
    unwritten: Vec<Arc<Vec<Purge>>>,
    /// Applied purges that the vector does not cover yet: they are being written.
    uncovered: BTreeMap<PurgeId, Reach>,
    /// Purges of this node that wait for confirmations.
    waiting: Vec<WaitingPurges>,
    /// Purges of others to confirm once the vector covers them.
    unconfirmed: BTreeMap<PurgeId, NodeId>,
    /// Time of the last comparison by the node's own clock; on disk.
    last_compared: Option<Timestamp>,
    /// Difference of the node's clock from the run's time.
    clock: Timestamp,
}

#[derive(Debug)]
struct WaitingPurges {
    purges: Arc<Vec<Purge>>,
    /// Nodes that the purges were sent to, with `true` once confirmed.
    sent: BTreeMap<NodeId, bool>,
    until: Duration,
}

impl PurgeState {
    /// Makes the purging of a node's first life. `clock` is the node's time at the run's start.
    pub fn new(node: NodeId, clock: Timestamp) -> Self {
        let ledger = PurgeLedger::new(node, 1, Vector::default(), PurgeLog::default(), LIMITS);
        Self {
            ledger,
            caught_up: true,
            compared: BTreeSet::new(),
            comparing: BTreeMap::new(),
            joiners: BTreeMap::new(),
            arrivals: VecDeque::new(),
            admitted: None,
            unwritten: Vec::new(),
            uncovered: BTreeMap::new(),
            waiting: Vec::new(),
            unconfirmed: BTreeMap::new(),
            last_compared: None,
            clock,
        }
    }

    /// Loses all that is not on disk. Writes under way may have reached the disk, in their order.
    pub(super) fn restart(&mut self, index: usize, shelf: &mut Shelf, life: u64, start: &mut Restart<'_>) {
        let clock = start.clock;
        assert!(life > self.ledger.life(), "each start has a life of its own");
        let written = start.random.index(self.unwritten.len() + 1);
        let unwritten = std::mem::take(&mut self.unwritten);
        for purges in &unwritten[..written] {
            purges.iter().for_each(|purge| shelf.purge(reach(&purge.scope)));
            shelf.purges_are_durable();
            purges.iter().for_each(|purge| start.oracle.purge_durable(index, purge.id));
            let change = self.ledger.record(purges.iter().cloned(), self.clock);
            if change == VectorChange::Uncertain {
                shelf.purge(Reach::All);
                shelf.purges_are_durable();
            }
        }
        if absence_needs_validation(self.last_compared, clock.plus(start.now), LIMITS.age) {
            shelf.purge(Reach::All);
            shelf.purges_are_durable();
        }
        let (vector, log) = (self.ledger.vector().clone(), self.ledger.log().clone());
        let last_compared = self.last_compared;
        *self = Self::new(self.ledger.node(), clock);
        self.ledger = PurgeLedger::new(self.ledger.node(), life, vector, log, LIMITS);
        self.caught_up = false;
        self.last_compared = last_compared;
    }

    /// Returns `true` if the node has compared with all members in this life.
    pub fn is_caught_up(&self) -> bool {
        self.caught_up
    }

    /// Returns the hash of the vector.
    pub fn vector_hash(&self) -> u64 {
        self.ledger.vector().hash()
    }

    /// Returns the vector.
    pub fn vector(&self) -> &Vector {
        self.ledger.vector()
    }

    pub(super) fn coverage(&self, hash: u64) -> Coverage {
        self.ledger.coverage(hash)
    }

    pub(super) fn log_len(&self) -> usize {
        self.ledger.log().len()
    }

    /// Returns `true` if a peer that covers this node's vector has all purges of the object that
    /// this node applied.
    pub(super) fn may_ask_peers(&self, object: ObjectId) -> bool {
        let reaches = |reach: &Reach| *reach == Reach::All || *reach == Reach::Object(object);
        !self.uncovered.values().any(reaches)
    }

    /// Checks the bounds, and that purges under way are on their way to the disk.
    pub(super) fn invariants(&self) {
        assert!(self.unconfirmed.len() <= UNCONFIRMED_MAX, "purges to confirm are bounded");
        assert!(self.arrivals.len() <= ARRIVALS_MAX, "purges that wait are bounded");
        assert!(self.waiting.len() <= WAITING_MAX, "purges without confirmation are bounded");
        let is_unwritten =
            |admitted: &Arc<Vec<Purge>>| self.unwritten.iter().any(|other| Arc::ptr_eq(other, admitted));
        assert!(self.admitted.as_ref().is_none_or(is_unwritten), "admitted purges are being written");
        assert!(self.waiting.iter().all(|waiting| !waiting.purges.is_empty()), "a purge waits, not nothing");
        assert!(self.caught_up || self.ledger.life() > 1, "a first life has nothing to catch up with");
    }

    fn is_idle(&self) -> bool {
        self.unwritten.is_empty() && self.arrivals.is_empty()
    }

    fn forget_covered(&mut self) {
        let vector = self.ledger.vector();
        self.uncovered.retain(|id, _| !vector.has(*id));
    }

    fn time(&self, now: Duration) -> Timestamp {
        self.clock.plus(now)
    }
}

impl Node {
    /// Handles an operator's purge.
    pub fn operator_purges(&mut self, scope: Scope, near: &mut Surroundings<'_>) {
        let purges = self.purging.ledger.issue(scope, self.purging.caught_up);
        for purge in &purges {
            near.oracle.purge_issued(purge.id, reach(&purge.scope), near.now);
        }
        self.apply(Arc::new(purges), near);
    }

    /// Handles purges from another node. One batch of them is written at a time.
    pub fn purges_arrive(&mut self, from: NodeId, purges: &Arc<Vec<Purge>>, near: &mut Surroundings<'_>) {
        let vector = self.purging.ledger.vector();
        let (mut known, new): (Vec<_>, Vec<_>) =
            purges.iter().map(|purge| purge.id).partition(|id| vector.has(*id));
        self.purging.unconfirmed.extend(new.iter().map(|id| (*id, from)));
        while self.purging.unconfirmed.len() > UNCONFIRMED_MAX {
            self.purging.unconfirmed.pop_first();
        }
        if near.mutation == Some(Mutation::ConfirmedBeforeDisk) {
            known.extend(&new);
        }
        self.confirm(from, known, near);
        if !new.is_empty() && self.purging.arrivals.len() < ARRIVALS_MAX {
            self.purging.arrivals.push_back(purges.clone());
        }
        self.admit_next(near);
    }

    fn admit_next(&mut self, near: &mut Surroundings<'_>) {
        while self.purging.admitted.is_none() {
            let Some(arrived) = self.purging.arrivals.pop_front() else { return };
            let due = self.purging.ledger.admit(arrived.to_vec());
            if !due.is_empty() {
                let due = Arc::new(due);
                self.purging.admitted = Some(due.clone());
                self.apply(due, near);
            }
        }
    }

    fn apply(&mut self, purges: Arc<Vec<Purge>>, near: &mut Surroundings<'_>) {
        for purge in purges.iter() {
            let reach = reach(&purge.scope);
            self.shelf.purge(reach);
            if near.mutation != Some(Mutation::FlightsSurvivePurges) {
                self.forget_flights(reach, near);
            }
            self.purging.uncovered.insert(purge.id, reach);
            near.oracle.purge_applied(self.index, purge.id);
        }
        self.purging.unwritten.push(purges.clone());
        near.effects.push(Effect::Write(purges));
    }

    fn forget_flights(&mut self, reach: Reach, near: &mut Surroundings<'_>) {
        let object = match reach {
            Reach::Nothing => return,
            Reach::Object(object) => Some(object),
            Reach::All => None,
        };
        self.forget_entry(object);
        self.forget_home(object, near);
    }

    /// Applies all that may be wrong as one purge of everything.
    fn distrust_all(&mut self, near: &mut Surroundings<'_>) {
        self.shelf.purge(Reach::All);
        self.shelf.purges_are_durable();
        self.forget_flights(Reach::All, near);
    }

    /// Handles purges that are on disk: records them, then sends or confirms them.
    pub fn written(&mut self, purges: &Arc<Vec<Purge>>, near: &mut Surroundings<'_>) {
        self.purging.unwritten.retain(|unwritten| !Arc::ptr_eq(unwritten, purges));
        self.shelf.purges_are_durable();
        for purge in purges.iter() {
            near.oracle.purge_durable(self.index, purge.id);
        }
        let time = self.purging.time(near.now);
        let change = self.purging.ledger.record(purges.iter().cloned(), time);
        self.purging.forget_covered();
        if change == VectorChange::Uncertain {
            self.distrust_all(near);
        }
        if purges
            .first()
            .is_some_and(|purge| (purge.id.origin, purge.id.life) == (self.id, self.purging.ledger.life()))
        {
            self.send_own(purges, near);
        }
        let mut covered: BTreeMap<NodeId, Vec<PurgeId>> = BTreeMap::new();
        let vector = self.purging.ledger.vector();
        self.purging.unconfirmed.retain(|id, from| {
            let has = vector.has(*id);
            if has {
                covered.entry(*from).or_default().push(*id);
            }
            !has
        });
        covered.into_iter().for_each(|(from, ids)| self.confirm(from, ids, near));
        if self.purging.admitted.as_ref().is_some_and(|admitted| Arc::ptr_eq(admitted, purges)) {
            self.purging.admitted = None;
            self.admit_next(near);
        }
        if self.purging.is_idle() {
            let compared = std::mem::take(&mut self.purging.comparing);
            compared.into_values().for_each(|member| self.note_compared(member, near));
        }
    }

    fn send_own(&mut self, purges: &Arc<Vec<Purge>>, near: &mut Surroundings<'_>) {
        let until = near.now + CONFIRM_TIME;
        self.purging.waiting.push(WaitingPurges { purges: purges.clone(), sent: BTreeMap::new(), until });
        if self.purging.waiting.len() > WAITING_MAX {
            self.purging.waiting.remove(0);
        }
        self.settle_waiting(near);
    }

    fn confirm(&mut self, to: NodeId, ids: Vec<PurgeId>, near: &mut Surroundings<'_>) {
        for id in &ids {
            near.oracle.check_durable(self.index, *id);
        }
        if !ids.is_empty() {
            near.effects.push(Effect::Send(to, Message::Confirm(Arc::new(ids))));
        }
    }

    /// Handles a confirmation.
    pub fn confirmed(&mut self, from: NodeId, ids: &[PurgeId], near: &mut Surroundings<'_>) {
        for waiting in &mut self.purging.waiting {
            if waiting.purges.last().is_some_and(|last| ids.contains(&last.id)) {
                waiting.sent.insert(from, true);
            }
        }
        self.settle_waiting(near);
    }

    fn settle_waiting(&mut self, near: &mut Surroundings<'_>) {
        let joiners = self.purging.joiners.keys().copied();
        let members: BTreeSet<_> = self.others().into_iter().chain(joiners).collect();
        let mut done = Vec::new();
        self.purging.waiting.retain_mut(|waiting| {
            // Members that this node learns of in the meantime have to confirm too.
            let is_new = |member: &NodeId| !waiting.sent.contains_key(member);
            let new: Vec<_> = members.iter().copied().filter(is_new).collect();
            for member in &new {
                near.effects.push(Effect::Send(*member, Message::Purges(waiting.purges.clone())));
            }
            waiting.sent.extend(new.into_iter().map(|member| (member, false)));
            let is_done = members.iter().all(|member| waiting.sent[member]);
            if is_done {
                done.extend(waiting.purges.iter().map(|purge| purge.id));
            }
            !is_done && near.now < waiting.until
        });
        if !done.is_empty() {
            near.effects.push(Effect::Confirmed(done));
        }
    }

    /// Compares vectors with other members, and again later.
    pub fn heartbeat(&mut self, near: &mut Surroundings<'_>) {
        near.effects.push(Effect::Wake(HEARTBEAT, Timer::Heartbeat));
        self.compare_with_members(near);
    }

    /// Compares vectors with other members now: at a heartbeat, and when a member comes or is back.
    pub fn compare_with_members(&mut self, near: &mut Surroundings<'_>) {
        self.purging.joiners.retain(|_, since| near.now.saturating_sub(*since) < JOINER_KEPT);
        self.settle_waiting(near);
        let others = self.others();
        if !self.purging.caught_up {
            let mut missing: Vec<_> = others.to_vec();
            missing.retain(|member| !self.purging.compared.contains(member));
            for member in &missing {
                self.ask_for_repair(*member, true, near);
            }
            return self.check_caught_up(near);
        }
        if near.mutation == Some(Mutation::NoRepair) {
            return;
        }
        let compare = Message::Compare(self.purging.vector_hash());
        if others.len() <= COMPARED_ALL {
            return others.iter().for_each(|to| near.effects.push(Effect::Send(*to, compare.clone())));
        }
        for _ in 0..COMPARED_SOME {
            let to = others[near.random.index(others.len())];
            near.effects.push(Effect::Send(to, compare.clone()));
        }
    }

    /// Handles the hash of another node's vector.
    pub fn compare(&mut self, from: NodeId, hash: u64, near: &mut Surroundings<'_>) {
        let time = self.purging.time(near.now);
        if hash == self.purging.vector_hash() {
            self.purging.last_compared = Some(time);
        } else if self.purging.coverage(hash) == Coverage::CatchUp {
            self.ask_for_repair(from, false, near);
        }
    }

    pub(super) fn ask_for_repair(&mut self, to: NodeId, joining: bool, near: &mut Surroundings<'_>) {
        if near.mutation != Some(Mutation::NoRepair) || joining {
            let vector = Arc::new(self.purging.ledger.vector().clone());
            near.effects.push(Effect::Send(to, Message::Lacking { vector, joining }));
        }
    }

    /// Handles the vector of a node that may lack purges.
    pub fn repair(&mut self, from: NodeId, vector: &Vector, joining: bool, near: &mut Surroundings<'_>) {
        if joining {
            self.purging.joiners.insert(from, near.now);
        }
        let (purges, whole, has_more) = match self.purging.ledger.repair(vector, REPAIR_BYTES) {
            Repair::Entries { purges, has_more } => (purges, None, has_more),
            Repair::Whole(whole) => (Vec::new(), Some(Arc::new(whole)), false),
        };
        if joining || whole.is_some() || !purges.is_empty() {
            let purges = Arc::new(purges);
            near.effects.push(Effect::Send(from, Message::Repair { purges, whole, has_more }));
        }
    }

    /// Handles a repair.
    pub fn repaired(
        &mut self,
        from: NodeId,
        (purges, whole, has_more): (&Arc<Vec<Purge>>, Option<&Vector>, bool),
        near: &mut Surroundings<'_>,
    ) {
        if let Some(whole) = whole {
            self.distrust_all(near);
            near.oracle.vector_taken(self.index, whole);
            self.purging.ledger.take_whole(whole);
            self.purging.forget_covered();
        }
        self.purges_arrive(from, purges, near);
        if !has_more && self.purging.is_idle() {
            self.note_compared(from, near);
        } else if !has_more {
            self.purging.comparing.insert(from.0, from);
        }
    }

    fn note_compared(&mut self, member: NodeId, near: &mut Surroundings<'_>) {
        self.purging.last_compared = Some(self.purging.time(near.now));
        if !self.purging.caught_up {
            self.purging.compared.insert(member);
            self.check_caught_up(near);
        }
    }

    fn check_caught_up(&mut self, near: &mut Surroundings<'_>) {
        let complete = self.others().iter().all(|member| self.purging.compared.contains(member));
        if complete && !self.purging.caught_up {
            self.purging.caught_up = true;
            near.effects.push(Effect::CaughtUp);
        }
    }

    /// Returns the other members that may hold copies.
    fn others(&self) -> Vec<NodeId> {
        let members = self.view.members().iter();
        let others = members.filter(|member| member.state != MemberState::Out && member.id != self.id);
        others.map(|member| member.id).collect()
    }
}

/// Returns the scope of a purge of one object.
pub fn scope_of(object: ObjectId) -> Scope {
    use shoal_cooperation::invalidation::Modes;
    Scope::Url { url: object.to_string(), modes: Modes::Both }
}

/// Returns the objects that a purge removes.
fn reach(scope: &Scope) -> Reach {
    match scope {
        Scope::Url { url, .. } => url.parse().map_or(Reach::All, Reach::Object),
        Scope::Start { .. } => Reach::Nothing,
        _ => Reach::All,
    }
}

/// Entries that a log keeps: few, so that runs need whole vectors too.
pub(super) const LOG_ENTRIES: usize = 48;

const LIMITS: LogLimits = LogLimits { entries: LOG_ENTRIES, bytes: 1 << 20, age: Duration::from_secs(600) };

const REPAIR_BYTES: usize = 2_000;
const HEARTBEAT: Duration = Duration::from_millis(200);
const CONFIRM_TIME: Duration = Duration::from_secs(2);
const JOINER_KEPT: Duration = Duration::from_secs(60);
const WAITING_MAX: usize = 256;
const ARRIVALS_MAX: usize = 1024;
const UNCONFIRMED_MAX: usize = 4096;

/// Members beyond this number are compared with by turns.
const COMPARED_ALL: usize = 16;
const COMPARED_SOME: usize = 3;
