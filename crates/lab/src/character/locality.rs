//! Locality of hosts in the stream of requests.

use crate::curve::{Distance, Stack};
use shoal_trace::Trace;

/// The locality of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Locality {
    /// Share of requests that go to the same host as the request before.
    pub same_host: f64,
    /// Share of a client's requests that go to the same host as the client's request before.
    pub same_host_per_client: f64,
    /// Median number of distinct other hosts since the last request to the same host; 0 is the next
    /// request.
    pub distance_p50: u64,
    /// Median of that distance where a run of requests to one host counts as one.
    pub collapsed_p50: u64,
    /// 90th percentile of that distance, with runs counted as one.
    pub collapsed_p90: u64,
    /// Share of requests that go to hosts not seen before.
    pub first_seen: f64,
}

impl Locality {
    /// Computes the locality of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut last_of: Vec<u32> = vec![u32::MAX; trace.clients().len().max(1)];
        let (mut same, mut same_client, mut pairs_client, mut first_seen) = (0u64, 0u64, 0u64, 0u64);
        let mut before = u32::MAX;
        let mut stack = Stack::new();
        let (mut all, mut collapsed) = (OccurrenceCounts::default(), OccurrenceCounts::default());
        for request in trace.requests() {
            let host = trace.host_of(request.object);
            if let Some(last) = last_of.get_mut(request.client as usize) {
                pairs_client += u64::from(*last != u32::MAX);
                same_client += u64::from(*last == host);
                *last = host;
            }
            let distance = stack.touch(host, 0).map(|Distance { objects, .. }| objects - 1);
            match distance {
                Some(distance) => all.add(distance),
                None => first_seen += 1,
            }
            same += u64::from(host == before);
            if host != before
                && let Some(distance) = distance
            {
                collapsed.add(distance);
            }
            before = host;
        }
        let requests = trace.requests().len() as u64;
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Self {
            same_host: share(same, requests.saturating_sub(1)),
            same_host_per_client: share(same_client, pairs_client),
            distance_p50: all.quantile(0.5),
            collapsed_p50: collapsed.quantile(0.5),
            collapsed_p90: collapsed.quantile(0.9),
            first_seen: share(first_seen, requests),
        }
    }
}

/// Occurrences of each number.
#[derive(Default)]
struct OccurrenceCounts(Vec<u64>);

impl OccurrenceCounts {
    fn add(&mut self, number: u64) {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += 1;
    }

    fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.0.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut sum = 0;
        let reached = |count: &u64| {
            sum += count;
            sum >= wanted
        };
        self.0.iter().position(reached).unwrap_or(0) as u64
    }
}
