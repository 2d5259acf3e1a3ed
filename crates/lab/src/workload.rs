//! A trace prepared for experiments: objects and servers as numbers, divided into warm-up and
//! measurement.
//!
//! Every figure reads the same fields of a request (object, server, size), many times over. URLs
//! therefore stay behind in the [`Trace`]; a request takes 24 bytes.

use shoal_core::ByteCount;
use shoal_trace::{Record, Request, Trace};

/// A trace prepared for experiments.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The requests in their order.
    pub requests: Vec<Reference>,
    /// Number of objects; they are numbered from 0.
    pub objects: usize,
    /// Number of servers; they are numbered from 0.
    pub servers: usize,
    /// Number of requests, from the first, that only warm the cache.
    pub warm_up: usize,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Time, in milliseconds since the trace's first request.
    pub milliseconds: u64,
    /// Number of the object.
    pub object: u32,
    /// Number of the object's server.
    pub server: u32,
    /// Size of the response, in bytes.
    pub bytes: u64,
}

impl Workload {
    /// Prepares a trace; its first `warm_up` requests warm the cache.
    pub fn new(trace: &Trace, warm_up: usize) -> Self {
        let first = trace.requests().first().map_or(0, |request| request.time_ms);
        let reference = |request: &Request| Reference {
            milliseconds: request.time_ms.saturating_sub(first),
            object: request.object,
            server: trace.host_of(request.object),
            bytes: request.bytes,
        };
        debug_assert!(trace.hosts().len() <= trace.objects().len(), "each host has an object");
        Self {
            requests: trace.requests().iter().map(reference).collect(),
            objects: trace.objects().len(),
            servers: trace.hosts().len(),
            warm_up: warm_up.min(trace.requests().len()),
        }
    }

    /// Prepares requests, each a URL, a time in milliseconds and a size in bytes.
    pub fn of_requests<'a>(requests: impl IntoIterator<Item = (&'a str, u64, u64)>, warm_up: usize) -> Self {
        Self::new(&trace_of(requests), warm_up)
    }

    /// Returns the measured requests.
    pub fn measured(&self) -> &[Reference] {
        debug_assert!(self.warm_up <= self.requests.len(), "the warm-up is a part of the requests");
        &self.requests[self.warm_up..]
    }

    /// Returns each object's size, by number: that of its first request, with which it is stored.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<Option<u64>> = vec![None; self.objects];
        for request in &self.requests {
            sizes[request.object as usize].get_or_insert(request.bytes);
        }
        sizes.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Returns the objects in order of their first request.
    pub fn first_misses(&self) -> Vec<u32> {
        let mut seen = vec![false; self.objects];
        let fresh = |request: &Reference| !std::mem::replace(&mut seen[request.object as usize], true);
        let mut fresh = fresh;
        self.requests.iter().filter(|request| fresh(request)).map(|request| request.object).collect()
    }

    /// Returns the hit ratios of an infinite cache without validation, over all requests and over
    /// the measured ones. A request hits if its object was requested before.
    pub fn infinite_hit_ratios(&self) -> (f64, f64) {
        let mut seen = vec![false; self.objects];
        let (mut hits, mut measured) = (0u64, 0u64);
        for (index, request) in self.requests.iter().enumerate() {
            if std::mem::replace(&mut seen[request.object as usize], true) {
                hits += 1;
                measured += u64::from(index >= self.warm_up);
            }
        }
        (share(hits, self.requests.len() as u64), share(measured, self.measured().len() as u64))
    }

    /// Returns the bytes of all objects, each once.
    pub fn unique_bytes(&self) -> ByteCount {
        ByteCount(self.sizes().iter().sum())
    }

    /// Returns the exponent of the Zipf-like popularity: the slope of log count on log rank by
    /// least squares. Ranks are taken at even steps of their logarithm, so that the many objects of
    /// one request do not outweigh the rest.
    pub fn zipf_exponent(&self) -> f64 {
        let mut counts = vec![0u64; self.objects];
        for request in &self.requests {
            counts[request.object as usize] += 1;
        }
        counts.retain(|count| *count > 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut ranks: Vec<usize> = (0..400).map(|step| 1.04f64.powi(step) as usize).collect();
        ranks.dedup();
        let points: Vec<(f64, f64)> = ranks
            .into_iter()
            .filter_map(|rank| Some(((rank as f64).ln(), (*counts.get(rank - 1)? as f64).ln())))
            .collect();
        -slope(&points)
    }
}

/// Makes a trace of requests, each a URL, a time in milliseconds and a size in bytes.
pub fn trace_of<'a>(requests: impl IntoIterator<Item = (&'a str, u64, u64)>) -> Trace {
    let mut trace = Trace::default();
    for (url, time, bytes) in requests {
        let record = Record { url: url.into(), time_ms: Some(time), bytes: Some(bytes), ..Record::default() };
        let is_taken = trace.push(&record, 0);
        debug_assert!(is_taken, "a record with a URL is taken");
    }
    trace
}

/// Returns the part of a trace with objects stored at no more than `limit` bytes, and the number of
/// its warm-up requests. The paper drove its finite caches with this part ("we removed from the
/// traces all references to objects larger than 8K Bytes", 4).
pub fn at_most(trace: &Trace, warm_up: usize, limit: u64) -> (Trace, usize) {
    let sizes = Workload::new(trace, warm_up).sizes();
    part_of(trace, warm_up, |object| sizes[object as usize] <= limit)
}

/// Returns the requests for objects that are `wanted`, and the number of those in the warm-up.
pub fn part_of(trace: &Trace, warm_up: usize, wanted: impl Fn(u32) -> bool) -> (Trace, usize) {
    let (mut part, mut part_warm_up) = (Trace::default(), 0);
    for (index, request) in trace.requests().iter().enumerate() {
        if wanted(request.object) {
            let record = Record {
                url: trace.url(request).into(),
                time_ms: Some(request.time_ms),
                bytes: Some(request.bytes),
                ..Record::default()
            };
            // The trace of origin had a number for each name.
            part.push(&record, 0);
            part_warm_up += usize::from(index < warm_up);
        }
    }
    debug_assert!(part_warm_up <= warm_up && part.requests().len() <= trace.requests().len(), "a part");
    (part, part_warm_up)
}

/// Returns a part of a whole; 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    debug_assert!(part <= whole, "{part} of {whole}");
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (up, along) = points.iter().fold((0.0, 0.0), |(up, along), point| {
        (up + (point.0 - x) * (point.1 - y), along + (point.0 - x).powi(2))
    });
    if along == 0.0 { 0.0 } else { up / along }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_servers_are_numbered_as_they_come() {
        let urls = [
            ("http://a/1", 1000, 10),
            ("http://b/1", 1500, 20),
            ("http://a/1", 2000, 30),
            ("http://a/2", 2000, 40),
        ];
        let workload = Workload::of_requests(urls, 2);
        let told: Vec<_> =
            workload.requests.iter().map(|r| (r.milliseconds, r.object, r.server, r.bytes)).collect();
        assert_eq!(told, [(0, 0, 0, 10), (500, 1, 1, 20), (1000, 0, 0, 30), (1000, 2, 0, 40)]);
        assert_eq!((workload.servers, workload.warm_up), (2, 2));
        assert_eq!(workload.sizes(), [10, 20, 40]);
        assert_eq!(workload.first_misses(), [0, 1, 2]);
        assert_eq!(workload.infinite_hit_ratios(), (0.25, 0.5));
        let (small, warm_up) = at_most(&trace_of(urls), 2, 20);
        assert_eq!((small.requests().len(), warm_up), (3, 2));
        assert_eq!(small.url(&small.requests()[2]), "http://a/1");
    }

    #[test]
    fn the_exponent_of_a_zipf_like_stream_is_found() {
        let mut urls = Vec::new();
        for rank in 1..=300u32 {
            let url = format!("http://a/{rank}");
            let times = (100_000.0 / f64::from(rank).powf(0.8)) as usize;
            urls.extend(std::iter::repeat_n(url, times));
        }
        let workload = Workload::of_requests(urls.iter().map(|url| (url.as_str(), 0, 1)), 0);
        assert!((workload.zipf_exponent() - 0.8).abs() < 0.01, "{}", workload.zipf_exponent());
        assert_eq!(Workload::default().zipf_exponent(), 0.0);
    }
}
