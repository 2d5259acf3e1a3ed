//! Plumbing between foca and the membership: calls with their output, notes, messages and timers.

use super::codec::{self, AccusationHandler, KIND_PING, KIND_SUSPECTED, NodeCodec};
use super::health::ProbeResult;
use super::identity::DrawSequence;
use super::suspicion::Accusation;
use super::{Membership, MembershipOutput, NodeIdentity, Probe, SeedSchedule, settings};
use foca::{Foca, OwnedNotification, Runtime, Timer};
use shoal_cooperation::NodeId;
use std::time::Duration;

impl Membership {
    pub(super) fn fire(&mut self, timer: Timer<NodeIdentity>) {
        if let Timer::RemoveDown(gone) = &timer {
            self.forget(gone);
        }
        // foca's errors here say that a timer came too late for its probe, which it recovers from.
        let _ = self.foca_call(|foca, runtime| foca.handle_timer(timer, runtime));
    }

    pub(super) fn forget(&mut self, gone: &NodeIdentity) {
        let mut state = self.state.lock();
        if state.known.get(&gone.id) == Some(gone) {
            state.known.remove(&gone.id);
            self.lost.forget(gone.id);
            self.contacts.remove(&gone.id);
        }
    }

    /// Calls foca and takes over its output.
    pub(super) fn foca_call(
        &mut self,
        call: impl FnOnce(
            &mut Foca<NodeIdentity, NodeCodec, DrawSequence, AccusationHandler>,
            &mut CallOutput,
        ) -> Result<(), foca::Error>,
    ) -> Result<(), foca::Error> {
        let mut collected = CallOutput::default();
        let result = call(&mut self.foca, &mut collected);
        // foca renews its identity by itself when the others believed this node dead.
        let own = self.foca.identity().clone();
        self.set_own(own);
        collected.notes.into_iter().for_each(|note| self.on_note(note));
        collected.timers.into_iter().for_each(|(timer, after)| self.add_timer(timer, after));
        collected.messages.into_iter().for_each(|(to, message)| self.send(&to, message));
        self.configure();
        result
    }

    pub(super) fn set_own(&mut self, own: NodeIdentity) {
        let mut state = self.state.lock();
        if state.own != own {
            state.own = own;
            self.incarnation = 0;
        }
    }

    fn on_note(&mut self, note: OwnedNotification<NodeIdentity>) {
        let mut state = self.state.lock();
        match note {
            OwnedNotification::MemberUp(up) => {
                self.lost.forget(up.id);
                state.known.insert(up.id, up);
            }
            OwnedNotification::Rename(_, new) => {
                self.suspicions.forget(new.id);
                self.lost.forget(new.id);
                state.known.insert(new.id, new);
            }
            OwnedNotification::MemberDown(down) => {
                self.suspicions.forget(down.id);
                self.lost.lost(down, self.now);
            }
            OwnedNotification::Idle => {
                let jitter = self.draws.below(settings::FIRST_ASK_JITTER_MS);
                self.seeds = SeedSchedule { next: self.now + Duration::from_millis(jitter), tries: 0 };
            }
            OwnedNotification::Rejoin(_) => {}
            OwnedNotification::Active | OwnedNotification::Defunct => return,
        }
        drop(state);
        if self.outputs.back() != Some(&MembershipOutput::Changed) {
            self.outputs.push_back(MembershipOutput::Changed);
        }
    }

    fn send(&mut self, to: &NodeIdentity, message: Vec<u8>) {
        debug_assert!(message.len() <= settings::MESSAGE_BYTES_MAX);
        if let Some((KIND_PING, number)) = codec::peek(&message) {
            if let Some(before) = self.probe.take() {
                self.health.on_probe(before.target, before.result);
            }
            self.probe = Some(Probe { target: to.id, number, result: ProbeResult::Failed });
        }
        let incarnation = codec::incarnation_in(&message, self.foca.identity());
        if let Some(incarnation) = incarnation.filter(|incarnation| *incarnation > self.incarnation) {
            // foca has refuted a suspicion of this node.
            self.incarnation = incarnation;
            self.health.worsen();
        }
        self.outputs.push_back(MembershipOutput::Send { to: to.facts().address, message });
    }

    fn add_timer(&mut self, timer: Timer<NodeIdentity>, after: Duration) {
        let after = match &timer {
            Timer::ProbeRandomMember(_) | Timer::SendIndirectProbe { .. } => after * self.health.factor(),
            Timer::ChangeSuspectToDown { member_id, incarnation, .. } => {
                let (suspect, incarnation) = (member_id.clone(), *incarnation);
                return self.suspect(&suspect, incarnation, timer);
            }
            _ => after,
        };
        let rank = match &timer {
            Timer::SendIndirectProbe { .. } => 0,
            Timer::ProbeRandomMember(_) => 1,
            _ => 2,
        };
        self.timers_made += 1;
        self.timers.insert((self.now + after, rank, self.timers_made), timer);
    }

    /// Begins a suspicion, tells the suspect and the witnesses.
    fn suspect(&mut self, suspect: &NodeIdentity, incarnation: u16, timer: Timer<NodeIdentity>) {
        let wait = settings::suspicion(self.others() + 1);
        if !self.suspicions.begin(self.now, suspect, incarnation, timer, wait) {
            return;
        }
        let (id, life, revision) = (suspect.id, suspect.life, suspect.revision);
        let own = self.own().id;
        let accusation = Accusation { suspect: id, life, revision, incarnation, witness: own };
        // Refused only if this node has accused the suspect of the same before.
        let _ = self.foca.add_broadcast(&accusation.encode());
        let heard: Vec<Accusation> = {
            let mut state = self.state.lock();
            state.arrived.clear();
            let all = state.accusations.range((id, NodeId(0))..=(id, NodeId(u64::MAX)));
            all.map(|(_, (accusation, _))| *accusation).filter(|heard| heard.witness != own).collect()
        };
        heard.iter().for_each(|accusation| self.suspicions.confirm(accusation));
        let message = [&[KIND_SUSPECTED][..], &revision.to_be_bytes(), &incarnation.to_be_bytes()].concat();
        self.outputs.push_back(MembershipOutput::Send { to: suspect.facts().address, message });
    }

    /// Follows the number of members with foca's settings.
    fn configure(&mut self) {
        let count = self.others() + 1;
        let differs = count > self.configured_for * 3 / 2 || count < self.configured_for / 2;
        if differs && self.foca.set_config(settings::config(count)).is_ok() {
            self.configured_for = count;
        }
    }

    pub(super) fn schedule_seeds(&mut self) {
        let wait = if self.others() == 0 {
            let wait = settings::ALONE_ASK_MS << self.seeds.tries.min(settings::ALONE_DOUBLINGS);
            self.seeds.tries += 1;
            wait
        } else {
            settings::STRANGERS_ASK_MS
        };
        let jittered = wait / 2 + self.draws.below(wait);
        self.seeds.next = self.now + Duration::from_millis(jittered);
    }
}

/// Output of one call of foca.
#[derive(Default)]
pub(super) struct CallOutput {
    messages: Vec<(NodeIdentity, Vec<u8>)>,
    timers: Vec<(Timer<NodeIdentity>, Duration)>,
    notes: Vec<OwnedNotification<NodeIdentity>>,
}

impl Runtime<NodeIdentity> for CallOutput {
    fn notify(&mut self, note: foca::Notification<'_, NodeIdentity>) {
        self.notes.push(note.to_owned());
    }

    fn send_to(&mut self, to: NodeIdentity, data: &[u8]) {
        self.messages.push((to, data.to_vec()));
    }

    fn submit_after(&mut self, timer: Timer<NodeIdentity>, after: Duration) {
        self.timers.push((timer, after));
    }
}
