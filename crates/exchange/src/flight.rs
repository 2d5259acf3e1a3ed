//! Collapsed requests: concurrent misses for one key make one fetch (RFC 9111, section 4, last
//! paragraph).
//!
//! The first request for a key leads. It starts the fetch as a task of its own, so that its client
//! may leave. The others follow: they learn how the fetch *landed* as soon as the response's head
//! has arrived. Then they read the body as it arrives, or send their own request. A leader that
//! vanishes releases its followers.
//!
//! A response to a request with credentials is often for its client alone, as its head then shows.
//! A slow response should not make such clients queue in vain. One follower therefore leaves to ask
//! for itself in every [`PATIENCE`].

use super::fetch::{ArrivingResponse, FetchFailure};
use http::StatusCode;
use parking_lot::Mutex;
use shoal_cooperation::HOPS_MAX;
use shoal_core::ObjectKey;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Current fetches, by key.
pub struct Flights {
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<FlightKey, Arc<Flight>>;

/// Common properties of requests that share a fetch. They are compared in full: clients and origins
/// choose most of them, so the hash only locates an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey {
    /// Key under which the response was looked up.
    stored: ObjectKey,
    /// Hops of the request, if the fetch may wait for other nodes of the cluster. Such a flight is
    /// joined by requests with as many hops alone. Each wait for a node therefore leads to a
    /// request with more hops, so that no circle of waits exists.
    asking_after: Option<u8>,
    /// Range and validators of the request to the origin.
    part: Option<PartKey>,
}

/// The part of a response that a fetch asks for, and its condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartKey {
    /// Value of Range.
    pub range: Box<[u8]>,
    /// Lines of If-Range.
    pub validators: Box<[Box<[u8]>]>,
}

/// A fetch in progress.
pub struct Flight {
    landing: watch::Sender<Option<FlightOutcome>>,
    /// Keys that lead to it, or did.
    keys: Mutex<Vec<FlightKey>>,
    /// Last time at which a follower left to ask for itself; at first the flight's start.
    left: Mutex<Instant>,
    /// Waits for the origin, and for no other node any more.
    is_at_origin: AtomicBool,
}

/// Outcome of a fetch for its followers.
#[derive(Clone)]
pub enum FlightOutcome {
    /// The response may be shared; its body is arriving.
    Shared(Arc<ArrivingResponse>),
    /// The stored response was validated and refreshed: look it up again.
    Refreshed,
    /// The stored response is still valid but stale, and may be used in place of this error of the
    /// origin.
    Erred(StatusCode),
    /// The response cannot be shared: each follower asks for itself.
    Unshareable,
    /// There is no response.
    Failed(Arc<FetchFailure>),
}

/// Role of a request in a fetch.
pub enum FlightRole {
    /// The request makes the fetch.
    Lead(Leader),
    /// The request waits for another's fetch.
    Follow(Follower),
}

/// The right and duty to make a fetch. Dropping the leader removes the flight from the table.
pub struct Leader {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
}

/// A request that waits for another's fetch.
pub struct Follower {
    flight: Arc<Flight>,
    landing: watch::Receiver<Option<FlightOutcome>>,
}

impl Flights {
    /// Creates a table without fetches.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    /// Joins the current fetch for `key`, or becomes the leader of a new one.
    pub fn join(self: &Arc<Self>, key: FlightKey) -> FlightRole {
        let mut shard = self.shard(&key).lock();
        if let Some(flight) = shard.get(&key) {
            return FlightRole::Follow(Follower::of(flight, &key));
        }
        let flight = Arc::new(Flight {
            landing: watch::Sender::new(None),
            keys: Mutex::new(vec![key.clone()]),
            left: Mutex::new(Instant::now()),
            is_at_origin: AtomicBool::new(false),
        });
        let before = shard.insert(key, Arc::clone(&flight));
        assert!(before.is_none(), "two leaders of one fetch");
        FlightRole::Lead(Leader { flights: Arc::clone(self), flight })
    }

    /// Follows the current fetch for `key`, if there is one.
    pub fn follow(&self, key: &FlightKey) -> Option<Follower> {
        self.shard(key).lock().get(key).map(|flight| Follower::of(flight, key))
    }

    /// Follows the current fetch for `key` if it is at the origin already.
    pub fn follow_at_origin(&self, key: &FlightKey) -> Option<Follower> {
        let shard = self.shard(key).lock();
        let flight = shard.get(key).filter(|flight| flight.is_at_origin.load(Relaxed))?;
        Some(Follower::of(flight, key))
    }

    /// Stops further requests from joining the fetch of the whole for `key`: its response is
    /// already invalid.
    pub fn forget(&self, key: &ObjectKey) {
        for asking_after in std::iter::once(None).chain((0..HOPS_MAX).map(Some)) {
            let key = FlightKey { asking_after, ..FlightKey::of(key) };
            self.shard(&key).lock().remove(&key);
        }
    }

    /// Returns the number of current fetches.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.invariants();
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Checks that each key leads to a flight of its own that has a leader.
    #[cfg(test)]
    fn invariants(&self) {
        for (at, shard) in self.shards.iter().enumerate() {
            for (key, flight) in &*shard.lock() {
                assert_eq!(key.stored.hash().low() as usize % SHARDS, at);
                assert!(flight.is_of(key), "a key that leads to another's flight");
                assert!(flight.landing.borrow().is_none() || Arc::strong_count(flight) > 1);
            }
        }
    }

    fn shard(&self, key: &FlightKey) -> &Mutex<Shard> {
        &self.shards[key.stored.hash().low() as usize % SHARDS]
    }
}

impl FlightKey {
    /// Returns the key of fetches of the whole response stored under `stored`.
    pub fn of(stored: &ObjectKey) -> Self {
        Self { stored: stored.clone(), asking_after: None, part: None }
    }

    /// Returns the key of fetches that may wait for other nodes after this number of hops, or may
    /// not.
    pub fn asking_after(self, asking_after: Option<u8>) -> Self {
        debug_assert!(asking_after.is_none_or(|hops| hops < HOPS_MAX), "the last hop asks nobody");
        Self { asking_after, ..self }
    }

    /// Returns the key of fetches of a part of the response.
    pub fn for_part(self, part: PartKey) -> Self {
        Self { part: Some(part), ..self }
    }
}

impl Flight {
    /// Returns `true` if the flight is, or was, the one of this full key.
    fn is_of(&self, key: &FlightKey) -> bool {
        self.keys.lock().contains(key)
    }
}

impl Leader {
    /// Publishes the outcome of the fetch to its followers. Only the first outcome counts.
    pub fn publish(&self, landing: FlightOutcome) {
        self.flight.landing.send_if_modified(|landed| {
            let first = landed.is_none();
            landed.get_or_insert(landing);
            first
        });
    }

    /// Notes that the fetch waits for the origin now, and for no other node any more.
    pub fn note_at_origin(&self) {
        self.flight.is_at_origin.store(true, Relaxed);
    }

    /// Returns `true` if there are no followers now.
    pub fn is_deserted(&self) -> bool {
        self.flight.landing.receiver_count() == 0
    }

    /// Waits until there are no followers.
    pub async fn deserted(&self) {
        self.flight.landing.closed().await;
    }

    /// Lets requests for `key` follow this fetch too, unless a fetch for `key` exists.
    pub fn add_key(&mut self, key: FlightKey) {
        let mut shard = self.flights.shard(&key).lock();
        if let Entry::Vacant(vacant) = shard.entry(key.clone()) {
            vacant.insert(Arc::clone(&self.flight));
            self.flight.keys.lock().push(key);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.publish(FlightOutcome::Unshareable);
        debug_assert!(self.flight.landing.borrow().is_some(), "followers that wait for ever");
        let keys = self.flight.keys.lock().clone();
        for key in &keys {
            let mut shard = self.flights.shard(key).lock();
            if shard.get(key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
                shard.remove(key);
            }
        }
    }
}

impl Follower {
    fn of(flight: &Arc<Flight>, key: &FlightKey) -> Self {
        assert!(flight.is_of(key), "a follower of another key's flight");
        Self { flight: Arc::clone(flight), landing: flight.landing.subscribe() }
    }

    /// Waits for the outcome. Returns `None` when it is this follower's turn to ask for itself.
    pub async fn landed_before_turn(mut self) -> Option<FlightOutcome> {
        let own = Instant::now() + PATIENCE;
        loop {
            let turn = own.max(*self.flight.left.lock() + PATIENCE);
            tokio::select! {
                biased;
                landing = self.landing() => return Some(landing),
                () = sleep_until(turn) => {}
            }
            let (mut left, now) = (self.flight.left.lock(), Instant::now());
            if *left + PATIENCE <= now {
                *left = now;
                return None;
            }
        }
    }

    /// Waits for the outcome.
    pub async fn wait_outcome(mut self) -> FlightOutcome {
        self.landing().await
    }

    /// Waits for the outcome. A response with a body that has broken off cannot be shared; a
    /// follower has received none of it yet.
    async fn landing(&mut self) -> FlightOutcome {
        match self.landing.wait_for(Option::is_some).await.map(|landing| landing.clone()) {
            Ok(Some(FlightOutcome::Shared(arrived))) if arrived.body.is_cut() => FlightOutcome::Unshareable,
            Ok(Some(landing)) => landing,
            Ok(None) | Err(_) => FlightOutcome::Unshareable,
        }
    }
}

const SHARDS: usize = 64;

/// Shortest wait of a follower with credentials, and interval at which one such follower leaves.
const PATIENCE: Duration = Duration::from_millis(500);

const _: () = assert!(SHARDS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::super::identity::Identity;
    use super::super::invalidations::Invalidations;
    use super::super::metadata::{Provenance, ResponseMetadata, ResponseScope};
    use super::super::purge_table::Sequence;
    use super::super::shared_body::{BodyEnd, SharedBody};
    use super::*;
    use http::header::CACHE_CONTROL;
    use http::{HeaderMap, HeaderValue, Method};
    use shoal_core::Timestamp;
    use shoal_semantics::CacheRules;
    use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};

    fn key(full: &[u8]) -> FlightKey {
        FlightKey::of(&ObjectKey::new(full))
    }

    fn lead(flights: &Arc<Flights>, key: FlightKey) -> Leader {
        match flights.join(key) {
            FlightRole::Lead(leader) => leader,
            FlightRole::Follow(_) => panic!("a leader was expected"),
        }
    }

    fn follow(flights: &Arc<Flights>, key: FlightKey) -> Follower {
        match flights.join(key) {
            FlightRole::Follow(follower) => follower,
            FlightRole::Lead(_) => panic!("a follower was expected"),
        }
    }

    #[tokio::test]
    async fn followers_learn_how_the_fetch_landed() {
        let (flights, key) = (Flights::new(), key(b"a"));
        let leader = lead(&flights, key.clone());
        let early = follow(&flights, key.clone());
        leader.publish(FlightOutcome::Refreshed);
        let late = follow(&flights, key.clone());
        leader.publish(FlightOutcome::Unshareable);
        assert!(matches!(early.wait_outcome().await, FlightOutcome::Refreshed));
        assert!(matches!(late.wait_outcome().await, FlightOutcome::Refreshed), "the first landing counts");
        drop(leader);
        assert_eq!(flights.count(), 0);
    }

    /// Returns a shareable response of which only the head has arrived.
    fn arrived() -> Arc<ArrivingResponse> {
        let (key, none) = (ObjectKey::new(*b"a"), HeaderMap::new());
        let fields: HeaderMap =
            [(CACHE_CONTROL, HeaderValue::from_static("max-age=60"))].into_iter().collect();
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &none,
            status: StatusCode::OK,
            response: &fields,
            request_time: Timestamp::from_seconds(10),
            response_time: Timestamp::from_seconds(10),
        };
        let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
            panic!("storable")
        };
        let names = ResponseScope { slots: Box::new([]), groups: Box::new([]), via_site: true };
        let origin = Provenance { requested: Sequence::new(10), names, identity: Identity::unique() };
        let head = Arc::new(ResponseMetadata::new(StatusCode::OK, fields.clone(), policy, origin));
        Arc::new(ArrivingResponse {
            validity: Invalidations::new().snapshot(&key),
            key,
            own_head: Arc::clone(&head),
            head,
            body: SharedBody::new(),
            length: None,
            selecting: None,
            upstream: ([127, 0, 0, 1], 80).into(),
            is_stored: true,
        })
    }

    #[tokio::test]
    async fn cut_response_is_unshareable() {
        let (flights, key) = (Flights::new(), key(b"a"));
        let (leader, arrived) = (lead(&flights, key.clone()), arrived());
        let (early, late) = (follow(&flights, key.clone()), follow(&flights, key.clone()));
        leader.publish(FlightOutcome::Shared(Arc::clone(&arrived)));
        assert!(matches!(early.wait_outcome().await, FlightOutcome::Shared(_)));
        arrived.body.finish(BodyEnd::Cut("the origin has left".into()));
        assert!(matches!(late.wait_outcome().await, FlightOutcome::Unshareable));
    }

    #[tokio::test]
    async fn a_fetch_may_serve_further_keys() {
        let flights = Flights::new();
        let mut leader = lead(&flights, key(b"a part"));
        leader.add_key(key(b"the whole"));
        let follower = follow(&flights, key(b"the whole"));
        leader.publish(FlightOutcome::Refreshed);
        assert!(matches!(follower.wait_outcome().await, FlightOutcome::Refreshed));
        drop(leader);
        assert_eq!(flights.count(), 0);
    }

    #[tokio::test]
    async fn a_flight_is_deserted_with_its_last_follower() {
        let (flights, key) = (Flights::new(), key(b"a"));
        let leader = lead(&flights, key.clone());
        leader.deserted().await;
        let followers = [follow(&flights, key.clone()), follow(&flights, key)];
        let pause = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(pause, leader.deserted()).await.is_err());
        drop(followers);
        leader.deserted().await;
    }

    #[tokio::test]
    async fn a_leader_that_vanishes_releases_its_followers() {
        let (flights, key) = (Flights::new(), key(b"a"));
        let leader = lead(&flights, key.clone());
        let follower = follow(&flights, key.clone());
        drop(leader);
        assert!(matches!(follower.wait_outcome().await, FlightOutcome::Unshareable));
    }

    #[test]
    fn keys_of_one_hash_make_two_flights() {
        let flights = Flights::new();
        let one = ObjectKey::new(*b"a");
        let other = ObjectKey::stored(*b"b", one.hash());
        let _first = lead(&flights, FlightKey::of(&one));
        let second = lead(&flights, FlightKey::of(&other));
        assert!(flights.follow(&FlightKey::of(&other)).is_some());
        drop(second);
        assert_eq!(flights.count(), 1);
    }

    #[test]
    fn ranges_and_validators_make_flights_of_their_own() {
        let (flights, stored) = (Flights::new(), ObjectKey::new(*b"a"));
        let part = |range: &[u8], validators: &[&[u8]]| {
            let validators = validators.iter().map(|line| (*line).into()).collect();
            FlightKey::of(&stored).for_part(PartKey { range: range.into(), validators })
        };
        let keys = [
            FlightKey::of(&stored),
            part(b"bytes=0-1", &[]),
            part(b"bytes=0-2", &[]),
            part(b"bytes=0-1", &[b"\"v1\""]),
            part(b"bytes=0-1", &[b"\"v", b"1\""]),
        ];
        let leaders: Vec<Leader> = keys.iter().map(|key| lead(&flights, key.clone())).collect();
        assert_eq!(flights.count(), leaders.len());
    }

    #[tokio::test]
    async fn a_forgotten_fetch_is_joined_by_nobody_more() {
        let (flights, stored) = (Flights::new(), ObjectKey::new(*b"a"));
        let key = FlightKey::of(&stored);
        let old = lead(&flights, key.clone());
        flights.forget(&stored);
        let new = lead(&flights, key.clone());
        drop(old);
        assert_eq!(flights.count(), 1, "the new fetch stays in the table");
        drop(new);
        assert_eq!(flights.count(), 0);
    }
}
