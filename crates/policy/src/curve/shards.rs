//! LRU's curve from a sample of the objects: SHARDS, and the exact one where the sample is all of
//! them.
//!
//! Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with SHARDS*, FAST 2015.
//! Objects with a hash below a threshold are watched, with all their requests, and no others. A
//! distance among watched objects, divided by the sampling rate, is the distance among all. With a
//! fixed size the threshold falls whenever more objects than the limit are watched; earlier counts
//! are then weighed down by the same factor (their section 3.2). The first cell corrects the
//! sample's surplus or lack of requests (3.4).
//!
//! A sample holds some of the few most popular objects, and chance decides which. This moves the
//! curve where some dozens of watched objects fit, and the sample does not show it. Sizes of fewer
//! than a hundred watched objects want a higher rate.
//!
//! A hash a request; for a sampled request O(log objects). About 90 bytes a watched object.

use super::doublings::GroupDoublings;
use super::histogram::DistanceHistogram;
use super::stack::{Distance, Stack};
use super::{Curve, GROUPS, Point, mixed, spread};
use crate::SlotTable;
use std::collections::BinaryHeap;

/// Watcher of a stream of requests.
pub struct Shards {
    seed: u64,
    /// Threshold: objects with a hash below it are watched.
    threshold: u64,
    /// Largest number of watched objects; `None` keeps the rate.
    objects_max: Option<usize>,
    all: WatchedObjects,
    groups: Vec<WatchedObjects>,
    /// Distances by group, for a stream that has no other groups.
    doublings: Option<Box<GroupDoublings>>,
    /// Watched objects by falling hash, where the threshold may fall.
    highest: BinaryHeap<(u64, u64)>,
    requests: u64,
    bytes: u64,
}

/// Watched objects, their stack and their histogram.
#[derive(Default)]
struct WatchedObjects {
    table: SlotTable,
    /// The hash and the number of each object that has a slot.
    slots: Vec<(u64, u64)>,
    free: Vec<u32>,
    stack: Stack,
    histogram: DistanceHistogram,
}

/// Function from sizes to hit ratios and byte hit ratios.
type Ratios = fn(&DistanceHistogram, &[u64]) -> Vec<(f64, f64)>;

/// Distances of the requests of a stream.
pub struct SampledDistances {
    histogram: DistanceHistogram,
    groups: Vec<DistanceHistogram>,
    doublings: Option<Box<GroupDoublings>>,
    /// Requests of the stream.
    pub requests: u64,
    /// Bytes of the stream.
    pub bytes: u64,
    /// The sampling rate at the end.
    pub rate: f64,
    /// Objects watched at the end.
    pub watched: usize,
}

impl Shards {
    /// Watches every object: exact, and no error.
    pub fn exact() -> Self {
        Self::with(u64::MAX, None, 0, 0)
    }

    /// Watches this share of the objects, from more than 0 to 1; 1 is exact.
    pub fn fixed_rate(rate: f64, seed: u64) -> Self {
        if rate >= 1.0 {
            return Self::exact();
        }
        Self::with((rate.max(0.0) * u64::MAX as f64) as u64, None, seed, GROUPS)
    }

    /// Watches at most `objects` objects, at least one of each group.
    pub fn fixed_size(objects: usize, seed: u64) -> Self {
        Self::with(u64::MAX, Some(objects.max(GROUPS)), seed, GROUPS)
    }

    /// Watches at most `objects` objects in as little memory as possible, for requests that come
    /// with a hash of their own: see [`watch`](Self::watch). The groups share the stack of all
    /// objects, and know distances by doublings only.
    pub fn hashed(objects: usize) -> Self {
        let mut shards = Self::with(u64::MAX, Some(objects.max(1)), 0, 0);
        shards.highest.reserve_exact(objects + 1);
        shards.all.slots.reserve_exact(objects + 1);
        shards.doublings = Some(Box::default());
        shards
    }

    fn with(threshold: u64, objects_max: Option<usize>, seed: u64, groups: usize) -> Self {
        let mut watches = Vec::new();
        watches.resize_with(groups, WatchedObjects::default);
        Self {
            seed,
            threshold,
            objects_max,
            all: WatchedObjects::default(),
            groups: watches,
            doublings: None,
            highest: BinaryHeap::new(),
            requests: 0,
            bytes: 0,
        }
    }

    /// Counts the next request.
    #[inline]
    pub fn request(&mut self, object: u64, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        let hash = mixed(object, self.seed);
        if hash <= self.threshold {
            self.watched(object, hash, bytes);
        }
    }

    /// Counts requests and their bytes, watched or not. [`request`](Self::request) counts them
    /// itself.
    pub fn note_all(&mut self, requests: u64, bytes: u64) {
        self.requests += requests;
        self.bytes += bytes;
    }

    /// Records a request of an object with these 64 uniform bits as its hash, if the hash is below
    /// the [threshold](Self::threshold). [`note_all`](Self::note_all) counts the request.
    #[inline]
    pub fn watch(&mut self, hash: u64, bytes: u64) {
        if hash <= self.threshold {
            self.watched(hash, hash, bytes);
        }
    }

    /// Records a request likewise that no cache can answer, of any size.
    pub fn watch_miss(&mut self, hash: u64, bytes: u64) {
        if hash <= self.threshold {
            let weight = 1.0 / self.rate();
            self.all.histogram.add(None, bytes, weight);
            if !self.groups.is_empty() {
                let group = group_of(hash, self.groups.len());
                self.groups[group].histogram.add(None, bytes, weight);
            }
            if let Some(doublings) = &mut self.doublings {
                doublings.add(group_of(hash, GROUPS), None, weight);
            }
        }
    }

    /// Returns the largest hash of watched objects.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Lowers the threshold to at most `threshold` and drops the objects above it. A caller that
    /// gets more requests than it can record watches fewer objects.
    pub fn lower_to(&mut self, threshold: u64) {
        while self.highest.peek().is_some_and(|(hash, _)| *hash > threshold) {
            self.lower();
        }
        self.threshold = self.threshold.min(threshold.max(1));
        debug_assert!(self.highest.peek().is_none_or(|(hash, _)| *hash <= self.threshold));
    }

    /// Multiplies the weight of everything recorded by `by`, so that later requests count more.
    pub fn fade(&mut self, by: f64) {
        let faded = |count: u64| (count as f64 * by) as u64;
        (self.requests, self.bytes) = (faded(self.requests), faded(self.bytes));
        let watches = self.groups.iter_mut().chain([&mut self.all]);
        watches.for_each(|watch| watch.histogram.scale(by));
        self.doublings.iter_mut().for_each(|doublings| doublings.scale(by));
    }

    /// Ends the warm-up: earlier requests only filled the stacks.
    pub fn end_warm_up(&mut self) {
        (self.requests, self.bytes) = (0, 0);
        let watches = self.groups.iter_mut().chain([&mut self.all]);
        watches.for_each(|watch| watch.histogram = DistanceHistogram::default());
        self.doublings.iter_mut().for_each(|doublings| **doublings = GroupDoublings::default());
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        let watches = self.groups.iter().chain([&self.all]).map(WatchedObjects::memory_bytes).sum::<usize>();
        let doublings = self.doublings.as_ref().map_or(0, |doublings| size_of_val(&**doublings));
        watches + doublings + self.highest.capacity() * size_of::<(u64, u64)>()
    }

    /// Ends the stream and returns its distances.
    pub fn finish(self) -> SampledDistances {
        self.distances()
    }

    /// Returns the distances so far.
    pub fn distances(&self) -> SampledDistances {
        let mut distances = SampledDistances {
            watched: self.all.stack.len(),
            histogram: self.all.histogram.clone(),
            groups: self.groups.iter().map(|group| group.histogram.clone()).collect(),
            doublings: self.doublings.clone(),
            requests: self.requests,
            bytes: self.bytes,
            rate: self.rate(),
        };
        if distances.rate < 1.0 {
            distances.histogram.adjust(self.requests as f64, self.bytes as f64);
            let groups = self.groups.len() as f64;
            for group in &mut distances.groups {
                group.adjust(self.requests as f64 / groups, self.bytes as f64 / groups);
            }
        }
        distances
    }

    fn rate(&self) -> f64 {
        (self.threshold as f64 / u64::MAX as f64).min(1.0)
    }

    fn watched(&mut self, object: u64, hash: u64, bytes: u64) {
        let weight = 1.0 / self.rate();
        let (is_new, distance) = self.all.request(object, hash, bytes, weight, weight);
        if let Some(doublings) = &mut self.doublings {
            doublings.add(group_of(hash, GROUPS), distance, weight);
        }
        if !self.groups.is_empty() {
            let group = group_of(hash, self.groups.len());
            // A part of the sample is a sample at a part of the rate.
            let scale = weight * self.groups.len() as f64;
            self.groups[group].request(object, hash, bytes, weight, scale);
        }
        if let Some(objects_max) = self.objects_max
            && is_new
        {
            self.highest.push((hash, object));
            while self.all.stack.len() > objects_max {
                self.lower();
            }
        }
    }

    /// Drops the object with the highest hash and sets the threshold below that hash.
    fn lower(&mut self) {
        let Some((hash, object)) = self.highest.pop() else { return };
        let before = self.rate();
        self.threshold = hash.saturating_sub(1);
        self.all.forget(object, hash);
        if !self.groups.is_empty() {
            let group = group_of(hash, self.groups.len());
            self.groups[group].forget(object, hash);
        }
        // Weights are those of the rate at their time (1 / rate). Earlier counts stand for the same
        // number of requests as before.
        debug_assert!(self.rate() <= before);
    }
}

impl WatchedObjects {
    /// Counts a request. Returns `true` if the object is new, and the request's distance. Distances
    /// are scaled by `scale`; the request weighs `weight`.
    fn request(
        &mut self,
        object: u64,
        hash: u64,
        bytes: u64,
        weight: f64,
        scale: f64,
    ) -> (bool, Option<Distance>) {
        let slots = &self.slots;
        let found = self.table.find(placed(hash), |slot| slots[slot as usize].1 == object);
        let slot = found.unwrap_or_else(|| self.take_in(object, hash));
        let distance = self.stack.touch(slot, bytes).map(|distance| {
            // The objects in between are a sample; the object itself is certain.
            let scaled = |all: u64, own: u64| own.saturating_add(((all - own) as f64 * scale) as u64);
            Distance { objects: scaled(distance.objects, 1), bytes: scaled(distance.bytes, bytes) }
        });
        self.histogram.add(distance, bytes, weight);
        (found.is_none(), distance)
    }

    fn take_in(&mut self, object: u64, hash: u64) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push((hash, object));
        } else {
            self.slots[slot as usize] = (hash, object);
        }
        let slots = &self.slots;
        self.table.insert(placed(hash), slot, |slot| placed(slots[slot as usize].0));
        slot
    }

    fn forget(&mut self, object: u64, hash: u64) {
        let slots = &self.slots;
        let Some(slot) = self.table.find(placed(hash), |slot| slots[slot as usize].1 == object) else {
            return;
        };
        self.table.remove(placed(hash), slot);
        self.stack.remove(slot);
        self.free.push(slot);
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.stack.memory_bytes()
            + self.slots.capacity() * size_of::<(u64, u64)>()
            + self.free.capacity() * size_of::<u32>()
            + self.histogram.memory_bytes()
    }
}

/// Returns the group of a hash, by its lowest bits. These are independent of the comparison with
/// the threshold.
fn group_of(hash: u64, groups: usize) -> usize {
    ((u128::from(hash.reverse_bits()) * groups as u128) >> 64) as usize
}

/// Returns the hash that the table uses for an object's place. The high half of watched objects'
/// hashes only says that they are watched.
fn placed(hash: u64) -> u64 {
    hash.rotate_left(32)
}

impl SampledDistances {
    /// Returns LRU's curve over growing sizes in bytes.
    pub fn curve(&self, sizes: &[u64]) -> Curve {
        self.curve_by(sizes, DistanceHistogram::ratios)
    }

    /// Returns LRU's curve over sizes in objects.
    pub fn curve_by_objects(&self, sizes: &[u64]) -> Curve {
        self.curve_by(sizes, DistanceHistogram::ratios_by_objects)
    }

    /// Returns the reuse distances.
    pub fn distances(&self) -> &DistanceHistogram {
        &self.histogram
    }

    fn curve_by(&self, sizes: &[u64], ratios: Ratios) -> Curve {
        let parts: Vec<Vec<(f64, f64)>> = self.groups.iter().map(|group| ratios(group, sizes)).collect();
        let point = |(at, (hit_ratio, byte_hit_ratio)): (usize, (f64, f64))| {
            let of = |pick: fn(&(f64, f64)) -> f64| {
                spread(&parts.iter().map(|part| pick(&part[at])).collect::<Vec<_>>())
            };
            let doublings = self.doublings.as_ref().filter(|_| self.rate < 1.0);
            let error = doublings.map(|doublings| doublings.error_at(self.requests as f64, sizes[at]));
            Point {
                size: sizes[at],
                hit_ratio,
                byte_hit_ratio,
                error: error.unwrap_or_else(|| of(|ratio| ratio.0)),
                byte_error: of(|ratio| ratio.1),
            }
        };
        Curve { points: ratios(&self.histogram, sizes).into_iter().enumerate().map(point).collect() }
    }
}
