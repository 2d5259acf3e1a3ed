//! Heat: decayed rates of the most popular objects of a home, and leases for copies of them.
//!
//! One object may get more requests than its home can serve. The home counts asks by key, and hands
//! out a lease with the answer if the rate is high: the asker may keep a copy for so long. Purges
//! reach all nodes, so that copies obey them.
//!
//! The table is Space-Saving (Metwally, Agrawal, El Abbadi, *Efficient computation of frequent and
//! top-k elements in data streams*, ICDT 2005). Its admission is random (Ben Basat, Einziger,
//! Friedman, Kassner, *Randomized admission policy*, INFOCOM 2017). A new key takes the place of
//! the lowest count `m` with probability `1 / (m + 1)`. A flood of distinct keys therefore
//! displaces cold entries only: raising the lowest count of `n` entries to `m` takes about `n·m²/2`
//! asks within a half-life. All counts are halved every ten seconds, which costs O(n log n). An ask
//! costs O(log n).

use shoal_core::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Decayed counts of the keys asked most.
#[derive(Clone, Debug)]
pub struct Heat {
    entries: BTreeMap<Key, Entry>,
    /// The keys by their counts, lowest first.
    by_count: BTreeSet<(CountBits, Key)>,
    capacity: usize,
    halved: Duration,
}

/// Bits of a count. Those of numbers that are not negative have the order of the numbers.
type CountBits = u32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Decayed count, including that of the entry displaced.
    count: f32,
    /// Part of the count that other keys may have caused.
    error: f32,
}

impl Heat {
    /// Makes an empty table for this number of keys, at least one.
    pub fn new(capacity: usize) -> Self {
        let (entries, by_count) = (BTreeMap::new(), BTreeSet::new());
        Self { entries, by_count, capacity: capacity.max(1), halved: Duration::ZERO }
    }

    /// Counts an ask for a key. `requests` is the number of clients' requests that the ask stands
    /// for: 1, or those that the asker served under its last lease too. `draw` is a uniform random
    /// number. Returns the lease for the asker if the object is hot.
    pub fn asked(&mut self, key: Key, requests: u32, draw: u64, now: Duration) -> Option<Duration> {
        self.decay(now);
        let requests = requests.clamp(1, REQUESTS_MAX) as f32;
        if let Some(entry) = self.entries.get_mut(&key) {
            self.by_count.remove(&(entry.count.to_bits(), key));
            entry.count = (entry.count + requests).min(COUNT_MAX);
            self.by_count.insert((entry.count.to_bits(), key));
        } else if self.entries.len() < self.capacity {
            self.insert(key, Entry { count: requests, error: 0.0 });
        } else {
            self.admit(key, requests, draw);
        }
        assert!(self.entries.len() <= self.capacity, "the table is bounded");
        debug_assert!(self.by_count.len() == self.entries.len(), "a count for each key");
        self.lease(key)
    }

    /// Returns the lease for a copy of an object, if the object is hot.
    pub fn lease(&self, key: Key) -> Option<Duration> {
        let rate = self.rate(key);
        (rate >= HOT_RATE).then(|| LEASE_MIN.mul_f32((rate / HOT_RATE).min(LEASE_MAX_FACTOR)))
    }

    /// Returns the asks a second for a key that the table is sure of.
    pub fn rate(&self, key: Key) -> f32 {
        let sure = self.entries.get(&key).map_or(0.0, |entry| entry.count - entry.error);
        sure / MEMORY.as_secs_f32()
    }

    /// Returns the hottest keys with their rates, hottest first, at most `limit`.
    pub fn hottest(&self, limit: usize) -> Vec<(Key, f32)> {
        let mut keys: Vec<_> = self.entries.keys().map(|key| (*key, self.rate(*key))).collect();
        keys.sort_by(|one, next| next.1.total_cmp(&one.1).then(one.0.cmp(&next.0)));
        keys.truncate(limit);
        keys
    }

    /// Gives the key the place of the lowest entry, with probability `1 / (lowest + 1)`.
    fn admit(&mut self, key: Key, requests: f32, draw: u64) {
        let Some((lowest, coldest)) = self.by_count.first().copied() else { return };
        let count = f32::from_bits(lowest);
        let uniform = (draw >> 40) as f32 / (1_u64 << 24) as f32;
        if uniform * (count + 1.0) >= requests.min(count + 1.0) {
            return;
        }
        self.by_count.pop_first();
        self.entries.remove(&coldest);
        self.insert(key, Entry { count: count + requests, error: count });
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
        self.by_count.insert((entry.count.to_bits(), key));
    }

    /// Halves all counts for each half-life that has passed.
    fn decay(&mut self, now: Duration) {
        let periods = now.saturating_sub(self.halved).as_secs() / HALF_LIFE.as_secs();
        if periods == 0 {
            return;
        }
        self.halved += HALF_LIFE * u32::try_from(periods).unwrap_or(u32::MAX);
        let factor = 0.5_f32.powi(periods.min(64) as i32);
        for entry in self.entries.values_mut() {
            entry.count *= factor;
            entry.error *= factor;
        }
        self.entries.retain(|_, entry| entry.count >= COUNT_MIN);
        self.by_count = self.entries.iter().map(|(key, entry)| (entry.count.to_bits(), *key)).collect();
    }
}

/// Shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(5);

/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(60);

const LEASE_MAX_FACTOR: f32 = 12.0;

/// Requests a second from which an object is hot. Fetching a copy pays after a few of them.
const HOT_RATE: f32 = 10.0;

/// Time after which counts are halved.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// Time over which a steady rate gathers its count just before a halving: two half-lives.
const MEMORY: Duration = Duration::from_secs(20);

/// Most requests that one ask may stand for.
const REQUESTS_MAX: u32 = 10_000;

/// Count above which nothing is added, where an `f32` still counts exactly.
const COUNT_MAX: f32 = 8_000_000.0;

/// Count below which an entry is forgotten.
const COUNT_MIN: f32 = 0.25;

const _: () = assert!(LEASE_MIN.as_secs() * 12 == LEASE_MAX.as_secs());

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::mixed;

    fn key(number: u64) -> Key {
        Key::unkeyed(&number.to_le_bytes())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn hot_object_gets_leases_by_its_rate() {
        let mut heat = Heat::new(64);
        let mut lease = None;
        for step in 0..60_000_u64 {
            lease = heat.asked(key(1), 1, mixed(step), at(step));
        }
        assert_eq!(lease, Some(LEASE_MAX), "1,000 a second");
        let mut heat = Heat::new(64);
        assert!((0..600).all(|step| heat.asked(key(1), 1, mixed(step), at(step * 1_000)).is_none()));
        let mut heat = Heat::new(64);
        let lease = (0..60).map(|step| heat.asked(key(1), 30, 0, at(step * 1_000))).last().flatten();
        assert!(lease.is_some_and(|lease| lease >= LEASE_MIN && lease < LEASE_MAX), "{lease:?}");
    }

    #[test]
    fn object_cools_down_when_not_asked() {
        let mut heat = Heat::new(64);
        for step in 0..10_000 {
            heat.asked(key(1), 1, 0, at(step));
        }
        assert!(heat.lease(key(1)).is_some());
        assert!(heat.asked(key(2), 1, 0, at(120_000)).is_none());
        assert_eq!(heat.lease(key(1)), None);
        assert_eq!(heat.asked(key(2), 1, 0, Duration::MAX), None, "any time is sound");
    }

    #[test]
    fn flood_of_distinct_keys_keeps_hot_ones() {
        let mut heat = Heat::new(128);
        let mut flood = 0;
        for step in 0..40_000_u64 {
            for _ in 0..25 {
                flood += 1;
                assert!(heat.asked(key(1_000 + flood), 1, mixed(flood), at(step)).is_none());
            }
            if step % 20 == 0 {
                heat.asked(key(step % 100 / 20), 1, mixed(step), at(step));
            }
        }
        // Each of the five keys is asked ten times a second, the flood 25,000 times.
        let kept = (0..5).filter(|number| heat.rate(key(*number)) > 2.0).count();
        assert_eq!(kept, 5, "{:?}", heat.hottest(8));
    }

    #[test]
    fn lowest_count_gives_way() {
        let mut heat = Heat::new(8);
        for step in 0..4_000_u64 {
            let number = mixed(step) % 40;
            heat.asked(key(number * number / 40), 1 + (step % 3) as u32, mixed(step + 7), at(step * 20));
            let counts = heat.entries.iter().map(|(key, entry)| (entry.count.to_bits(), *key));
            assert_eq!(heat.by_count, counts.collect(), "step {step}");
        }
        let lowest = heat.entries.values().map(|entry| entry.count).fold(f32::MAX, f32::min);
        let coldest = heat.by_count.first().copied().expect("a full table");
        assert_eq!(f32::from_bits(coldest.0), lowest);
        heat.asked(key(1_000), 10_000, 0, at(80_000));
        assert!(heat.entries.contains_key(&key(1_000)) && !heat.entries.contains_key(&coldest.1));
    }

    #[test]
    fn one_ask_stands_for_a_bounded_number() {
        let mut heat = Heat::new(2);
        heat.asked(key(1), u32::MAX, 0, at(0));
        assert!(heat.rate(key(1)) <= REQUESTS_MAX as f32 / MEMORY.as_secs_f32());
        for _ in 0..100_000 {
            heat.asked(key(1), u32::MAX, 0, at(0));
        }
        assert!(heat.rate(key(1)).is_finite() && heat.entries.len() == 1);
    }
}
