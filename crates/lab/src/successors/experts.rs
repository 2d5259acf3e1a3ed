//! Admission to a hot object cache by experts, chosen as traffic shifts.
//!
//! Chen, Sharma, Khan, Liu, Chang, Akella, Shakkottai, Sitaraman, *Darwin: flexible learning-based
//! CDN caching*, SIGCOMM 2023. A server of a CDN has a small hot object cache (RAM) before its disk
//! cache. An expert is a pair (f, s): an object enters RAM at its f-th request and if it has at
//! most s bytes. No pair suits all traffic. Darwin takes features of traffic and clusters them. It
//! keeps for each cluster the experts that did well on its training traffic. In each epoch a bandit
//! tries these. Headline: more hits than any fixed expert where traffic shifts.
//!
//! The paper's neural bandit predicts the hits of other experts from the deployed one. Here
//! successive elimination tries each in turn and drops those that lag. That costs more requests and
//! needs no training. Other parts are as published, in small.

use super::ByteLru;
use shoal_trace::Request;
use std::collections::HashMap;

/// Rule of admission: at the f-th request, and at most this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expert {
    /// Requests for an object up to its admission.
    pub frequency: u32,
    /// Largest size, in bytes.
    pub bytes: u64,
}

/// A hot object cache with any rule.
pub struct HotCache {
    held: ByteLru,
    asked: HashMap<u32, u32>,
}

impl HotCache {
    /// Creates an empty cache.
    pub fn new(bytes: u64) -> Self {
        Self { held: ByteLru::new(bytes), asked: HashMap::new() }
    }

    /// Handles a request under an expert. Returns `true` if it hits.
    pub fn request(&mut self, request: &Request, expert: Expert) -> bool {
        if self.asked.len() > COUNTED_MAX {
            self.asked.clear();
        }
        let asked = self.asked.entry(request.object).or_default();
        *asked = asked.saturating_add(1);
        let is_let_in = *asked >= expert.frequency && request.bytes <= expert.bytes;
        let hit = self.held.touch(request.object);
        if !hit && is_let_in {
            self.held.insert(request.object, request.bytes);
        }
        hit
    }
}

/// Returns the share of requests that hit under one expert.
pub fn fixed(requests: &[Request], cache_bytes: u64, expert: Expert) -> f64 {
    let mut cache = HotCache::new(cache_bytes);
    let hits = requests.iter().filter(|request| cache.request(request, expert)).count();
    hits as f64 / requests.len().max(1) as f64
}

/// Features of traffic: shares of the requests by size, in powers of four, and by the number of
/// requests for the object before.
type Features = [f64; FEATURES];

/// The trained part: clusters of traffic with their experts.
pub struct Darwin {
    experts: Vec<Expert>,
    clusters: Vec<(Features, Vec<usize>)>,
    epoch: usize,
}

impl Darwin {
    /// Trains on pieces of traffic of about an epoch each.
    pub fn train(pieces: &[&[Request]], experts: &[Expert], cache_bytes: u64, epoch: usize) -> Self {
        assert!(!experts.is_empty() && epoch > 0, "experts and epochs");
        let found: Vec<(Features, Vec<f64>)> = pieces
            .iter()
            .map(|piece| {
                let hits = experts.iter().map(|expert| fixed(piece, cache_bytes, *expert)).collect();
                (features(&piece[..piece.len().min(epoch / WATCHED)]), hits)
            })
            .collect();
        let points: Vec<Features> = found.iter().map(|(features, _)| *features).collect();
        let centres = cluster(&points);
        let mut clusters: Vec<(Features, Vec<usize>)> =
            centres.into_iter().map(|centre| (centre, Vec::new())).collect();
        for (features, hits) in &found {
            let best = hits.iter().copied().fold(0.0, f64::max);
            let Some(at) = nearest(clusters.iter().map(|(centre, _)| centre), features) else { continue };
            // Experts within one percent of a member's best.
            let good = (0..experts.len()).filter(|expert| hits[*expert] >= 0.99 * best);
            clusters[at].1.extend(good);
        }
        for (_, kept) in &mut clusters {
            kept.sort_unstable();
            kept.dedup();
        }
        Self { experts: experts.to_vec(), clusters, epoch }
    }

    /// Returns the share of requests that hit when each epoch's expert is chosen by the traffic.
    pub fn run(&self, requests: &[Request], cache_bytes: u64) -> f64 {
        let mut cache = HotCache::new(cache_bytes);
        let mut hits = 0;
        let mut deployed = self.experts[0];
        for epoch in requests.chunks(self.epoch) {
            let watched = epoch.len().min(self.epoch / WATCHED);
            let (first, rest) = epoch.split_at(watched);
            hits += first.iter().filter(|request| cache.request(request, deployed)).count();
            let mut left = self.candidates(&features(first));
            // Successive elimination: each candidate serves a round, and the worse half goes.
            let mut rest = rest;
            while left.len() > 1 && !rest.is_empty() {
                let round = (self.epoch / TRIAL).clamp(1, rest.len());
                let mut scored = Vec::new();
                for expert in &left {
                    let (part, after) = rest.split_at(round.min(rest.len()));
                    let found = part.iter().filter(|one| cache.request(one, self.experts[*expert])).count();
                    hits += found;
                    scored.push((found as f64 / part.len().max(1) as f64, *expert));
                    rest = after;
                }
                scored.sort_by(|a, b| b.0.total_cmp(&a.0));
                left = scored.iter().take(scored.len().div_ceil(2)).map(|(_, expert)| *expert).collect();
            }
            deployed = left.first().map_or(deployed, |expert| self.experts[*expert]);
            hits += rest.iter().filter(|request| cache.request(request, deployed)).count();
        }
        hits as f64 / requests.len().max(1) as f64
    }

    fn candidates(&self, features: &Features) -> Vec<usize> {
        let at = nearest(self.clusters.iter().map(|(centre, _)| centre), features);
        at.map_or(vec![0], |at| self.clusters[at].1.clone())
    }
}

fn features(requests: &[Request]) -> Features {
    let mut found = [0.0; FEATURES];
    let mut asked: HashMap<u32, usize> = HashMap::new();
    for request in requests {
        let size = (request.bytes.max(1).ilog2() as usize / 2).min(SIZE_CLASSES - 1);
        let before = asked.entry(request.object).or_default();
        found[size] += 1.0;
        found[SIZE_CLASSES + (*before).min(FEATURES - SIZE_CLASSES - 1)] += 1.0;
        *before += 1;
    }
    found.map(|count| count / requests.len().max(1) as f64)
}

fn distance(a: &Features, b: &Features) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

fn nearest<'a>(centres: impl Iterator<Item = &'a Features>, to: &Features) -> Option<usize> {
    let by_distance = centres.enumerate().map(|(at, centre)| (distance(centre, to), at));
    by_distance.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
}

/// k-means, begun with points that are far from each other. Returns the centres.
fn cluster(points: &[Features]) -> Vec<Features> {
    let mut centres: Vec<Features> = points.iter().take(1).copied().collect();
    while centres.len() < CLUSTERS.min(points.len()) {
        let away = |point: &Features| {
            centres.iter().map(|centre| distance(centre, point)).fold(f64::INFINITY, f64::min)
        };
        let Some(farthest) = points.iter().max_by(|a, b| away(a).total_cmp(&away(b))) else { break };
        centres.push(*farthest);
    }
    for _ in 0..ITERATIONS {
        let mut sums = vec![([0.0; FEATURES], 0.0); centres.len()];
        for point in points {
            if let Some(at) = nearest(centres.iter(), point) {
                sums[at].0.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
                sums[at].1 += 1.0;
            }
        }
        for (centre, (sum, count)) in centres.iter_mut().zip(sums) {
            if count > 0.0 {
                *centre = sum.map(|value| value / count);
            }
        }
    }
    centres
}

/// Returns the grid of experts that the report tries.
pub fn grid() -> Vec<Expert> {
    let sizes = [20_000, 100_000, 500_000, u64::MAX];
    let frequencies = [1, 2, 3, 5];
    frequencies
        .iter()
        .flat_map(|frequency| sizes.map(|bytes| Expert { frequency: *frequency, bytes }))
        .collect()
}

const SIZE_CLASSES: usize = 12;
const FEATURES: usize = SIZE_CLASSES + 6;
/// Divisor of an epoch: the part that features are taken of.
const WATCHED: usize = 30;
/// Divisor of an epoch: the round of one expert.
const TRIAL: usize = 100;
const CLUSTERS: usize = 6;
const ITERATIONS: usize = 20;
/// Most objects that are counted before the counts begin again.
const COUNTED_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::ZipfTrace;
    use shoal_trace::Random;

    /// Traffic of small popular objects among large ones that are asked for twice, or of large
    /// popular objects among small ones.
    fn piece(small_popular: bool, requests: usize, seed: u64) -> Vec<Request> {
        let mut popular = ZipfTrace::new(2000, 0.9, 1, seed);
        let mut random = Random::new(seed);
        let mut fresh = 100_000 + (seed as u32) * 1_000_000;
        let (of_popular, of_other) = if small_popular { (10_000, 300_000) } else { (300_000, 10_000) };
        let mut previous = fresh;
        (0..requests)
            .map(|at| {
                let (object, bytes) = match random.below(2) {
                    0 => (
                        popular.next().map_or(0, |one| one.object as u32) + u32::from(small_popular) * 5000,
                        of_popular,
                    ),
                    _ if small_popular && random.below(2) == 0 => (previous, of_other),
                    _ => {
                        fresh += 1;
                        previous = fresh;
                        (fresh, of_other)
                    }
                };
                Request { time_ms: at as u64, bytes, object, client: 0 }
            })
            .collect()
    }

    /// The headline: where traffic shifts, more hits than any fixed expert.
    #[test]
    fn chosen_experts_beat_each_fixed_one() {
        let (epoch, cache) = (20_000, 12_000_000);
        let training: Vec<Vec<Request>> = (0..4).map(|at| piece(at % 2 == 0, epoch, 10 + at)).collect();
        let pieces: Vec<&[Request]> = training.iter().map(Vec::as_slice).collect();
        let experts = grid();
        let darwin = Darwin::train(&pieces, &experts, cache, epoch);
        let traffic: Vec<Request> = (0..6).flat_map(|at| piece(at % 2 == 0, epoch, 20 + at)).collect();
        let chosen = darwin.run(&traffic, cache);
        let all: Vec<f64> = experts.iter().map(|expert| fixed(&traffic, cache, *expert)).collect();
        let best = all.iter().copied().fold(0.0, f64::max);
        assert!(chosen > best, "{chosen} {best} {all:?}");
    }

    #[test]
    fn one_expert_is_that_expert() {
        let traffic = piece(true, 5000, 1);
        let only = [Expert { frequency: 2, bytes: 50_000 }];
        let darwin = Darwin::train(&[&traffic], &only, 1_000_000, 1000);
        assert_eq!(darwin.run(&traffic, 1_000_000), fixed(&traffic, 1_000_000, only[0]));
    }
}
