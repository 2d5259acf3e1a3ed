//! Name lookups: shared by all requests for a name, limited in number, divided fairly, and cached
//! briefly.
//!
//! ```text
//!  find ─┬─ an address ──────────────► itself
//!        ├─ remembered ──────────────► the answer, or the failure
//!        ├─ under way for too long ──► a failure at once: the name server is silent
//!        ├─ under way ───────────────► waits for that lookup
//!        └─ unknown ─► permit ─► task ► remembered
//! ```
//!
//! A lookup cannot be cancelled. `getaddrinfo` holds its thread until the name servers answer or
//! time out, 10 to 40 s if they are silent. Each lookup is therefore a task that holds a permit
//! until it returns, even if no request waits any longer. Each client has a share of the permits
//! ([`super::pool::Gate`]). A name with silent servers takes at most one permit, and is not looked
//! up again at once. While a lookup of a name times out, an older answer is used (RFC 8767).

use super::error::Cause;
use super::pool::{Gate, Party, Permit};
use super::resolve::Resolve;
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Names looked up recently or just now.
pub(super) struct Names {
    resolver: Arc<dyn Resolve>,
    permits: Arc<Gate>,
    known: Mutex<HashMap<Arc<str>, Name>>,
    /// Time after which a lookup is not waited for.
    patience: Duration,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Name {
    under_way: Option<UnderWay>,
    /// Last answer, and its expiry.
    answer: Option<(Addresses, Instant)>,
    /// Last failure, if after the last answer, and the time of the next try.
    failure: Option<(Failure, Instant)>,
}

struct UnderWay {
    since: Instant,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// Outcome of a lookup.
pub(super) type Outcome = Result<Addresses, Failure>;

/// Addresses of a name.
type Addresses = Arc<[IpAddr]>;

/// Reason for a failed lookup.
pub(super) type Failure = (Cause, String);

/// Next step for a name.
enum NameStep {
    Known(Outcome),
    Await(watch::Receiver<Option<Outcome>>),
    Begin,
}

impl Names {
    /// Creates the cache of lookups by `resolver`. A lookup that takes longer than `patience`
    /// counts as silent.
    pub fn new(resolver: Arc<dyn Resolve>, patience: Duration, metrics: Arc<Metrics>) -> Arc<Self> {
        let permits = Gate::new(LOOKUPS_MAX, WAITING_MAX);
        Arc::new(Self { resolver, permits, known: Mutex::default(), patience, metrics })
    }

    /// Returns the addresses of `host`, for `party`, before `deadline`.
    pub async fn find(self: &Arc<Self>, host: &str, party: Party, deadline: Instant) -> Outcome {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok([address].into());
        }
        let looked_up = match self.step(host) {
            NameStep::Known(outcome) => outcome,
            NameStep::Await(outcome) => awaited(outcome, deadline).await,
            NameStep::Begin => match self.permit(party, deadline).await {
                Some(permit) => awaited(self.begin(host, permit), deadline).await,
                None => {
                    self.metrics.lookups_refused.increment();
                    Err((
                        Cause::DnsTimeout,
                        "too many lookups are under way, or too many of this client's".into(),
                    ))
                }
            },
        };
        match looked_up {
            Err(failure) if failure.0 == Cause::DnsTimeout => self.older(host).ok_or(failure),
            outcome => outcome,
        }
    }

    fn step(&self, host: &str) -> NameStep {
        let known = self.known.lock();
        let Some(name) = known.get(host) else { return NameStep::Begin };
        let now = Instant::now();
        if let Some((addresses, until)) = &name.answer
            && now < *until
        {
            return NameStep::Known(Ok(Arc::clone(addresses)));
        }
        if let Some((failure, until)) = &name.failure
            && now < *until
        {
            return NameStep::Known(Err(failure.clone()));
        }
        match &name.under_way {
            None => NameStep::Begin,
            Some(lookup) if now < lookup.since + self.patience => NameStep::Await(lookup.outcome.clone()),
            Some(_) => NameStep::Known(Err((Cause::DnsTimeout, SILENT.into()))),
        }
    }

    async fn permit(&self, party: Party, deadline: Instant) -> Option<Permit> {
        if let Some(permit) = self.permits.try_acquire(party) {
            return Some(permit);
        }
        timeout_at(deadline, self.permits.queue(party)?).await.ok()
    }

    /// Begins a lookup, unless another request has begun one meanwhile.
    fn begin(self: &Arc<Self>, host: &str, permit: Permit) -> watch::Receiver<Option<Outcome>> {
        let mut known = self.known.lock();
        if known.len() >= NAMES_MAX {
            forget_one(&mut known);
        }
        let host: Arc<str> = host.into();
        let name = known.entry(Arc::clone(&host)).or_default();
        if let Some(lookup) = &name.under_way {
            return lookup.outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        name.under_way = Some(UnderWay { since: Instant::now(), outcome: outcome.clone() });
        drop(known);
        let ending = LookupEnd { names: Arc::clone(self), host };
        tokio::spawn(async move {
            let begun = Instant::now();
            let outcome = match ending.names.resolver.resolve(&ending.host).await {
                Ok(addresses) if addresses.is_empty() => Err((Cause::DnsError, "no address".into())),
                Ok(addresses) => Ok(addresses),
                Err(error) => Err((Cause::DnsError, error.to_string())),
            };
            ending.names.remember(&ending.host, &outcome, begun);
            // All waiting requests may have gone.
            let _ = sender.send(Some(outcome));
            drop((ending, permit));
        });
        outcome
    }

    fn remember(&self, host: &str, outcome: &Outcome, begun: Instant) {
        let mut known = self.known.lock();
        let name = known.entry(host.into()).or_default();
        let now = Instant::now();
        match outcome {
            Ok(addresses) => {
                name.answer = Some((Arc::clone(addresses), now + MEMORY));
                name.failure = None;
            }
            Err(failure) => {
                let was_silent = now >= begun + SLOW;
                name.failure = Some(match was_silent {
                    true => ((Cause::DnsTimeout, failure.1.clone()), now + SILENCE_MEMORY),
                    false => (failure.clone(), now + FAILURE_MEMORY),
                });
            }
        }
    }

    /// Returns an expired answer, if it is not too old.
    fn older(&self, host: &str) -> Option<Addresses> {
        let known = self.known.lock();
        let answer = known.get(host)?.answer.as_ref();
        let (addresses, _) = answer.filter(|(_, until)| Instant::now() < *until + OLDER_MAX)?;
        self.metrics.lookups_stale.increment();
        Some(Arc::clone(addresses))
    }
}

/// Ends a lookup when dropped, also when its runtime ends.
struct LookupEnd {
    names: Arc<Names>,
    host: Arc<str>,
}

impl Drop for LookupEnd {
    fn drop(&mut self) {
        if let Some(name) = self.names.known.lock().get_mut(&self.host) {
            name.under_way = None;
        }
    }
}

async fn awaited(mut lookup: watch::Receiver<Option<Outcome>>, deadline: Instant) -> Outcome {
    match timeout_at(deadline, lookup.wait_for(Option::is_some)).await {
        Ok(Ok(outcome)) => outcome.clone().expect("a lookup that has ended has an outcome"),
        Ok(Err(_)) => Err((Cause::DnsError, "the lookup was broken off".into())),
        Err(_) => Err((Cause::DnsTimeout, SILENT.into())),
    }
}

/// Removes one name that is not being looked up. Names with expired answers go first.
fn forget_one(known: &mut HashMap<Arc<str>, Name>) {
    let now = Instant::now();
    let holds = |name: &Name| name.answer.as_ref().is_some_and(|(_, until)| now < *until);
    let idle = || known.iter().filter(|(_, name)| name.under_way.is_none());
    let chosen = idle().find(|(_, name)| !holds(name)).or_else(|| idle().next());
    if let Some(host) = chosen.map(|(host, _)| Arc::clone(host)) {
        known.remove(&host);
    }
}

const SILENT: &str = "name lookup took too long";

/// Maximum number of concurrent lookups; each may hold a thread.
const LOOKUPS_MAX: usize = 64;
/// Maximum number of requests that wait to begin a lookup.
const WAITING_MAX: usize = 1024;
/// Maximum number of cached names.
const NAMES_MAX: usize = 4096;
/// Time for which an answer is valid. Operators wait longer after a DNS change, and a burst of
/// misses is shorter. `getaddrinfo` gives no TTL.
const MEMORY: Duration = Duration::from_secs(5);
/// Time for which a failure is cached: a burst makes only one lookup.
const FAILURE_MEMORY: Duration = Duration::from_secs(1);
/// Time for which a failure that took longer than [`SLOW`] is cached: its name servers are silent.
const SILENCE_MEMORY: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_secs(3);
/// Time after expiry for which an answer may still be used.
const OLDER_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;

const _: () = {
    assert!(LOOKUPS_MAX <= WAITING_MAX && WAITING_MAX <= NAMES_MAX);
    assert!(FAILURE_MEMORY.as_millis() <= MEMORY.as_millis());
    assert!(SLOW.as_millis() < SILENCE_MEMORY.as_millis());
};
