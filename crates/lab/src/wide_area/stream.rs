//! Requests with the versions of their objects.
//!
//! A version counts the changes of an object up to the request. A cache's copy is valid when it has
//! the same version, and all schemes see the same changes. Made streams draw changes by the model's
//! laws; traces take another size as a change, or none.

use crate::model::wan::{Change, Law, Tail};
use crate::simulator::ZipfTrace;
use shoal_trace::{Random, SizeChange, Trace};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Time, in days from the first request.
    pub day: f64,
    /// Client of the request.
    pub client: u32,
    /// Object; in a made stream by rank, from 0.
    pub object: u32,
    /// Version of the object: its changes so far.
    pub version: u32,
    /// The size of the response.
    pub bytes: u64,
    /// `true` if caches may keep the response.
    pub cacheable: bool,
}

/// Requests in order.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The requests.
    pub visits: Vec<Visit>,
    /// Number of objects.
    pub objects: usize,
    /// Number of clients.
    pub clients: usize,
}

/// A stream as the model assumes it.
#[derive(Clone, Debug)]
pub struct ModelStream {
    /// n: objects.
    pub objects: u32,
    /// n_p: number of objects that change by `popular_change`.
    pub popular: u32,
    /// α.
    pub alpha: f64,
    /// N: clients.
    pub clients: u32,
    /// λ: requests of one client a day.
    pub requests_per_day: f64,
    /// p_c: the share of objects that may be cached.
    pub cacheable: f64,
    /// Size of every object.
    pub bytes: u64,
    /// Changes of popular objects.
    pub popular_change: Change,
    /// Changes of the other objects.
    pub unpopular_change: Change,
    /// Requests.
    pub requests: usize,
}

impl ModelStream {
    /// Makes the stream: Poisson requests of clients that are alike. The seed does not decide which
    /// objects may be cached.
    pub fn stream(&self, seed: u64) -> Stream {
        let mut random = Random::new(seed);
        let cacheable = self.cacheable_objects();
        let mut ages: Vec<Age> = (0..self.objects).map(|object| self.age(object, seed)).collect();
        let mut objects = ZipfTrace::new(self.objects, self.alpha, self.bytes, random.bits());
        let between = 1.0 / (self.requests_per_day * f64::from(self.clients.max(1))).max(f64::MIN_POSITIVE);
        let mut day = 0.0;
        let mut visits = Vec::with_capacity(self.requests);
        while let Some(request) = objects.next().filter(|_| visits.len() < self.requests) {
            day += random.exponential(between);
            let object = request.object as u32;
            visits.push(Visit {
                day,
                client: random.below(u64::from(self.clients)) as u32,
                object,
                version: ages[object as usize].version_at(day),
                bytes: self.bytes,
                cacheable: cacheable[object as usize],
            });
        }
        Stream { visits, objects: self.objects as usize, clients: self.clients.max(1) as usize }
    }

    /// Spreads the cacheable objects over the ranks. Down to every rank they draw the share p_c of
    /// the requests, as nearly as whole objects can.
    fn cacheable_objects(&self) -> Vec<bool> {
        let mut due = 0.0;
        let of_rank = |rank: u32| {
            let weight = f64::from(rank).powf(-self.alpha);
            due += self.cacheable * weight;
            let cacheable = due >= weight / 2.0;
            due -= if cacheable { weight } else { 0.0 };
            cacheable
        };
        (1..=self.objects).map(of_rank).collect()
    }

    fn age(&self, object: u32, seed: u64) -> Age {
        let change = if object < self.popular { self.popular_change } else { self.unpopular_change };
        Age::new(change, Random::of(seed, u64::from(object)))
    }
}

impl Stream {
    /// Takes a trace's requests. By `rule` another size is a new version or nothing; every response
    /// may be cached.
    pub fn of_trace(trace: &Trace, rule: SizeChange) -> Self {
        let first = trace.requests().iter().map(|request| request.time_ms).min().unwrap_or(0);
        let mut last: Vec<Option<(u64, u32)>> = vec![None; trace.objects().len()];
        let visit = |request: &shoal_trace::Request| {
            let (bytes, version) = last[request.object as usize].unwrap_or((request.bytes, 0));
            let changed = rule == SizeChange::Version && bytes != request.bytes;
            let version = version + u32::from(changed);
            last[request.object as usize] = Some((request.bytes, version));
            Visit {
                day: (request.time_ms - first) as f64 / MILLISECONDS_A_DAY,
                client: request.client,
                object: request.object,
                version,
                bytes: request.bytes,
                cacheable: true,
            }
        };
        let visits = trace.requests().iter().map(visit).collect();
        Self { visits, objects: trace.objects().len(), clients: trace.clients().len().max(1) }
    }

    /// Returns the days from the earliest request to the latest. Logs are written when responses
    /// end, so that the last line need not be the latest.
    pub fn days(&self) -> f64 {
        self.visits.iter().map(|visit| visit.day).fold(0.0, f64::max)
    }
}

/// Changes of an object, drawn as time goes on.
struct Age {
    law: Law,
    /// The mean interval of this object.
    mean_days: f64,
    random: Random,
    version: u32,
    next_change: f64,
}

impl Age {
    fn new(change: Change, mut random: Random) -> Self {
        let mean_days = match change.law {
            Law::Between(tail) => drawn(tail, change.mean_days, &mut random),
            _ => change.mean_days,
        };
        let mut age = Self { law: change.law, mean_days, random, version: 0, next_change: 0.0 };
        // Exponential intervals have no memory. Others have run for long when the stream begins:
        // the first is drawn by its length, and the stream begins anywhere in it.
        age.next_change = match change.law {
            Law::Within(tail) => age.random.unit() * drawn_by_length(tail, mean_days, &mut age.random),
            _ => age.interval(),
        };
        age
    }

    fn interval(&mut self) -> f64 {
        if !self.mean_days.is_finite() {
            return f64::INFINITY;
        }
        match self.law {
            Law::Within(tail) => drawn(tail, self.mean_days, &mut self.random),
            _ => self.random.exponential(self.mean_days),
        }
    }

    /// Returns the object's version on a day that is no earlier than the last one asked about. Very
    /// fast changes are skipped forward.
    fn version_at(&mut self, day: f64) -> u32 {
        let skipped =
            ((day - self.next_change) / self.mean_days.max(f64::MIN_POSITIVE) - MOST_STEPS).max(0.0);
        if skipped > 0.0 {
            self.version = self.version.wrapping_add(1);
            self.next_change += skipped * self.mean_days;
        }
        while self.next_change <= day {
            self.version = self.version.wrapping_add(1);
            self.next_change += self.interval().max(LEAST_INTERVAL_DAYS);
        }
        self.version
    }
}

fn drawn(tail: Tail, mean_days: f64, random: &mut Random) -> f64 {
    match tail {
        Tail::LogNormal { median_days } => {
            median_days * (deviation(median_days, mean_days) * random.normal()).exp()
        }
        Tail::Pareto { shape } => mean_days * (1.0 - 1.0 / shape) * (1.0 - random.unit()).powf(-1.0 / shape),
    }
}

/// Draws an interval with a probability in proportion to its length: a lognormal one shifted by σ²,
/// a Pareto one with one off its shape.
fn drawn_by_length(tail: Tail, mean_days: f64, random: &mut Random) -> f64 {
    match tail {
        Tail::LogNormal { median_days } => {
            let deviation = deviation(median_days, mean_days);
            median_days * (deviation * (random.normal() + deviation)).exp()
        }
        Tail::Pareto { shape } => {
            mean_days * (1.0 - 1.0 / shape) * (1.0 - random.unit()).powf(-1.0 / (shape - 1.0))
        }
    }
}

fn deviation(median_days: f64, mean_days: f64) -> f64 {
    (2.0 * (mean_days / median_days).ln()).max(0.0).sqrt()
}

const MILLISECONDS_A_DAY: f64 = 86_400_000.0;
/// Number of changes between two requests beyond which the exact number does not matter.
const MOST_STEPS: f64 = 64.0;
/// Least interval, a microsecond: no object changes more often.
const LEAST_INTERVAL_DAYS: f64 = 1e-11;
