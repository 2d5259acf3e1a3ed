//! World: the nodes of a run, the network between them, and the queue of events.

mod actions;
mod checks;
mod gossiping;
#[cfg(test)]
mod recovery;

use crate::events::{Event, Queue};
use crate::faults::FaultKind;
use crate::gossip::Gossip;
use crate::members::Members;
use crate::message::{Message, ObjectId, RequestId};
use crate::network::Network;
use crate::node::{Mutation, Node, PEER_TIMEOUT, PurgeState, Surroundings, Timer, full_key, scope_of};
use crate::oracle::{Counts, Oracle};
use crate::random::Random;
use crate::trace::Trace;
use checks::HeardLoads;
use shoal_cooperation::invalidation::Scope;
use shoal_cooperation::{NodeId, View};
use shoal_core::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Kind of fault.
    pub fault: FaultKind,
    /// Number of nodes.
    pub nodes: usize,
    /// Events until the faults end.
    pub events: u64,
    /// Rule that is left out.
    pub mutation: Option<Mutation>,
    /// Nodes are in three levels of a hierarchy. Otherwise objects have homes.
    pub levels: bool,
    /// Nodes learn of each other by the product's membership. Otherwise they are told, late.
    pub gossips: bool,
}

/// Result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Events handled.
    pub events: u64,
    /// Hash over all events.
    pub trace: u64,
    /// Virtual time that passed.
    pub lasted: Duration,
    /// Numbers.
    pub counts: Counts,
    /// First broken invariant: its number, and a text with the seed and the last events.
    pub violation: Option<(u8, String)>,
}

/// Runs a cluster through its faults, and on until it must have recovered.
pub fn run(settings: Settings) -> Outcome {
    let mut world = World::new(settings);
    world.run();
    world.outcome()
}

#[derive(Debug)]
struct World {
    settings: Settings,
    now: Duration,
    queue: Queue,
    random: Random,
    network: Network,
    oracle: Oracle,
    members: Members,
    nodes: Vec<Node>,
    status: Vec<NodeStatus>,
    origin: Origin,
    trace: Trace,
    requests: RequestId,
    loads: HeardLoads,
    /// Memberships of the nodes, in a run with gossip.
    gossip: Option<Gossip>,
    /// Time at which the faults ended.
    healed: Option<Duration>,
    /// Checks of the recovery that are done.
    recovery_checks: usize,
    /// Probes of each peer until the first of these checks.
    probes: BTreeMap<(usize, NodeId), u64>,
    /// Messages since the second began.
    messages: (u64, u64),
    /// Requests of clients and fetches from the origin, of each node.
    traffic: Vec<(u64, u64)>,
}

/// State of a node's process.
#[derive(Clone, Copy, Debug, Default)]
struct NodeStatus {
    is_dead: bool,
    /// The host of a dead node does not answer either.
    is_silent: bool,
    frozen_until: Option<Duration>,
    frozen_since: Duration,
    is_liar: bool,
    is_leaving: bool,
    /// End of the writes so far: a log is written in order.
    disk_busy_until: Duration,
}

/// State of the origin.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    is_slow: bool,
    is_failing: bool,
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let mut members = Members::new(settings.nodes, settings.levels, &mut random);
        let view = members.truth();
        let nodes: Vec<_> = (0..settings.nodes)
            .map(|index| {
                let id = members.id(index);
                let clock = clock(settings.fault, &mut random);
                let mut node = Node::new(index, id, view.clone(), PurgeState::new(id, clock));
                node.level = settings.levels.then(|| members.all()[index].level);
                node
            })
            .collect();
        let mut world = Self {
            settings,
            now: Duration::ZERO,
            queue: Queue::default(),
            network: Network::new(settings.fault.links()),
            oracle: Oracle::default(),
            members,
            status: vec![NodeStatus::default(); settings.nodes],
            nodes,
            origin: Origin::default(),
            trace: Trace::default(),
            requests: 0,
            loads: HeardLoads::default(),
            gossip: None,
            random,
            healed: None,
            recovery_checks: 0,
            probes: BTreeMap::new(),
            messages: (0, 0),
            traffic: vec![(0, 0); settings.nodes],
        };
        world.check_shares();
        if settings.gossips {
            let (gossip, effects) = Gossip::new(world.members.all(), &mut world.random);
            world.gossip = Some(gossip);
            world.take_gossip(effects);
        }
        for node in 0..settings.nodes {
            let at = world.random.between(Duration::ZERO, Duration::from_millis(200));
            world.queue.push(at, Event::Wake { node, life: 1, timer: Timer::Heartbeat });
        }
        world.queue.push(Duration::ZERO, Event::Clients);
        world.queue.push(Duration::from_millis(50), Event::Purge);
        world.queue.push(Duration::from_millis(100), Event::Fault);
        world
    }

    fn run(&mut self) {
        while self.oracle.violation().is_none() {
            if self.healed.is_none() && self.trace.count() >= self.settings.events {
                self.heal_all();
            }
            if !self.check_recovery() {
                break;
            }
            let Some((at, event)) = self.queue.pop() else { break };
            debug_assert!(at >= self.now, "time does not go back");
            self.now = at;
            self.handle(event);
            self.oracle.check_deadlines(self.now);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Clients => self.clients(),
            Event::Purge => self.purge(),
            Event::Deliver { from, to, life, message } => self.deliver((from, to, life), message),
            Event::Refused { node, life, ask } => {
                let event = Event::Refused { node, life, ask };
                if let Some(_awake) = self.awake(node, life, event) {
                    self.trace.note(self.now, "refused", [node as u64, ask, 0]);
                    self.act(node, |node, near| node.ask_is_refused(ask, near));
                }
            }
            Event::Wake { node, life, timer } => {
                let event = Event::Wake { node, life, timer };
                if let Some(Event::Wake { timer, .. }) = self.awake(node, life, event) {
                    self.wake(node, timer);
                }
            }
            Event::View(node) => {
                if !self.status[node].is_dead {
                    let gossiped = self.gossip.as_ref().and_then(|gossip| gossip.view(node));
                    let view = match gossiped {
                        Some(view) => view,
                        None => self.members.believed(node, &self.network, self.now),
                    };
                    self.trace.note(self.now, "view", [node as u64, view.fingerprint(), 0]);
                    self.take_view(node, view);
                }
            }
            Event::Gossip(node, life, event) => {
                let event = Event::Gossip(node, life, event);
                if let Some(Event::Gossip(node, _, event)) = self.awake(node, life, event) {
                    self.gossip(node, event);
                }
            }
            Event::Detect(node, life) => {
                if self.status[node].is_dead && self.nodes[node].life == life {
                    self.change(node, shoal_cooperation::MemberState::Out);
                }
            }
            Event::Fault => self.next_fault(),
            Event::Heal(recovery) => self.heal(recovery),
        }
    }

    /// Lets a node take a view. It compares purges at once if a member has come.
    fn take_view(&mut self, node: usize, view: Arc<View>) {
        if self.nodes[node].take_view(view, self.now) {
            self.act(node, |node, near| node.compare_with_members(near));
        }
    }

    /// Returns the event if its node is alive in this life and awake. A frozen node gets the event
    /// later, a dead one never.
    fn awake(&mut self, node: usize, life: u64, event: Event) -> Option<Event> {
        if self.status[node].is_dead || self.nodes[node].life != life {
            return None;
        }
        if let Some(until) = self.status[node].frozen_until {
            self.queue.push(until, event);
            return None;
        }
        Some(event)
    }

    fn wake(&mut self, node: usize, timer: Timer) {
        let name = match timer {
            Timer::Ask(_) => "time-out",
            Timer::Sign(_) => "sign",
            Timer::Heartbeat => "heartbeat",
            Timer::Written(_) => "written",
            Timer::Fetched(..) => "fetched",
            Timer::Passed(..) => "passed",
        };
        self.trace.note(self.now, name, [node as u64, 0, 0]);
        self.act(node, |node, near| match timer {
            Timer::Ask(id) => node.ask_is_late(id, near),
            Timer::Sign(id) => node.sign(id, near),
            Timer::Heartbeat => node.heartbeat(near),
            Timer::Written(purges) => node.written(&purges, near),
            Timer::Fetched(object, id, body) => node.fetched(object, id, body, near),
            Timer::Passed(request, body) => Node::passed(request, body, near),
        });
    }

    fn deliver(&mut self, (from, to, life): (usize, usize, u64), message: Box<Message>) {
        let is_gone = self.status[to].is_dead || self.nodes[to].life != life;
        if is_gone {
            if let (Message::Ask(ask), false) = (&*message, self.status[to].is_silent) {
                self.refuse(from, to, ask.id);
            }
            return;
        }
        let event = Event::Deliver { from, to, life, message };
        let Some(Event::Deliver { message, .. }) = self.awake(to, life, event) else { return };
        let peer = self.members.id(from);
        let numbers = [from as u64, to as u64, 0];
        match *message {
            Message::Ask(ask) => {
                self.trace.note(self.now, "ask", [from as u64, to as u64, u64::from(ask.object)]);
                let before = self.nodes[to].in_flight;
                self.act(to, |node, near| node.peer_asks(peer, ask, near));
                self.check_ask(to, &ask, before);
            }
            Message::Working(id) => {
                self.trace.note(self.now, "working", [from as u64, to as u64, id]);
                self.act(to, |node, near| node.working(id, near));
            }
            Message::Answer(answer) => {
                self.trace.note(self.now, "answer", [from as u64, to as u64, answer.id]);
                self.loads.heard(to, from, answer.load, self.now);
                self.act(to, |node, near| node.ask_is_answered(peer, answer, near));
            }
            Message::Purges(purges) => {
                self.trace.note(self.now, "purges", numbers);
                self.act(to, |node, near| node.purges_arrive(peer, &purges, near));
            }
            Message::Confirm(ids) => {
                self.trace.note(self.now, "confirm", numbers);
                self.act(to, |node, near| node.confirmed(peer, &ids, near));
            }
            Message::Compare(hash) => {
                self.trace.note(self.now, "compare", [from as u64, to as u64, hash]);
                self.act(to, |node, near| node.compare(peer, hash, near));
            }
            Message::Lacking { vector, joining } => {
                self.trace.note(self.now, "lacking", numbers);
                self.act(to, |node, near| node.repair(peer, &vector, joining, near));
            }
            Message::Repair { purges, whole, has_more } => {
                self.trace.note(self.now, "repair", numbers);
                let content = (&purges, whole.as_deref(), has_more);
                self.act(to, |node, near| node.repaired(peer, content, near));
            }
        }
    }

    /// Lets a node handle something, then carries out its actions.
    fn act(&mut self, index: usize, action: impl FnOnce(&mut Node, &mut Surroundings<'_>)) {
        let mut near = Surroundings {
            now: self.now,
            random: &mut self.random,
            oracle: &mut self.oracle,
            mutation: self.settings.mutation,
            effects: Vec::new(),
            lies: self.status[index].is_liar,
        };
        action(&mut self.nodes[index], &mut near);
        let effects = near.effects;
        if cfg!(debug_assertions) && self.trace.count().is_multiple_of(4) {
            self.nodes[index].invariants();
        }
        effects.into_iter().for_each(|effect| self.carry_out(index, effect));
        self.check_sizes(index);
    }

    /// Sends a round of requests.
    fn clients(&mut self) {
        let pause = REQUEST_PAUSE.div_f64(self.settings.nodes.min(BUSY_NODES) as f64);
        let next = self.now + self.random.around(pause);
        self.queue.push(next, Event::Clients);
        let object = self.draw_object();
        let together = if self.random.chance(0.15) { 1 + self.random.index(4) } else { 1 };
        for _ in 0..together {
            let node = self.random.index(self.settings.nodes);
            let status = self.status[node];
            if !status.is_dead && status.frozen_until.is_none() {
                self.client(node, object);
            }
        }
    }

    fn client(&mut self, node: usize, object: ObjectId) {
        self.requests += 1;
        let request = self.requests;
        self.traffic[node].0 += 1;
        self.trace.note(self.now, "request", [node as u64, u64::from(object), request]);
        // A node between may wait for one time-out of its own.
        let limit = if self.settings.levels { REQUEST_LIMIT + PEER_TIMEOUT } else { REQUEST_LIMIT };
        self.oracle.request_arrives(request, node, object, (self.now, limit));
        self.act(node, |node, near| node.client_asks(request, object, near));
    }

    fn draw_object(&mut self) -> ObjectId {
        let object = (f64::from(OBJECTS) * self.random.unit().powi(2)) as ObjectId;
        if self.settings.fault != FaultKind::Overload || self.random.chance(0.1) {
            return object;
        }
        let is_skewed = |object: &ObjectId| {
            let homes = self.nodes[0].view.homes(&full_key(*object));
            homes.first() == Some(self.members.id(0))
        };
        (object..object + 100).find(is_skewed).unwrap_or(object)
    }

    fn purge(&mut self) {
        if self.healed.is_some() {
            return;
        }
        let next = self.now + self.random.around(Duration::from_millis(200));
        self.queue.push(next, Event::Purge);
        let node = self.random.index(self.settings.nodes);
        let scope = if self.random.chance(0.05) { Scope::All } else { scope_of(self.draw_object()) };
        let status = self.status[node];
        if !status.is_dead && status.frozen_until.is_none() {
            self.trace.note(self.now, "purge", [node as u64, 0, 0]);
            self.act(node, |node, near| node.operator_purges(scope, near));
        }
    }

    /// Checks that requests are counted once, and that nodes, members and processes agree.
    fn invariants(&self) {
        self.oracle.invariants();
        assert_eq!(self.status.len(), self.nodes.len(), "each node has a process");
        for node in &self.nodes {
            assert_eq!(node.id, self.members.id(node.index), "a node has its member's number");
            assert!(node.life >= 1, "a node's lives begin at one");
        }
        assert_eq!(self.oracle.counts.requests, self.requests, "each request is known to the oracle");
    }

    fn id(&self, node: usize) -> NodeId {
        self.members.id(node)
    }

    fn outcome(self) -> Outcome {
        self.invariants();
        let Settings { seed, fault, nodes, events, .. } = self.settings;
        let violation = self.oracle.violation().map(|(invariant, text)| {
            let head = format!(
                "invariant {invariant}: {text}\nSHOAL_SEED={seed}, {fault:?}, {nodes} nodes, {events} events"
            );
            (
                *invariant,
                format!("{head}; broken at event {}; before it:\n{}", self.trace.count(), self.trace.tail()),
            )
        });
        Outcome {
            events: self.trace.count(),
            trace: self.trace.hash(),
            lasted: self.now,
            counts: self.oracle.counts,
            violation,
        }
    }
}

/// Returns the difference of a node's clock from the run's time.
fn clock(fault: FaultKind, random: &mut Random) -> Timestamp {
    let hours = if fault.has_clocks() { random.below(24 * 3600) } else { 0 };
    Timestamp::from_seconds(1_000_000 + hours)
}

/// Longest time that the origin takes.
pub const ORIGIN_LONGEST: Duration = Duration::from_secs(5);

/// Latest answer to a request: one peer time-out, the origin's time, and a constant.
const REQUEST_LIMIT: Duration =
    Duration::from_secs(2).saturating_add(crate::node::PEER_TIMEOUT).saturating_add(ORIGIN_LONGEST);

/// Mean time between rounds of requests at one node.
const REQUEST_PAUSE: Duration = Duration::from_millis(50);

/// Number of nodes beyond which requests come no faster.
const BUSY_NODES: usize = 20;

/// Number of objects.
const OBJECTS: u32 = 64;
