//! Staleness, which the paper leaves out (section 7): demands on the cache when objects change.
//!
//! Each object changes as its own Poisson process. The mean interval is drawn from the seed,
//! log-uniform between two bounds: some pages change by the hour, most images hardly ever (Douglis,
//! Feldmann, Krishnamurthy, Mogul, *Rate of Change and other Metrics*, USITS 1997). The cache knows
//! only the time of an object's last modification. The cache computes the freshness lifetime as
//! proxies do: a factor of its age when it was fetched, up to a maximum (RFC 9111, 4.2.2; Squid's
//! `refresh_pattern`: 20%, at most three days). A stale object is validated. An unchanged object is
//! read as a hit and its metadata renewed; a changed one is written again.
//!
//! Costs O(1) a request and 40 bytes an object.

use shoal_lab::machine_runs::RequestDemand;
use shoal_lab::workload::Workload;
use shoal_trace::Random;

/// Changes of objects, and the freshness lifetimes of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staleness {
    /// Shortest and longest mean interval between two changes of an object, in milliseconds.
    pub change_milliseconds: (f64, f64),
    /// Freshness lifetime as a share of the object's age at fetching.
    pub age_factor: f64,
    /// Longest freshness lifetime, in milliseconds.
    pub lifetime_max_milliseconds: f64,
}

impl Default for Staleness {
    /// Returns changes between hourly and yearly, with Squid's factor and maximum.
    fn default() -> Self {
        Self {
            change_milliseconds: (HOUR, 365.0 * 24.0 * HOUR),
            age_factor: 0.2,
            lifetime_max_milliseconds: 72.0 * HOUR,
        }
    }
}

impl Staleness {
    /// Returns the demand of each request of the workload in a cache that loses nothing.
    pub fn demands(&self, workload: &Workload, seed: u64) -> Vec<RequestDemand> {
        let mut objects: Vec<Option<Object>> = vec![None; workload.objects];
        let demand = |(object, now): (u32, f64)| match &mut objects[object as usize] {
            Some(stored) => stored.asked(now, self),
            empty => {
                *empty = Some(Object::fetched(now, Random::of(seed, u64::from(object)), self));
                RequestDemand::Get
            }
        };
        workload
            .requests
            .iter()
            .map(|request| (request.object, request.milliseconds as f64))
            .map(demand)
            .collect()
    }
}

/// A stored object, and its changes at the origin. Times in milliseconds.
#[derive(Clone)]
struct Object {
    random: Random,
    mean_interval: f64,
    /// Last modification as of the last fetch or validation.
    modified: f64,
    next_change: f64,
    fresh_until: f64,
}

impl Object {
    fn fetched(now: f64, mut random: Random, staleness: &Staleness) -> Self {
        let (shortest, longest) = staleness.change_milliseconds;
        let mean_interval = shortest * (longest / shortest).powf(random.unit());
        // A Poisson process has no memory: the time back to the last change is distributed as that
        // to the next one.
        let modified = now - random.exponential(mean_interval);
        let next_change = now + random.exponential(mean_interval);
        let mut object = Self { random, mean_interval, modified, next_change, fresh_until: 0.0 };
        object.renewed(now, staleness);
        object
    }

    fn asked(&mut self, now: f64, staleness: &Staleness) -> RequestDemand {
        if now <= self.fresh_until {
            return RequestDemand::Get;
        }
        let changed = self.next_change <= now;
        if changed {
            // Only the last change since then counts. Its distance back is exponential too, but not
            // beyond the first change.
            let back = self.random.exponential(self.mean_interval);
            self.modified = (now - back).max(self.next_change);
            self.next_change = now + self.random.exponential(self.mean_interval);
        }
        self.renewed(now, staleness);
        if changed { RequestDemand::Rewrite } else { RequestDemand::Validate }
    }

    fn renewed(&mut self, now: f64, staleness: &Staleness) {
        let lifetime = staleness.age_factor * (now - self.modified);
        self.fresh_until = now + lifetime.min(staleness.lifetime_max_milliseconds);
    }
}

const HOUR: f64 = 3_600_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_is_validated_and_changing_is_rewritten() {
        for (interval, expected) in [(1e15, RequestDemand::Validate), (1e-3, RequestDemand::Rewrite)] {
            let staleness = Staleness {
                change_milliseconds: (interval, interval * 1.001),
                age_factor: 0.0,
                ..Staleness::default()
            };
            let demands = staleness.demands(&daily(20), 1);
            assert_eq!(demands[0], RequestDemand::Get);
            assert!(demands[1..].iter().all(|demand| *demand == expected), "{demands:?}");
        }
    }

    #[test]
    fn endless_lifetime_leaves_every_request_alone() {
        let staleness = Staleness {
            age_factor: f64::INFINITY,
            lifetime_max_milliseconds: f64::INFINITY,
            ..Staleness::default()
        };
        assert!(staleness.demands(&daily(20), 1).iter().all(|demand| *demand == RequestDemand::Get));
    }

    #[test]
    fn changes_come_as_often_as_they_should() {
        // With daily requests and a change every ten days, 1 - exp(-0.1) of requests find the
        // object changed.
        let ten_days = 240.0 * HOUR;
        let staleness = Staleness {
            change_milliseconds: (ten_days, ten_days * 1.000_001),
            age_factor: 0.0,
            ..Staleness::default()
        };
        let demands = staleness.demands(&daily(20_000), 7);
        let rewritten =
            demands.iter().filter(|demand| **demand == RequestDemand::Rewrite).count() as f64 / 20_000.0;
        assert!((rewritten - 0.095).abs() < 0.006, "{rewritten}");
    }

    fn daily(days: u64) -> Workload {
        Workload::of_requests((0..days).map(|day| ("http://a/", day * 24 * 3_600_000, 100)), 0)
    }
}
