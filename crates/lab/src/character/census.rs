//! Reads a log for its character: a census of all lines before the filter, and sizes only from
//! lines that have a body.
//!
//! A response to HEAD, a 304 and a 204 carry no body: the size in their lines is that of a head, or
//! 0. These requests get the size that their object has in other lines ([`Trace::fill_sizes`]).

use super::TraceFields;
use shoal_trace::{Error, Filter, ReadReport, Reader, Record, Request, SizeSources, Trace, Unread};
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
}

impl CensusTrace {
    /// Returns the facts that at least some of the counted requests have.
    pub fn known(&self) -> TraceFields {
        let requests = self.trace.requests().len() as u64;
        TraceFields { times: self.unread.without_time < requests, sizes: self.unread.without_size < requests }
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
    /// Requests that the logging cache answered from its own store.
    pub from_cache: u64,
    /// Requests that the logging cache did not answer from its own store.
    pub not_from_cache: u64,
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
        self.from_cache += u64::from(record.from_cache == Some(true));
        self.not_from_cache += u64::from(record.from_cache == Some(false));
    }

    /// Returns the hit ratio of the cache that wrote the log; `None` where the log does not tell.
    pub fn logged_hit_ratio(&self) -> Option<f64> {
        let told = self.from_cache + self.not_from_cache;
        // Squid's own format says for every line whether it was a hit; an origin's log has no hits.
        (self.from_cache > 0).then(|| self.from_cache as f64 / told as f64)
    }
}

/// Reads a whole trace: at most `limit` requests that pass the filter. Every size is known at the
/// end.
///
/// # Errors
/// As [`Reader::next`].
pub fn load<R: Read>(mut reader: Reader<R>, filter: &Filter, limit: usize) -> Result<CensusTrace, Error> {
    let (mut trace, mut unread, mut census) = (Trace::default(), Unread::default(), Census::default());
    while let Some(is_room) = reader.next(|record| {
        let refused = filter.refuses(record);
        let bytes = body_bytes(record);
        // Lines behind the limit are no part of the log and count nowhere.
        let is_room = refused.is_some()
            || trace.requests().len() < limit
                && trace.push_sized(record, bytes.unwrap_or(Request::BYTES_UNKNOWN));
        if !is_room {
            return false;
        }
        census.count(record);
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
            break;
        }
    }
    let (filled, wrong_times) = (trace.fill_sizes(), trace.mend_times());
    Ok(CensusTrace { trace, reading: reader.reading().clone(), unread, census, filled, wrong_times })
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
