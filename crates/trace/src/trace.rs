//! A trace in memory: 24 bytes a request, and each name once.

use crate::dictionary::Dictionary;
use crate::filter::{Filter, RefusalReason};
use crate::input::Input;
use crate::reader::{Error, ReadOptions, ReadReport, Reader};
use crate::record::{Record, host_of};
use std::io::Read;

/// Request, with numbers instead of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Time in milliseconds since 1970. In a trace without times this is the request's place in the
    /// trace.
    pub time_ms: u64,
    /// Size of the response in bytes.
    pub bytes: u64,
    /// Number of the requested object.
    pub object: u32,
    /// Number of the client; 0 if the trace has no clients.
    pub client: u32,
}

const _: () = assert!(size_of::<Request>() == 24);

impl Request {
    /// Size of a request without a size: see [`Trace::fill_sizes`].
    pub const BYTES_UNKNOWN: u64 = u64::MAX;
}

/// Sources of the sizes of requests that had none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeSources {
    /// Requests that got the size of an earlier request for their object.
    pub from_before: u64,
    /// Requests that got the size of a later request for their object.
    pub from_after: u64,
    /// Requests that got the told size, or without one the median of all sizes.
    pub by_median: u64,
    /// Told size or median of all sizes, in bytes.
    pub median: u64,
}

/// A trace.
#[derive(Clone, Default)]
pub struct Trace {
    requests: Vec<Request>,
    objects: Dictionary,
    hosts: Dictionary,
    clients: Dictionary,
    /// Host of each object.
    host_of: Vec<u32>,
    /// Time of the last request that had one.
    last_ms: Option<u64>,
}

/// Requests that a trace did not take as they were, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Requests refused by the filter, in the order of [`RefusalReason::ALL`].
    pub refused: [u64; RefusalReason::ALL.len()],
    /// Requests without a size. They got the size given to [`Trace::read`].
    pub without_size: u64,
    /// Requests without a time. They got the time of the request before, or their place if no
    /// request has a time.
    pub without_time: u64,
    /// The input had more requests than the limit.
    pub limited: bool,
}

impl Unread {
    /// Returns notes on all deviations from the file, a few words each: bad lines, requests left
    /// out, and sizes taken to be `bytes_unknown` bytes. Returns nothing for a file taken
    /// completely.
    pub fn notes_with_sizes(&self, reading: &ReadReport, bytes_unknown: u64) -> Vec<String> {
        let mut notes = self.notes(reading);
        if self.without_size > 0 {
            notes.push(format!("{} without a size count as {bytes_unknown} bytes", self.without_size));
        }
        notes
    }

    /// Returns these notes without sizes, for callers that need no sizes or fill them
    /// ([`Trace::fill_sizes`]).
    pub fn notes(&self, reading: &ReadReport) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(problem) = reading.problems.first() {
            notes.push(format!(
                "{} of {} lines are bad, the first of them {problem}",
                reading.bad, reading.lines
            ));
        }
        for (why, number) in
            RefusalReason::ALL.into_iter().zip(self.refused).filter(|(_, number)| *number > 0)
        {
            notes.push(format!("{number} left out {}", why.name()));
        }
        notes
    }
}

impl Trace {
    /// Reads a trace: at most `limit` requests that the filter accepts. A request of unknown size
    /// counts as `bytes_unknown`.
    ///
    /// # Errors
    /// Fails like [`Reader::of`] and [`Reader::next`].
    pub fn read(
        input: Input,
        options: &ReadOptions,
        filter: &Filter,
        limit: usize,
        bytes_unknown: u64,
    ) -> Result<(Self, ReadReport, Unread), Error> {
        Self::read_from(Reader::of(input, options)?, filter, limit, bytes_unknown)
    }

    /// Reads a trace like [`Trace::read`], but from an existing reader.
    ///
    /// # Errors
    /// Fails like [`Reader::next`].
    pub fn read_from<R: Read>(
        mut reader: Reader<R>,
        filter: &Filter,
        limit: usize,
        bytes_unknown: u64,
    ) -> Result<(Self, ReadReport, Unread), Error> {
        let (mut trace, mut unread) = (Self::default(), Unread::default());
        while let Some(outcome) = reader.next(|record| match filter.refuses(record) {
            Some(refused) => Err(refused),
            None if trace.requests.len() >= limit => Ok(false),
            None => {
                unread.without_size += u64::from(record.bytes.is_none());
                unread.without_time += u64::from(record.time_ms.is_none());
                Ok(trace.push(record, bytes_unknown))
            }
        })? {
            match outcome {
                Err(refused) => unread.refused[refused as usize] += 1,
                Ok(true) => {}
                Ok(false) => {
                    unread.limited = true;
                    reader.check()?;
                    break;
                }
            }
        }
        Ok((trace, reader.reading().clone(), unread))
    }

    /// Adds a request at the end. Returns `false` when no number is left for its object.
    pub fn push(&mut self, record: &Record<'_>, bytes_unknown: u64) -> bool {
        self.push_sized(record, record.bytes.unwrap_or(bytes_unknown))
    }

    /// Adds a request with another size than its line's. Returns `false` when no number is left for
    /// its object.
    pub fn push_sized(&mut self, record: &Record<'_>, bytes: u64) -> bool {
        let Some(object) = self.objects.number(&record.url) else { return false };
        if object as usize == self.host_of.len() {
            // There are no more hosts than objects, so that their numbers suffice.
            let host = host_of(&record.url);
            // RFC 9110, 4.2.3: "The scheme and host are case-insensitive".
            let number = match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => self.hosts.number(&host.to_ascii_lowercase()),
                false => self.hosts.number(host),
            };
            self.host_of.push(number.unwrap_or_default());
        }
        debug_assert_eq!(self.host_of.len(), self.objects.len(), "each object has a host");
        let time_ms = self.time_of(record);
        self.requests.push(Request {
            time_ms,
            bytes,
            object,
            client: record.client.as_deref().and_then(|client| self.clients.number(client)).unwrap_or(0),
        });
        true
    }

    /// Returns a request's time. A request without a time gets the time of the request before. A
    /// time counted from 1970 would lie decades away.
    fn time_of(&mut self, record: &Record<'_>) -> u64 {
        match (record.time_ms, self.last_ms) {
            (Some(time_ms), before) => {
                if before.is_none() {
                    self.requests.iter_mut().for_each(|request| request.time_ms = time_ms);
                }
                self.last_ms = Some(time_ms);
                time_ms
            }
            (None, Some(before)) => before,
            (None, None) => self.requests.len() as u64,
        }
    }

    /// Corrects times far from all but a few others and returns the number of corrected requests.
    /// Each such request gets the time of the request before. Causes are clocks that were not set
    /// and lines with an unnoticed defect. One such time would turn a log of a day into a log of
    /// decades.
    ///
    /// A time is far if its distance exceeds a day and a hundred times the usual span. The usual
    /// span is that of all times but the first and the last thousandth.
    pub fn mend_times(&mut self) -> u64 {
        let mut times: Vec<u64> = self.requests.iter().map(|request| request.time_ms).collect();
        if times.len() < MENDED_MIN {
            return 0;
        }
        let edge = (times.len() / 1000).max(1);
        let high_at = times.len() - 1 - edge;
        let (low, high) = (*times.select_nth_unstable(edge).1, *times.select_nth_unstable(high_at).1);
        debug_assert!(low <= high, "the usual times are in order");
        let slack = (high - low).saturating_mul(SPANS_AWAY).max(DAY_MS);
        let usual = low.saturating_sub(slack)..=high.saturating_add(slack);
        let first = self.requests.iter().find(|request| usual.contains(&request.time_ms));
        let mut before = first.map_or(low, |request| request.time_ms);
        let mut mended = 0;
        for request in &mut self.requests {
            if usual.contains(&request.time_ms) {
                before = request.time_ms;
            } else {
                request.time_ms = before;
                mended += 1;
            }
        }
        mended
    }

    /// Makes an empty trace. The clients are named by their numbers.
    pub(crate) fn with_clients(clients: u32) -> Self {
        let mut trace = Self::default();
        for client in 0..clients {
            trace.clients.number(&client.to_string());
        }
        trace
    }

    /// Adds a request for a known object from a known client.
    pub(crate) fn repeat(&mut self, request: Request) {
        debug_assert!((request.object as usize) < self.objects.len(), "object {} is unknown", request.object);
        debug_assert!((request.client as usize) < self.clients.len(), "client {} is unknown", request.client);
        self.requests.push(request);
    }

    /// Fills in sizes that are [`Request::BYTES_UNKNOWN`]. The size comes from the last earlier
    /// request for the object, or from the next later one. Without either it is the median of all
    /// known sizes, or 0 if no size is known; `told` bytes replace the median.
    pub fn fill_sizes(&mut self, told: Option<u64>) -> SizeSources {
        let mut filled = SizeSources::default();
        let mut last = vec![Request::BYTES_UNKNOWN; self.objects.len()];
        let mut known: Vec<u64> = Vec::new();
        for request in &mut self.requests {
            let last = &mut last[request.object as usize];
            match (request.bytes, *last) {
                (Request::BYTES_UNKNOWN, Request::BYTES_UNKNOWN) => {}
                (Request::BYTES_UNKNOWN, before) => {
                    request.bytes = before;
                    filled.from_before += 1;
                }
                (bytes, _) => {
                    *last = bytes;
                    known.push(bytes);
                }
            }
        }
        let middle = known.len() / 2;
        let median = if known.is_empty() { 0 } else { *known.select_nth_unstable(middle).1 };
        let median = told.unwrap_or(median);
        last.fill(Request::BYTES_UNKNOWN);
        for request in self.requests.iter_mut().rev() {
            let next = &mut last[request.object as usize];
            match (request.bytes, *next) {
                (Request::BYTES_UNKNOWN, Request::BYTES_UNKNOWN) => {
                    request.bytes = median;
                    filled.by_median += 1;
                }
                (Request::BYTES_UNKNOWN, after) => {
                    request.bytes = after;
                    filled.from_after += 1;
                }
                (bytes, _) => *next = bytes,
            }
        }
        debug_assert!(
            self.requests.iter().all(|request| request.bytes != Request::BYTES_UNKNOWN),
            "every size is known"
        );
        filled.median = median;
        filled
    }

    /// Returns the requests in their order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the names of the objects: URLs, if the trace has them.
    pub fn objects(&self) -> &Dictionary {
        &self.objects
    }

    /// Returns the names of the hosts, in lower case. One is empty if some objects have no host.
    pub fn hosts(&self) -> &Dictionary {
        &self.hosts
    }

    /// Returns the names of the clients.
    pub fn clients(&self) -> &Dictionary {
        &self.clients
    }

    /// Returns the number of an object's host, or 0 for an unknown object.
    pub fn host_of(&self, object: u32) -> u32 {
        self.host_of.get(object as usize).copied().unwrap_or_default()
    }

    /// Returns a request's URL.
    pub fn url(&self, request: &Request) -> &str {
        self.objects.name(request.object)
    }
}

/// Smallest number of requests for a correction of times. Fewer do not show which times are usual.
const MENDED_MIN: usize = 20;
/// Number of spans from which a time is a mistake.
const SPANS_AWAY: u64 = 100;
const DAY_MS: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn at(times: &[Option<u64>]) -> Trace {
        let mut trace = Trace::default();
        for time_ms in times {
            trace.push(&Record { url: "a".into(), time_ms: *time_ms, ..Record::default() }, 0);
        }
        trace
    }

    fn times(trace: &Trace) -> Vec<u64> {
        trace.requests().iter().map(|request| request.time_ms).collect()
    }

    #[test]
    fn a_request_without_a_time_came_with_its_neighbour() {
        assert_eq!(times(&at(&[None, None, Some(9000), None, Some(9500)])), [9000, 9000, 9000, 9000, 9500]);
        assert_eq!(times(&at(&[None, None, None])), [0, 1, 2]);
    }

    #[test]
    fn outlying_times_are_corrected() {
        let start = 1_700_000_000_000;
        let mut told: Vec<Option<u64>> = (0..100).map(|second| Some(start + second * 1000)).collect();
        told[0] = Some(12_000);
        told[50] = Some(4_000_000_000_000);
        let mut trace = at(&told);
        assert_eq!(trace.mend_times(), 2);
        assert_eq!((times(&trace)[0], times(&trace)[50]), (start + 1000, start + 49_000));
        let honest = |mut trace: Trace| (times(&trace), trace.mend_times(), times(&trace));
        for trace in [
            at(&told[1..20]),
            at(&(0..200).map(|hour| Some(start + hour * hour * 3_600_000)).collect::<Vec<_>>()),
            at(&(0..200)
                .map(|at| Some(if at == 0 { start - DAY_MS / 2 } else { start }))
                .collect::<Vec<_>>()),
            at(&[None; 100]),
        ] {
            let (before, mended, after) = honest(trace);
            assert_eq!((mended, before), (0, after));
        }
    }

    #[test]
    fn sizes_are_filled_from_the_same_object() {
        let mut trace = Trace::default();
        for (url, bytes) in [
            ("a", None),
            ("a", Some(10)),
            ("a", None),
            ("a", Some(30)),
            ("b", None),
            ("a", None),
            ("c", Some(20)),
        ] {
            let record = Record { url: url.into(), bytes, ..Record::default() };
            assert!(trace.push(&record, Request::BYTES_UNKNOWN));
        }
        let mut told = trace.clone();
        assert_eq!((told.fill_sizes(Some(7)).median, told.requests()[4].bytes), (7, 7));
        let filled = trace.fill_sizes(None);
        assert_eq!(filled, SizeSources { from_before: 2, from_after: 1, by_median: 1, median: 20 });
        let bytes: Vec<u64> = trace.requests().iter().map(|request| request.bytes).collect();
        assert_eq!(bytes, [10, 10, 10, 30, 20, 30, 20]);
        assert_eq!(Trace::default().fill_sizes(None), SizeSources::default());
    }

    #[test]
    fn names_become_numbers() {
        let text = "time_s,client,status,bytes,url\n5,x,200,10,http://a/1\n6,y,200,20,http://b/1\n6,x,404,1,http://c/\n\
                    7,x,200,-,http://a/1\n8,y,200,40,http://a/2\n9,y,200,50,http://a/2\n";
        let input = Input::new(Cursor::new(text)).expect("memory");
        let read = Trace::read(input, &ReadOptions::default(), &Filter::paper(), 4, 8192).expect("readable");
        let (trace, reading, unread) = read;
        let told: Vec<_> =
            trace.requests().iter().map(|r| (r.time_ms, r.object, r.client, r.bytes)).collect();
        assert_eq!(told, [(5000, 0, 0, 10), (6000, 1, 1, 20), (7000, 0, 0, 8192), (8000, 2, 1, 40)]);
        assert_eq!((reading.requests, unread.limited, unread.without_size), (6, true, 1));
        assert_eq!(unread.refused[RefusalReason::Status as usize], 1);
        assert_eq!(
            unread.notes_with_sizes(&reading, 8192),
            ["1 left out with a status that does not count", "1 without a size count as 8192 bytes"]
        );
        let hosts: Vec<_> = (0..3).map(|object| trace.hosts().name(trace.host_of(object))).collect();
        assert_eq!(hosts, ["a", "b", "a"]);
        assert_eq!(trace.url(&trace.requests()[3]), "http://a/2");
    }
}
