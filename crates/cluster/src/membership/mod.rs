//! Membership: the nodes of the cluster as one node believes them to be, by SWIM with Lifeguard.
//!
//! SWIM (Das, Gupta and Motivala, "SWIM: scalable weakly-consistent infection-style process group
//! membership protocol", DSN 2002) comes from foca, which has neither socket nor clock. This module
//! adds the following lessons on the outside of foca:
//!
//! | lesson | how |
//! |---|---|
//! | a sick node waits longer (`health`) | foca's timers pass through here and are stretched |
//! | several witnesses shorten a suspicion | accusations, as foca's custom broadcasts |
//! | the suspect is told at once | a message of our own; foca relies on chance |
//! | differences are repaired | digests of the living, and an exchange of lists where they differ |
//! | no member left | [`MembershipOutput::AskSeeds`], with growing waits and jitter |
//! | short messages | the codec writes an identity whole only where it may be new |
//!
//! foca sends no negative acknowledgements, so that the health score counts nodes that fail in a
//! row instead. foca's probe times cannot change at run time; stretched timers have the same
//! effect.
//!
//! Input is an event and a time since any fixed instant; output is a queue. The driver and the
//! simulations run the same code. Cost: foca scans its members for each message, O(n).

mod codec;
mod health;
mod identity;
mod joining;
mod lost;
mod plumbing;
mod settings;
#[cfg(test)]
mod simulated;
mod suspicion;

pub use identity::{NodeFacts, NodeIdentity, is_name, next_life};
pub use joining::{JoinAnswer, JoinRequest, PROTOCOL_VERSION, exchange_lists};
pub(crate) use joining::{JoinVerdict, displaced};
pub use settings::{CLOCK_SKEW_MAX, MEMBERS_MAX};

use crate::keys::DatagramFault;
use codec::{
    AccusationHandler, CodecState, KIND_ACK, KIND_DIGEST, KIND_FORWARDED_ACK, KIND_SUSPECTED, KIND_WHO,
    NodeCodec, ReadFault,
};
use foca::{Foca, State, Timer};
use health::{LocalHealth, ProbeResult};
use identity::DrawSequence;
use lost::LostNodes;
use parking_lot::Mutex;
use shoal_cooperation::{Member, MemberState, NodeId};
use shoal_core::mixed;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use suspicion::Suspicions;

/// A node in a list: its identity, and its state as the sender of the list believes it.
pub type ListedMember = foca::Member<NodeIdentity>;

/// Membership of one node.
pub struct Membership {
    foca: Foca<NodeIdentity, NodeCodec, DrawSequence, AccusationHandler>,
    state: Arc<Mutex<CodecState>>,
    draws: DrawSequence,
    now: Duration,
    /// Timers by due time, by foca's order of one instant, and by number.
    timers: BTreeMap<(Duration, u8, u64), Timer<NodeIdentity>>,
    timers_made: u64,
    suspicions: Suspicions,
    health: LocalHealth,
    probe: Option<Probe>,
    incarnation: u16,
    configured_for: usize,
    seeds: SeedSchedule,
    lost: LostNodes,
    next_digest: Duration,
    last_sync: Option<Duration>,
    contacts: BTreeMap<NodeId, Duration>,
    outputs: VecDeque<MembershipOutput>,
    has_left: bool,
}

/// Output of the membership.
#[derive(Debug, PartialEq)]
pub enum MembershipOutput {
    /// Sends a message that fits one datagram to a node.
    Send {
        /// Address of the node.
        to: SocketAddr,
        /// Message, not yet sealed.
        message: Vec<u8>,
    },
    /// The members, or their facts, are others than before.
    Changed,
    /// The seeds are to be asked for their lists. With members, only seeds that are no members.
    AskSeeds,
    /// Lists are to be exchanged with the node at this address: its members differ.
    Exchange(SocketAddr),
    /// Another living node has this node's name and a later life. This node goes on alone.
    Displaced(NodeIdentity),
}

/// A member as `status` shows it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The member; `Out` for one that left or died.
    pub member: Member,
    /// The member does not answer, and may be declared dead.
    pub is_suspect: bool,
    /// Time since its last message; `None` if none came.
    pub last_contact: Option<Duration>,
}

/// Probe without a result yet.
struct Probe {
    target: NodeId,
    number: u8,
    result: ProbeResult,
}

/// Times at which seeds are asked.
struct SeedSchedule {
    next: Duration,
    tries: u32,
}

impl Membership {
    /// Makes the membership of a node that knows nobody. The seed decides all draws.
    pub fn new(own: NodeIdentity, seed: u64, now: Duration) -> Self {
        let state = Arc::new(Mutex::new(CodecState {
            sender: (own.id, own.life),
            own: own.clone(),
            known: BTreeMap::new(),
            fault: None,
            is_full: false,
            now,
            accusations: BTreeMap::new(),
            arrived: Vec::new(),
        }));
        let mut draws = DrawSequence::new(seed ^ own.id.0);
        let jitter = draws.below(settings::FIRST_ASK_JITTER_MS);
        Self {
            foca: Foca::with_custom_broadcast(
                own,
                settings::config(1),
                DrawSequence::new(draws.below(u64::MAX)),
                NodeCodec(Arc::clone(&state)),
                AccusationHandler(Arc::clone(&state)),
            ),
            state,
            draws,
            now,
            timers: BTreeMap::new(),
            timers_made: 0,
            suspicions: Suspicions::default(),
            health: LocalHealth::default(),
            probe: None,
            incarnation: 0,
            configured_for: 1,
            seeds: SeedSchedule { next: now + Duration::from_millis(jitter), tries: 0 },
            lost: LostNodes::default(),
            next_digest: now,
            last_sync: None,
            contacts: BTreeMap::new(),
            outputs: VecDeque::new(),
            has_left: false,
        }
    }

    /// Takes an opened datagram of a node, which came from `source`.
    pub fn on_message(
        &mut self,
        now: Duration,
        sender: (NodeId, u64),
        source: SocketAddr,
        message: &[u8],
    ) -> Result<(), DatagramFault> {
        self.advance(now);
        if self.has_left {
            return Ok(());
        }
        let state_count = self.foca.iter_membership_state().len();
        {
            let mut state = self.state.lock();
            (state.sender, state.fault, state.is_full) = (sender, None, state_count >= MEMBERS_MAX);
        }
        let returned = self.known(sender.0).filter(|(known, lives)| !lives && known.life == sender.1);
        let done = match message {
            [KIND_WHO, rest @ ..] => self.on_who(sender, rest),
            [KIND_SUSPECTED, rest @ ..] => self.on_suspected(rest),
            [KIND_DIGEST, rest @ ..] => self.on_digest(sender, rest),
            _ => self.on_foca(sender.0, source, message),
        };
        if done.is_ok() {
            self.contacts.insert(sender.0, now);
            if let Some((known, _)) = returned {
                // A node that was declared dead lives: lists say at once all that a cut hid.
                self.unsettle();
                self.exchange_with(known.facts().address);
            }
        }
        self.confirm_accusations();
        done
    }

    /// Runs the timers that are due.
    pub fn on_timer(&mut self, now: Duration) {
        self.advance(now);
        if let Some(due) = self.next_timer()
            && now.saturating_sub(due) > settings::LATE
        {
            // This node was stopped, or gets no processor: missed answers prove nothing of others.
            self.health.worsen();
        }
        while let Some(timer) = self.suspicions.take_ended(now) {
            self.fire(timer);
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let timer = entry.remove();
            self.fire(timer);
        }
        if let Some(lost) = self.lost.take_due(now, self.foca.num_members() + 1).filter(|_| !self.has_left) {
            // Refused only for this node itself, which is never lost.
            let _ = self.foca_call(|foca, runtime| foca.announce(lost, runtime));
        }
        if self.next_digest <= now && self.others() > 0 && !self.has_left {
            self.send_digest();
        }
        if self.seeds.next <= now && !self.has_left {
            self.schedule_seeds();
            self.outputs.push_back(MembershipOutput::AskSeeds);
        }
    }

    /// Returns the time of the next timer.
    pub fn next_timer(&self) -> Option<Duration> {
        let first = self.timers.first_key_value().map(|(key, _)| key.0);
        let seeds = (!self.has_left).then_some(self.seeds.next);
        let digest = (self.others() > 0 && !self.has_left).then_some(self.next_digest);
        let lost = self.lost.next_ask().filter(|_| !self.has_left);
        [first, self.suspicions.next_end(), seeds, digest, lost].into_iter().flatten().min()
    }

    /// Takes the next output.
    pub fn take_output(&mut self) -> Option<MembershipOutput> {
        self.outputs.pop_front()
    }

    /// Returns this node's identity.
    pub fn own(&self) -> &NodeIdentity {
        self.foca.identity()
    }

    /// Returns the living members, this node among them, in no order.
    pub fn members(&self) -> Vec<Member> {
        let others = self.foca.iter_members().map(|member| member.id().member());
        let own = (!self.has_left).then(|| self.own().member());
        others.chain(own).collect()
    }

    /// Returns the number of living members but this node.
    pub fn others(&self) -> usize {
        self.foca.num_members()
    }

    /// Returns the known identity of a node, and `true` if it lives.
    pub fn known(&self, node: NodeId) -> Option<(NodeIdentity, bool)> {
        let mut all = self.foca.iter_membership_state();
        let member = all.find(|member| member.id().id == node)?;
        Some((member.id().clone(), member.state() != State::Down))
    }

    /// Returns all nodes that are known, with those that left or died.
    pub fn status(&self) -> Vec<MemberStatus> {
        let status = |member: &foca::Member<NodeIdentity>| {
            let mut shown = member.id().member();
            if member.state() == State::Down {
                shown.state = MemberState::Out;
            }
            let last = self.contacts.get(&shown.id).map(|last| self.now.saturating_sub(*last));
            MemberStatus { member: shown, is_suspect: member.state() == State::Suspect, last_contact: last }
        };
        let own = MemberStatus { member: self.own().member(), is_suspect: false, last_contact: None };
        // foca lists its own node if it heard of an earlier life.
        let others = self.foca.iter_membership_state().filter(|member| member.id().id != self.own().id);
        let mut all: Vec<_> = others.map(status).chain([own]).collect();
        all.sort_by_key(|status| status.member.id);
        all
    }

    /// Changes this node's facts; the others learn them by gossip.
    pub fn set_facts(&mut self, now: Duration, facts: NodeFacts) {
        self.advance(now);
        if *self.own().facts() == facts || self.has_left {
            return;
        }
        let changed = self.own().changed(facts);
        self.set_own(changed.clone());
        let changed = self.foca_call(|foca, runtime| foca.change_identity(changed, runtime));
        debug_assert!(changed.is_ok(), "another revision is another identity");
        self.outputs.push_back(MembershipOutput::Changed);
    }

    /// Changes this node's state.
    pub fn set_state(&mut self, now: Duration, state: MemberState) {
        self.set_facts(now, NodeFacts { state, ..self.own().facts().clone() });
    }

    /// Exchanges lists with a node that knows other members, unless one was exchanged just now.
    pub fn exchange_with(&mut self, address: SocketAddr) {
        let is_soon = self.last_sync.is_some_and(|last| self.now.saturating_sub(last) < settings::SYNC_PAUSE);
        if !is_soon && !self.has_left {
            self.last_sync = Some(self.now);
            self.outputs.push_back(MembershipOutput::Exchange(address));
        }
    }

    /// Tells the others that this node leaves. Later input has no effect.
    pub fn leave(&mut self, now: Duration) {
        self.advance(now);
        if !self.has_left {
            let left = self.foca_call(|foca, runtime| foca.leave_cluster(runtime));
            debug_assert!(left.is_ok(), "a death fits one message");
            self.has_left = true;
            self.timers.clear();
            self.outputs.push_back(MembershipOutput::Changed);
        }
    }

    /// Checks all that must hold between two calls.
    #[cfg(any(test, debug_assertions))]
    pub fn invariants(&self) {
        let state = self.state.lock();
        assert_eq!(state.own, *self.foca.identity());
        assert!(self.foca.iter_membership_state().len() <= MEMBERS_MAX + settings::PACKET_MEMBERS_MAX);
        assert!(self.foca.iter_members().all(|member| member.id().id != state.own.id));
        assert!(self.contacts.len() <= 2 * MEMBERS_MAX);
    }

    fn advance(&mut self, now: Duration) {
        debug_assert!(now >= self.now, "time does not go back");
        self.now = now;
        self.state.lock().now = now;
        #[cfg(debug_assertions)]
        self.invariants();
    }

    fn on_foca(&mut self, sender: NodeId, source: SocketAddr, message: &[u8]) -> Result<(), DatagramFault> {
        if let Some((kind, number)) = codec::peek(message) {
            self.note_answer(sender, kind, number);
        }
        let handled = self.foca_call(|foca, runtime| foca.handle_data(message, runtime));
        let Err(error) = handled else { return Ok(()) };
        match self.state.lock().fault.take() {
            Some(ReadFault::Dropped(fault)) => return Err(fault),
            Some(ReadFault::Displaced(other)) => {
                self.outputs.push_back(MembershipOutput::Displaced(other));
                return Ok(());
            }
            Some(ReadFault::UnknownSender) => {
                let mut message = vec![KIND_WHO];
                self.foca.identity().encode(&mut message);
                self.outputs.push_back(MembershipOutput::Send { to: source, message });
                return Ok(());
            }
            None => {}
        }
        Err(match error {
            foca::Error::DataFromOurselves => DatagramFault::OwnName,
            foca::Error::DataTooBig => DatagramFault::TooLong,
            _ => DatagramFault::Malformed,
        })
    }

    /// Answers a node that does not know this one: an announce carries the identity whole.
    fn on_who(&mut self, sender: (NodeId, u64), mut rest: &[u8]) -> Result<(), DatagramFault> {
        let asker = codec::decode_reachable(&self.state.lock(), &mut rest).ok();
        let asker = asker.filter(|asker| (asker.id, asker.life) == sender);
        let asker = asker.filter(|_| rest.is_empty()).ok_or(DatagramFault::Malformed)?;
        self.foca_call(|foca, runtime| foca.announce(asker, runtime)).map_err(|_| DatagramFault::Malformed)
    }

    /// Refutes a suspicion that another node told.
    fn on_suspected(&mut self, rest: &[u8]) -> Result<(), DatagramFault> {
        let [a, b, c, d, high, low] = *rest else { return Err(DatagramFault::Malformed) };
        if u32::from_be_bytes([a, b, c, d]) != self.own().revision {
            return Err(DatagramFault::Misdirected);
        }
        let incarnation = u16::from_be_bytes([high, low]);
        let suspected = foca::Member::new(self.own().clone(), incarnation, State::Suspect);
        self.foca_call(|foca, runtime| foca.apply_many(std::iter::once(suspected), true, runtime))
            .map_err(|_| DatagramFault::Malformed)
    }

    /// Compares the sender's members with this node's.
    fn on_digest(&mut self, sender: (NodeId, u64), rest: &[u8]) -> Result<(), DatagramFault> {
        let theirs = rest.try_into().map(u64::from_be_bytes).map_err(|_| DatagramFault::Malformed)?;
        let known = self.state.lock().known.get(&sender.0).cloned();
        let Some(known) = known.filter(|known| known.life == sender.1) else { return Ok(()) };
        if theirs != self.digest() {
            self.unsettle();
            self.exchange_with(known.facts().address);
        }
        Ok(())
    }

    /// Returns a digest of all living members, equal on nodes that know the same.
    fn digest(&self) -> u64 {
        let one = |node: &NodeIdentity| mixed(node.id.0 ^ mixed(node.life ^ mixed(u64::from(node.revision))));
        self.foca.iter_members().map(|member| one(member.id())).fold(one(self.own()), |sum, one| sum ^ one)
    }

    fn send_digest(&mut self) {
        let chosen = self.draws.below(self.others() as u64) as usize;
        let to = self.foca.iter_members().nth(chosen).map(|member| member.id().facts().address);
        let message = [&[KIND_DIGEST][..], &self.digest().to_be_bytes()].concat();
        self.outputs.extend(to.map(|to| MembershipOutput::Send { to, message }));
        let wait = settings::DIGEST_MS / 2 + self.draws.below(settings::DIGEST_MS);
        self.next_digest = self.now + Duration::from_millis(wait);
    }

    /// Brings the next digest forward.
    fn unsettle(&mut self) {
        let wait = settings::UNSETTLED_DIGEST_MS / 2 + self.draws.below(settings::UNSETTLED_DIGEST_MS);
        self.next_digest = self.next_digest.min(self.now + Duration::from_millis(wait));
    }

    /// Notes an answer to the probe under way.
    fn note_answer(&mut self, sender: NodeId, kind: u8, number: u8) {
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.number == number) else { return };
        match kind {
            KIND_ACK if sender == probe.target => probe.result = ProbeResult::Direct,
            KIND_FORWARDED_ACK if probe.result == ProbeResult::Failed => probe.result = ProbeResult::Indirect,
            _ => {}
        }
    }

    fn confirm_accusations(&mut self) {
        let arrived = std::mem::take(&mut self.state.lock().arrived);
        arrived.iter().for_each(|accusation| self.suspicions.confirm(accusation));
    }
}
