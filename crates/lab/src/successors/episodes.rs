//! Admission to a flash cache by episodes.
//!
//! Wong, Wu, Molder, Gunasekar, Lu, Khandkar, Sharma, Berger, Beckmann, Ganger, *Baleen: ML
//! admission & prefetching for flash caches*, FAST 2024. Flash wears by writes, so that a cache
//! must not write everything that it fetches. An *episode* is a run of requests for one object,
//! each within the eviction age of the one before. One stay in the cache would serve it. Its worth
//! is the disk-head time that the stay saves for each byte written. Optimal admission takes
//! episodes by worth until the writes are used up; Baleen learns to predict it. Headline: 12% less
//! peak disk-head time than the best before it, at the same flash write rate.
//!
//! ```text
//!  object a:  x x   x            x  x
//!             └ episode ┘  > age └ episode: admitted at its first request, one hit
//! ```
//!
//! The forest of the paper is a table here. It has the mean worth by size, requests so far, and
//! length of the episode before. Prefetching is left out: objects are whole.

use super::ByteLru;
use shoal_trace::{Random, Request};
use std::collections::HashMap;

/// Costs of a backend disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadTime {
    /// Time to the first byte, in seconds.
    pub seek_seconds: f64,
    /// Bytes a second from then on.
    pub bytes_per_second: f64,
}

impl HeadTime {
    /// A disk of some 8 ms and 150 MB/s.
    pub const DISK: Self = Self { seek_seconds: 8e-3, bytes_per_second: 150e6 };

    /// Returns the disk-head time of a read.
    pub fn of(self, bytes: u64) -> f64 {
        self.seek_seconds + bytes as f64 / self.bytes_per_second
    }
}

/// Results of an admission policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlashResult {
    /// Disk-head time of all misses, in seconds.
    pub head_seconds: f64,
    /// The most of it in a twentieth of the requests.
    pub peak_seconds: f64,
    /// Bytes written to flash.
    pub written_bytes: u64,
    /// Requests that hit.
    pub hits: u64,
}

/// Runs requests through a flash cache. `admit` decides on misses, from the index and the request.
pub fn run(
    requests: &[Request],
    cache_bytes: u64,
    mut admit: impl FnMut(usize, &Request) -> bool,
) -> FlashResult {
    let mut flash = ByteLru::new(cache_bytes);
    let mut found = FlashResult::default();
    let mut parts = [0.0; PARTS];
    for (at, request) in requests.iter().enumerate() {
        // A policy sees every request, so that it can count.
        let is_wanted = admit(at, request);
        if flash.touch(request.object) {
            found.hits += 1;
            continue;
        }
        parts[at * PARTS / requests.len()] += HeadTime::DISK.of(request.bytes);
        if is_wanted && request.bytes <= cache_bytes {
            flash.insert(request.object, request.bytes);
            found.written_bytes += request.bytes;
        }
    }
    found.head_seconds = parts.iter().sum();
    found.peak_seconds = parts.iter().copied().fold(0.0, f64::max);
    found
}

/// CacheLib's rule: an object is admitted when it was asked for before, within the last `window`
/// requests.
pub fn reject_first(requests: &[Request], cache_bytes: u64, window: usize) -> FlashResult {
    let mut last: HashMap<u32, usize> = HashMap::new();
    run(requests, cache_bytes, |at, request| {
        last.insert(request.object, at).is_some_and(|before| at - before <= window)
    })
}

/// Every miss is admitted with one probability.
pub fn coin_flip(requests: &[Request], cache_bytes: u64, probability: f64, seed: u64) -> FlashResult {
    let mut random = Random::new(seed);
    run(requests, cache_bytes, |_, _| random.unit() < probability)
}

/// Optimal admission of whole episodes, within `budget_bytes` of writes.
pub fn by_known_episodes(
    requests: &[Request],
    cache_bytes: u64,
    age: usize,
    budget_bytes: u64,
) -> FlashResult {
    let mut episodes: Vec<Episode> =
        episodes(requests, age).into_iter().filter(|one| one.requests > 1).collect();
    episodes.sort_by(|a, b| b.worth().total_cmp(&a.worth()));
    let mut left = budget_bytes;
    let mut wanted = vec![false; requests.len()];
    for episode in episodes {
        let Some(after) = left.checked_sub(episode.bytes) else { continue };
        left = after;
        wanted[episode.first] = true;
    }
    run(requests, cache_bytes, |at, _| wanted[at])
}

/// Run of requests for one object.
#[derive(Clone, Copy, Debug)]
struct Episode {
    first: usize,
    last: usize,
    requests: u32,
    bytes: u64,
}

impl Episode {
    /// Returns the disk-head time that admission at the first request saves, for each byte.
    fn worth(&self) -> f64 {
        f64::from(self.requests - 1) * HeadTime::DISK.of(self.bytes) / self.bytes.max(1) as f64
    }
}

/// Returns the episodes of requests, by their first request.
fn episodes(requests: &[Request], age: usize) -> Vec<Episode> {
    let mut all: Vec<Episode> = Vec::new();
    let mut open: HashMap<u32, usize> = HashMap::new();
    for (at, request) in requests.iter().enumerate() {
        let known = open.get(&request.object).map(|number| &mut all[*number]);
        match known.filter(|episode| at - episode.last <= age) {
            Some(episode) => {
                episode.last = at;
                episode.requests += 1;
            }
            None => {
                open.insert(request.object, all.len());
                all.push(Episode { first: at, last: at, requests: 1, bytes: request.bytes });
            }
        }
    }
    all
}

/// Returns the requests that are left in its episode after each request.
fn requests_left(requests: &[Request], episodes: &[Episode]) -> Vec<u32> {
    let mut next = episodes.iter().peekable();
    let mut open: HashMap<u32, u32> = HashMap::new();
    let left_after = |(at, request): (usize, &Request)| {
        if let Some(begun) = next.next_if(|episode| episode.first == at) {
            open.insert(request.object, begun.requests);
        }
        let left = open.entry(request.object).or_insert(1);
        *left = left.saturating_sub(1);
        *left
    };
    requests.iter().enumerate().map(left_after).collect()
}

/// Facts about a request that are known when it comes.
type Facts = (u8, u8, u8);

/// Running episodes, for the facts.
#[derive(Default)]
struct Watch {
    /// Last request, requests in this episode and in the one before.
    known: HashMap<u32, (usize, u32, u32)>,
}

impl Watch {
    fn facts(&mut self, at: usize, request: &Request, age: usize) -> Facts {
        let (so_far, before) = match self.known.get(&request.object) {
            Some((last, count, before)) if at - last <= age => (*count, *before),
            Some((_, count, _)) => (0, *count),
            None => (0, 0),
        };
        self.known.insert(request.object, (at, so_far + 1, before));
        let size = request.bytes.max(1).ilog2() as u8;
        (size, so_far.min(MOST_COUNTED) as u8, before.min(MOST_COUNTED) as u8)
    }
}

/// Learned admission.
pub struct Baleen {
    age: usize,
    worth: HashMap<Facts, f64>,
    threshold: f64,
    /// Worth just below the threshold, of which this share is admitted too.
    margin: (f64, f64),
}

impl Baleen {
    /// Trains on requests, so that no more than `budget_bytes` are written for them.
    pub fn train(requests: &[Request], cache_bytes: u64, age: usize, budget_bytes: u64) -> Self {
        let all = episodes(requests, age);
        let left = requests_left(requests, &all);
        let mut watch = Watch::default();
        let mut sums: HashMap<Facts, (f64, f64)> = HashMap::new();
        for (at, request) in requests.iter().enumerate() {
            let facts = watch.facts(at, request, age);
            let sum = sums.entry(facts).or_default();
            sum.0 += f64::from(left[at]) * HeadTime::DISK.of(request.bytes);
            sum.1 += request.bytes.max(1) as f64;
        }
        let worth: HashMap<Facts, f64> =
            sums.into_iter().map(|(facts, (saved, bytes))| (facts, saved / bytes)).collect();
        let mut trained = Self { age, worth, threshold: f64::INFINITY, margin: (0.0, 0.0) };
        let mut levels: Vec<f64> = trained.worth.values().copied().filter(|worth| *worth > 0.0).collect();
        levels.sort_by(f64::total_cmp);
        // The lowest threshold with writes within the budget; writes fall as it rises.
        let (mut low, mut high) = (0, levels.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            trained.threshold = levels[middle];
            if trained.run(requests, cache_bytes).written_bytes > budget_bytes {
                low = middle + 1
            } else {
                high = middle
            }
        }
        trained.threshold = levels.get(low).copied().unwrap_or(f64::INFINITY);
        let Some(next) = low.checked_sub(1) else { return trained };
        // The rest of the budget goes to a part of the next level.
        let (mut least, mut most) = (0.0, 1.0);
        for _ in 0..MARGIN_STEPS {
            let middle = f64::midpoint(least, most);
            trained.margin = (levels[next], middle);
            if trained.run(requests, cache_bytes).written_bytes > budget_bytes {
                most = middle
            } else {
                least = middle
            }
        }
        trained.margin.1 = least;
        trained
    }

    /// Runs requests through a cache with this admission.
    pub fn run(&self, requests: &[Request], cache_bytes: u64) -> FlashResult {
        let (mut watch, mut credit) = (Watch::default(), 0.0);
        run(requests, cache_bytes, |at, request| {
            let facts = watch.facts(at, request, self.age);
            let worth = self.worth.get(&facts).copied().unwrap_or(0.0);
            let is_on_margin = worth > 0.0 && worth == self.margin.0 && worth < self.threshold;
            credit += if is_on_margin { self.margin.1 } else { 0.0 };
            let is_its_turn = is_on_margin && credit >= 1.0;
            credit -= if is_its_turn { 1.0 } else { 0.0 };
            worth >= self.threshold || is_its_turn
        })
    }
}

/// Parts of a run, of which the worst is the peak.
const PARTS: usize = 20;
/// Halvings of the share that is admitted of the last level.
const MARGIN_STEPS: usize = 6;
/// Most requests that facts tell apart.
const MOST_COUNTED: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::ZipfTrace;

    /// Small popular objects, middling ones with six requests or so, and large ones with two. The
    /// second request tells nothing good of these.
    fn made(requests: usize, seed: u64) -> Vec<Request> {
        let mut popular = ZipfTrace::new(3000, 0.7, 1, seed);
        let mut random = Random::new(seed);
        let mut recent: Vec<u32> = vec![100_000; 64];
        let mut twice = std::collections::VecDeque::new();
        let mut fresh = 100_000u32 + (seed as u32) * 10_000_000;
        (0..requests)
            .map(|at| {
                let (object, bytes) = match random.below(10) {
                    0..4 => (popular.next().map_or(0, |one| one.object as u32), 50_000),
                    4..7 => {
                        let at = random.below(64) as usize;
                        if random.below(6) == 0 {
                            fresh += 1;
                            recent[at] = fresh;
                        }
                        (recent[at], 300_000)
                    }
                    _ if twice.len() > 32 && random.below(2) == 0 => {
                        (twice.pop_front().unwrap_or(0), 1_000_000)
                    }
                    _ => {
                        fresh += 1;
                        twice.push_back(fresh);
                        (fresh, 1_000_000)
                    }
                };
                Request { time_ms: at as u64, bytes, object, client: 0 }
            })
            .collect()
    }

    /// The headline: an eighth less peak disk-head time, or more, for no more flash writes.
    #[test]
    fn learned_admission_spares_disk_heads() {
        let (training, later) = (made(40_000, 1), made(40_000, 2));
        let (cache, age) = (600_000_000, 4_000);
        let rejecting = reject_first(&later, cache, age);
        let budget = reject_first(&training, cache, age).written_bytes;
        let learned = Baleen::train(&training, cache, age, budget).run(&later, cache);
        assert!(
            learned.written_bytes as f64 <= 1.03 * rejecting.written_bytes as f64,
            "{learned:?} {rejecting:?}"
        );
        let spared = 1.0 - learned.peak_seconds / rejecting.peak_seconds;
        assert!((0.12..0.6).contains(&spared), "{spared}: {learned:?} {rejecting:?}");
        let known = by_known_episodes(&later, cache, age, learned.written_bytes);
        assert!(known.head_seconds < rejecting.head_seconds, "{known:?} {rejecting:?}");
        let share = rejecting.written_bytes as f64 / coin_flip(&later, cache, 1.0, 1).written_bytes as f64;
        assert!(coin_flip(&later, cache, share, 1).head_seconds > learned.head_seconds);
    }

    #[test]
    fn requests_far_apart_are_two_episodes() {
        let one = |object| Request { time_ms: 0, bytes: 1000, object, client: 0 };
        let requests = [one(1), one(2), one(1), one(3), one(3), one(3), one(1)];
        let found: Vec<(usize, u32)> =
            episodes(&requests, 3).iter().map(|one| (one.first, one.requests)).collect();
        assert_eq!(found, [(0, 2), (1, 1), (3, 3), (6, 1)]);
        let all = run(&requests, 10_000, |_, _| true);
        assert_eq!((all.hits, all.written_bytes), (4, 3000));
    }
}
