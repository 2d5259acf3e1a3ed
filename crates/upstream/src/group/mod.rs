//! A site's upstreams: the choice of the next one, and the ones that are out.
//!
//! An upstream is out while active checks fail, or for a backoff after several failures in a row
//! ([`health`]). If all are out, one is asked anyway. The checks may be wrong. If they are right,
//! the error is the same as without asking, and the exchange may still serve stale.

mod balance;
mod health;
mod member;
mod outages;
mod turn;

use crate::exchanged::Origin;
use crate::metrics::Counter;
use crate::pool::{OriginPoolHandle, OriginPoolKey, Permit, Pool};
use balance::Candidate;
use health::{Health, HealthChange};
use http::HeaderValue;
use member::MemberChanges;
use parking_lot::Mutex;
use shoal_settings::{Balance, HealthCheck, Site, UpstreamServer};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use turn::Turns;

/// Upstreams of one site.
#[derive(Debug)]
pub struct UpstreamGroup {
    /// Name of the site in the log: the first host, with the path prefix.
    site: String,
    members: Vec<Arc<GroupMember>>,
    balance: Balance,
    check: Option<HealthCheck>,
    /// Running weights of smooth weighted round robin, one per member.
    turns: Mutex<Vec<i64>>,
    jitter: AtomicU64,
    /// Turns of requests, if the site limits those in flight.
    turns_of_requests: Option<Turns>,
}

/// One upstream, with its counters and health.
#[derive(Debug)]
pub struct GroupMember {
    /// Address of the upstream.
    pub origin: Origin,
    /// Changes to the requests that it gets.
    pub changes: MemberChanges,
    /// Share of the requests.
    pub weight: u32,
    /// Number of requests sent to it.
    pub requests: Counter,
    /// Number of requests without an HTTP answer.
    pub failures: Counter,
    /// Number of requests in flight to it now.
    pub in_flight: Counter,
    health: Mutex<Health>,
    /// Hash of its name: equal on every node and after a restart.
    hash: u64,
    /// Pool of its connections, set at the first request.
    place: OnceLock<OriginPoolHandle>,
}

/// Request in flight to a member; counts until dropped.
pub(crate) struct InFlight {
    member: Arc<GroupMember>,
    /// The request's turn at its site.
    turn: Option<Arc<Permit>>,
}

/// Unusable upstream URL, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrlError(pub String, pub &'static str);

impl UpstreamGroup {
    /// Creates the group for `site`. `seed` spreads the ends of backoffs.
    ///
    /// # Errors
    /// Returns an error if an upstream's URL cannot be used, or if there is none.
    pub fn new(site: &Site, seed: u64) -> Result<Self, UpstreamUrlError> {
        let members: Vec<_> = site.upstreams.iter().map(GroupMember::new).collect::<Result<_, _>>()?;
        if members.is_empty() {
            return Err(UpstreamUrlError(String::new(), "a site needs an upstream"));
        }
        Ok(Self {
            site: format!("{}{}", site.hosts.first().map_or("", String::as_str), site.path_prefix),
            turns: Mutex::new(vec![0; members.len()]),
            members: members.into_iter().map(Arc::new).collect(),
            balance: site.balance,
            check: site.health.clone(),
            jitter: AtomicU64::new(seed),
            turns_of_requests: Turns::of(site),
        })
    }

    /// Gives each upstream its credentials, in the settings' order.
    pub fn with_credentials(mut self, credentials: Vec<Option<HeaderValue>>) -> Self {
        assert!(credentials.iter().flatten().all(HeaderValue::is_sensitive), "no text shows a secret");
        for (member, value) in self.members.iter_mut().zip(credentials) {
            let member = Arc::get_mut(member).expect("a new group shares no member");
            member.changes.authorization = value;
        }
        self
    }

    /// Gives each upstream a time to connect of its own.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        for member in &mut self.members {
            let member = Arc::get_mut(member).expect("a new group shares no member");
            member.origin = member.origin.clone().with_connect_timeout(timeout);
        }
        self
    }

    /// Returns `true` if the upstreams have these credentials.
    pub fn has_credentials(&self, credentials: &[Option<HeaderValue>]) -> bool {
        let own = self.members.iter().map(|member| &member.changes.authorization);
        own.eq(credentials)
    }

    /// Returns the upstream that a URL names by its scheme, host and port, the one at `first`
    /// before others.
    pub fn named(&self, first: usize, scheme: &str, host: &str, port: u16) -> Option<&GroupMember> {
        let is_named =
            |member: &&Arc<GroupMember>| member.changes.is_named(&member.origin, scheme, host, port);
        let answering = self.members.get(first).filter(is_named);
        answering.or_else(|| self.members.iter().find(is_named)).map(|member| &**member)
    }

    /// Returns all upstreams, in the settings' order.
    pub fn members(&self) -> &[Arc<GroupMember>] {
        &self.members
    }

    /// Returns the settings of active checks; `None` without checks.
    pub fn check(&self) -> Option<&HealthCheck> {
        self.check.as_ref()
    }

    /// Returns the upstream to ask at `now`, except those in `tried`. Returns `None` if all were
    /// tried.
    pub(crate) fn choose(&self, key: u64, tried: &[usize], now: Instant) -> Option<usize> {
        if self.members.len() == 1 {
            return tried.is_empty().then_some(0);
        }
        let untried = || (0..self.members.len()).filter(|index| !tried.contains(index));
        let mut candidates: Vec<Candidate> =
            untried().filter(|&i| self.members[i].is_in(now)).map(|i| self.candidate(i)).collect();
        if candidates.is_empty() {
            candidates = untried().map(|i| self.candidate(i)).collect();
        }
        match self.balance {
            Balance::RoundRobin => balance::in_turn(&candidates, &mut self.turns.lock()),
            Balance::LeastRequests => balance::least_requests(&candidates, &mut self.turns.lock()),
            Balance::Hash => balance::rendezvous(&candidates, key),
        }
    }

    /// Returns the most requests in flight, if the site limits them.
    pub fn concurrency(&self) -> Option<usize> {
        self.turns_of_requests.as_ref().map(Turns::number)
    }

    /// Returns the turns of requests; `None` if the site has no limit.
    pub(crate) fn limit(&self) -> Option<&Turns> {
        self.turns_of_requests.as_ref()
    }

    /// Records an answer of member `index`.
    pub(crate) fn answered(&self, index: usize) {
        let is_news = self.members[index].health.lock().succeeded();
        if is_news {
            self.log_up(index, "it answers");
        }
    }

    /// Records that a request to member `index` failed at `now`, with the reason. Returns `true` if
    /// the log says that the member is down.
    pub(crate) fn failed(&self, index: usize, now: Instant, why: &dyn fmt::Display) -> bool {
        let member = &self.members[index];
        member.failures.increment();
        let (news, is_told) = {
            let mut health = member.health.lock();
            (health.failed(now, self.random()), health.is_logged())
        };
        if let Some(backoff) = news {
            self.log_failing(index, why, backoff);
        }
        is_told
    }

    /// If all upstreams are out at `now`, returns the time until the first one's backoff ends.
    pub(crate) fn back_in(&self, now: Instant) -> Option<Duration> {
        let waits = self.members.iter().map(|member| member.health.lock().back_in(now));
        waits.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Returns a pseudorandom number, which keeps members from acting at the same moment.
    pub(crate) fn random(&self) -> u64 {
        balance::mix(self.jitter.fetch_add(1, Ordering::Relaxed))
    }

    /// Records an active check of member `index`, with the reason if the member is unhealthy.
    pub(crate) fn record_check(&self, index: usize, outcome: Result<(), String>) {
        let threshold = self.check.as_ref().map_or(1, |check| check.threshold.max(1));
        let news = self.members[index].health.lock().checked(outcome.is_ok(), threshold, Instant::now());
        match (news, outcome) {
            (Some(HealthChange::Down), Err(why)) => self.log_unhealthy(index, &why),
            (Some(HealthChange::Up), _) => self.log_up(index, "it passes its health checks"),
            _ => {}
        }
    }

    fn candidate(&self, index: usize) -> Candidate {
        let member = &self.members[index];
        let in_flight = member.in_flight.value();
        Candidate { index, weight: member.weight, in_flight, name: member.hash }
    }
}

impl GroupMember {
    fn new(server: &UpstreamServer) -> Result<Self, UpstreamUrlError> {
        let (origin, changes) = member::parse(server)?;
        let url = format!("{origin}{}", changes.prefix);
        Ok(Self {
            hash: xxhash_rust::xxh3::xxh3_64(url.as_bytes()),
            origin,
            changes,
            weight: server.weight.max(1),
            requests: Counter::default(),
            failures: Counter::default(),
            in_flight: Counter::default(),
            health: Mutex::default(),
            place: OnceLock::new(),
        })
    }

    /// Returns the member's URL.
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.changes.prefix)
    }

    /// Returns the member's connection pool within `pool`. The lookup happens once, for the first
    /// `pool` that asks.
    pub(crate) fn place(&self, pool: &Arc<Pool>) -> Option<&OriginPoolHandle> {
        let look_up =
            || pool.place(&OriginPoolKey { origin: self.origin.clone(), rules: 0, is_check: false });
        Some(self.place.get_or_init(look_up)).filter(|place| place.is_of(pool))
    }

    /// Returns `true` if the member may be chosen at `now`.
    pub fn is_in(&self, now: Instant) -> bool {
        self.health.lock().is_in(now)
    }
}

impl InFlight {
    /// Counts a request to member `index`, which keeps its turn.
    pub fn begin(group: &UpstreamGroup, index: usize, turn: Option<Arc<Permit>>) -> Self {
        let member = Arc::clone(&group.members[index]);
        member.requests.increment();
        member.in_flight.increment();
        Self { member, turn }
    }

    /// Returns the turn. Tunnels keep none, since they have a limit of their own.
    pub fn without_turn(self) -> Self {
        let mut kept = self;
        kept.turn = None;
        kept
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.member.in_flight.subtract(1);
    }
}

impl fmt::Display for UpstreamUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream {:?} {}", self.0, self.1)
    }
}

impl std::error::Error for UpstreamUrlError {}

#[cfg(test)]
mod tests;
