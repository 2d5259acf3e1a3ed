//! RAM before disk, both at once: hits of each tier and the disk's work, for pairs of sizes.
//!
//! As in the proxy, a request looks in RAM, then on disk. An object from the origin goes to both,
//! and an object found on disk is brought to RAM. The disk's replacement does not hear of hits in
//! RAM. An object's bytes in RAM and on disk differ from its body's bytes ([`Weights`]; a disk
//! knows its own). An object too large for RAM is on disk alone. Sampled like
//! [`super::MiniSimulation`].

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

/// Byte counts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes of the object in RAM; `None` for an object that is not kept there.
    pub ram: Option<u64>,
}

impl Weights {
    /// Returns the weights of an object that takes its bytes and nothing more.
    pub fn plain(bytes: u64) -> Self {
        Self { bytes, ram: Some(bytes) }
    }
}

/// Disk of one size, with its objects and its replacement.
pub trait DiskTier {
    /// Handles one request that RAM missed, for an object with a body of `body_bytes` bytes.
    /// Returns `true` when it hits; otherwise the disk may admit the object.
    fn request(&mut self, object: u64, body_bytes: u64) -> bool;

    /// Handles a request that RAM answered.
    fn answered_by_ram(&mut self, _object: u64, _body_bytes: u64) {}

    /// Returns the RAM left for objects beside this disk.
    fn ram_left(&self, ram_bytes: u64) -> u64 {
        ram_bytes
    }

    /// Returns the number of objects written so far. Some disks write an object only when RAM
    /// answers for it.
    fn written(&self) -> u64;

    /// Returns `true` if the disk has evicted anything to make room.
    fn is_full(&self) -> bool;
}

/// Constructor of a disk of this many bytes, reduced to this share of the objects.
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
    tally: TierTally,
    /// Counts at each mark.
    marks: Vec<(u64, TierTally)>,
    /// Objects written to disk during the warm-up.
    written_before: u64,
}

/// Counts of the sample.
#[derive(Clone, Copy, Default)]
struct TierTally {
    /// Requests and bytes that missed in both.
    missed: (u64, u64),
    /// Requests that reached the disk.
    asked: u64,
}

/// Results of a pair of caches, over all requests of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct TierPoint {
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// Bytes of disk; 0 for none.
    pub disk_bytes: u64,
    /// Share of requests that hit in RAM.
    pub ram_hit_ratio: f64,
    /// Share of requests that hit on disk.
    pub disk_hit_ratio: f64,
    /// Share of bytes that hit in either tier.
    pub byte_hit_ratio: f64,
    /// Share of requests that are written to disk.
    pub write_ratio: f64,
    /// Error of both hit ratios together for an equal number of further requests, from their change
    /// between marks ([`unrest`]).
    pub error: f64,
    /// Lowest and highest of both hit ratios together in fifths of the marked blocks; 0 without
    /// marks.
    pub range: (f64, f64),
}

impl TierPoint {
    /// Returns the share of requests that hit in either tier.
    pub fn hit_ratio(&self) -> f64 {
        self.ram_hit_ratio + self.disk_hit_ratio
    }
}

impl Pair {
    /// Returns `true` if the pair's larger tier is full: the disk, or RAM without a disk.
    fn is_full(&self) -> bool {
        self.disk.as_ref().map_or_else(|| self.ram.counts().evictions > 0, |disk| disk.is_full())
    }
}

impl TwoTiers {
    /// Creates pairs of (RAM, disk) in bytes, over this share of the objects: 1 is all of them.
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
                tally: TierTally::default(),
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

    /// Counts the next request. Returns its outcome in the first pair; `None` where the object is
    /// not in the sample.
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

    /// Ends the warm-up: earlier requests only warmed the caches.
    pub fn end_warm_up(&mut self) {
        (self.requests, self.bytes) = (0, 0);
        for pair in &mut self.pairs {
            pair.tally = TierTally::default();
            pair.marks = vec![(0, TierTally::default())];
            pair.written_before = pair.disk.as_ref().map_or(0, |disk| disk.written());
        }
    }

    /// Ends a block of the measured part, as [`super::MiniSimulation::end_block`] does.
    pub fn end_block(&mut self) {
        for pair in &mut self.pairs {
            pair.marks.push((self.requests, pair.tally));
        }
    }

    /// Returns the results of each pair, in the order given.
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
