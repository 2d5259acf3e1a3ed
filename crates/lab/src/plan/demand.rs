//! Demand of a log: rates, and the requests that can hit at all.

use super::by_size::{BySize, SizePrefix};
use crate::character::{CensusTrace, Character};

/// Rates and shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Requests in the log.
    pub requests: u64,
    /// Requests that a cache may answer: GET and HEAD with a status that may be stored.
    pub storable: u64,
    /// Requests, from the first, that only warm the caches.
    pub warm_up: usize,
    /// Requests a second over the whole log; `None` where it has no times.
    pub mean_rate: Option<f64>,
    /// Requests a second in the busiest hour, or over the whole log where that is shorter.
    pub peak_rate: Option<f64>,
    /// Bytes a second in that hour.
    pub peak_bytes: Option<f64>,
    /// Mean size of a response, in bytes.
    pub mean_bytes: f64,
    /// Bytes of all objects.
    pub unique_bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Hit ratio of an infinite cache over the storable requests that are measured.
    pub achievable: f64,
    /// The objects by size.
    pub by_size: BySize,
}

impl Demand {
    /// Computes the demand of a log. Its first part, the share `warm_up`, warms the caches.
    pub fn of(loaded: &CensusTrace, character: &Character, warm_up: f64) -> Self {
        let requests = loaded.trace.requests();
        let warm_up = (requests.len() as f64 * warm_up.clamp(0.0, 0.9)) as usize;
        let mut seen = vec![false; loaded.trace.objects().len()];
        let mut hits = 0u64;
        for (at, request) in requests.iter().enumerate() {
            let before = std::mem::replace(&mut seen[request.object as usize], true);
            hits += u64::from(before && at >= warm_up);
        }
        let has_rate = character.known.times && character.seconds >= 1.0;
        let peak = has_rate.then(|| peak(loaded, character.seconds));
        let all = loaded.census.lines.max(requests.len() as u64);
        // Requests that may not be stored arrive at the same times as the rest.
        let scale = all as f64 / requests.len().max(1) as f64;
        Self {
            requests: all,
            storable: requests.len() as u64,
            warm_up,
            mean_rate: has_rate.then(|| character.rate() * scale),
            peak_rate: peak.map(|(rate, _)| rate * scale),
            peak_bytes: peak.map(|(_, bytes)| bytes * scale),
            mean_bytes: character.bytes as f64 / requests.len().max(1) as f64,
            unique_bytes: character.unique_bytes,
            objects: character.objects,
            achievable: hits as f64 / (requests.len() - warm_up).max(1) as f64,
            by_size: BySize::of(&loaded.trace),
        }
    }

    /// Returns the share of requests that can hit at all.
    pub fn storable_share(&self) -> f64 {
        self.storable as f64 / self.requests.max(1) as f64
    }

    /// Returns the objects of at most `largest` bytes, for a cache with that limit.
    pub fn objects_up_to(&self, largest: u64) -> SizePrefix {
        self.by_size.up_to(largest)
    }

    /// Returns the mean number of storable requests a day.
    pub fn storable_per_day(&self) -> Option<f64> {
        self.mean_rate.map(|rate| rate * self.storable_share() * 86_400.0)
    }

    /// Returns storable requests a second at the peak.
    pub fn storable_peak(&self) -> Option<f64> {
        self.peak_rate.map(|rate| rate * self.storable_share())
    }
}

/// Returns requests and bytes a second in the busiest hour.
fn peak(loaded: &CensusTrace, seconds: f64) -> (f64, f64) {
    let requests = loaded.trace.requests();
    let first = requests.iter().map(|request| request.time_ms).min().unwrap_or(0);
    let length_ms = HOUR_MS.min((seconds * 1000.0) as u64 + 1);
    let mut hours: Vec<(u64, u64)> = Vec::new();
    for request in requests {
        let hour = ((request.time_ms - first) / length_ms) as usize;
        if hour >= HOURS_MAX {
            continue;
        }
        if hour >= hours.len() {
            hours.resize(hour + 1, (0, 0));
        }
        hours[hour].0 += 1;
        hours[hour].1 += request.bytes;
    }
    let length = length_ms as f64 / 1000.0;
    let most = |pick: fn(&(u64, u64)) -> u64| hours.iter().map(pick).max().unwrap_or(0) as f64 / length;
    (most(|hour| hour.0), most(|hour| hour.1))
}

const HOUR_MS: u64 = 3_600_000;
/// A hundred years: times further apart are mistakes.
const HOURS_MAX: usize = 24 * 366 * 100;
