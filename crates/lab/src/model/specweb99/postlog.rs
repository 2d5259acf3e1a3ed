//! Cost of the POSTs' log for the file cache and the disk, which the paper leaves as "a major
//! remaining task".
//!
//! 4.8% of operations append 140 bytes each to one file (Kant and Won 1999, section 2). The paper
//! names two costs. The file may be "evicted from the file-cache (and written to the disk), only to
//! be read back in on the next POST". Writers also wait for one another. The cost depends on the
//! way of keeping the log; there are four ways here. Each is O(1).

use super::TRANSFER_BYTES;
use shoal_trace::generate::specweb99::{POST_LOG_BYTES, POST_SHARE};

/// Ways of keeping the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMode {
    /// Open for the whole run; full pages are written behind.
    Open,
    /// Open, each line forced to disk before the answer.
    Forced,
    /// Closed after each line: its last page is written, and read again by the next POST.
    LastPage,
    /// Closed after each line by a server that caches whole files: the whole log is written and
    /// read again.
    WholeFile,
}

/// Cost of the log, for an operation of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Cost {
    /// Transfers from disk.
    pub reads: f64,
    /// Transfers to disk.
    pub writes: f64,
    /// Bytes of the file cache that hold the log.
    pub cache_bytes: f64,
}

impl LogMode {
    /// Every way, the cheapest first.
    pub const ALL: [Self; 4] = [Self::Open, Self::Forced, Self::LastPage, Self::WholeFile];

    /// Returns the name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "kept open, written behind",
            Self::Forced => "kept open, each line forced",
            Self::LastPage => "closed, last page read back",
            Self::WholeFile => "closed, whole file read back",
        }
    }

    /// Returns the cost once the log has `lines` lines.
    pub fn cost(self, lines: u64) -> Cost {
        let log_bytes = lines as f64 * POST_LOG_BYTES as f64;
        let whole = (log_bytes / TRANSFER_BYTES).ceil().max(1.0);
        let (reads, writes, cache_bytes) = match self {
            Self::Open => (0.0, POST_LOG_BYTES as f64 / PAGE_BYTES, PAGE_BYTES),
            Self::Forced => (0.0, 1.0, PAGE_BYTES),
            Self::LastPage => (1.0, 1.0, PAGE_BYTES),
            Self::WholeFile => (whole, whole, log_bytes),
        };
        Cost { reads: reads * POST_SHARE, writes: writes * POST_SHARE, cache_bytes }
    }
}

/// Returns the operations a second above which POSTs wait for one another without end, when each
/// line holds the log for `held_seconds`.
pub fn serialized_throughput(held_seconds: f64) -> f64 {
    1.0 / (POST_SHARE * held_seconds)
}

const PAGE_BYTES: f64 = 4096.0;
