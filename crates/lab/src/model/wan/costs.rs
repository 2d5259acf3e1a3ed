//! Costs of cooperation at any scale, with caches of a given size: messages, bytes, latency, and
//! the load of the busiest node.
//!
//! Table 5.3 has latency, storage and arrivals with caches that keep everything. Here each proxy
//! has B bytes and evicts by LRU ([`super::finite`]), and everything that goes between caches is
//! counted:
//!
//! | scheme | messages a request | told to others |
//! |---|---|---|
//! | alone | 0 | nothing |
//! | hierarchy | one for each level that misses | nothing |
//! | hashed | 1 − 1/m, to the home | nothing |
//! | directory | one if another proxy has it | each change of content, to m − 1 |
//! | group directory | one if another proxy of the group has it | the same, to d − 1 |
//!
//! A document is at some proxy of a directory while any proxy's last request for it is within a
//! cache's characteristic time. A cache of a hierarchy's upper level has its own size, and is taken
//! as if it saw all requests below it. In truth it sees only the misses of lower ones and holds
//! other documents. So small upper caches hit more than the model says (7 points in the
//! simulation). Costs of an answer: some hundred sums.

use super::scheme::Region;
use super::{Model, WanError, quantity};

/// Ways of cooperation, of which the costs are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostedScheme {
    /// No cooperation.
    Alone,
    /// k levels of caches.
    Hierarchy,
    /// One home for each URL among all proxies.
    Hashed,
    /// Each proxy knows the contents of all others.
    Directory,
    /// Each proxy knows the contents of the others of its lowest group; misses go to the origin.
    GroupDirectory,
}

/// Sizes of caches and messages.
#[derive(Clone, Debug, PartialEq)]
pub struct CostSetup {
    /// Proxies, clients and distances.
    pub region: Region,
    /// Bytes of a cache of each level, the top one first; proxies are the last.
    pub cache_bytes: Vec<f64>,
    /// Bytes of a question or of its refusal.
    pub question_bytes: f64,
    /// Bits of a directory for each document that a proxy holds.
    pub directory_bits: f64,
    /// Bytes that tell another proxy of one document that came or went.
    pub change_bytes: f64,
}

/// Costs of a scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeCosts {
    /// Share of all requests that any cache answers.
    pub hit_rate: f64,
    /// Mean latency of a request, in seconds.
    pub latency_seconds: f64,
    /// Questions between caches, for each request of a client.
    pub questions: f64,
    /// Changes of directories told, one for each receiver, for each request of a client.
    pub changes: f64,
    /// Bytes between caches for each request: documents, questions and changes.
    pub bytes: f64,
    /// Bytes from origins for each request.
    pub origin_bytes: f64,
    /// Requests a second to the busiest cache.
    pub busiest_per_second: f64,
    /// Bytes a second of the busiest cache's link, in one direction.
    pub busiest_bytes_per_second: f64,
    /// RAM of a proxy for directories, in bytes.
    pub directory_bytes: f64,
}

impl CostedScheme {
    /// All schemes.
    pub const ALL: [Self; 5] =
        [Self::Alone, Self::Hierarchy, Self::Hashed, Self::Directory, Self::GroupDirectory];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Hierarchy => "hierarchy",
            Self::Hashed => "hashed",
            Self::Directory => "directory",
            Self::GroupDirectory => "group directory",
        }
    }
}

impl Model {
    /// Returns the costs of a scheme.
    ///
    /// # Errors
    /// When the region or a size is invalid.
    pub fn costs(&self, scheme: CostedScheme, setup: &CostSetup) -> Result<SchemeCosts, WanError> {
        let region = &setup.region;
        region.check()?;
        if setup.cache_bytes.len() != region.levels() {
            return Err(WanError::Region { levels: setup.cache_bytes.len(), fanout: region.fanout });
        }
        quantity("the bytes of a question", setup.question_bytes)?;
        quantity("the bits of a directory", setup.directory_bits)?;
        quantity("the bytes of a change", setup.change_bytes)?;
        let place = CostedRegion { model: self, setup, levels: region.levels() };
        match scheme {
            CostedScheme::Alone => place.alone(),
            CostedScheme::Hierarchy => place.hierarchy(),
            CostedScheme::Hashed => place.hashed(),
            CostedScheme::Directory => place.directory(region.proxies(), 0),
            CostedScheme::GroupDirectory => {
                let group = f64::from(region.fanout).min(region.proxies());
                place.directory(group, region.levels().saturating_sub(2))
            }
        }
    }
}

/// A region with its caches.
struct CostedRegion<'a> {
    model: &'a Model,
    setup: &'a CostSetup,
    levels: usize,
}

impl CostedRegion<'_> {
    /// Returns N_i: clients below a cache of a level, 0 being the top.
    fn clients(&self, level: usize) -> f64 {
        self.setup.region.population / f64::from(self.setup.region.fanout).powi(level as i32)
    }

    /// Returns the hits of a cache of this size among all requests, and its characteristic time.
    fn hits(&self, clients: f64, bytes: f64) -> Result<(f64, f64), WanError> {
        let found = self.model.finite(clients, bytes)?;
        Ok((self.model.web.cacheable * found.cacheable.total(), found.characteristic_days))
    }

    fn proxy_bytes(&self) -> f64 {
        self.setup.cache_bytes[self.levels - 1]
    }

    /// Returns requests a second of some clients.
    fn per_second(&self, clients: f64) -> f64 {
        clients * self.model.web.requests_per_day / SECONDS_A_DAY
    }

    /// Returns the costs without any cooperation, with these hits and this latency of hits.
    fn base(&self, hit_rate: f64, found_seconds: f64) -> SchemeCosts {
        let web = &self.model.web;
        let own = self.per_second(self.clients(self.levels - 1));
        SchemeCosts {
            hit_rate,
            latency_seconds: (1.0 - hit_rate) * web.origin_seconds + found_seconds,
            questions: 0.0,
            changes: 0.0,
            bytes: 0.0,
            origin_bytes: (1.0 - hit_rate) * web.mean_bytes,
            busiest_per_second: own,
            busiest_bytes_per_second: own * web.mean_bytes,
            directory_bytes: 0.0,
        }
    }

    fn alone(&self) -> Result<SchemeCosts, WanError> {
        let last = self.levels - 1;
        let (own, _) = self.hits(self.clients(last), self.proxy_bytes())?;
        Ok(self.base(own, own * self.setup.region.latency_seconds[last]))
    }

    fn hierarchy(&self) -> Result<SchemeCosts, WanError> {
        let web = &self.model.web;
        let mut hits = Vec::with_capacity(self.levels);
        for level in (0..self.levels).rev() {
            let (found, _) = self.hits(self.clients(level), self.setup.cache_bytes[level])?;
            // A document of a lower cache came through its parent, which held it then.
            hits.push(hits.last().map_or(found, |lower: &f64| found.max(*lower)));
        }
        hits.reverse();
        let lower = |level: usize| hits.get(level + 1).copied().unwrap_or(0.0);
        let latencies = &self.setup.region.latency_seconds;
        let found = (0..self.levels).map(|level| latencies[level] * (hits[level] - lower(level)));
        let mut costs = self.base(hits[0], found.sum());
        for level in 0..self.levels {
            let asked = self.per_second(self.clients(level)) * (1.0 - lower(level));
            if level + 1 < self.levels {
                costs.questions += 1.0 - lower(level);
                costs.bytes += (1.0 - lower(level)) * (web.mean_bytes + self.setup.question_bytes);
            }
            costs.busiest_per_second = costs.busiest_per_second.max(asked);
            costs.busiest_bytes_per_second = costs.busiest_bytes_per_second.max(asked * web.mean_bytes);
        }
        Ok(costs)
    }

    fn hashed(&self) -> Result<SchemeCosts, WanError> {
        let (web, proxies) = (&self.model.web, self.setup.region.proxies());
        let (hits, _) = self.hits(self.clients(0), self.proxy_bytes() * proxies)?;
        let mut costs = self.base(hits, hits * self.setup.region.latency_seconds[0]);
        let elsewhere = 1.0 - 1.0 / proxies;
        costs.questions = elsewhere;
        costs.bytes = elsewhere * (web.mean_bytes + self.setup.question_bytes);
        // Its own clients, and questions of other proxies.
        costs.busiest_per_second *= 1.0 + elsewhere;
        costs.busiest_bytes_per_second *= 1.0 + elsewhere;
        Ok(costs)
    }

    /// Returns the costs of directories among groups of `members` proxies that are near each other
    /// at a level.
    fn directory(&self, members: f64, level: usize) -> Result<SchemeCosts, WanError> {
        let (web, setup) = (&self.model.web, self.setup);
        let last = self.levels - 1;
        let (own, kept_days) = self.hits(self.clients(last), self.proxy_bytes())?;
        let group = self.clients(last) * members;
        let all = web.cacheable * self.model.kept_hit_rate(group, kept_days)?.total();
        let elsewhere = (all - own).max(0.0);
        let latencies = &setup.region.latency_seconds;
        let mut costs =
            self.base(own + elsewhere, own * latencies[last] + elsewhere * 2.0 * latencies[level]);
        // Every cacheable request that the own cache does not answer brings a document in, and a
        // full cache loses one for it.
        let brought = (web.cacheable - own).max(0.0);
        let is_full = kept_days.is_finite();
        costs.changes = brought * if is_full { 2.0 } else { 1.0 } * (members - 1.0);
        costs.questions = elsewhere;
        costs.bytes =
            elsewhere * (web.mean_bytes + setup.question_bytes) + costs.changes * setup.change_bytes;
        let requests = self.per_second(self.clients(last));
        costs.busiest_per_second *= 1.0 + elsewhere;
        // A proxy hears as much as it tells, since all are alike.
        costs.busiest_bytes_per_second += requests * costs.bytes;
        let held = (self.proxy_bytes() / web.mean_bytes).min(web.cacheable * web.documents as f64);
        costs.directory_bytes = (members - 1.0) * held * setup.directory_bits / 8.0;
        Ok(costs)
    }
}

const SECONDS_A_DAY: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::super::paper::Rates;
    use super::super::scheme::Scheme;
    use super::super::{Form, Web};
    use super::*;

    fn setup(cache_bytes: f64) -> CostSetup {
        CostSetup {
            region: Region { population: 5e6, fanout: 10, latency_seconds: vec![0.5, 0.05, 0.01] },
            cache_bytes: vec![cache_bytes; 3],
            question_bytes: 400.0,
            directory_bits: 16.0,
            change_bytes: 16.0,
        }
    }

    #[test]
    fn caches_that_keep_all_cost_as_table_5_3_says() {
        let model = Model::new(Web::table_5_1(Rates::MID_SLOW), Form::Sum).expect("valid");
        let setup = setup(1e18);
        for (scheme, known) in [
            (CostedScheme::Hierarchy, Scheme::Hierarchy),
            (CostedScheme::Hashed, Scheme::Hashed),
            (CostedScheme::Directory, Scheme::DirectoryConsistent),
        ] {
            let costs = model.costs(scheme, &setup).expect("valid");
            let table = model.performance(known, &setup.region).expect("valid");
            assert!((costs.latency_seconds / table.latency_seconds - 1.0).abs() < 1e-6, "{scheme:?}");
        }
        let alone = model.costs(CostedScheme::Alone, &setup).expect("valid");
        assert!((alone.hit_rate - model.hit_rate(5e4).expect("valid")).abs() < 1e-9);
    }

    #[test]
    fn smaller_caches_hit_less_and_tell_more() {
        let model = Model::new(Web::table_5_1(Rates::MID_SLOW), Form::Sum).expect("valid");
        for scheme in CostedScheme::ALL {
            let of = |bytes| model.costs(scheme, &setup(bytes)).expect("valid");
            let (small, large) = (of(1e10), of(1e12));
            assert!(
                small.hit_rate < large.hit_rate && small.latency_seconds > large.latency_seconds,
                "{scheme:?}"
            );
            assert!(small.changes >= large.changes && small.origin_bytes > large.origin_bytes, "{scheme:?}");
        }
        let few = CostSetup { cache_bytes: vec![1e10], ..setup(1e10) };
        assert!(model.costs(CostedScheme::Alone, &few).is_err(), "a size for each level");
    }
}
