//! Home: asks of peers, and the flights that wait for a holder or the origin.

use super::{Effect, FlightId, Mutation, Node, SIGN_INTERVAL, Surroundings, Timer, full_key};
use crate::message::{Answer, AskId, AskMessage, Body, Message, ObjectId, Reply, RequestId};
use crate::oracle::Fetch;
use shoal_cooperation::invalidation::Coverage;
use shoal_cooperation::{AskKind, AskResult, HOPS_MAX, Homes, Miss, MissSteps, NodeId, Part, Step};
use shoal_core::Key;
use std::time::Duration;

/// Requests that wait at a home for one object.
#[derive(Debug)]
pub(super) struct HomeFlight {
    object: ObjectId,
    /// Hops of the requests, if the flight asks parents; 0 if not.
    hops: u8,
    steps: MissSteps,
    began: Duration,
    budget: Duration,
    entry: NodeId,
    request: RequestId,
    waiters: Vec<Waiter>,
    asked: u64,
    at_origin: bool,
    excused: bool,
    /// Fingerprint of the view that chose the homes.
    view: u64,
}

/// Waiter for a flight of a home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiter {
    /// Peer with its ask.
    Peer { to: NodeId, ask: AskId, counted: bool },
    /// Flight of this node as entry.
    Entry(u64),
}

impl HomeFlight {
    pub(super) fn has_entry(&self, entry: u64) -> bool {
        self.waiters.contains(&Waiter::Entry(entry))
    }

    /// Returns the asks of peers that wait, and the number of those that count as load.
    fn peers(&self) -> (impl Iterator<Item = AskId>, u32) {
        let asks = self.waiters.iter().filter_map(|waiter| match waiter {
            Waiter::Peer { ask, .. } => Some(*ask),
            Waiter::Entry(_) => None,
        });
        let counted =
            self.waiters.iter().filter(|waiter| matches!(waiter, Waiter::Peer { counted: true, .. }));
        (asks, counted.count() as u32)
    }
}

impl Node {
    /// Handles an ask of a peer.
    pub fn peer_asks(&mut self, from: NodeId, ask: AskMessage, near: &mut Surroundings<'_>) {
        let covered = self.purging.coverage(ask.vector) == Coverage::Covered;
        if !covered && near.mutation != Some(Mutation::VectorUnchecked) {
            near.oracle.counts.behind += 1;
            self.reply(from, ask.id, Reply::Behind, near);
            return self.ask_for_repair(from, false, near);
        }
        let oldest = self.oldest_life(near);
        if let Some(body) = self.shelf.find(ask.object, oldest, near.now) {
            let lease = self.heat_of(ask, near);
            return self.reply(from, ask.id, Reply::Served(body, lease), near);
        }
        if ask.kind == AskKind::Holder {
            return self.join_as_holder(from, ask, near);
        }
        if self.is_busy(near) {
            near.oracle.counts.busy += 1;
            return self.reply(from, ask.id, Reply::Busy, near);
        }
        if near.mutation == Some(Mutation::PeerJoinsEntryFlight)
            && let Some(entry) = self.joinable_entry(ask.object)
        {
            self.serving.insert(ask.id, FlightId::Entry(entry));
            return near.effects.push(Effect::Send(from, Message::Working(ask.id)));
        }
        self.in_flight += 1;
        near.effects.push(Effect::Send(from, Message::Working(ask.id)));
        let waiter = Waiter::Peer { to: from, ask: ask.id, counted: true };
        let hops = self.hops_of_flight(ask.object, ask.hops);
        let joined = self.home_joinable.get(&(ask.object, hops)).copied();
        let joined = joined.filter(|_| near.mutation != Some(Mutation::FetchEach));
        let id = joined.unwrap_or_else(|| {
            let entry = (ask.entry, ask.request, ask.hops);
            self.start_home(ask.object, entry, ask.budget, false, near)
        });
        self.serving.insert(ask.id, FlightId::Home(id));
        self.home_flights.get_mut(&id).expect("the flight exists").waiters.push(waiter);
        if joined.is_none() {
            self.advance_home(id, near);
        }
    }

    fn join_as_holder(&mut self, from: NodeId, ask: AskMessage, near: &mut Surroundings<'_>) {
        let flight = self.home_joinable.get(&(ask.object, 0)).copied();
        match flight.and_then(|id| Some((id, self.home_flights.get_mut(&id)?))) {
            Some((id, flight)) if flight.at_origin => {
                flight.waiters.push(Waiter::Peer { to: from, ask: ask.id, counted: false });
                self.serving.insert(ask.id, FlightId::Home(id));
                near.effects.push(Effect::Send(from, Message::Working(ask.id)));
            }
            _ => self.reply(from, ask.id, Reply::Missing, near),
        }
    }

    fn is_busy(&self, near: &Surroundings<'_>) -> bool {
        near.mutation != Some(Mutation::BusyLeftOut)
            && self.load.is_busy(self.in_flight, self.weight_share(), near.now)
    }

    /// Returns the node's weight over the mean weight of all homes.
    pub fn weight_share(&self) -> f64 {
        let homes = self.view.members().iter().filter(|member| member.is_home());
        let (count, sum) = homes.fold((0.0, 0.0), |(count, sum), member| (count + 1.0, sum + member.weight));
        let own = self.view.member(self.id).map_or(1.0, |member| member.weight);
        let share = if sum > 0.0 { own * count / sum } else { 1.0 };
        assert!(share.is_finite() && share >= 0.0, "{share} is no share");
        share
    }

    /// Joins or starts a flight of the home's kind for a flight of this node as entry. Without a
    /// budget no previous home is asked.
    pub(super) fn join_home_for_entry(
        &mut self,
        entry: u64,
        (object, request): (ObjectId, RequestId),
        budget: Duration,
        excused: bool,
        near: &mut Surroundings<'_>,
    ) {
        if let Some(id) = self.home_joinable.get(&(object, 0)) {
            let flight = self.home_flights.get_mut(id).expect("a joinable flight exists");
            return flight.waiters.push(Waiter::Entry(entry));
        }
        // A flight of the entry has asked its parents already.
        let hops = if self.level.is_some() { HOPS_MAX } else { 0 };
        let id = self.start_home(object, (self.id, request, hops), budget, excused, near);
        let flight = self.home_flights.get_mut(&id).expect("just started");
        flight.waiters.push(Waiter::Entry(entry));
        self.advance_home(id, near);
    }

    fn start_home(
        &mut self,
        object: ObjectId,
        entry: (NodeId, RequestId, u8),
        budget: Duration,
        excused: bool,
        near: &mut Surroundings<'_>,
    ) -> u64 {
        let key = full_key(object);
        let homes = self.asked_nodes(object);
        let previous = self.history.previous_home(&key, &self.view, self.id, near.now);
        let hops = self.hops_of_flight(object, entry.2);
        let budget = if self.may_ask_peers(object, near) { budget } else { Duration::ZERO };
        let asks_home = near.mutation == Some(Mutation::HomeAsksHome);
        let miss = Miss {
            here: self.id,
            part: if asks_home { Part::Entry } else { Part::Home },
            entry: entry.0,
            homes,
            previous_home: previous,
            hops: entry.2,
            budget,
            origin_allowed: true,
        };
        let steps = match self.level {
            None => MissSteps::new(miss),
            Some(_) => MissSteps::upward(miss, Homes::default()),
        };
        let is_asked = entry.0 != self.id;
        if !excused && !is_asked && homes.first().is_some_and(|home| home != self.id) {
            near.oracle.violate(3, format!("node {} fetches object {object} past its home", self.index));
        }
        let id = self.number();
        let flight = HomeFlight {
            object,
            hops,
            steps,
            began: near.now,
            budget,
            entry: entry.0,
            request: entry.1,
            waiters: Vec::new(),
            asked: self.shelf.position(),
            at_origin: false,
            // A peer with another view, or that skipped the first home, has a reason.
            excused: excused || (is_asked && self.level.is_none() && homes.first() != Some(self.id)),
            view: self.view.fingerprint(),
        };
        let before = self.home_flights.insert(id, flight);
        assert!(before.is_none(), "flight {id} begins once");
        self.home_joinable.insert((object, hops), id);
        near.effects.push(Effect::Wake(SIGN_INTERVAL, Timer::Sign(id)));
        id
    }

    /// Returns the hops by which requests join a flight: their own if the flight asks parents.
    fn hops_of_flight(&self, object: ObjectId, hops: u8) -> u8 {
        let goes_up = self.level.is_some() && hops < HOPS_MAX && self.asked_nodes(object).first().is_some();
        if goes_up { hops } else { 0 }
    }

    fn advance_home(&mut self, id: u64, near: &mut Surroundings<'_>) {
        let ask_id = self.number();
        let vector = self.purging.vector_hash();
        let Some(flight) = self.home_flights.get_mut(&id) else { return };
        let health = &mut self.health;
        let elapsed = near.now - flight.began;
        let step = flight.steps.next(elapsed, |peer| Self::admit(health, peer, near));
        flight.asked = self.shelf.position();
        let (object, request) = (flight.object, flight.request);
        match step {
            Step::Ask(ask) => {
                let message = AskMessage {
                    id: ask_id,
                    entry: if self.level.is_some() { self.id } else { flight.entry },
                    request,
                    kind: ask.kind,
                    object,
                    hops: ask.hops,
                    vector,
                    budget: flight.budget.saturating_sub(elapsed),
                };
                self.send_ask(ask, FlightId::Home(id), message, near);
            }
            Step::Here | Step::Origin => {
                assert!(!flight.at_origin, "a flight asks the origin once");
                flight.at_origin = true;
                // A flight that was to ask parents has a reason to ask the origin.
                flight.excused |= flight.hops > 0;
                let (excused, view) = (flight.excused, flight.view);
                let fetch = Fetch { node: self.index, flight: id, excused, view };
                // Nodes of a hierarchy promise one fetch each.
                let is_counted = |other: &&Fetch| self.level.is_none() || other.node == self.index;
                if let Some(other) = near.oracle.fetch_begins(object, fetch).iter().find(is_counted) {
                    near.oracle.violate(3, format!("{fetch:?} of object {object} beside {other:?}"));
                }
                near.effects.push(Effect::Fetch(object, id, request));
            }
            Step::Unanswered => unreachable!("the origin is allowed"),
        }
    }

    /// Handles the end of an ask of a holder without a body.
    pub(super) fn home_answered(&mut self, id: u64, result: AskResult, near: &mut Surroundings<'_>) {
        if let Some(flight) = self.home_flights.get_mut(&id) {
            flight.steps.answered(result);
            self.advance_home(id, near);
        }
    }

    /// Gives all peers that wait for a flight a sign of life.
    pub fn sign(&mut self, id: u64, near: &mut Surroundings<'_>) {
        let Some(flight) = self.home_flights.get(&id) else { return };
        for waiter in &flight.waiters {
            if let Waiter::Peer { to, ask, .. } = waiter {
                near.effects.push(Effect::Send(*to, Message::Working(*ask)));
            }
        }
        near.effects.push(Effect::Wake(SIGN_INTERVAL, Timer::Sign(id)));
    }

    /// Handles the origin's answer: `None` is an error.
    pub fn fetched(&mut self, object: ObjectId, id: u64, body: Option<Body>, near: &mut Surroundings<'_>) {
        near.oracle.fetch_ends(object, self.index, id);
        self.finish_home(id, body, near);
    }

    pub(super) fn finish_home(&mut self, id: u64, body: Option<Body>, near: &mut Surroundings<'_>) {
        let Some(flight) = self.home_flights.remove(&id) else { return };
        let place = (flight.object, flight.hops);
        let joinable = self.home_joinable.get(&place) == Some(&id);
        if joinable {
            self.home_joinable.remove(&place);
        }
        let private = body.is_some_and(|body| body.private_to.is_some());
        if let Some(body) = body.filter(|_| joinable && !private) {
            self.shelf.store(body, flight.asked, None, self.life);
        }
        for (at, waiter) in flight.waiters.into_iter().enumerate() {
            match waiter {
                Waiter::Peer { to, ask, counted } => {
                    assert!(self.in_flight >= u32::from(counted), "an ask ends that was never counted");
                    self.in_flight -= u32::from(counted);
                    let reply = match body {
                        // The first waiter began the fetch; the others ask for themselves.
                        Some(_) if private && at > 0 && near.mutation != Some(Mutation::PrivateShared) => {
                            Reply::Missing
                        }
                        Some(body) => Reply::Served(body, None),
                        None => Reply::Failed,
                    };
                    self.reply(to, ask, reply, near);
                }
                Waiter::Entry(entry) => self.finish_entry(entry, body, None, near),
            }
        }
    }

    /// Checks that flights, the objects that lead to them, and asks of peers agree.
    pub(super) fn home_invariants(&self) {
        for (place, id) in &self.home_joinable {
            let flight = self.home_flights.get(id).expect("a joinable flight exists");
            assert_eq!((flight.object, flight.hops), *place, "a request joins the flight of its object");
        }
        let mut counted = 0;
        for (id, flight) in &self.home_flights {
            let (mut asks, of_flight) = flight.peers();
            counted += of_flight;
            let waits = |ask| self.serving.get(&ask) == Some(&FlightId::Home(*id));
            assert!(asks.all(waits), "an ask waits for the flight that it is listed at");
            assert_eq!(id >> 40, self.index as u64, "a flight has its node's numbers");
        }
        assert_eq!(self.in_flight, counted, "asks in flight are those that wait and count");
    }

    fn reply(&mut self, to: NodeId, id: AskId, reply: Reply, near: &mut Surroundings<'_>) {
        self.serving.remove(&id);
        let reply = match reply {
            Reply::Served(mut body, lease) if near.lies => {
                if near.random.chance(0.5) {
                    body = Body::new(body.object + 1, body.made, None);
                } else {
                    body.checksum ^= 1;
                }
                Reply::Served(body, lease)
            }
            reply => reply,
        };
        let answer = Answer { id, reply, load: self.in_flight };
        near.effects.push(Effect::Send(to, Message::Answer(answer)));
    }

    fn heat_of(&mut self, ask: AskMessage, near: &mut Surroundings<'_>) -> Option<Duration> {
        let lease = self.heat.asked(Key::unkeyed(&full_key(ask.object)), 1, near.random.bits(), near.now);
        near.oracle.counts.leases += u64::from(lease.is_some());
        lease.filter(|_| ask.kind == AskKind::Home)
    }

    /// Forgets the flights of a purged object, or of all.
    pub(super) fn forget_home(&mut self, object: Option<ObjectId>, near: &mut Surroundings<'_>) {
        let forgotten: Vec<_> = match object {
            Some(object) => {
                let places = (0..=HOPS_MAX).map(|hops| (object, hops));
                places.filter_map(|place| self.home_joinable.remove_entry(&place)).collect()
            }
            None => std::mem::take(&mut self.home_joinable).into_iter().collect(),
        };
        for ((object, _), flight) in forgotten {
            self.home_flights.entry(flight).and_modify(|flight| flight.excused = true);
            near.oracle.fetch_is_forgotten(object, self.index, flight);
        }
    }
}
