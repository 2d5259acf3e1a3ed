//! Character of a trace: the properties that a cache depends on.
//!
//! One value, [`Character`], is made by a few passes over a trace in memory, each O(requests). Its
//! parts are reuse, popularity, sizes, locality of hosts, growth of the working set and change.
//! Statistics keep the definitions of the shared traces' published figures; the golden tests
//! compare them with those.
//!
//! Memory beside the trace: some 60 bytes an object, and the stack of reuse distances, which is
//! sampled where there are many requests.

mod account;
pub mod census;
mod change;
mod json;
mod locality;
mod popularity;
mod report;
mod sizes;
#[cfg(test)]
mod tests;
mod time;

pub use account::{CacheAccount, MissCause};
pub use census::{Census, CensusTrace, LoadOptions, load};
pub use change::{ChangeClass, ChangeRates};
pub use json::{account as account_json, census as census_json, facts, json, reading as reading_json};
pub use locality::Locality;
pub use popularity::Popularity;
pub use report::{report, section as report_section};
pub use sizes::{SizeClass, SizeSpreads, Spread};
pub use time::{Slice, WorkingSet};

use crate::curve::{SampledDistances, Shards};
use crate::progress::Progress;
use crate::workload::share;
use shoal_trace::Trace;

/// Statistics of a trace.
pub struct Character {
    /// Requests.
    pub requests: u64,
    /// Distinct objects.
    pub objects: u64,
    /// Distinct hosts; 1 where objects have none.
    pub hosts: u64,
    /// Distinct clients; 0 where the trace does not tell.
    pub clients: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes of all objects, each at its last size.
    pub unique_bytes: u64,
    /// Facts that the trace tells; figures of other facts are 0.
    pub known: TraceFields,
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Hits of an infinite cache.
    pub infinite: Infinite,
    /// Distribution of popularity.
    pub popularity: Popularity,
    /// Distribution of sizes.
    pub sizes: SizeSpreads,
    /// Reuse distances, in distinct objects and bytes.
    pub reuse: SampledDistances,
    /// Locality of hosts.
    pub locality: Locality,
    /// Objects requested within slices of time.
    pub working_set: WorkingSet,
    /// Rates of change of objects.
    pub change: ChangeRates,
}

/// Facts about requests that a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFields {
    /// `true` if requests have times.
    pub times: bool,
    /// `true` if requests have sizes.
    pub sizes: bool,
}

impl TraceFields {
    /// All facts.
    pub const ALL: Self = Self { times: true, sizes: true };
}

/// Hits of an infinite cache that starts empty.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Infinite {
    /// Hits over requests where an object is identified by name alone.
    pub hit_ratio: f64,
    /// Bytes hit over bytes requested, with objects identified by name alone.
    pub byte_hit_ratio: f64,
    /// Hits over requests where another size is a new version, and a miss.
    pub version_hit_ratio: f64,
    /// Bytes hit over bytes requested, where another size is a new version.
    pub version_byte_hit_ratio: f64,
}

impl Character {
    /// Computes the character of a trace with all sizes known ([`Trace::fill_sizes`]).
    pub fn of(trace: &Trace, known: TraceFields, seed: u64, progress: &mut dyn Progress) -> Self {
        let requests = trace.requests();
        progress.begin("character", PASSES);
        let passed = |progress: &mut dyn Progress| progress.done(1);
        let infinite = Infinite::of(trace);
        passed(progress);
        let popularity = Popularity::of(trace);
        passed(progress);
        let sizes = SizeSpreads::of(trace);
        passed(progress);
        let reuse = reuse(trace, seed);
        passed(progress);
        let locality = Locality::of(trace);
        passed(progress);
        let working_set = if known.times { WorkingSet::of(trace) } else { WorkingSet::default() };
        passed(progress);
        let is_told = known.times && known.sizes;
        let change = if is_told { ChangeRates::of(trace, &popularity) } else { ChangeRates::default() };
        passed(progress);
        let times = || requests.iter().map(|request| request.time_ms);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        Self {
            requests: requests.len() as u64,
            objects: trace.objects().len() as u64,
            hosts: trace.hosts().len() as u64,
            clients: trace.clients().len() as u64,
            bytes: requests.iter().map(|request| request.bytes).sum(),
            unique_bytes: sizes.unique_bytes,
            known,
            seconds: if known.times { (last - first) as f64 / 1000.0 } else { 0.0 },
            infinite,
            popularity,
            sizes,
            reuse,
            locality,
            working_set,
            change,
        }
    }

    /// Returns requests a second over the whole span; 0 where there is no span.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }
}

impl Infinite {
    /// Computes the hits of an infinite cache on a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut last: Vec<Option<u64>> = vec![None; trace.objects().len()];
        let (mut hits, mut hit_bytes, mut same, mut same_bytes, mut bytes) = (0, 0, 0, 0, 0);
        for request in trace.requests() {
            bytes += request.bytes;
            let before = last[request.object as usize].replace(request.bytes);
            if before.is_some() {
                hits += 1;
                hit_bytes += request.bytes;
            }
            if before == Some(request.bytes) {
                same += 1;
                same_bytes += request.bytes;
            }
        }
        let requests = trace.requests().len() as u64;
        Self {
            hit_ratio: share(hits, requests),
            byte_hit_ratio: share(hit_bytes, bytes),
            version_hit_ratio: share(same, requests),
            version_byte_hit_ratio: share(same_bytes, bytes),
        }
    }
}

/// Computes reuse distances: exact up to `EXACT_REQUESTS` requests, sampled beyond.
fn reuse(trace: &Trace, seed: u64) -> SampledDistances {
    let mut shards = if trace.requests().len() <= EXACT_REQUESTS {
        Shards::exact()
    } else {
        Shards::fixed_size(SAMPLED_OBJECTS, seed)
    };
    trace.requests().iter().for_each(|request| shards.request(request.object.into(), request.bytes));
    shards.finish()
}

const PASSES: u64 = 7;
/// Largest number of requests for exact distances; more would take more than seconds.
const EXACT_REQUESTS: usize = 3_000_000;
/// Objects watched when distances are sampled.
const SAMPLED_OBJECTS: usize = 100_000;
