//! Counters of one site.
//!
//! Each core has a block of its own, so that counting touches memory that no other core writes. A
//! block takes about 1 KiB, a meter 32 of them and the URLs of its summaries.

use super::costs::{Cost, CostKind, ListedUrl, OriginCosts};
use super::latency::{BUCKETS, Source, bucket};
use super::reason::MissReason;
use crate::metrics::{Counter, RESULTS, result_number};
use crate::per_core::{CacheLine, PLACES, place};
use crate::record::{AccessRecord, CacheResult};
use parking_lot::Mutex;
use shoal_core::Key;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Counters of one site, and the URLs that cost its origins most.
pub struct SiteMeter {
    label: Box<str>,
    places: Box<[CacheLine<CoreCounts>; PLACES]>,
    costs: Mutex<OriginCosts>,
}

/// Counts of one core.
#[derive(Default)]
struct CoreCounts {
    /// Responses by result; the last is for failures of origins.
    responses: [Counter; SITE_RESULTS],
    body_bytes: [Counter; SITE_RESULTS],
    upstream_bytes: Counter,
    upstream_head_us: Counter,
    upstream_body_us: Counter,
    upstream_requests: ReasonCounts,
    times: [SourceBuckets; Source::ALL.len()],
}

/// Requests to origins by the number of their reason.
struct ReasonCounts([Counter; MissReason::COUNT]);

impl Default for ReasonCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// Times of one source.
#[derive(Default)]
struct SourceBuckets {
    buckets: [Counter; BUCKETS],
    sum_us: Counter,
}

/// Sums of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterSums {
    /// Label of the site.
    pub label: String,
    /// Name, responses and body bytes of each result.
    pub results: Vec<(&'static str, u64, u64)>,
    /// Requests to origins by reason.
    pub upstream_requests: Vec<(MissReason, u64)>,
    /// Bytes of bodies from origins.
    pub upstream_body_bytes: u64,
    /// Time until the heads of responses from origins, in microseconds.
    pub upstream_head_us: u64,
    /// Time from these heads to the ends of their bodies, in microseconds.
    pub upstream_body_us: u64,
    /// Times by source: buckets, and the sum in microseconds.
    pub times: Vec<(Source, [u64; BUCKETS], u64)>,
}

impl SiteMeter {
    /// Creates the meter of a site, which lists `urls` URLs by each measure.
    pub fn new(label: &str, urls: usize) -> Arc<Self> {
        let places: Box<[_]> = (0..PLACES).map(|_| CacheLine::default()).collect();
        Arc::new(Self {
            label: label.into(),
            places: places.try_into().unwrap_or_else(|_| unreachable!("a block for each place")),
            costs: Mutex::new(OriginCosts::new(urls)),
        })
    }

    /// Returns the label of the site.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Counts a hit in RAM on the fast path at `place`, the calling thread's. One in [`SAMPLED`] is
    /// timed, from `received` on. Body bytes are counted whole, though the client may leave before
    /// their end.
    #[inline]
    pub fn hit_memory(&self, place: usize, body_bytes: usize, received: Instant) {
        let counts = &self.places[place].0;
        let before = counts.responses[MEMORY_HIT].value();
        counts.responses[MEMORY_HIT].add_at(place, 1);
        counts.body_bytes[MEMORY_HIT].add_at(place, body_bytes as u64);
        if before.is_multiple_of(SAMPLED) {
            self.time_memory_hit(received);
        }
    }

    /// Counts a finished request.
    pub fn responded(&self, record: &AccessRecord) {
        let place = place();
        let counts = &self.places[place].0;
        let result = if record.failed { ERROR } else { result_number(record.outcome) };
        debug_assert!(result < SITE_RESULTS, "each result has its counter");
        let before = counts.responses[result].value();
        counts.responses[result].add_at(place, 1);
        counts.body_bytes[result].add_at(place, record.body_bytes);
        let is_timed = result != MEMORY_HIT || before.is_multiple_of(SAMPLED);
        if let Some(source) = source(result).filter(|_| is_timed && !record.aborted) {
            self.observe(source, record.duration_us);
        }
    }

    /// Counts bytes of a body from an origin.
    pub fn add_upstream_bytes(&self, bytes: u64) {
        let place = place();
        self.places[place].0.upstream_bytes.add_at(place, bytes);
    }

    /// Counts the time until the head of a response from an origin.
    pub fn add_upstream_head_time(&self, time_us: u64) {
        let place = place();
        self.places[place].0.upstream_head_us.add_at(place, time_us);
    }

    /// Counts the time that a body took to arrive from an origin.
    pub fn add_upstream_body_time(&self, time_us: u64) {
        let place = place();
        self.places[place].0.upstream_body_us.add_at(place, time_us);
    }

    /// Counts a finished request to an origin.
    pub fn asked_origin(&self, key: Key, url: &Arc<str>, cost: Cost, reason: MissReason) {
        let place = place();
        self.places[place].0.upstream_requests.0[reason.number()].add_at(place, 1);
        self.costs.lock().add(key, url, cost, reason);
    }

    /// Returns the URLs listed by `kind`, and the whole cost of the site.
    pub fn listed(&self, kind: CostKind) -> (Vec<ListedUrl>, u64) {
        let costs = self.costs.lock();
        (costs.listed(kind).collect(), costs.total(kind))
    }

    /// Adds the cores up.
    pub fn read(&self) -> MeterSums {
        let names = RESULTS.iter().map(|(label, _)| name(label)).chain(["error"]);
        let results = names.enumerate().map(|(number, name)| {
            let responses = self.sum(|counts| &counts.responses[number]);
            (name, responses, self.sum(|counts| &counts.body_bytes[number]))
        });
        let requests = |reason: MissReason| self.sum(|counts| &counts.upstream_requests.0[reason.number()]);
        let times = Source::ALL.iter().enumerate().map(|(number, source)| {
            let buckets =
                std::array::from_fn(|bucket| self.sum(|counts| &counts.times[number].buckets[bucket]));
            (*source, buckets, self.sum(|counts| &counts.times[number].sum_us))
        });
        MeterSums {
            label: self.label.to_string(),
            results: results.collect(),
            upstream_requests: MissReason::all().map(|reason| (reason, requests(reason))).collect(),
            upstream_body_bytes: self.sum(|counts| &counts.upstream_bytes),
            upstream_head_us: self.sum(|counts| &counts.upstream_head_us),
            upstream_body_us: self.sum(|counts| &counts.upstream_body_us),
            times: times.collect(),
        }
    }

    #[cold]
    #[inline(never)]
    fn time_memory_hit(&self, received: Instant) {
        let duration_us = u64::try_from(received.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.observe(Source::Ram, duration_us);
    }

    fn observe(&self, source: Source, duration_us: u64) {
        let place = place();
        let times = &self.places[place].0.times[source as usize];
        times.buckets[bucket(duration_us)].add_at(place, 1);
        times.sum_us.add_at(place, duration_us);
    }

    fn sum(&self, counter: impl Fn(&CoreCounts) -> &Counter) -> u64 {
        self.places.iter().fold(0, |sum, place| sum.wrapping_add(counter(&place.0).value()))
    }
}

impl fmt::Debug for SiteMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteMeter").field("label", &self.label).finish_non_exhaustive()
    }
}

/// Returns the name within a label of [`RESULTS`].
fn name(label: &'static str) -> &'static str {
    label.trim_start_matches("result=").trim_matches('"')
}

/// Returns the source of responses with this result; `None` if their times are not kept.
fn source(result: usize) -> Option<Source> {
    let Some((_, outcome)) = RESULTS.get(result) else { return Some(Source::Origin) };
    match outcome {
        CacheResult::MemoryHit => Some(Source::Ram),
        CacheResult::Hit => Some(Source::Disk),
        CacheResult::StaleWhileRevalidate | CacheResult::StaleIfError => Some(Source::Stale),
        CacheResult::Miss
        | CacheResult::Collapsed
        | CacheResult::RefreshUnmodified
        | CacheResult::RefreshModified
        | CacheResult::Pass => Some(Source::Origin),
        CacheResult::Tunnel | CacheResult::Denied | CacheResult::Abandoned | CacheResult::None => None,
    }
}

/// Hits in RAM for each one that is timed: reading the clock costs more than counting.
pub const SAMPLED: u64 = 64;

/// Number of results: those of the cache, and failures of origins.
const SITE_RESULTS: usize = RESULTS.len() + 1;

/// Number of the result for failures of origins.
const ERROR: usize = RESULTS.len();

/// Number of the result of hits in RAM.
const MEMORY_HIT: usize = 0;

const _: () = assert!(size_of::<CacheLine<CoreCounts>>() <= 1280);

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_semantics::status_fields::Reason;

    fn record(outcome: CacheResult, body_bytes: u64, duration_us: u64) -> AccessRecord {
        AccessRecord { outcome, body_bytes, duration_us, ..AccessRecord::default() }
    }

    fn of<'r>(reading: &'r MeterSums, name: &str) -> &'r (&'static str, u64, u64) {
        reading.results.iter().find(|result| result.0 == name).expect("a result of this name")
    }

    #[test]
    fn results_are_counted_by_their_names() {
        let meter = SiteMeter::new("a/", 4);
        for (_, outcome) in RESULTS {
            meter.responded(&record(outcome, 7, 1));
        }
        meter.responded(&AccessRecord { failed: true, ..record(CacheResult::Miss, 5, 1) });
        let reading = meter.read();
        assert!(reading.results.iter().all(|result| result.1 == 1), "{reading:?}");
        assert_eq!((of(&reading, "memory_hit").2, of(&reading, "error").2), (7, 5));
        assert_eq!(result_number(CacheResult::MemoryHit), MEMORY_HIT);
    }

    #[test]
    fn one_hit_in_ram_of_many_is_timed() {
        let meter = SiteMeter::new("a/", 4);
        let received = Instant::now();
        (0..2 * SAMPLED).for_each(|_| meter.hit_memory(place(), 10, received));
        meter.responded(&record(CacheResult::MemoryHit, 10, 1));
        meter.responded(&record(CacheResult::Hit, 10, 300));
        let reading = meter.read();
        assert_eq!(*of(&reading, "memory_hit"), ("memory_hit", 2 * SAMPLED + 1, 10 * (2 * SAMPLED + 1)));
        let counts: Vec<u64> = reading.times.iter().map(|(_, buckets, _)| buckets.iter().sum()).collect();
        assert_eq!(counts, [3, 1, 0, 0]);
        assert_eq!(reading.times[1].2, 300);
    }

    #[test]
    fn responses_cut_short_have_no_time() {
        let meter = SiteMeter::new("a/", 4);
        meter.responded(&AccessRecord { aborted: true, ..record(CacheResult::Miss, 5, 1) });
        assert!(meter.read().times.iter().all(|(_, buckets, _)| buckets.iter().sum::<u64>() == 0));
    }

    #[test]
    fn requests_to_origins_are_counted_by_reason() {
        let meter = SiteMeter::new("a/", 4);
        let url: Arc<str> = "http://a/".into();
        let cost = Cost { requests: 1, body_bytes: 3, time_us: 4 };
        meter.asked_origin(Key::of(b"a"), &url, cost, Reason::SetCookie.into());
        let reading = meter.read();
        let asked: Vec<_> = reading.upstream_requests.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(asked, [&(Reason::SetCookie.into(), 1)]);
        assert_eq!(meter.listed(CostKind::Bytes).1, 3);
    }
}
