//! RAM before disk, both at once: what each hits, and what the disk must do, for pairs of sizes.
//!
//! As the proxy has it: a request is looked for in RAM, then on disk; what comes from the origin
//! goes to both, and what the disk has is brought to RAM. The disk's replacement does not hear of
//! hits in RAM. An object takes other amounts of RAM and of disk than its body has bytes
//! ([`Weights`]; a disk knows what it takes), and what is too large for RAM is on disk alone.
//! Sampled like [`super::MiniSimulation`].

use super::mixed;
use super::simulated::Construct;
use crate::forecast::{Became, unrest};
use crate::simulator::{Capacity, Request, Simulator};
use shoal_policy::Replacement;

/// Pairs of caches over one stream.
pub struct TwoTiers {
    seed: u64,
    threshold: u64,
    rate: f64,
    pairs: Vec<Pair>,
    requests: u64,
    bytes: u64,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Bytes that are asked for.
    pub bytes: u64,
    /// Bytes that the object takes in RAM; `None` for one that is not kept there.
    pub ram: Option<u64>,
}

impl Weights {
    /// An object that takes its bytes and nothing more.
    pub fn plain(bytes: u64) -> Self {
        Self { bytes, ram: Some(bytes) }
    }
}

/// A disk of some size: what it holds, and what it gives up.
pub trait DiskTier {
    /// One request that RAM missed, for an object whose body has so many bytes. True when it hits;
    /// otherwise the object is taken, or not.
    fn request(&mut self, object: u64, body_bytes: u64) -> bool;

    /// A request that RAM answered.
    fn answered_by_ram(&mut self, _object: u64, _body_bytes: u64) {}

    /// What is left of RAM for objects beside this disk.
    fn ram_left(&self, ram_bytes: u64) -> u64 {
        ram_bytes
    }

    /// Objects that were taken, whenever that was: some are taken only when RAM answers for them.
    fn written(&self) -> u64;

    /// Whether it has given anything up to make room.
    fn is_full(&self) -> bool;
}

/// Makes a disk of so many bytes that is asked for this share of the objects, and as much smaller
/// as that.
pub type MakeDisk<'a> = &'a dyn Fn(u64, f64) -> Box<dyn DiskTier>;

impl DiskTier for Simulator<Box<dyn Replacement<u64>>> {
    fn request(&mut self, object: u64, body_bytes: u64) -> bool {
        Simulator::request(self, Request { object, bytes: body_bytes })
    }

    fn written(&self) -> u64 {
        self.counts().taken()
    }

    fn is_full(&self) -> bool {
        self.counts().evictions > 0
    }
}

struct Pair {
    ram: Simulator<Box<dyn Replacement<u64>>>,
    disk: Option<Box<dyn DiskTier>>,
    point: TierPoint,
    tally: Tally,
    /// What had been counted at each mark.
    marks: Vec<(u64, Tally)>,
    /// Objects that the disk took during the warm-up.
    written_before: u64,
}

/// Counts of the sample.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Requests and bytes that both missed.
    missed: (u64, u64),
    /// Requests that the disk was asked for.
    asked: u64,
}

/// What a pair of caches does, over all requests of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct TierPoint {
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// Bytes of disk; 0 for none.
    pub disk_bytes: u64,
    /// Share of requests that RAM answers.
    pub ram_hit_ratio: f64,
    /// Share of requests that the disk answers.
    pub disk_hit_ratio: f64,
    /// Share of bytes that one of them answers.
    pub byte_hit_ratio: f64,
    /// Share of requests that are written to disk.
    pub write_ratio: f64,
    /// How far both hit ratios together may be off for as many requests again, by how much they
    /// change between marks ([`unrest`]).
    pub error: f64,
    /// The lowest and the highest of both hit ratios together in fifths of what is between marks; 0
    /// without.
    pub range: (f64, f64),
}

impl TierPoint {
    /// Share of requests that one of them answers.
    pub fn hit_ratio(&self) -> f64 {
        self.ram_hit_ratio + self.disk_hit_ratio
    }
}

impl Pair {
    /// Whether what is largest of it is full.
    fn is_full(&self) -> bool {
        self.disk.as_ref().map_or_else(|| self.ram.counts().evictions > 0, |disk| disk.is_full())
    }
}

impl TwoTiers {
    /// Pairs of (RAM, disk) in bytes, over this share of the objects: 1 is all of them.
    pub fn new(ram: Construct, disk: MakeDisk<'_>, pairs: &[(u64, u64)], rate: f64, seed: u64) -> Self {
        let rate = rate.clamp(f64::MIN_POSITIVE, 1.0);
        let room = |bytes: u64| (bytes as f64 * rate).ceil() as u64;
        let pair = |(ram_bytes, disk_bytes): &(u64, u64)| {
            let disk = (*disk_bytes > 0).then(|| disk(*disk_bytes, rate));
            let ram_left = disk.as_ref().map_or(*ram_bytes, |disk| disk.ram_left(*ram_bytes));
            Pair {
                ram: Simulator::new(ram(), Capacity::Bytes(room(ram_left))),
                disk,
                point: TierPoint { ram_bytes: *ram_bytes, disk_bytes: *disk_bytes, ..TierPoint::default() },
                tally: Tally::default(),
                marks: Vec::new(),
                written_before: 0,
            }
        };
        Self {
            seed,
            threshold: (rate * u64::MAX as f64) as u64,
            rate,
            pairs: pairs.iter().map(pair).collect(),
            requests: 0,
            bytes: 0,
        }
    }

    /// The next request. Tells what becomes of it in the first pair; `None` where the object is
    /// none of the sample.
    #[inline]
    pub fn request(&mut self, object: u64, weights: Weights) -> Option<Became> {
        self.requests += 1;
        self.bytes += weights.bytes;
        if mixed(object, self.seed) > self.threshold {
            return None;
        }
        let first_missed = self.pairs.first().map_or(0, |pair| pair.tally.missed.0);
        for pair in &mut self.pairs {
            if weights.ram.is_some_and(|bytes| pair.ram.request(Request { object, bytes })) {
                if let Some(disk) = &mut pair.disk {
                    disk.answered_by_ram(object, weights.bytes);
                }
                continue;
            }
            pair.tally.asked += 1;
            let hits = pair.disk.as_mut().is_some_and(|disk| disk.request(object, weights.bytes));
            if !hits {
                pair.tally.missed.0 += 1;
                pair.tally.missed.1 += weights.bytes;
            }
        }
        self.pairs
            .first()
            .map(|pair| Became { hits: pair.tally.missed.0 == first_missed, is_full: pair.is_full() })
    }

    /// What came before only warmed the caches.
    pub fn end_warm_up(&mut self) {
        (self.requests, self.bytes) = (0, 0);
        for pair in &mut self.pairs {
            pair.tally = Tally::default();
            pair.marks = vec![(0, Tally::default())];
            pair.written_before = pair.disk.as_ref().map_or(0, |disk| disk.written());
        }
    }

    /// Ends a block of the measured part, as [`super::MiniSimulation::end_block`] does.
    pub fn end_block(&mut self) {
        for pair in &mut self.pairs {
            pair.marks.push((self.requests, pair.tally));
        }
    }

    /// What each pair did, in the order given.
    pub fn points(&self) -> Vec<TierPoint> {
        self.pairs.iter().map(|pair| self.point(pair)).collect()
    }

    fn point(&self, pair: &Pair) -> TierPoint {
        let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / self.rate / whole as f64 };
        let of_requests = |part: u64| share(part as f64, self.requests);
        let (asked, missed) = (of_requests(pair.tally.asked), of_requests(pair.tally.missed.0));
        let written = pair.disk.as_ref().map_or(0, |disk| disk.written() - pair.written_before);
        let blocks = pair.marks.windows(2).map(|ends| {
            let [(from, before), (to, after)] = ends else { return 0.0 };
            1.0 - share((after.missed.0 - before.missed.0) as f64, to - from)
        });
        let blocks: Vec<f64> = blocks.collect();
        let fifths = blocks.chunks((blocks.len() / 5).max(1)).take(5);
        let fifths: Vec<f64> = fifths.map(|fifth| fifth.iter().sum::<f64>() / fifth.len() as f64).collect();
        let most = fifths.iter().copied().reduce(f64::max).unwrap_or(0.0);
        TierPoint {
            ram_hit_ratio: (1.0 - asked).clamp(0.0, 1.0),
            disk_hit_ratio: (asked - missed).clamp(0.0, 1.0),
            byte_hit_ratio: (1.0 - share(pair.tally.missed.1 as f64, self.bytes)).clamp(0.0, 1.0),
            write_ratio: of_requests(written),
            error: unrest(&blocks),
            range: (fifths.iter().copied().fold(most, f64::min), most),
            ..pair.point
        }
    }
}
