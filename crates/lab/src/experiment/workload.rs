//! A trace made ready for experiments: objects and servers as numbers, parted into warm-up and measurement.
//!
//! Every figure asks the same things of a request (which object, whose, how large), many times over. So URLs are read once and
//! become numbers in order of first appearance; a request takes 24 bytes.

use shoal_core::ByteCount;
use std::collections::HashMap;

/// A trace made ready.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The requests in their order.
    pub requests: Vec<Reference>,
    /// The objects' URLs, by number.
    pub urls: Vec<String>,
    /// How many servers there are; they are numbered from 0.
    pub servers: u32,
    /// How many requests, from the first, only warm the cache.
    pub warm_up: usize,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// When, in milliseconds since the trace's first request.
    pub milliseconds: u64,
    /// Which object.
    pub object: u32,
    /// Which server it is on.
    pub server: u32,
    /// Size of the response, in bytes.
    pub bytes: u64,
}

impl Workload {
    /// Numbers the objects and servers of requests, each a URL, a time in milliseconds and a size in bytes. The first `warm_up` part of
    /// them (a share of one) warms the cache.
    ///
    /// At most 2^32 - 1 objects are told apart; requests beyond them are left out.
    pub fn new<'a>(requests: impl Iterator<Item = (&'a str, u64, u64)>, warm_up: f64) -> Self {
        let mut workload = Self::default();
        let mut objects: HashMap<String, (u32, u32)> = HashMap::new();
        let mut servers: HashMap<String, u32> = HashMap::new();
        let mut first = None;
        for (url, milliseconds, bytes) in requests {
            let (object, server) = match objects.get(url) {
                Some(known) => *known,
                None if workload.urls.len() >= u32::MAX as usize => continue,
                None => {
                    let next = servers.len() as u32;
                    let server = *servers.entry(server_of(url).to_owned()).or_insert(next);
                    let object = workload.urls.len() as u32;
                    workload.urls.push(url.to_owned());
                    objects.insert(url.to_owned(), (object, server));
                    (object, server)
                }
            };
            let milliseconds = milliseconds.saturating_sub(*first.get_or_insert(milliseconds));
            workload.requests.push(Reference { milliseconds, object, server, bytes });
        }
        workload.servers = servers.len() as u32;
        workload.warm_up = (workload.requests.len() as f64 * warm_up.clamp(0.0, 1.0)) as usize;
        workload
    }

    /// The workload without references to objects that are ever larger than a limit, in bytes. Numbers stay as they are.
    pub fn at_most(&self, limit: u64) -> Self {
        let sizes = self.sizes();
        let small = |request: &&Reference| sizes[request.object as usize] <= limit;
        Self {
            requests: self.requests.iter().filter(small).copied().collect(),
            warm_up: self.requests[..self.warm_up].iter().filter(small).count(),
            ..self.clone()
        }
    }

    /// The requests that are measured.
    pub fn measured(&self) -> &[Reference] {
        &self.requests[self.warm_up..]
    }

    /// Each object's size, by number: that of its first request, with which it is stored.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<Option<u64>> = vec![None; self.urls.len()];
        for request in &self.requests {
            sizes[request.object as usize].get_or_insert(request.bytes);
        }
        sizes.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// The objects in order of their first request.
    pub fn first_misses(&self) -> Vec<u32> {
        let mut seen = vec![false; self.urls.len()];
        let fresh = |request: &Reference| !std::mem::replace(&mut seen[request.object as usize], true);
        let mut fresh = fresh;
        self.requests.iter().filter(|request| fresh(request)).map(|request| request.object).collect()
    }

    /// The share of requests whose object was asked for before, over all requests and over the measured ones: what an infinite cache
    /// that never doubts its objects would hit.
    pub fn infinite_hit_ratios(&self) -> (f64, f64) {
        let mut seen = vec![false; self.urls.len()];
        let (mut hits, mut measured) = (0u64, 0u64);
        for (index, request) in self.requests.iter().enumerate() {
            if std::mem::replace(&mut seen[request.object as usize], true) {
                hits += 1;
                measured += u64::from(index >= self.warm_up);
            }
        }
        (share(hits, self.requests.len() as u64), share(measured, self.measured().len() as u64))
    }

    /// The bytes of all objects, each once.
    pub fn unique_bytes(&self) -> ByteCount {
        ByteCount(self.sizes().iter().sum())
    }

    /// The exponent of the Zipf-like popularity: the slope of log count on log rank by least squares, with ranks taken at even steps of
    /// their logarithm so that the many objects of one request do not outweigh the rest.
    pub fn zipf_exponent(&self) -> f64 {
        let mut counts = vec![0u64; self.urls.len()];
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

/// The server's name in a URL: what stands between `//` and the next `/`, without user and port; the whole URL when it has no such part.
pub fn server_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("//") else { return url };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split_once(':').map_or(host, |(host, _)| host)
}

/// A part of a whole, 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
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
        let workload = Workload::new(urls.into_iter(), 0.5);
        let told: Vec<_> =
            workload.requests.iter().map(|r| (r.milliseconds, r.object, r.server, r.bytes)).collect();
        assert_eq!(told, [(0, 0, 0, 10), (500, 1, 1, 20), (1000, 0, 0, 30), (1000, 2, 0, 40)]);
        assert_eq!((workload.servers, workload.warm_up), (2, 2));
        assert_eq!(workload.sizes(), [10, 20, 40]);
        assert_eq!(workload.first_misses(), [0, 1, 2]);
        assert_eq!(workload.infinite_hit_ratios(), (0.25, 0.5));
        let small = workload.at_most(20);
        assert_eq!((small.requests.len(), small.warm_up), (3, 2));
    }

    #[test]
    fn servers_are_named_without_user_and_port() {
        for (url, server) in [
            ("http://a.b/c//d", "a.b"),
            ("http://u:p@a.b:80", "a.b"),
            ("http://a?x//y", "a"),
            ("news:c", "news:c"),
            ("", ""),
        ] {
            assert_eq!(server_of(url), server, "{url}");
        }
    }

    #[test]
    fn the_exponent_of_a_zipf_like_stream_is_found() {
        let mut urls = Vec::new();
        for rank in 1..=300u32 {
            let url = format!("http://a/{rank}");
            let times = (100_000.0 / f64::from(rank).powf(0.8)) as usize;
            urls.extend(std::iter::repeat_n(url, times));
        }
        let workload = Workload::new(urls.iter().map(|url| (url.as_str(), 0, 1)), 0.5);
        assert!((workload.zipf_exponent() - 0.8).abs() < 0.01, "{}", workload.zipf_exponent());
        assert_eq!(Workload::default().zipf_exponent(), 0.0);
    }
}
