//! The cooperative schemes beside each other: the load of a cache, and the latency of a request
//! (Voelker 2000, Table 5.3).
//!
//! A region of N clients has k levels: one cache, or one group of caches, at the top, d below each,
//! so that d^(k−1) proxies stand at the bottom. N_i = N / d^(i−1) clients are below one at level i.
//! (The text of section 5.3 says m = d^k; its City with ten proxies and two levels, d = 10, needs
//! d^(k−1).)
//!
//! ```text
//!   hierarchy             a miss goes up level by level; every cache on the way keeps a copy
//!   hashed                every URL has one home among all m proxies
//!   directory             the proxy finds holders in a directory of all others, and asks one
//!   directory, consistent the same, every request counted once (see below)
//!   hash tiers            one home in the city, then one in the state, and so on
//!   directory tiers       one directory in the city, then one in the state; asks the nearest
//! ```
//!
//! The table's directory column counts a hit at another proxy as (1 − H_{N/m}) · H_{N(1−1/m)}, as
//! if the two misses were independent. Both misses are of the same document, and uncacheable
//! requests miss in both: for the City the column's parts add up to 117% of all requests. Of all
//! requests, H_N − H_{N/m} are no hit here but a hit somewhere; `directory, consistent` uses that
//! share instead.
//!
//! Two subscripts of the table's latencies are not read as printed. Only these readings give the
//! printed latencies of Tables 5.4 to 5.6:
//!
//! | printed | reading | otherwise, in the City |
//! |---|---|---|
//! | hierarchy: (1 − H_{N_i})·E(L), no i is bound | (1 − H_N)·E(L) | i = k: 1.18 s, not 0.86 |
//! | directory: H_{N/m}·L_i | H_{N/m}·L_l, from a proxy to its client | L_1: 0.90 s, not 0.89 |
//!
//! The last two are variants that the dissertation leaves as obvious ("designing hierarchical
//! variants of these two schemes", 5.3).

use super::{Model, WanError, quantity};

/// Clients, caches and their distances.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// N: clients.
    pub population: f64,
    /// d: caches below each cache.
    pub fanout: u32,
    /// L_1 to L_k, in seconds: time of a document from a cache of the level, the top one first; the
    /// last is from a proxy to its client. Two proxies with the nearest common level i are L_i
    /// apart.
    pub latency_seconds: Vec<f64>,
}

/// A way to cooperate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// k levels of caches.
    Hierarchy,
    /// One home for each URL.
    Hashed,
    /// Each proxy knows the documents of all others; as printed.
    Directory,
    /// The directory with every request counted once.
    DirectoryConsistent,
    /// One home for each URL at every level but the lowest.
    HashTiers,
    /// A directory for every level but the lowest.
    DirectoryTiers,
}

/// Results of a scheme in a region.
#[derive(Clone, Debug, PartialEq)]
pub struct Performance {
    /// Requests a day to one cache: of each level, the top one first, for a hierarchy; to one proxy
    /// otherwise.
    pub arrivals_per_day: Vec<f64>,
    /// Mean latency of a request, in seconds.
    pub latency_seconds: f64,
    /// Storage of one proxy, in bytes.
    pub storage_bytes: f64,
}

impl Scheme {
    /// All schemes, the dissertation's three first.
    pub const ALL: [Self; 6] = [
        Self::Hierarchy,
        Self::Hashed,
        Self::Directory,
        Self::DirectoryConsistent,
        Self::HashTiers,
        Self::DirectoryTiers,
    ];

    /// Returns the name as one word, for specifications and programs.
    pub fn token(self) -> &'static str {
        match self {
            Self::Hierarchy => "hierarchy",
            Self::Hashed => "hashed",
            Self::Directory => "directory",
            Self::DirectoryConsistent => "directory-consistent",
            Self::HashTiers => "hash-tiers",
            Self::DirectoryTiers => "directory-tiers",
        }
    }

    /// Returns the scheme of such a word.
    pub fn named(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.token() == token)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hierarchy => "hierarchy",
            Self::Hashed => "hashed",
            Self::Directory => "directory",
            Self::DirectoryConsistent => "directory, consistent",
            Self::HashTiers => "hash tiers",
            Self::DirectoryTiers => "directory tiers",
        }
    }
}

impl Region {
    /// Returns k: levels.
    pub fn levels(&self) -> usize {
        self.latency_seconds.len()
    }

    /// Returns m: proxies at the bottom.
    pub fn proxies(&self) -> f64 {
        self.width(self.levels())
    }

    /// Returns d^(level−1): caches at a level, 1 being the top.
    fn width(&self, level: usize) -> f64 {
        f64::from(self.fanout).powi(level as i32 - 1)
    }

    /// Checks the region and returns the first error.
    ///
    /// # Errors
    /// When the region has no levels or too many, no caches below a level or too many, or an
    /// invalid latency.
    pub fn check(&self) -> Result<(), WanError> {
        let (levels, fanout) = (self.levels(), self.fanout);
        if !(1..=MOST_LEVELS).contains(&levels) || fanout == 0 || self.proxies() > MOST_PROXIES {
            return Err(WanError::Region { levels, fanout });
        }
        quantity("the population", self.population)?;
        self.latency_seconds.iter().try_for_each(|seconds| quantity("a latency between caches", *seconds))
    }
}

impl Model {
    /// Returns the results of a scheme in a region.
    ///
    /// # Errors
    /// When the region is invalid.
    pub fn performance(&self, scheme: Scheme, region: &Region) -> Result<Performance, WanError> {
        region.check()?;
        let hits: Result<Vec<f64>, WanError> = (1..=region.levels())
            .map(|level| self.hit_rate(region.population / region.width(level)))
            .collect();
        let others = self.hit_rate(region.population * (1.0 - 1.0 / region.proxies()))?;
        let place = RegionHits { model: self, region, hits: hits?, others };
        debug_assert!(
            place.hits.iter().all(|hits| (-1e-9..=1.0 + 1e-9).contains(hits)),
            "hit rates are shares"
        );
        debug_assert!(place.hits.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9), "more clients hit more");
        Ok(match scheme {
            Scheme::Hierarchy => place.hierarchy(),
            Scheme::Hashed => place.hashed(),
            Scheme::Directory => place.directory((1.0 - place.own()) * place.others),
            Scheme::DirectoryConsistent => place.directory(place.hits[0] - place.own()),
            Scheme::HashTiers => place.hash_tiers(),
            Scheme::DirectoryTiers => place.directory_tiers(),
        })
    }
}

/// A region with its hit rates.
struct RegionHits<'a> {
    model: &'a Model,
    region: &'a Region,
    /// H of N_1 to N_k.
    hits: Vec<f64>,
    /// H of all clients but those of one proxy.
    others: f64,
}

impl RegionHits<'_> {
    fn hierarchy(&self) -> Performance {
        let lower = |level: usize| self.hits.get(level + 1).copied().unwrap_or(0.0);
        let levels = || 0..self.hits.len();
        let arrivals = levels().map(|level| self.arrivals(level) * (1.0 - lower(level)));
        let found =
            levels().map(|level| self.region.latency_seconds[level] * (self.hits[level] - lower(level)));
        Performance {
            arrivals_per_day: arrivals.collect(),
            latency_seconds: self.beyond_caches() + found.sum::<f64>(),
            storage_bytes: levels().map(|level| self.copies(level)).sum(),
        }
    }

    fn hashed(&self) -> Performance {
        Performance {
            arrivals_per_day: vec![self.arrivals(0) / self.region.proxies()],
            latency_seconds: self.beyond_caches() + self.hits[0] * self.region.latency_seconds[0],
            storage_bytes: self.copies(0),
        }
    }

    /// Returns the results with this share of all requests found at other proxies.
    fn directory(&self, elsewhere: f64) -> Performance {
        let (region, arrivals) = (self.region, self.arrivals(0) / self.region.proxies());
        // Table 5.3 prints L_i; the text says L_l, "from a proxy cache to a client it serves".
        let near = region.latency_seconds[region.levels() - 1];
        let found = elsewhere * 2.0 * region.latency_seconds[0] + self.own() * near;
        Performance {
            arrivals_per_day: vec![arrivals * (1.0 + elsewhere)],
            latency_seconds: self.beyond_caches() + found,
            storage_bytes: self.copies(region.levels() - 1),
        }
    }

    /// Returns the results of hash tiers. The lowest tier has one proxy for each URL in a group of
    /// d; without groups the only proxy is the home of all.
    fn hash_tiers(&self) -> Performance {
        let tiers = self.hits.len().saturating_sub(1).max(1);
        let lower = |tier: usize| if tier + 1 < tiers { self.hits[tier + 1] } else { 0.0 };
        let arrivals = self.arrivals(0) / self.region.proxies();
        let found =
            (0..tiers).map(|tier| self.region.latency_seconds[tier] * (self.hits[tier] - lower(tier)));
        Performance {
            arrivals_per_day: vec![arrivals * (0..tiers).map(|tier| 1.0 - lower(tier)).sum::<f64>()],
            latency_seconds: self.beyond_caches() + found.sum::<f64>(),
            storage_bytes: (0..tiers).map(|tier| self.copies(tier)).sum(),
        }
    }

    fn directory_tiers(&self) -> Performance {
        let last = self.hits.len() - 1;
        let latencies = &self.region.latency_seconds;
        let tiers = (0..last).map(|tier| 2.0 * latencies[tier] * (self.hits[tier] - self.hits[tier + 1]));
        let arrivals = self.arrivals(0) / self.region.proxies();
        Performance {
            arrivals_per_day: vec![arrivals * (1.0 + self.hits[0] - self.own())],
            latency_seconds: self.beyond_caches() + tiers.sum::<f64>() + self.own() * latencies[last],
            storage_bytes: self.copies(last),
        }
    }

    /// Returns H_{N/m}: the hit rate of a proxy's own cache.
    fn own(&self) -> f64 {
        self.hits[self.hits.len() - 1]
    }

    /// Returns (1 − H_N)·E(L), which Table 5.3 prints with H_{N_i} for the hierarchy.
    fn beyond_caches(&self) -> f64 {
        (1.0 - self.hits[0]) * self.model.web().origin_seconds
    }

    /// Returns λN_i: requests a day of the clients below one cache of a level, 0 being the top.
    fn arrivals(&self, level: usize) -> f64 {
        self.model.web().requests_per_day * self.region.population / self.region.width(level + 1)
    }

    /// Returns the bytes that a proxy stores when each group of a level keeps each document once,
    /// spread over its proxies.
    fn copies(&self, level: usize) -> f64 {
        let web = self.model.web();
        let group = web.documents as f64 * self.hits[level] * web.mean_bytes;
        group * self.region.width(level + 1) / self.region.proxies()
    }
}

/// Largest number of levels: deeper hierarchies than anybody runs.
pub const MOST_LEVELS: usize = 16;
const MOST_PROXIES: f64 = 1e9;
