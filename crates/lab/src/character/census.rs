//! Reads a log for its character: a census of all lines before the filter, and sizes only from
//! lines that have a body.
//!
//! A response to HEAD, a 304 and a 204 carry no body: the size in their lines is that of a head, or
//! 0. These requests get the size that their object has in other lines ([`Trace::fill_sizes`]).

use super::{CacheAccount, TraceFields};
use crate::workload::share;
use shoal_core::Key;
use shoal_trace::{Error, Filter, Outcome, ReadReport, Reader, Record, Request, SizeSources, Trace, Unread};
use std::collections::HashMap;
use std::io::Read;

/// A trace, with the accounts of its reading.
pub struct CensusTrace {
    /// The requests that count.
    pub trace: Trace,
    /// The reader's account.
    pub reading: ReadReport,
    /// Requests left out by the filter.
    pub unread: Unread,
    /// Census of the log's lines.
    pub census: Census,
    /// Sources of the sizes that were missing.
    pub filled: SizeSources,
    /// Requests with a time far from all others, which count as made with the one before
    /// ([`Trace::mend_times`]).
    pub wrong_times: u64,
    /// `true` if requests without a size got one from [`LoadOptions::size_unknown`].
    pub has_told_size: bool,
    /// Hits and losses of the cache that wrote the log.
    pub account: CacheAccount,
    /// Longest lifetime that the log tells for each object, in seconds; empty if it tells none.
    pub lifetimes: Vec<Option<u64>>,
}

/// Options for reading a whole trace.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Requests that count.
    pub filter: Filter,
    /// Largest number of requests that count.
    pub limit: usize,
    /// Size of objects that have none in any line; without it, the median of all sizes.
    pub size_unknown: Option<u64>,
    /// Treats a response that replaced a stale one as another object: a cache of any size would
    /// have missed there.
    pub versions: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { filter: Filter::default(), limit: usize::MAX, size_unknown: None, versions: false }
    }
}

impl CensusTrace {
    /// Returns the facts that at least some of the counted requests have.
    pub fn known(&self) -> TraceFields {
        let requests = self.trace.requests().len() as u64;
        let sizes = self.unread.without_size < requests || self.has_told_size;
        TraceFields { times: self.unread.without_time < requests, sizes }
    }

    /// Returns two shares of the counted requests: those for objects with a told lifetime, and the
    /// hits of an infinite cache that keeps each response for its lifetime only. `None` if the log
    /// tells no lifetimes or no times.
    pub fn fresh_hits(&self) -> Option<(f64, f64)> {
        if self.lifetimes.is_empty() || !self.known().times {
            return None;
        }
        let mut stored: Vec<Option<u64>> = vec![None; self.trace.objects().len()];
        let (mut told, mut hits) = (0, 0);
        for request in self.trace.requests() {
            let at = request.object as usize;
            let lifetime_ms = self.lifetimes.get(at).copied().flatten().map(|seconds| seconds * 1000);
            told += u64::from(lifetime_ms.is_some());
            let age_ms = stored[at].map(|stored| request.time_ms.saturating_sub(stored));
            match age_ms {
                Some(age_ms) if lifetime_ms.is_none_or(|lifetime_ms| age_ms <= lifetime_ms) => hits += 1,
                _ => stored[at] = Some(request.time_ms),
            }
        }
        let requests = self.trace.requests().len() as u64;
        debug_assert!(told <= requests && hits <= requests, "{told} told, {hits} hits of {requests}");
        Some((share(told, requests), share(hits, requests)))
    }
}

/// Counts over all lines that could be read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Census {
    /// Lines.
    pub lines: u64,
    /// Lines by the first digit of the status; those without a status first.
    pub statuses: [u64; 10],
    /// Status 304.
    pub not_modified: u64,
    /// Method GET.
    pub gets: u64,
    /// Method HEAD.
    pub heads: u64,
    /// Other methods.
    pub other_methods: u64,
    /// URLs with a `?`, or with `cgi-bin`.
    pub dynamic: u64,
    /// Requests without a size, or with the size of a response without a body.
    pub without_size: u64,
    /// Requests without a time.
    pub without_time: u64,
}

impl Census {
    fn count(&mut self, record: &Record<'_>) {
        self.lines += 1;
        self.statuses[record.status.map_or(0, |status| usize::from(status / 100) % 10)] += 1;
        self.not_modified += u64::from(record.status == Some(304));
        match record.method.as_deref() {
            None => {}
            Some("GET") => self.gets += 1,
            Some("HEAD") => self.heads += 1,
            Some(_) => self.other_methods += 1,
        }
        self.dynamic += u64::from(is_dynamic(&record.url));
        self.without_size += u64::from(body_bytes(record).is_none());
        self.without_time += u64::from(record.time_ms.is_none());
    }
}

/// Reads a whole trace. Every size is known at the end.
///
/// # Errors
/// As [`Reader::next`].
pub fn load<R: Read>(mut reader: Reader<R>, options: &LoadOptions) -> Result<CensusTrace, Error> {
    let (mut trace, mut unread, mut census) = (Trace::default(), Unread::default(), Census::default());
    let (mut account, mut versions) = (CacheAccount::default(), Versions::default());
    let mut lifetimes: Vec<Option<u64>> = Vec::new();
    while let Some(is_room) = reader.next(|record| {
        let refused = options.filter.refuses(record);
        let bytes = body_bytes(record);
        // Lines behind the limit are no part of the log and count nowhere.
        if refused.is_none() {
            let version = if options.versions { versions.of(record) } else { None };
            let size = bytes.unwrap_or(Request::BYTES_UNKNOWN);
            let is_room = trace.requests().len() < options.limit
                && trace.push_sized(version.as_ref().unwrap_or(record), size);
            if !is_room {
                return false;
            }
            note_lifetime(&mut lifetimes, &trace, record.ttl_seconds);
        }
        census.count(record);
        account.count(record, refused);
        match refused {
            Some(refused) => unread.refused[refused as usize] += 1,
            None => {
                unread.without_size += u64::from(bytes.is_none());
                unread.without_time += u64::from(record.time_ms.is_none());
            }
        }
        true
    })? {
        if !is_room {
            unread.limited = true;
            reader.check()?;
            break;
        }
    }
    let (filled, wrong_times) = (trace.fill_sizes(options.size_unknown), trace.mend_times());
    let (reading, has_told_size) = (reader.reading().clone(), options.size_unknown.is_some());
    Ok(CensusTrace { trace, reading, unread, census, filled, wrong_times, has_told_size, account, lifetimes })
}

/// Notes a lifetime of the object that was requested last. A hit tells the rest of the lifetime, so
/// that the longest is the nearest to the whole.
fn note_lifetime(lifetimes: &mut Vec<Option<u64>>, trace: &Trace, ttl_seconds: Option<i64>) {
    let told = ttl_seconds.and_then(|ttl| u64::try_from(ttl.min(LIFETIME_MAX)).ok());
    if let (Some(seconds), Some(request)) = (told, trace.requests().last()) {
        let at = request.object as usize;
        if at >= lifetimes.len() {
            lifetimes.resize(at + 1, None);
        }
        lifetimes[at] = lifetimes[at].max(Some(seconds));
    }
}

/// Objects that the log saw replaced, with the number of times.
#[derive(Default)]
struct Versions(HashMap<Key, u32>);

impl Versions {
    /// Returns the record of the object's present version, or `None` for an object that was not
    /// replaced.
    fn of(&mut self, record: &Record<'_>) -> Option<Record<'static>> {
        let key = || Key::unkeyed(record.url.as_bytes());
        if record.outcome == Some(Outcome::Replaced) {
            *self.0.entry(key()).or_default() += 1;
        }
        if self.0.is_empty() {
            return None;
        }
        let version = self.0.get(&key())?;
        let url = format!("{}#{version}", record.url).into();
        Some(Record { url, ..record.clone().into_owned() })
    }
}

/// Returns the size of a response's body, where the line tells it.
fn body_bytes(record: &Record<'_>) -> Option<u64> {
    let is_bare =
        matches!(record.status, Some(304 | 204 | 100..=199)) || record.method.as_deref() == Some("HEAD");
    record.bytes.filter(|_| !is_bare)
}

/// Returns `true` if a URL looks computed. Careful caches did not store such responses.
pub fn is_dynamic(url: &str) -> bool {
    url.contains('?') || url.contains("cgi-bin")
}

/// A hundred years, in seconds: longer lifetimes are as good.
const LIFETIME_MAX: i64 = 100 * 366 * 86_400;
