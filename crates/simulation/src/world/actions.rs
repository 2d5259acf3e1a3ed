//! Actions of the world: it carries out the nodes' actions, and lets faults begin and end.

use super::{ORIGIN_LONGEST, World, clock};
use crate::events::Event;
use crate::faults::{Fault, Recovery};
use crate::message::{AskId, Body, Message, ObjectId, RequestId};
use crate::network::Links;
use crate::node::{Effect, Restart, Timer};
use shoal_cooperation::{MemberState, NodeId};
use std::time::Duration;

impl World {
    pub(super) fn carry_out(&mut self, node: usize, effect: Effect) {
        let life = self.nodes[node].life;
        match effect {
            Effect::Send(to, message) => self.send(node, to, message),
            Effect::Wake(after, timer) => {
                self.queue.push(self.now + after, Event::Wake { node, life, timer })
            }
            Effect::Fetch(object, flight, request) => {
                self.traffic[node].1 += 1;
                let (after, body) = self.ask_origin(object, request);
                let timer = Timer::Fetched(object, flight, body);
                self.queue.push(self.now + after, Event::Wake { node, life, timer });
            }
            Effect::Pass(object, request) => {
                self.traffic[node].1 += 1;
                let (after, body) = self.ask_origin(object, request);
                // The origin answers this request in private, also if it answers others alike.
                let body = body.map(|body| Body::new(object, body.made, Some(request)));
                let timer = Timer::Passed(request, body);
                self.queue.push(self.now + after, Event::Wake { node, life, timer });
            }
            Effect::Write(purges) => {
                let until = self.status[node].disk_busy_until.max(self.now);
                let until = until + self.random.around(Duration::from_millis(5));
                self.status[node].disk_busy_until = until;
                self.queue.push(until, Event::Wake { node, life, timer: Timer::Written(purges) });
            }
            Effect::Confirmed(ids) => {
                if self.is_known_to_all(node) {
                    ids.into_iter().for_each(|id| self.oracle.purge_acknowledged(id));
                }
            }
            Effect::CaughtUp => {
                if !self.status[node].is_leaving {
                    self.change(node, MemberState::In);
                }
            }
        }
    }

    /// Returns `true` if all nodes that run and serve are members in this node's view.
    fn is_known_to_all(&self, node: usize) -> bool {
        let serving =
            |other: &usize| !self.status[*other].is_dead && self.nodes[*other].purging.is_caught_up();
        (0..self.nodes.len()).filter(serving).all(|other| {
            let member = self.nodes[node].view.member(self.id(other));
            other == node || member.is_some_and(|member| member.state != MemberState::Out)
        })
    }

    fn send(&mut self, from: usize, to: NodeId, message: Message) {
        let to = self.members.index(to);
        self.oracle.counts.messages += 1;
        self.count_message();
        let is_call = !matches!(message, Message::Ask(_) | Message::Working(_) | Message::Answer(_));
        let copies = 1 + usize::from(is_call && self.random.chance(self.network.links.duplicates));
        for _ in 0..copies {
            if let Some(delay) = self.network.delay(from, to, &mut self.random) {
                let life = self.nodes[to].life;
                let message = Box::new(message.clone());
                self.queue.push(self.now + delay, Event::Deliver { from, to, life, message });
            }
        }
    }

    pub(super) fn refuse(&mut self, node: usize, by: usize, ask: AskId) {
        if let Some(delay) = self.network.delay(by, node, &mut self.random) {
            let life = self.nodes[node].life;
            self.queue.push(self.now + delay, Event::Refused { node, life, ask });
        }
    }

    fn ask_origin(&mut self, object: ObjectId, request: RequestId) -> (Duration, Option<Body>) {
        let mean = Duration::from_millis(if self.origin.is_slow { 1_500 } else { 20 });
        let after = self.random.around(mean).min(ORIGIN_LONGEST);
        // The origin makes the body at any time between the ask and the answer.
        let made = self.now + after.mul_f64(self.random.unit());
        let private = (object % 11 == 3).then_some(request);
        let fails = self.origin.is_failing && self.random.chance(0.5);
        (after, (!fails).then(|| Body::new(object, made, private)))
    }

    /// Changes the state of a node, and tells the others after a while.
    pub(super) fn change(&mut self, node: usize, state: MemberState) {
        let life = self.nodes[node].life;
        let (before, after) = self.members.change(node, state, life);
        self.check_moves(node, &before, &after);
        self.trace.note(self.now, "member", [node as u64, state as u64, life]);
        match self.gossip {
            Some(_) => self.gossip_state(node, state),
            None => self.spread(),
        }
    }

    fn spread(&mut self) {
        if self.gossip.is_some() {
            return;
        }
        for node in 0..self.nodes.len() {
            let after = self.random.between(Duration::from_millis(1), VIEWS_SPREAD);
            self.queue.push(self.now + after, Event::View(node));
        }
    }

    pub(super) fn next_fault(&mut self) {
        if self.healed.is_some() {
            return;
        }
        let pause = Duration::from_millis(1_500);
        let next = self.now + self.random.around(pause);
        self.queue.push(next, Event::Fault);
        if let Some(fault) = self.settings.fault.draw(self.nodes.len(), &mut self.random) {
            self.begin(fault);
        }
    }

    fn begin(&mut self, fault: Fault) {
        self.trace.note(self.now, fault_name(&fault), [0; 3]);
        let lasts = self.random.around(Duration::from_secs(4));
        let heal = match fault {
            Fault::Cut(from, to, _) if from == to => return,
            Fault::Cut(from, to, both) => {
                let pairs = if both { vec![(from, to), (to, from)] } else { vec![(from, to)] };
                self.cut(&pairs);
                Recovery::Mend(pairs)
            }
            Fault::Split(parts) => {
                let all = (0..parts.len()).flat_map(|from| (0..parts.len()).map(move |to| (from, to)));
                let pairs: Vec<_> = all.filter(|(from, to)| parts[*from] != parts[*to]).collect();
                self.cut(&pairs);
                Recovery::Mend(pairs)
            }
            Fault::Kill(node, refuses) => return self.kill(node, refuses, lasts),
            Fault::Freeze(node) => return self.freeze(node, lasts),
            Fault::WrongView(node) if self.nodes[node].purging.is_caught_up() => {
                let view = self.members.wrong(node, &mut self.random);
                self.take_view(node, view);
                return self.queue.push(self.now + lasts, Event::View(node));
            }
            Fault::WrongView(_) => return,
            Fault::Lie(node) => {
                self.status[node].is_liar = true;
                Recovery::Honest(node)
            }
            Fault::Slow(node, by) => {
                self.network.slow.insert(node, by.min(Duration::from_millis(400)));
                Recovery::Quick(node)
            }
            Fault::Origin(fails) => {
                self.origin.is_slow = !fails;
                self.origin.is_failing = fails;
                Recovery::Origin
            }
            Fault::Leave(node) => return self.leave(node),
        };
        self.queue.push(self.now + lasts, Event::Heal(heal));
    }

    pub(super) fn cut(&mut self, pairs: &[(usize, usize)]) {
        pairs.iter().for_each(|(from, to)| self.network.cut(*from, *to, self.now));
        for node in 0..self.nodes.len() {
            let suspected = self.now + crate::members::SUSPECTED;
            let after = self.random.between(Duration::from_millis(1), VIEWS_SPREAD);
            self.queue.push(suspected + after, Event::View(node));
        }
    }

    pub(super) fn kill(&mut self, node: usize, refuses: bool, lasts: Duration) {
        if self.status[node].is_dead || self.status[node].frozen_until.is_some() {
            return;
        }
        self.status[node].is_dead = true;
        self.status[node].is_silent = !refuses;
        self.oracle.node_died(node);
        self.gossip.iter_mut().for_each(|gossip| gossip.kill(node));
        let id = self.id(node);
        for other in (0..self.nodes.len()).filter(|other| refuses && *other != node) {
            for ask in self.nodes[other].asks_to(id) {
                self.refuse(other, node, ask);
            }
        }
        let detected = self.random.between(Duration::from_secs(3), Duration::from_secs(10));
        self.queue.push(self.now + detected, Event::Detect(node, self.nodes[node].life));
        self.queue.push(self.now + lasts, Event::Heal(Recovery::Start(node)));
    }

    fn freeze(&mut self, node: usize, lasts: Duration) {
        let status = &mut self.status[node];
        if !status.is_dead && status.frozen_until.is_none() {
            status.frozen_until = Some(self.now + lasts);
            status.frozen_since = self.now;
            // No answer is late because its node stands still.
            self.oracle.extend_node(node, lasts);
            self.queue.push(self.now + lasts, Event::Heal(Recovery::Thaw(node)));
        }
    }

    pub(super) fn leave(&mut self, node: usize) {
        let status = &mut self.status[node];
        if !status.is_dead && !status.is_leaving && status.frozen_until.is_none() {
            status.is_leaving = true;
            self.change(node, MemberState::Draining);
            let until = self.now + Duration::from_secs(3);
            self.queue.push(until, Event::Heal(Recovery::Stop(node)));
        }
    }

    pub(super) fn heal(&mut self, recovery: Recovery) {
        self.trace.note(self.now, "heal", [0; 3]);
        match recovery {
            Recovery::Mend(pairs) => {
                pairs.iter().for_each(|(from, to)| self.network.mend(*from, *to));
                self.spread();
            }
            Recovery::Start(node) => self.start(node),
            Recovery::Thaw(node) => self.status[node].frozen_until = None,
            Recovery::Honest(node) => self.status[node].is_liar = false,
            Recovery::Quick(node) => drop(self.network.slow.remove(&node)),
            Recovery::Origin => self.origin = super::Origin::default(),
            Recovery::Stop(node) => {
                if self.status[node].is_leaving && !self.status[node].is_dead {
                    self.change(node, MemberState::Out);
                    self.kill(node, true, Duration::from_secs(2));
                }
                self.status[node].is_leaving = false;
            }
        }
    }

    fn start(&mut self, node: usize) {
        if !self.status[node].is_dead {
            return;
        }
        self.status[node] = super::NodeStatus::default();
        let clock = clock(self.settings.fault, &mut self.random);
        self.members.change(node, MemberState::Joining, self.nodes[node].life + 1);
        self.gossip_start(node);
        let gossiped = self.gossip.as_ref().and_then(|gossip| gossip.view(node));
        // A node that reaches nobody knows the members of before.
        let gossiped = gossiped.filter(|view| view.members().len() > 1);
        let view = gossiped.unwrap_or_else(|| self.members.believed(node, &self.network, self.now));
        let (now, random, oracle) = (self.now, &mut self.random, &mut self.oracle);
        self.nodes[node].restart(Restart { view, clock, now, random, oracle });
        self.nodes[node].invariants();
        self.change(node, MemberState::Joining);
        let life = self.nodes[node].life;
        self.queue.push(self.now, Event::Wake { node, life, timer: Timer::Heartbeat });
        // Clients that waited for the node come at once.
        for _ in 0..RETURNING_CLIENTS {
            let object = self.draw_object();
            self.client(node, object);
        }
    }

    /// Ends all faults.
    pub(super) fn heal_all(&mut self) {
        // Nodes that stand still go on when their time has come.
        let frozen = self.status.iter().filter_map(|status| status.frozen_until);
        let healed = frozen.max().unwrap_or(self.now);
        assert!(healed >= self.now, "no node thaws in the past");
        self.healed = Some(healed);
        self.trace.note(self.now, "healed", [0; 3]);
        self.network = crate::network::Network::new(Links::LOCAL);
        self.origin = super::Origin::default();
        for node in 0..self.nodes.len() {
            self.status[node].is_liar = false;
            self.status[node].is_leaving = false;
            self.start(node);
            if self.members.state(node) != MemberState::In && self.nodes[node].purging.is_caught_up() {
                self.change(node, MemberState::In);
            }
        }
        // A wrong view that would last longer ends too.
        (0..self.nodes.len()).for_each(|node| self.queue.push(self.now, Event::View(node)));
        self.spread();
    }
}

fn fault_name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Cut(..) => "cut",
        Fault::Split(_) => "split",
        Fault::Kill(..) => "kill",
        Fault::Freeze(_) => "freeze",
        Fault::WrongView(_) => "wrong view",
        Fault::Lie(_) => "lie",
        Fault::Slow(..) => "slow",
        Fault::Origin(_) => "origin",
        Fault::Leave(_) => "leave",
    }
}

const RETURNING_CLIENTS: usize = 8;

/// Longest time in which a change of the members reaches all.
pub(super) const VIEWS_SPREAD: Duration = Duration::from_millis(1_500);
