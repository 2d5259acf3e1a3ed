//! Name lookups: one for all who ask for a name, few at once, shared out fairly, and remembered for
//! a short time.
//!
//! ```text
//!  find ─┬─ an address ──────────────► itself
//!        ├─ remembered ──────────────► the answer, or the failure
//!        ├─ under way for too long ──► a failure at once: the name server is silent
//!        ├─ under way ───────────────► waits for that lookup
//!        └─ unknown ─► permit ─► task ► remembered
//! ```
//!
//! A lookup cannot be broken off: `getaddrinfo` holds its thread until the name servers answer or
//! are given up, which takes 10 to 40 s where they are silent. So each is a task that holds a
//! permit until it returns, whoever waits for it, and each client has a share of the permits
//! ([`super::pool::Gate`]). Names whose servers are silent take no more than one permit each, and
//! are not looked up anew at once. While a name cannot be looked up, an older answer stands in (RFC
//! 8767).

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

/// The names that were looked up lately or are being.
pub(super) struct Names {
    resolver: Arc<dyn Resolve>,
    permits: Arc<Gate>,
    known: Mutex<HashMap<Arc<str>, Name>>,
    /// A lookup that takes longer is not waited for any more.
    patience: Duration,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Name {
    under_way: Option<UnderWay>,
    /// The last answer, and until when it holds.
    answer: Option<(Addresses, Instant)>,
    /// The last failure, if it came after the answer, and until when it is not tried again.
    failure: Option<(Failure, Instant)>,
}

struct UnderWay {
    since: Instant,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// How a lookup ended.
pub(super) type Outcome = Result<Addresses, Failure>;

/// The addresses of a name.
type Addresses = Arc<[IpAddr]>;

/// Why there are none.
pub(super) type Failure = (Cause, String);

/// What is to be done for a name.
enum Step {
    Known(Outcome),
    Await(watch::Receiver<Option<Outcome>>),
    Begin,
}

impl Names {
    /// Looks names up by `resolver`. One that takes longer than `patience` counts as silent.
    pub fn new(resolver: Arc<dyn Resolve>, patience: Duration, metrics: Arc<Metrics>) -> Arc<Self> {
        let permits = Gate::new(LOOKUPS_MAX, WAITING_MAX);
        Arc::new(Self { resolver, permits, known: Mutex::default(), patience, metrics })
    }

    /// The addresses of `host`, for `party`, before `deadline`.
    pub async fn find(self: &Arc<Self>, host: &str, party: Party, deadline: Instant) -> Outcome {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok([address].into());
        }
        let looked_up = match self.step(host) {
            Step::Known(outcome) => outcome,
            Step::Await(outcome) => awaited(outcome, deadline).await,
            Step::Begin => match self.permit(party, deadline).await {
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

    fn step(&self, host: &str) -> Step {
        let known = self.known.lock();
        let Some(name) = known.get(host) else { return Step::Begin };
        let now = Instant::now();
        if let Some((addresses, until)) = &name.answer
            && now < *until
        {
            return Step::Known(Ok(Arc::clone(addresses)));
        }
        if let Some((failure, until)) = &name.failure
            && now < *until
        {
            return Step::Known(Err(failure.clone()));
        }
        match &name.under_way {
            None => Step::Begin,
            Some(lookup) if now < lookup.since + self.patience => Step::Await(lookup.outcome.clone()),
            Some(_) => Step::Known(Err((Cause::DnsTimeout, SILENT.into()))),
        }
    }

    async fn permit(&self, party: Party, deadline: Instant) -> Option<Permit> {
        if let Some(permit) = self.permits.try_acquire(party) {
            return Some(permit);
        }
        timeout_at(deadline, self.permits.queue(party)?).await.ok()
    }

    /// Begins a lookup, unless somebody has begun one since it was found missing.
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
        let ending = Ending { names: Arc::clone(self), host };
        tokio::spawn(async move {
            let begun = Instant::now();
            let outcome = match ending.names.resolver.resolve(&ending.host).await {
                Ok(addresses) if addresses.is_empty() => Err((Cause::DnsError, "no address".into())),
                Ok(addresses) => Ok(addresses),
                Err(error) => Err((Cause::DnsError, error.to_string())),
            };
            ending.names.remember(&ending.host, &outcome, begun);
            // Nobody may wait any longer.
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

    /// An answer that no longer holds, for want of a better one.
    fn older(&self, host: &str) -> Option<Addresses> {
        let known = self.known.lock();
        let answer = known.get(host)?.answer.as_ref();
        let (addresses, _) = answer.filter(|(_, until)| Instant::now() < *until + OLDER_MAX)?;
        self.metrics.lookups_stale.increment();
        Some(Arc::clone(addresses))
    }
}

/// Ends a lookup, also one whose runtime ends.
struct Ending {
    names: Arc<Names>,
    host: Arc<str>,
}

impl Drop for Ending {
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

/// Makes room: a name that nobody looks up now, one whose answer no longer holds before others.
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

/// Lookups at once: each may hold a thread.
const LOOKUPS_MAX: usize = 64;
/// Requests that wait to begin one.
const WAITING_MAX: usize = 1024;
/// Names remembered.
const NAMES_MAX: usize = 4096;
/// How long an answer holds: short against the time that operators wait after a change of DNS, long
/// against a burst of misses. getaddrinfo does not say how long it may.
const MEMORY: Duration = Duration::from_secs(5);
/// How long a failure holds: no burst makes more than one lookup.
const FAILURE_MEMORY: Duration = Duration::from_secs(1);
/// The same of a lookup that took longer than [`SLOW`]: its name servers are silent.
const SILENCE_MEMORY: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_secs(3);
/// How long an answer that no longer holds may stand in for one.
const OLDER_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;

const _: () = {
    assert!(LOOKUPS_MAX <= WAITING_MAX && WAITING_MAX <= NAMES_MAX);
    assert!(FAILURE_MEMORY.as_millis() <= MEMORY.as_millis());
    assert!(SLOW.as_millis() < SILENCE_MEMORY.as_millis());
};
