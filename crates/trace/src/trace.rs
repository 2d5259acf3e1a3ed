//! A trace in memory: 24 bytes a request, and each name once.

use crate::dictionary::Dictionary;
use crate::filter::{Filter, Refused};
use crate::input::Input;
use crate::reader::{Error, ReadOptions, Reader, Reading};
use crate::record::{Record, host_of};
use std::io::Read;

/// A request, its names as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When, in milliseconds since 1970, or since the first where the trace has no times: then its
    /// place in the trace.
    pub time_ms: u64,
    /// The response's size in bytes.
    pub bytes: u64,
    /// What was asked for.
    pub object: u32,
    /// Who asked; 0 where the trace does not tell.
    pub client: u32,
}

const _: () = assert!(size_of::<Request>() == 24);

impl Request {
    /// The size of a request that has none: see [`Trace::fill_sizes`].
    pub const BYTES_UNKNOWN: u64 = u64::MAX;
}

/// Where sizes came from that requests did not bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filled {
    /// Requests that got the size of an earlier request for their object.
    pub from_before: u64,
    /// That of a later one.
    pub from_after: u64,
    /// The median of all sizes.
    pub by_median: u64,
    /// That median, in bytes.
    pub median: u64,
}

/// A trace.
#[derive(Clone, Default)]
pub struct Trace {
    requests: Vec<Request>,
    objects: Dictionary,
    hosts: Dictionary,
    clients: Dictionary,
    /// The host of each object.
    host_of: Vec<u32>,
    /// The time of the last request that had one.
    last_ms: Option<u64>,
}

/// What was not taken into a trace, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Requests refused by the filter, in the order of [`Refused::ALL`].
    pub refused: [u64; Refused::ALL.len()],
    /// Requests that came with no size, and got [`Trace::read`]'s.
    pub without_size: u64,
    /// Requests that came with no time, and got that of the request before; or their place, where
    /// none has a time.
    pub without_time: u64,
    /// Whether there was more than the limit.
    pub limited: bool,
}

impl Unread {
    /// What is not taken as it stands in a file, a few words each: lines that are no requests,
    /// requests that were left out, and sizes that were taken to be so many bytes. Nothing where
    /// all of it was.
    pub fn notes_with_sizes(&self, reading: &Reading, bytes_unknown: u64) -> Vec<String> {
        let mut notes = self.notes(reading);
        if self.without_size > 0 {
            notes.push(format!("{} without a size count as {bytes_unknown} bytes", self.without_size));
        }
        notes
    }

    /// The same, where sizes are no matter or come from elsewhere ([`Trace::fill_sizes`]).
    pub fn notes(&self, reading: &Reading) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(problem) = reading.problems.first() {
            notes.push(format!(
                "{} of {} lines are bad, the first of them {problem}",
                reading.bad, reading.lines
            ));
        }
        for (why, number) in Refused::ALL.into_iter().zip(self.refused).filter(|(_, number)| *number > 0) {
            notes.push(format!("{number} left out {}", why.name()));
        }
        notes
    }
}

impl Trace {
    /// Reads a trace: at most `limit` requests that the filter takes. A request of unknown size
    /// counts as `bytes_unknown`.
    ///
    /// # Errors
    /// As [`Reader::of`] and [`Reader::next`].
    pub fn read(
        input: Input,
        options: &ReadOptions,
        filter: &Filter,
        limit: usize,
        bytes_unknown: u64,
    ) -> Result<(Self, Reading, Unread), Error> {
        Self::read_from(Reader::of(input, options)?, filter, limit, bytes_unknown)
    }

    /// The same from a reader that is there.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn read_from<R: Read>(
        mut reader: Reader<R>,
        filter: &Filter,
        limit: usize,
        bytes_unknown: u64,
    ) -> Result<(Self, Reading, Unread), Error> {
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
                    break;
                }
            }
        }
        Ok((trace, reader.reading().clone(), unread))
    }

    /// Adds a request at the end. False when there is no number left for its object.
    pub fn push(&mut self, record: &Record<'_>, bytes_unknown: u64) -> bool {
        self.push_sized(record, record.bytes.unwrap_or(bytes_unknown))
    }

    /// Adds a request with another size than its line's. False when there is no number left for its
    /// object.
    pub fn push_sized(&mut self, record: &Record<'_>, bytes: u64) -> bool {
        let Some(object) = self.objects.number(&record.url) else { return false };
        if object as usize == self.host_of.len() {
            // There are no more hosts than objects, so that their numbers suffice.
            self.host_of.push(self.hosts.number(host_of(&record.url)).unwrap_or_default());
        }
        let time_ms = self.time_of(record);
        self.requests.push(Request {
            time_ms,
            bytes,
            object,
            client: record.client.as_deref().and_then(|client| self.clients.number(client)).unwrap_or(0),
        });
        true
    }

    /// A request's time. One that does not tell it came with the one before; counted from 1970 it
    /// would lie decades away.
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

    /// Gives requests whose time lies far from that of all but a few the time of the request before
    /// them, and tells how many these are: clocks that were not set yet, and lines that are broken
    /// where it does not show. One of them would make a log of a day one of decades.
    ///
    /// Far is more than a hundred times the span of all but the first and the last thousandth, and
    /// more than a day.
    pub fn mend_times(&mut self) -> u64 {
        let mut times: Vec<u64> = self.requests.iter().map(|request| request.time_ms).collect();
        if times.len() < MENDED_MIN {
            return 0;
        }
        let edge = (times.len() / 1000).max(1);
        let high_at = times.len() - 1 - edge;
        let (low, high) = (*times.select_nth_unstable(edge).1, *times.select_nth_unstable(high_at).1);
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

    /// An empty trace whose clients have the names of their numbers.
    pub(crate) fn with_clients(clients: u32) -> Self {
        let mut trace = Self::default();
        for client in 0..clients {
            trace.clients.number(&client.to_string());
        }
        trace
    }

    /// Adds a request for an object that is known from a client that is known.
    pub(crate) fn repeat(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Gives requests whose size is [`Request::BYTES_UNKNOWN`] the size that their object had last,
    /// or has next where it had none yet, or the median of all known sizes (0 where none is known)
    /// where it never has one.
    pub fn fill_sizes(&mut self) -> Filled {
        let mut filled = Filled::default();
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
        filled.median = median;
        filled
    }

    /// The requests in their order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The names of the objects: URLs, where the trace has them.
    pub fn objects(&self) -> &Dictionary {
        &self.objects
    }

    /// The names of the hosts; one is empty when objects have none.
    pub fn hosts(&self) -> &Dictionary {
        &self.hosts
    }

    /// The names of the clients.
    pub fn clients(&self) -> &Dictionary {
        &self.clients
    }

    /// The number of an object's host; 0 for no object.
    pub fn host_of(&self, object: u32) -> u32 {
        self.host_of.get(object as usize).copied().unwrap_or_default()
    }

    /// A request's URL.
    pub fn url(&self, request: &Request) -> &str {
        self.objects.name(request.object)
    }
}

/// Fewer requests do not tell which of their times are usual.
const MENDED_MIN: usize = 20;
/// A time so many spans away is a mistake.
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
    fn times_far_from_all_others_are_those_of_a_wrong_clock() {
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
        let filled = trace.fill_sizes();
        assert_eq!(filled, Filled { from_before: 2, from_after: 1, by_median: 1, median: 20 });
        let bytes: Vec<u64> = trace.requests().iter().map(|request| request.bytes).collect();
        assert_eq!(bytes, [10, 10, 10, 30, 20, 30, 20]);
        assert_eq!(Trace::default().fill_sizes(), Filled::default());
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
        assert_eq!(unread.refused[Refused::Status as usize], 1);
        assert_eq!(
            unread.notes_with_sizes(&reading, 8192),
            ["1 left out with a status that does not count", "1 without a size count as 8192 bytes"]
        );
        let hosts: Vec<_> = (0..3).map(|object| trace.hosts().name(trace.host_of(object))).collect();
        assert_eq!(hosts, ["a", "b", "a"]);
        assert_eq!(trace.url(&trace.requests()[3]), "http://a/2");
    }
}
