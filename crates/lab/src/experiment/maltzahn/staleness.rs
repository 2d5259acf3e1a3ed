//! Staleness accounted for, which the paper names as left out (section 7): what a request asks of
//! the cache when objects change.
//!
//! Each object changes as a Poisson process of its own, whose mean interval is drawn from the seed,
//! log-uniform between two bounds: some pages change by the hour, most images hardly ever (Douglis,
//! Feldmann, Krishnamurthy, Mogul, *Rate of Change and other Metrics*, USITS 1997). The cache knows
//! only when an object was last modified, and reckons its freshness lifetime as proxies do: a
//! factor of its age when it was fetched, up to a maximum (RFC 9111, 4.2.2; Squid's
//! `refresh_pattern`: 20%, at most three days). A stale object is validated: unchanged it is read
//! as a hit and its metadata renewed, changed it is written anew.
//!
//! Costs O(1) a request and 40 bytes an object.

use crate::experiment::workload::Workload;
use shoal_trace::Random;

/// How objects change, and how long the cache takes them for fresh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staleness {
    /// Shortest and longest mean interval between two changes of an object, in milliseconds.
    pub change_milliseconds: (f64, f64),
    /// The part of its age at fetching for which an object is taken for fresh.
    pub age_factor: f64,
    /// Longest freshness lifetime, in milliseconds.
    pub lifetime_max_milliseconds: f64,
}

impl Default for Staleness {
    /// Changes between hourly and yearly; Squid's factor and maximum.
    fn default() -> Self {
        Self {
            change_milliseconds: (HOUR, 365.0 * 24.0 * HOUR),
            age_factor: 0.2,
            lifetime_max_milliseconds: 72.0 * HOUR,
        }
    }
}

/// What one request comes to, once the object's freshness is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Read the object if it is stored, write it otherwise.
    Get,
    /// As before; but if it is stored, its metadata are renewed: the origin said that it has not
    /// changed.
    Validate,
    /// Write the object, also if it is stored: it has changed.
    Rewrite,
}

impl Staleness {
    /// What each request of the workload comes to in a cache that loses nothing.
    pub fn demands(&self, workload: &Workload, seed: u64) -> Vec<Demand> {
        let mut objects: Vec<Option<Object>> = vec![None; workload.objects];
        let demand = |(object, now): (u32, f64)| match &mut objects[object as usize] {
            Some(stored) => stored.asked(now, self),
            empty => {
                *empty = Some(Object::fetched(now, Random::of(seed, u64::from(object)), self));
                Demand::Get
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

/// A stored object, and what its origin does with it. Times in milliseconds.
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
        // without memory, the time back to the last change is distributed as that to the next one
        let modified = now - random.exponential(mean_interval);
        let next_change = now + random.exponential(mean_interval);
        let mut object = Self { random, mean_interval, modified, next_change, fresh_until: 0.0 };
        object.renewed(now, staleness);
        object
    }

    fn asked(&mut self, now: f64, staleness: &Staleness) -> Demand {
        if now <= self.fresh_until {
            return Demand::Get;
        }
        let changed = self.next_change <= now;
        if changed {
            // of all changes since, the last one counts: looked at backwards it lies as far off as
            // any, yet not before the first
            let back = self.random.exponential(self.mean_interval);
            self.modified = (now - back).max(self.next_change);
            self.next_change = now + self.random.exponential(self.mean_interval);
        }
        self.renewed(now, staleness);
        if changed { Demand::Rewrite } else { Demand::Validate }
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
    fn what_never_changes_is_validated_and_what_always_changes_is_rewritten() {
        for (interval, expected) in [(1e15, Demand::Validate), (1e-3, Demand::Rewrite)] {
            let staleness = Staleness {
                change_milliseconds: (interval, interval * 1.001),
                age_factor: 0.0,
                ..Staleness::default()
            };
            let demands = staleness.demands(&daily(20), 1);
            assert_eq!(demands[0], Demand::Get);
            assert!(demands[1..].iter().all(|demand| *demand == expected), "{demands:?}");
        }
    }

    #[test]
    fn a_lifetime_that_never_ends_leaves_every_request_alone() {
        let staleness = Staleness {
            age_factor: f64::INFINITY,
            lifetime_max_milliseconds: f64::INFINITY,
            ..Staleness::default()
        };
        assert!(staleness.demands(&daily(20), 1).iter().all(|demand| *demand == Demand::Get));
    }

    #[test]
    fn changes_come_as_often_as_they_should() {
        // asked for every day and changing every ten days: 1 - exp(-0.1) of requests find it
        // changed
        let ten_days = 240.0 * HOUR;
        let staleness = Staleness {
            change_milliseconds: (ten_days, ten_days * 1.000_001),
            age_factor: 0.0,
            ..Staleness::default()
        };
        let demands = staleness.demands(&daily(20_000), 7);
        let rewritten = demands.iter().filter(|demand| **demand == Demand::Rewrite).count() as f64 / 20_000.0;
        assert!((rewritten - 0.095).abs() < 0.006, "{rewritten}");
    }

    fn daily(days: u64) -> Workload {
        crate::experiment::workload::tests::workload(
            (0..days).map(|day| ("http://a/", day * 24 * 3_600_000, 100)),
            0,
        )
    }
}
