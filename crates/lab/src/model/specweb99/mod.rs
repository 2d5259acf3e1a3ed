//! Savings of a Web server's file cache: Kant and Won's model, a simulation of it, and the
//! characteristic time beside them.
//!
//! Kant and Won, *Performance impact of uncached file accesses in SPECweb99*, 1999. Files are
//! requested independently with fixed probabilities ([`Population`]); an LRU file cache holds some
//! of their bytes. The questions are the share of accesses that the cache answers, the disk's
//! reads, and the throughput left.
//!
//! | file | contents | cost |
//! |---|---|---|
//! | [`analytic`] | the paper's model (Eqs 1.4 to 1.12): a fixed set of cached files | O(n log n) |
//! | [`che`] | each file stays for one characteristic time | O(n) times some 60 |
//! | [`simulation`] | the cache itself, by any policy, before one server queue | O(1) a request |
//! | [`threads`] | several threads that wait for the disk at once | O(log threads) a request |
//! | [`postlog`] | the cost of the POSTs' log | O(1) |
//! | [`paper`] | the printed numbers | |
//!
//! The printed equations and the printed Table 1.1 disagree. [`analytic`] has three readings,
//! [`RateDerivation`], and says which gives the table.
//! [`shoal_trace::generate::specweb99::FileSet`] settles the text's statements on sizes and on the
//! order of files.

pub mod analytic;
pub mod che;
pub mod paper;
mod population;
pub mod postlog;
pub mod simulation;
#[cfg(test)]
mod tests;
pub mod threads;

pub use analytic::RateDerivation;
pub use population::{Item, Population};

/// Work left to the disk behind a cache, for each access.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct FileCacheResult {
    /// Share of accesses answered from the cache (η_f).
    pub hit_ratio: f64,
    /// Share of bytes answered from the cache (η_b).
    pub byte_hit_ratio: f64,
    /// Bytes read from disk an access.
    pub bytes_read: f64,
    /// Transfers from disk an access, of at most [`TRANSFER_BYTES`] each.
    pub transfers: f64,
}

/// Instructions of an operation (Eq. 1.13).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathLength {
    /// L_0: instructions with every file cached.
    pub cached: f64,
    /// ζ_F: instructions for each miss, to make room.
    pub replacement: f64,
    /// ζ_D: instructions for each transfer from disk.
    pub transfer: f64,
}

impl Default for PathLength {
    /// Returns the paper's values: 100,000, 6,250 and 12,500 instructions.
    fn default() -> Self {
        Self { cached: 100_000.0, replacement: 6_250.0, transfer: 12_500.0 }
    }
}

impl PathLength {
    /// Returns L: instructions an operation.
    pub fn of(&self, outcome: &FileCacheResult) -> f64 {
        self.cached + (1.0 - outcome.hit_ratio) * self.replacement + outcome.transfers * self.transfer
    }

    /// Returns T / T_0 = L_0 / L: the share of the target throughput that is left.
    pub fn throughput(&self, outcome: &FileCacheResult) -> f64 {
        self.cached / self.of(outcome)
    }
}

/// Returns the number of transfers of a file.
pub fn transfers(bytes: f64) -> f64 {
    (bytes / TRANSFER_BYTES).ceil()
}

/// Returns the memory that caches the whole file set, in megabytes, for a target throughput (Eq.
/// 1.3).
pub fn memory_megabytes(operations_per_second: f64) -> f64 {
    178.0 + 1.06 * operations_per_second
}

/// 𝓑: "16 KB". With 16,384 the table's column agrees to its last digit, with 16,000 it is 1% too
/// high.
pub const TRANSFER_BYTES: f64 = 16_384.0;
