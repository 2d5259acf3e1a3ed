//! The paper's model of an LRU file cache (Kant and Won 1999, section 3, Eqs 1.4 to 1.13).
//!
//! Files are ranked by falling probability. Files that fit are "cached"; the others only pass
//! through and push cached ones out for a while. Of α_f, the accesses to cached files, (1 − α_f)·γ
//! find their file pushed out.
//!
//! Readings of the print:
//!
//! | print | reading | settled by |
//! |---|---|---|
//! | ranked "in the increasing order of access frequency" | decreasing | rank ≤ r_max is cached |
//! | η_b = Q_cb / S̄ (1.11) | η_f·Q_cb / S̄ ([`Analytic::byte_hit_ratio`]) | note 1 |
//! | disk rates: throughput times Q_ub and Q_uB | see [`RateDerivation`] | Table 1.1 |
//! | L = L_0 + (1 − η_f)(ζ_F + Q_uB·ζ_D) (1.13) | transfers as in the reading | note 2 |
//!
//! 1. The cached bytes of all. As printed the ratio grows as the cache shrinks: 0.86 where η_f =
//!    0.76, 0.90 where η_f = 0.93.
//! 2. Settled by the throughput to 0.7%; no reading was found that gives its last digits.
//!
//! The model fits independent accesses, hit ratios above some 0.7, and popularity that falls like
//! SPECweb99's, since f_r was fitted to it. O(n log n) for the order, O(n) for the sums.

use super::{FileCacheResult, Population, transfers};

/// Derivations of the disk's rates from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDerivation {
    /// As printed: "by multiplying Q_ub and Q_uB by the throughput", though both are means over
    /// misses and not over operations. Three to eleven times the values of Table 1.1.
    Literal,
    /// The means over misses, times the misses: (1 − η_f)·Q_ub an operation, and the same for
    /// transfers. Gives 63 to 71% of the megabytes of Table 1.1, since a pushed-out file is read
    /// again without a cost.
    PerMiss,
    /// By the paper's own words on the cache: a miss reads the requested file, and the file that it
    /// pushed out is read again later. (1 − η_f)(Q_ub + Q_cb) an operation, and the same for
    /// transfers. This gives the columns of Table 1.1.
    Restored,
}

/// The model's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Analytic {
    /// r_max: number of files that fit.
    pub cached_files: usize,
    /// α_f: share of accesses to cached files (1.5).
    pub cached_share: f64,
    /// β = Q'_ub / Q'_cb: cached files that an uncached one pushes out.
    pub replacements: f64,
    /// η_f: accesses answered from the cache (1.8).
    pub hit_ratio: f64,
    /// Σ A·S over cached files, in bytes an access.
    pub cached_bytes: f64,
    /// Σ A·S over the other files.
    pub uncached_bytes: f64,
    /// Σ A·⌈S/𝓑⌉ over cached files.
    pub cached_transfers: f64,
    /// Σ A·⌈S/𝓑⌉ over the other files.
    pub uncached_transfers: f64,
}

impl Analytic {
    /// Solves the model for a cache of `cache_bytes` bytes; `reuse` is f_r, the probability that a
    /// file pushed out is wanted shortly after.
    pub fn of(population: &Population, cache_bytes: f64, reuse: f64) -> Self {
        RankedPopulation::of(population).solve(cache_bytes, reuse)
    }

    /// Returns Q_cb (1.9), in bytes.
    pub fn mean_cached_bytes(&self) -> f64 {
        ratio(self.cached_bytes, self.hit_ratio)
    }

    /// Returns Q_ub (1.10), in bytes.
    pub fn mean_uncached_bytes(&self) -> f64 {
        ratio(self.uncached_bytes, 1.0 - self.hit_ratio)
    }

    /// Returns Q_uB (1.12), in transfers.
    pub fn mean_uncached_transfers(&self) -> f64 {
        ratio(self.uncached_transfers, 1.0 - self.hit_ratio)
    }

    /// Returns the share of bytes that are delivered from the cache: cached files' bytes less those
    /// pushed out.
    pub fn byte_hit_ratio(&self) -> f64 {
        let kept = ratio(self.hit_ratio, self.cached_share);
        ratio(self.cached_bytes * kept, self.cached_bytes + self.uncached_bytes)
    }

    /// Returns η_b as printed (1.11).
    pub fn literal_byte_hit_ratio(&self) -> f64 {
        ratio(self.mean_cached_bytes(), self.cached_bytes + self.uncached_bytes)
    }

    /// Returns the work of the disk, by one of the readings.
    pub fn outcome(&self, reading: RateDerivation) -> FileCacheResult {
        let miss = 1.0 - self.hit_ratio;
        let (bytes_read, transfers) = match reading {
            RateDerivation::Literal => (self.mean_uncached_bytes(), self.mean_uncached_transfers()),
            RateDerivation::PerMiss => (self.uncached_bytes, self.uncached_transfers),
            RateDerivation::Restored => (
                self.uncached_bytes + miss * self.mean_cached_bytes(),
                self.uncached_transfers + miss * ratio(self.cached_transfers, self.hit_ratio),
            ),
        };
        FileCacheResult {
            hit_ratio: self.hit_ratio,
            byte_hit_ratio: self.byte_hit_ratio(),
            bytes_read,
            transfers,
        }
    }
}

/// A population in the model's order, with sums up to each rank, so that each further cache size
/// costs O(log n).
#[derive(Clone, Debug)]
pub struct RankedPopulation {
    /// Sums over the first files: none, one, two …
    sums: Vec<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    room: f64,
    share: f64,
    bytes: f64,
    transfers: f64,
}

impl RankedPopulation {
    /// Puts a population in order: the most popular file first, and of equal ones the larger. This
    /// order comes closest to the table.
    pub fn of(population: &Population) -> Self {
        let mut items = population.items().to_vec();
        debug_assert!(
            items.iter().all(|item| item.probability >= 0.0 && item.bytes >= 0.0),
            "no item is negative"
        );
        items.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(b.bytes.total_cmp(&a.bytes)));
        let mut sum = Sums::default();
        let mut sums = vec![sum];
        for item in items {
            sum.room += item.bytes;
            sum.share += item.probability;
            sum.bytes += item.probability * item.bytes;
            sum.transfers += item.probability * transfers(item.bytes);
            sums.push(sum);
        }
        Self { sums }
    }

    /// Returns the bytes of all files.
    pub fn total_bytes(&self) -> f64 {
        self.last().room
    }

    /// Solves the model; see [`Analytic::of`].
    pub fn solve(&self, cache_bytes: f64, reuse: f64) -> Analytic {
        let cached_files = self.sums.partition_point(|sum| sum.room <= cache_bytes).saturating_sub(1);
        let (cached, all) = (self.sums[cached_files], self.last());
        debug_assert!(cached.room <= cache_bytes.max(0.0) || cached_files == 0, "the cached files fit");
        debug_assert!(cached.share <= all.share && cached.bytes <= all.bytes, "a part of all files");
        let uncached_share = if cached_files + 1 == self.sums.len() { 0.0 } else { all.share - cached.share };
        let uncached_bytes = all.bytes - cached.bytes;
        let replacements = ratio(ratio(uncached_bytes, uncached_share), ratio(cached.bytes, cached.share));
        let expelled = uncached_share * (replacements - 1.0).max(0.0) * reuse;
        Analytic {
            cached_files,
            cached_share: cached.share,
            replacements,
            hit_ratio: (cached.share - expelled).clamp(0.0, 1.0),
            cached_bytes: cached.bytes,
            uncached_bytes,
            cached_transfers: cached.transfers,
            uncached_transfers: all.transfers - cached.transfers,
        }
    }

    fn last(&self) -> Sums {
        self.sums.last().copied().unwrap_or_default()
    }
}

/// Returns the quotient; 0 for a denominator of 0.
fn ratio(over: f64, under: f64) -> f64 {
    if under > 0.0 { over / under } else { 0.0 }
}

/// f_r: fitted by the paper to its simulation of SPECweb99.
pub const REUSE: f64 = 0.333;
