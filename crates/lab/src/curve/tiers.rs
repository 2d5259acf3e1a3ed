//! RAM before disk, both at once: what each hits, and what the disk must do, for pairs of sizes.
//!
//! As the proxy has it: a request is looked for in RAM, then on disk; what comes from the origin goes to both, and what the disk has is
//! brought to RAM. The disk's replacement does not hear of hits in RAM. Sampled like [`super::MiniSimulation`].

use super::mixed;
use super::simulated::Construct;
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

struct Pair {
    ram: Simulator<Box<dyn Replacement<u64>>>,
    disk: Simulator<Box<dyn Replacement<u64>>>,
    point: TierPoint,
    /// Requests and bytes of the sample that both missed.
    missed: (u64, u64),
    /// Those that the disk was asked for.
    asked: (u64, u64),
    /// Objects that the disk did not take during the warm-up.
    declined_before: u64,
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
    /// Bytes written to disk.
    pub written_bytes: f64,
}

impl TwoTiers {
    /// Pairs of (RAM, disk) in bytes, over this share of the objects: 1 is all of them.
    pub fn new(ram: Construct, disk: Construct, pairs: &[(u64, u64)], rate: f64, seed: u64) -> Self {
        let rate = rate.clamp(f64::MIN_POSITIVE, 1.0);
        let room = |bytes: u64| Capacity::Bytes((bytes as f64 * rate).ceil() as u64);
        let pair = |(ram_bytes, disk_bytes): &(u64, u64)| Pair {
            ram: Simulator::new(ram(), room(*ram_bytes)),
            disk: Simulator::new(disk(), room(*disk_bytes)),
            point: TierPoint { ram_bytes: *ram_bytes, disk_bytes: *disk_bytes, ..TierPoint::default() },
            missed: (0, 0),
            asked: (0, 0),
            declined_before: 0,
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

    /// The next request.
    #[inline]
    pub fn request(&mut self, object: u64, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        if mixed(object, self.seed) > self.threshold {
            return;
        }
        let request = Request { object, bytes };
        for pair in &mut self.pairs {
            if pair.ram.request(request) {
                continue;
            }
            pair.asked.0 += 1;
            pair.asked.1 += bytes;
            if pair.point.disk_bytes == 0 || !pair.disk.request(request) {
                pair.missed.0 += 1;
                pair.missed.1 += bytes;
            }
        }
    }

    /// What came before only warmed the caches.
    pub fn measure_from_here(&mut self) {
        (self.requests, self.bytes) = (0, 0);
        for pair in &mut self.pairs {
            (pair.missed, pair.asked) = ((0, 0), (0, 0));
            pair.declined_before = pair.disk.counts().declined;
        }
    }

    /// What each pair did, in the order given.
    pub fn points(&self) -> Vec<TierPoint> {
        let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / self.rate / whole as f64 };
        let point = |pair: &Pair| {
            let declined = (pair.disk.counts().declined - pair.declined_before) as f64;
            let (asked, missed) =
                (share(pair.asked.0 as f64, self.requests), share(pair.missed.0 as f64, self.requests));
            TierPoint {
                ram_hit_ratio: (1.0 - asked).clamp(0.0, 1.0),
                disk_hit_ratio: (asked - missed).clamp(0.0, 1.0),
                byte_hit_ratio: (1.0 - share(pair.missed.1 as f64, self.bytes)).clamp(0.0, 1.0),
                write_ratio: match pair.point.disk_bytes {
                    0 => 0.0,
                    _ => share(pair.missed.0 as f64 - declined, self.requests).clamp(0.0, 1.0),
                },
                written_bytes: if pair.point.disk_bytes == 0 {
                    0.0
                } else {
                    pair.missed.1 as f64 / self.rate
                },
                ..pair.point
            }
        };
        self.pairs.iter().map(point).collect()
    }
}
