//! Node of a simulated cluster: the state that the decisions of `shoal_cooperation` work on.

mod entry;
mod home;
mod purging;

pub use purging::{PurgeState, scope_of};

use crate::message::{AskId, AskMessage, Message, ObjectId, RequestId};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::shelf::Shelf;
use entry::EntryFlight;
use home::HomeFlight;
use shoal_cooperation::invalidation::Purge;
use shoal_cooperation::{
    Ask, AskKind, AskResult, BoundedLoad, Heat, HomeHistory, Homes, Member, MemberState, NodeId, ParentRule,
    PeerAdmission, PeerHealth, View,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Node of a simulated cluster.
#[derive(Debug)]
pub struct Node {
    /// Index of the node in the run.
    pub index: usize,
    /// Number of the node.
    pub id: NodeId,
    /// Number of this start.
    pub life: u64,
    /// Members as the node believes them to be.
    pub view: Arc<View>,
    /// Views of before.
    pub history: HomeHistory,
    /// Peers as the node's asks found them.
    pub health: BTreeMap<NodeId, PeerHealth>,
    /// Loads of peers.
    pub load: BoundedLoad,
    heat: Heat,
    /// Stored bodies.
    pub shelf: Shelf,
    /// Purges.
    pub purging: PurgeState,
    entry_flights: BTreeMap<u64, EntryFlight>,
    /// Flights that requests of clients may join.
    entry_joinable: BTreeMap<ObjectId, u64>,
    /// Level of the node in a hierarchy; `None` if objects have homes.
    pub level: Option<u8>,
    home_flights: BTreeMap<u64, HomeFlight>,
    /// Flights by object, and by the hops of requests that wait for a parent; 0 for the origin.
    home_joinable: BTreeMap<(ObjectId, u8), u64>,
    asks: BTreeMap<AskId, SentAsk>,
    /// Flight that an ask of a peer waits for.
    serving: BTreeMap<AskId, FlightId>,
    /// Asks of peers as home that are in flight.
    pub in_flight: u32,
    numbers: u64,
}

/// Start of a node that ran before.
#[derive(Debug)]
pub struct Restart<'a> {
    /// Members as the node's seeds tell them.
    pub view: Arc<View>,
    /// The node's clock at the start of the run.
    pub clock: shoal_core::Timestamp,
    /// Time since the start of the run.
    pub now: Duration,
    /// Random numbers.
    pub random: &'a mut Random,
    /// Learns of the purges that reached the disk before the node died.
    pub oracle: &'a mut Oracle,
}

/// Flight of one of the two kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FlightId {
    /// Flight of an entry node.
    Entry(u64),
    /// Flight of a home.
    Home(u64),
}

/// Ask that was sent and has no answer yet.
#[derive(Clone, Copy, Debug)]
struct SentAsk {
    flight: FlightId,
    kind: AskKind,
    object: ObjectId,
    to: NodeId,
    sent: Duration,
    timeout: Duration,
    /// Time of the last sign of life.
    sign: Option<Duration>,
}

/// Surroundings of a node while it handles an event.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Time since the start of the run.
    pub now: Duration,
    /// Random numbers.
    pub random: &'a mut Random,
    /// Knowledge of the truth.
    pub oracle: &'a mut Oracle,
    /// Rule that is left out, to show that an invariant finds it.
    pub mutation: Option<Mutation>,
    /// Actions for the world.
    pub effects: Vec<Effect>,
    /// `true` if the node lies to its peers.
    pub lies: bool,
}

/// Action of a node.
#[derive(Debug)]
pub enum Effect {
    /// Send a message.
    Send(NodeId, Message),
    /// Wake the node later, in this life.
    Wake(Duration, Timer),
    /// Fetch an object from the origin for a flight of the home's kind.
    Fetch(ObjectId, u64, RequestId),
    /// Fetch an object from the origin for one request only.
    Pass(ObjectId, RequestId),
    /// Write purges to disk, then wake the node.
    Write(Arc<Vec<Purge>>),
    /// A purge of this node has all confirmations.
    Confirmed(Vec<shoal_cooperation::invalidation::PurgeId>),
    /// The node has compared with all members.
    CaughtUp,
}

/// Reason to wake a node.
#[derive(Clone, Debug)]
pub enum Timer {
    /// An ask may be late.
    Ask(AskId),
    /// A home should give a sign of life.
    Sign(u64),
    /// Time to compare vectors.
    Heartbeat,
    /// Purges are on disk.
    Written(Arc<Vec<Purge>>),
    /// The origin answered a flight.
    Fetched(ObjectId, u64, Option<crate::message::Body>),
    /// The origin answered a request.
    Passed(RequestId, Option<crate::message::Body>),
}

/// Rule that is left out in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A home gives bodies although it lacks purges of the asker.
    VectorUnchecked,
    /// A purge leaves flights as they are.
    FlightsSurvivePurges,
    /// A peer's body is taken as it comes.
    BodyUnchecked,
    /// A node asked as home asks another home.
    HomeAsksHome,
    /// A peer's ask joins the entry's kind of flight.
    PeerJoinsEntryFlight,
    /// A breaker stays open for good.
    BreakerNeverCloses,
    /// An ask has no time-out.
    AskWaitsForever,
    /// A home never says that it is busy.
    BusyLeftOut,
    /// Purges are confirmed before they are on disk.
    ConfirmedBeforeDisk,
    /// A node serves from its old disk at once.
    OldDiskTrusted,
    /// Each ask of a peer starts a fetch of its own.
    FetchEach,
    /// A private response goes to all that wait.
    PrivateShared,
    /// Peers are asked although a purge of the object is applied and not recorded.
    UncoveredIgnored,
    /// Vectors are not compared.
    NoRepair,
    /// Datagrams of memberships are lost.
    GossipLost,
}

impl SentAsk {
    /// Returns the latest time for the next sign of life. A home may wait for its origin as long as
    /// it gives signs. A holder may not: the node that asks it could be at the origin itself.
    fn due(&self) -> Duration {
        match (self.kind, self.sign) {
            (_, None) => self.sent + self.timeout,
            (AskKind::Home, Some(sign)) => sign + PEER_TIMEOUT,
            (AskKind::Holder, Some(_)) => self.sent + PEER_TIMEOUT,
        }
    }
}

impl Node {
    /// Starts a node for the first time.
    pub fn new(index: usize, id: NodeId, view: Arc<View>, purging: PurgeState) -> Self {
        Self {
            index,
            id,
            life: 1,
            view,
            history: HomeHistory::default(),
            health: BTreeMap::new(),
            load: BoundedLoad::with_least(LEAST_LIMIT),
            heat: Heat::new(HEAT_KEYS),
            shelf: Shelf::new(SHELF_BODIES),
            purging,
            entry_flights: BTreeMap::new(),
            entry_joinable: BTreeMap::new(),
            level: None,
            home_flights: BTreeMap::new(),
            home_joinable: BTreeMap::new(),
            asks: BTreeMap::new(),
            serving: BTreeMap::new(),
            in_flight: 0,
            numbers: 0,
        }
    }

    /// Starts the node again, with the contents of its disk.
    pub fn restart(&mut self, mut start: Restart<'_>) {
        self.life += 1;
        self.shelf.restart();
        self.purging.restart(self.index, &mut self.shelf, self.life, &mut start);
        self.view = start.view;
        self.history = HomeHistory::default();
        self.health.clear();
        self.load = BoundedLoad::with_least(LEAST_LIMIT);
        self.heat = Heat::new(HEAT_KEYS);
        self.entry_flights.clear();
        self.entry_joinable.clear();
        self.home_flights.clear();
        self.home_joinable.clear();
        self.asks.clear();
        self.serving.clear();
        self.in_flight = 0;
    }

    /// Checks that the node's tables agree with each other.
    pub fn invariants(&self) {
        self.entry_invariants();
        self.home_invariants();
        self.shelf.invariants();
        self.purging.invariants();
        let is_known = |peer: &NodeId| self.view.member(*peer).is_some();
        assert!(self.health.keys().all(is_known), "health is kept of members alone");
        assert!(
            self.asks.values().all(|ask| ask.sign.is_none_or(|sign| sign >= ask.sent)),
            "signs follow asks"
        );
    }

    /// Takes another view. Returns `true` if a member has come, or is back.
    pub fn take_view(&mut self, view: Arc<View>, now: Duration) -> bool {
        if view.fingerprint() == self.view.fingerprint() {
            return false;
        }
        let before = std::mem::replace(&mut self.view, view);
        let view = &self.view;
        self.history.changed(&before, view, self.id, now);
        self.health.retain(|peer, _| view.member(*peer).is_some());
        let was_there = |it: &Member| {
            before.member(it.id).is_some_and(|was| was.state != MemberState::Out && was.life == it.life)
        };
        view.members().iter().any(|member| member.state != MemberState::Out && !was_there(member))
    }

    /// Sends an ask for a flight.
    fn send_ask(&mut self, ask: Ask, flight: FlightId, message: AskMessage, near: &mut Surroundings<'_>) {
        let id = message.id;
        let sent = SentAsk {
            flight,
            kind: ask.kind,
            object: message.object,
            to: ask.node,
            sent: near.now,
            timeout: ask.timeout,
            sign: None,
        };
        assert_ne!(ask.node, self.id, "a node does not ask itself");
        let before = self.asks.insert(id, sent);
        assert!(before.is_none(), "ask {id} is sent once");
        near.effects.push(Effect::Send(ask.node, Message::Ask(message)));
        if near.mutation != Some(Mutation::AskWaitsForever) {
            near.effects.push(Effect::Wake(ask.timeout, Timer::Ask(id)));
        }
    }

    /// Returns the time-out for a peer, or `None` if the peer is set aside.
    fn admit(
        health: &mut BTreeMap<NodeId, PeerHealth>,
        peer: NodeId,
        near: &Surroundings<'_>,
    ) -> Option<Duration> {
        let health = health.entry(peer).or_insert_with(|| PeerHealth::new(PEER_TIMEOUT));
        match health.admit(near.now) {
            PeerAdmission::Ask(timeout) => Some(timeout),
            PeerAdmission::Skip(_) => None,
        }
    }

    /// Handles a sign of life.
    pub fn working(&mut self, id: AskId, near: &mut Surroundings<'_>) {
        let Some(ask) = self.asks.get_mut(&id) else { return };
        if ask.sign.is_none()
            && let Some(health) = self.health.get_mut(&ask.to)
        {
            health.answered(near.now - ask.sent, near.now);
        }
        ask.sign = Some(near.now);
        near.effects.push(Effect::Wake(ask.due().saturating_sub(near.now), Timer::Ask(id)));
    }

    /// Handles the time-out of an ask, unless a sign of life came since.
    pub fn ask_is_late(&mut self, id: AskId, near: &mut Surroundings<'_>) {
        let Some(ask) = self.asks.get(&id).copied() else { return };
        if ask.due() > near.now {
            return;
        }
        self.asks.remove(&id);
        let is_working_holder = ask.sign.is_some() && ask.kind == AskKind::Holder;
        if let Some(health) = self.health.get_mut(&ask.to).filter(|_| !is_working_holder) {
            let timeout = if ask.sign.is_some() { PEER_TIMEOUT } else { ask.timeout };
            health.timed_out(timeout, near.now);
        }
        self.ask_failed(ask, AskResult::TimedOut, near);
    }

    /// Handles a refused or broken connection.
    pub fn ask_is_refused(&mut self, id: AskId, near: &mut Surroundings<'_>) {
        let Some(ask) = self.asks.remove(&id) else { return };
        if let Some(health) = self.health.get_mut(&ask.to) {
            health.refused(near.now);
        }
        self.ask_failed(ask, AskResult::Refused, near);
    }

    fn ask_failed(&mut self, ask: SentAsk, result: AskResult, near: &mut Surroundings<'_>) {
        match ask.flight {
            FlightId::Entry(flight) => self.entry_answered(flight, result, ask.sign.is_some(), near),
            FlightId::Home(flight) => self.home_answered(flight, result, near),
        }
    }

    /// Returns the asks sent to a node, or to all nodes.
    pub fn asks_to(&self, peer: NodeId) -> Vec<AskId> {
        self.asks.iter().filter(|(_, ask)| ask.to == peer).map(|(id, _)| *id).collect()
    }

    /// Returns the ask that a flight waits for, with the node asked.
    pub fn waits_for(&self, flight: FlightId) -> Option<(AskId, NodeId)> {
        let sent = self.asks.iter().find(|(_, ask)| ask.flight == flight);
        sent.map(|(id, ask)| (*id, ask.to))
    }

    /// Returns the flight that an ask of a peer waits for.
    pub fn serves(&self, ask: AskId) -> Option<FlightId> {
        self.serving.get(&ask).copied()
    }

    /// Returns the flight of this node that an entry's flight waits for.
    pub fn own_home_flight(&self, flight: FlightId) -> Option<FlightId> {
        let FlightId::Entry(entry) = flight else { return None };
        let waits = |home: &HomeFlight| home.has_entry(entry);
        self.home_flights.iter().find(|(_, home)| waits(home)).map(|(id, _)| FlightId::Home(*id))
    }

    /// Returns the sizes of the tables, each with its bound, for `open` requests in the cluster and
    /// this number of nodes.
    pub fn sizes(&self, open: usize, nodes: usize) -> [(&'static str, usize, usize); 5] {
        let flights = self.entry_flights.len() + self.home_flights.len();
        // A fetch goes on after its requests have gone elsewhere, for a bounded time.
        let flights_max = 2 * open + FLIGHTS_LEFT_MAX;
        [
            ("flights", flights, flights_max),
            ("asks", self.asks.len(), flights_max),
            ("bodies", self.shelf.len(), SHELF_BODIES),
            ("peers", self.health.len(), nodes),
            ("purges in the log", self.purging.log_len(), purging::LOG_ENTRIES),
        ]
    }

    /// Returns the nodes that a miss asks: the homes of the object, or this node's parents.
    fn asked_nodes(&self, object: ObjectId) -> Homes {
        let key = full_key(object);
        match self.level {
            None => self.view.homes(&key),
            Some(level) => self.view.parents(self.id, level, &ParentRule::NextLevel, &key),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        assert!(self.numbers < 1 << 40, "the node's index stands above its numbers");
        ((self.index as u64) << 40) | self.numbers
    }

    /// Returns `true` if peers may be asked for an object. A peer that covers this node's vector
    /// may lack a purge that this node applied and has not recorded.
    fn may_ask_peers(&self, object: ObjectId, near: &Surroundings<'_>) -> bool {
        self.purging.may_ask_peers(object) || near.mutation == Some(Mutation::UncoveredIgnored)
    }

    /// Returns the first life of which stored bodies are trusted.
    fn oldest_life(&self, near: &Surroundings<'_>) -> u64 {
        let trusted = self.purging.is_caught_up() || near.mutation == Some(Mutation::OldDiskTrusted);
        if trusted { 0 } else { self.life }
    }
}

/// Returns the full key of an object.
pub fn full_key(object: ObjectId) -> [u8; 8] {
    (u64::from(object) ^ 0x0b1e_c700).to_le_bytes()
}

/// Longest time-out for peers, as `cluster.peer_timeout`.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between signs of life of a home that fetches.
const SIGN_INTERVAL: Duration = Duration::from_millis(300);

/// Asks in flight below which a node is never busy: fewer than in a real one, so that runs get
/// there.
pub const LEAST_LIMIT: u32 = 16;

const HEAT_KEYS: usize = 64;

/// Bodies that a node stores.
const SHELF_BODIES: usize = 24;

/// Flights of requests that have gone elsewhere.
const FLIGHTS_LEFT_MAX: usize = 4096;
