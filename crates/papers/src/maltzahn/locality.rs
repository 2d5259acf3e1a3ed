//! Figure 2: the locality of server names in the stream of requests.

use shoal_lab::curve::Stack;
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::report::{Claim, Finding, Section};
use shoal_lab::workload::{Reference, Workload, share};
use shoal_trace::Random;

/// Returns the distances between requests to one server in the measured part: the distinct servers
/// requested in between (LRU stack distance). Beside them are the same requests in random order,
/// which keeps the servers' popularity and nothing else.
pub fn section(workload: &Workload, seed: u64) -> Section {
    let measured = workload.measured();
    // the paper leaves out the first 100,000 of the second day's 495,662
    let skip = (measured.len() as f64 * 100_000.0 / 495_662.0) as usize;
    let stream = Distances::of(measured, workload.servers, skip);
    let strewn = Distances::of(&shuffled(measured, seed), workload.servers, skip);
    let plot = Plot {
        x: Axis::log2(
            "LRU stack distance of the server's name (1: the same as the request before)",
            Unit::Count,
        ),
        y: Axis::share("share of requests no farther"),
        series: vec![stream.curve("as it came"), strewn.curve("shuffled")],
        marks: Vec::new(),
    };
    let finding = |key: &str, what: &str, value: f64, claim: &str| {
        Finding::new(key, what, Unit::Share, Claim::Words(claim.into())).found(&[Some(value)])
    };
    Section {
        anchor: "figure-2".into(),
        title: "Figure 2: the locality of server names".into(),
        question: "Are requests to one server close together, so that a folder a server keeps what is needed together?".into(),
        figures: vec![Figure::new(
            "figure-2",
            "Locality of server names: how many servers were asked since this one was last asked",
            &format!(
                "{} of requests go to one of the ten servers asked last; {} when shuffled.",
                Unit::Share.shown(stream.within(10)),
                Unit::Share.shown(strewn.within(10))
            ),
            Chart::Plot(plot),
        )],
        findings: vec![
            finding("same_server", "requests to the same server as the one before", stream.within(1), "high"),
            finding("ten_servers", "requests to one of the last 10 servers", stream.within(10), "high"),
            finding("ten_servers_shuffled", "the same of the shuffled stream", strewn.within(10), ""),
            finding("new_server", "requests to a server not asked before in this part", stream.first_seen(), ""),
        ],
        ..Section::default()
    }
}

/// Number of requests by distance.
struct Distances {
    /// Counts by distance, from 0 (which no request has).
    counts: Vec<u64>,
    requests: u64,
}

impl Distances {
    fn of(requests: &[Reference], servers: usize, skip: usize) -> Self {
        let mut stack = Stack::new();
        let mut counts = vec![0; servers + 1];
        for (index, request) in requests.iter().enumerate() {
            let distance = stack.touch(request.server, 0);
            if let Some(distance) = distance.filter(|_| index >= skip) {
                counts[distance.objects as usize] += 1;
            }
        }
        Self { counts, requests: (requests.len() - skip) as u64 }
    }

    fn within(&self, distance: usize) -> f64 {
        share(self.counts.iter().take(distance + 1).sum(), self.requests)
    }

    fn first_seen(&self) -> f64 {
        1.0 - self.within(self.counts.len())
    }

    fn curve(&self, name: &str) -> Series {
        let mut points = Vec::new();
        let mut distance = 1;
        while distance < self.counts.len() {
            points.push((distance as f64, self.within(distance)));
            distance = (distance + 1).max(distance * 5 / 4);
        }
        points.push((self.counts.len().max(2) as f64, self.within(self.counts.len())));
        Series { name: name.into(), shape: Shape::Curve, points }
    }
}

/// Returns the requests in an order that the seed chooses (Fisher and Yates).
fn shuffled(requests: &[Reference], seed: u64) -> Vec<Reference> {
    let mut shuffled = requests.to_vec();
    let mut random = Random::new(seed);
    for last in (1..shuffled.len()).rev() {
        shuffled.swap(last, random.below(last as u64 + 1) as usize);
    }
    shuffled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locality_is_lost_by_shuffling_and_only_then() {
        let urls: Vec<String> = (0..2000).map(|index| format!("http://s{}/{index}", index / 20)).collect();
        let workload = Workload::of_requests(urls.iter().map(|url| (url.as_str(), 0, 1)), 0);
        let stream = Distances::of(workload.measured(), workload.servers, 0);
        assert_eq!((stream.within(1), stream.first_seen()), (0.95, 0.050000000000000044));
        let strewn = Distances::of(&shuffled(workload.measured(), 1), workload.servers, 0);
        assert!(strewn.within(1) < 0.05 && strewn.within(50) < 0.6);
        assert_eq!(strewn.first_seen(), stream.first_seen());
        assert_eq!(shuffled(workload.measured(), 1), shuffled(workload.measured(), 1));
    }
}
