//! Caches that cooperate in a wide area, simulated request by request over many clients.
//!
//! The model of Voelker 2000, chapter 5 ([`crate::model::wan`]) takes requests as independent,
//! caches as in their steady state and directories as always right. Here a [`Stream`], made as the
//! model assumes or read from a trace with clients, goes through m proxies. The proxies' decisions
//! are those of `shoal-cooperation`, the code that a cluster runs. Everything is counted: answers
//! by place, vain questions, messages and bytes of directories, and the cost of a lost node.
//!
//! | file | contents |
//! |---|---|
//! | `stream` | requests with the versions of their objects |
//! | `cache` | one proxy's content: everything, or LRU |
//! | `fitted` | rates of change, from a trace |
//! | `paths` | hierarchies and homes by hash: a request goes along a path |
//! | `directories` | a request is answered here, or by a peer from the directory |
//!
//! Latencies follow Table 5.3. A hit costs the latency of its level, a directory's peer twice that,
//! the origin E(L). A vain question to a peer costs the same as an answered one. Cost: some hash
//! lookups for each request and cache asked.

mod cache;
mod directories;
mod fitted;
mod paths;
mod stream;

#[cfg(test)]
mod tests;

pub use directories::Digests;
pub use fitted::{FittedChanges, fit_changes};
pub use paths::{HomeRule, Loss};
pub use stream::{ModelStream, Stream, Visit};

use crate::model::wan::WanError;
use crate::model::wan::scheme::Region;

/// Setting of a simulation.
#[derive(Clone, Debug)]
pub struct WideAreaSetup {
    /// Proxies and their distances. The region's population does not count; the stream has its own
    /// clients.
    pub region: Region,
    /// Way of cooperation.
    pub cooperation: Cooperation,
    /// Bytes of each cache; `None` keeps everything.
    pub cache_bytes: Option<u64>,
    /// E(L), in seconds.
    pub origin_seconds: f64,
    /// Number of visits, from the first, that fill the caches and do not count.
    pub warm_up: usize,
}

/// Ways of cooperation between proxies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cooperation {
    /// No cooperation.
    Alone,
    /// Levels of caches above the proxies.
    Hierarchy,
    /// One home for each object, and optionally the loss of a proxy on the way.
    Hashed(HomeRule, Option<Loss>),
    /// A home at every level but the lowest.
    HashTiers,
    /// Directories that always tell the truth; a peer is drawn among the holders.
    Directory,
    /// Directories that always tell the truth; the nearest holder is asked.
    DirectoryTiers,
    /// Digests, which lag behind and err.
    Summaries(Digests),
}

impl Cooperation {
    /// The names of [`Cooperation::named`].
    pub const NAMES: [&str; 9] = [
        "alone",
        "hierarchy",
        "rendezvous",
        "ring",
        "carp",
        "hash-tiers",
        "directory",
        "directory-tiers",
        "summaries",
    ];

    /// Returns the way of a name, without a loss; `digests` are those of `summaries`.
    pub fn named(name: &str, digests: Digests) -> Option<Self> {
        Some(match name {
            "alone" => Self::Alone,
            "hierarchy" => Self::Hierarchy,
            "rendezvous" => Self::Hashed(HomeRule::Rendezvous, None),
            "ring" => Self::Hashed(HomeRule::Ring, None),
            "carp" => Self::Hashed(HomeRule::Carp, None),
            "hash-tiers" => Self::HashTiers,
            "directory" => Self::Directory,
            "directory-tiers" => Self::DirectoryTiers,
            "summaries" => Self::Summaries(digests),
            _ => return None,
        })
    }
}

/// Counts after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WideAreaResult {
    /// Requests of clients.
    pub requests: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Requests that a cache answered, by its level, from 0 at the top. A peer counts at the
    /// nearest level that it shares with the proxy.
    pub found: Vec<u64>,
    /// Requests that the client's own proxy answered.
    pub found_here: u64,
    /// Bytes that a cache answered.
    pub found_bytes: u64,
    /// Requests that found an old version somewhere and had to go on.
    pub outdated: u64,
    /// Peers asked in vain.
    pub false_hits: u64,
    /// Requests that went to the origin although a peer held the object.
    pub false_misses: u64,
    /// Requests from one cache to another.
    pub questions: u64,
    /// Updates of directories sent, one for each receiver.
    pub updates: u64,
    /// Bytes of the updates.
    pub update_bytes: u64,
    /// Requests to each cache, from clients and other caches: the proxies first, then the caches
    /// above them level by level.
    pub arrivals: Vec<u64>,
    /// Bytes in all caches at the end.
    pub stored_bytes: u64,
    /// Sum of the latencies of all requests, in seconds.
    pub latency_seconds: f64,
    /// Hits and requests in parts of the whole run, warm-up included, to show changes on the way.
    pub course: Vec<(u64, u64)>,
}

impl WideAreaResult {
    fn new(plan: &WideAreaSetup, caches: usize) -> Self {
        Self {
            found: vec![0; plan.region.levels()],
            arrivals: vec![0; caches],
            course: vec![(0, 0); COURSE_PARTS],
            ..Self::default()
        }
    }

    /// Checks that the counts of a run over `visits` visits agree with each other.
    fn invariants(&self, visits: usize) {
        assert!(self.hits() <= self.requests, "{} hits of {} requests", self.hits(), self.requests);
        assert!(self.found_bytes <= self.bytes, "{} of {} bytes found", self.found_bytes, self.bytes);
        assert!(self.found_here <= self.hits(), "an own answer is a hit");
        assert!(self.outdated <= self.requests, "a request is outdated once");
        assert!(self.false_misses <= self.requests - self.hits(), "a false miss is a miss");
        assert!(self.false_hits <= self.questions, "a peer asked in vain was asked");
        assert!(self.latency_seconds >= 0.0, "requests took {} s", self.latency_seconds);
        assert!(self.course.iter().all(|(hits, requests)| hits <= requests), "hits of each part");
        let course: u64 = self.course.iter().map(|(_, requests)| requests).sum();
        assert_eq!(course, visits as u64, "every visit is in one part of the course");
    }

    /// Returns the requests that any cache answered.
    pub fn hits(&self) -> u64 {
        self.found.iter().sum()
    }

    /// Returns the share of requests that any cache answered.
    pub fn hit_rate(&self) -> f64 {
        self.of_requests(self.hits() as f64)
    }

    /// Returns the mean latency of a request, in seconds.
    pub fn mean_latency_seconds(&self) -> f64 {
        self.of_requests(self.latency_seconds)
    }

    /// Returns a count for each request.
    pub fn of_requests(&self, count: f64) -> f64 {
        if self.requests == 0 { 0.0 } else { count / self.requests as f64 }
    }

    /// Returns the busiest cache's requests over all clients' requests.
    pub fn busiest(&self) -> f64 {
        self.of_requests(self.arrivals.iter().copied().max().unwrap_or(0) as f64)
    }
}

/// Sends a stream through the proxies of a plan. Clients belong to proxies in turn, by number.
///
/// # Errors
/// When the region is invalid, or has more than [`MOST_PROXIES`] proxies.
pub fn simulate(stream: &Stream, plan: &WideAreaSetup, seed: u64) -> Result<WideAreaResult, WanError> {
    let region = &plan.region;
    region.check()?;
    if region.proxies() > MOST_PROXIES {
        return Err(WanError::Region { levels: region.levels(), fanout: region.fanout });
    }
    let outcome = match plan.cooperation {
        Cooperation::Directory | Cooperation::DirectoryTiers | Cooperation::Summaries(_) => {
            directories::simulate(stream, plan, seed)
        }
        _ => paths::simulate(stream, plan),
    };
    outcome.invariants(stream.visits.len());
    Ok(outcome)
}

/// Counts of one visit.
struct VisitTally<'a> {
    outcome: &'a mut WideAreaResult,
    counts: bool,
}

impl<'a> VisitTally<'a> {
    /// Creates the tally of the visit of this number.
    fn of(outcome: &'a mut WideAreaResult, plan: &WideAreaSetup, number: usize, stream: &Stream) -> Self {
        let counts = number >= plan.warm_up;
        let part = number * COURSE_PARTS / stream.visits.len().max(1);
        outcome.course[part].1 += 1;
        if counts {
            outcome.requests += 1;
            outcome.bytes += stream.visits[number].bytes;
        }
        Self { outcome, counts }
    }

    fn count(&mut self, add: impl FnOnce(&mut WideAreaResult)) {
        if self.counts {
            add(self.outcome);
        }
    }

    /// Counts an answer by a cache at a level, after `seconds`.
    fn found(&mut self, number: usize, visits: usize, level: usize, bytes: u64, seconds: f64) {
        self.outcome.course[number * COURSE_PARTS / visits.max(1)].0 += 1;
        self.count(|outcome| {
            outcome.found[level] += 1;
            outcome.found_bytes += bytes;
            outcome.latency_seconds += seconds;
        });
    }
}

/// Returns the group of a proxy at a level; all proxies are in one group at level 0, the top.
fn group(proxy: usize, level: usize, region: &Region) -> usize {
    debug_assert!(level < region.levels(), "level {level} of {}", region.levels());
    let below = region.levels() - 1 - level;
    proxy / (region.fanout as usize).pow(below as u32)
}

/// Returns the lowest level at which two proxies are in one group.
fn common_level(a: usize, b: usize, region: &Region) -> usize {
    let levels = (0..region.levels()).rev();
    levels.into_iter().find(|level| group(a, *level, region) == group(b, *level, region)).unwrap_or(0)
}

/// Largest number of proxies: a simulation has all their caches.
pub const MOST_PROXIES: f64 = 4096.0;
/// Number of parts of a run's course.
pub const COURSE_PARTS: usize = 40;
