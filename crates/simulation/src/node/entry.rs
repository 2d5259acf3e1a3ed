//! Entry: requests of clients, and the flights that they join.

use super::{Effect, FlightId, Mutation, Node, PEER_TIMEOUT, SentAsk, Surroundings};
use crate::message::{Answer, AskMessage, Body, ObjectId, Reply, RequestId};
use shoal_cooperation::{AskResult, Homes, Miss, MissSteps, NodeId, Part, Step};
use std::time::Duration;

/// Requests of clients that miss one object together.
#[derive(Debug)]
pub(super) struct EntryFlight {
    object: ObjectId,
    steps: MissSteps,
    began: Duration,
    waiters: Vec<RequestId>,
    /// Count of the node's purges at the beginning.
    asked: u64,
    /// `true` once a peer was skipped, or answered other than with the object.
    excused: bool,
}

impl Node {
    /// Handles a client's request.
    pub fn client_asks(&mut self, request: RequestId, object: ObjectId, near: &mut Surroundings<'_>) {
        let oldest = self.oldest_life(near);
        if let Some(body) = self.shelf.find(object, oldest, near.now) {
            near.oracle.counts.hits += 1;
            near.oracle.serve(request, &body);
            return;
        }
        if let Some(flight) = self.entry_joinable.get(&object) {
            let flight = self.entry_flights.get_mut(flight).expect("a joinable flight exists");
            flight.waiters.push(request);
            return;
        }
        let may_ask = self.may_ask_peers(object, near);
        let homes = self.asked_nodes(object);
        let miss = Miss {
            here: self.id,
            part: Part::Entry,
            entry: self.id,
            homes,
            previous_home: None,
            hops: 0,
            budget: if may_ask { PEER_TIMEOUT } else { Duration::ZERO },
            origin_allowed: true,
        };
        let steps = match self.level {
            None => MissSteps::new(miss),
            Some(_) => MissSteps::upward(miss, Homes::default()),
        };
        let id = self.number();
        let asked = self.shelf.position();
        let (began, waiters) = (near.now, vec![request]);
        // In a view without homes each node fetches for itself.
        let excused = !may_ask || homes.first().is_none();
        let flight = EntryFlight { object, steps, began, waiters, asked, excused };
        let before = self.entry_flights.insert(id, flight);
        assert!(before.is_none(), "flight {id} begins once");
        self.entry_joinable.insert(object, id);
        self.advance_entry(id, near);
    }

    fn advance_entry(&mut self, id: u64, near: &mut Surroundings<'_>) {
        let ask_id = self.number();
        let vector = self.purging.vector_hash();
        let Some(flight) = self.entry_flights.get_mut(&id) else { return };
        let mut skipped = false;
        let health = &mut self.health;
        let elapsed = near.now - flight.began;
        let step = flight.steps.next(elapsed, |peer| {
            let timeout = Self::admit(health, peer, near);
            skipped |= timeout.is_none();
            timeout
        });
        flight.excused |= skipped;
        let (object, excused, request) = (flight.object, flight.excused, flight.waiters[0]);
        match step {
            Step::Ask(ask) => {
                // The purges that the asker knows now bound the age of the body that it takes.
                flight.asked = self.shelf.position();
                let message = AskMessage {
                    id: ask_id,
                    entry: self.id,
                    request,
                    kind: ask.kind,
                    object,
                    hops: ask.hops,
                    vector,
                    budget: PEER_TIMEOUT.saturating_sub(elapsed),
                };
                self.send_ask(ask, FlightId::Entry(id), message, near);
            }
            Step::Here => {
                let budget = PEER_TIMEOUT.saturating_sub(elapsed);
                self.join_home_for_entry(id, (object, request), budget, excused, near);
            }
            Step::Origin => self.join_home_for_entry(id, (object, request), Duration::ZERO, excused, near),
            Step::Unanswered => unreachable!("the origin is allowed"),
        }
    }

    /// Handles the end of an ask without a body. `broken` says that the peer had begun to work.
    pub(super) fn entry_answered(
        &mut self,
        id: u64,
        result: AskResult,
        broken: bool,
        near: &mut Surroundings<'_>,
    ) {
        let Some(flight) = self.entry_flights.get_mut(&id) else { return };
        flight.steps.answered(result);
        flight.excused = true;
        if broken {
            let more = crate::world::ORIGIN_LONGEST + PEER_TIMEOUT;
            flight.waiters.iter().for_each(|request| near.oracle.extend(*request, more));
        }
        self.advance_entry(id, near);
    }

    /// Handles an answer to an ask of this node.
    pub fn ask_is_answered(&mut self, from: NodeId, answer: Answer, near: &mut Surroundings<'_>) {
        self.load.heard(from, answer.load, near.now);
        let Some(ask) = self.asks.remove(&answer.id) else { return };
        let result = match answer.reply {
            Reply::Served(body, lease) if self.is_accepted(&ask, &body, near) => {
                self.note_answer(&ask, near);
                near.oracle.counts.from_peers += 1;
                return match ask.flight {
                    FlightId::Entry(id) => self.finish_entry(id, Some(body), lease, near),
                    FlightId::Home(id) => self.finish_home(id, Some(body), near),
                };
            }
            Reply::Served(..) => {
                near.oracle.counts.lies += 1;
                if let Some(health) = self.health.get_mut(&ask.to) {
                    health.lied(near.now);
                }
                return self.ask_failed(ask, AskResult::Refused, near);
            }
            Reply::Failed => {
                self.note_answer(&ask, near);
                return match ask.flight {
                    FlightId::Entry(id) => self.finish_entry(id, None, None, near),
                    FlightId::Home(id) => self.home_answered(id, AskResult::Missing, near),
                };
            }
            Reply::Missing => AskResult::Missing,
            Reply::Busy => AskResult::Busy,
            Reply::Behind => AskResult::Behind,
        };
        self.note_answer(&ask, near);
        self.ask_failed(ask, result, near);
    }

    fn is_accepted(&self, ask: &SentAsk, body: &Body, near: &Surroundings<'_>) -> bool {
        body.is_sound(ask.object) || near.mutation == Some(Mutation::BodyUnchecked)
    }

    fn note_answer(&mut self, ask: &SentAsk, near: &Surroundings<'_>) {
        if ask.sign.is_none()
            && let Some(health) = self.health.get_mut(&ask.to)
            && !(near.mutation == Some(Mutation::BreakerNeverCloses) && health.status().skipped.is_some())
        {
            health.answered(near.now - ask.sent, near.now);
        }
    }

    /// Answers all requests of a flight, and keeps a copy under a lease.
    pub(super) fn finish_entry(
        &mut self,
        id: u64,
        body: Option<Body>,
        lease: Option<Duration>,
        near: &mut Surroundings<'_>,
    ) {
        let Some(flight) = self.entry_flights.remove(&id) else { return };
        let joinable = self.entry_joinable.get(&flight.object) == Some(&id);
        if joinable {
            self.entry_joinable.remove(&flight.object);
        }
        let Some(body) = body else {
            return flight.waiters.iter().for_each(|request| near.oracle.fail(*request));
        };
        for request in &flight.waiters {
            let others = body.private_to.is_some_and(|owner| owner != *request);
            if others && near.mutation != Some(Mutation::PrivateShared) {
                near.effects.push(Effect::Pass(flight.object, *request));
                near.oracle.extend(*request, crate::world::ORIGIN_LONGEST);
            } else {
                near.oracle.serve(*request, &body);
            }
        }
        // In a hierarchy each node on the way keeps a copy.
        let until = lease.map(|lease| near.now + lease);
        if joinable && body.private_to.is_none() && (until.is_some() || self.level.is_some()) {
            self.shelf.store(body, flight.asked, until.filter(|_| self.level.is_none()), self.life);
        }
    }

    /// Handles the origin's answer to one request.
    pub fn passed(request: RequestId, body: Option<Body>, near: &mut Surroundings<'_>) {
        match body {
            Some(body) => near.oracle.serve(request, &body),
            None => near.oracle.fail(request),
        }
    }

    /// Forgets the flight of a purged object: requests of later join another.
    pub(super) fn forget_entry(&mut self, object: Option<ObjectId>) {
        match object {
            Some(object) => drop(self.entry_joinable.remove(&object)),
            None => self.entry_joinable.clear(),
        }
    }

    /// Checks that each flight has a request, and that objects lead to their flights.
    pub(super) fn entry_invariants(&self) {
        for (object, id) in &self.entry_joinable {
            let flight = self.entry_flights.get(id).expect("a joinable flight exists");
            assert_eq!(flight.object, *object, "a request joins the flight of its object");
        }
        for flight in self.entry_flights.values() {
            assert!(!flight.waiters.is_empty(), "a flight has a request");
            assert!(flight.asked <= self.shelf.position(), "a flight asks at a position that has been");
        }
    }

    /// Returns the flight that requests for an object join.
    pub(super) fn joinable_entry(&self, object: ObjectId) -> Option<u64> {
        self.entry_joinable.get(&object).copied()
    }
}
