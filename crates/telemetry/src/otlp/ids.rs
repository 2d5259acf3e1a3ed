//! Ids of traces and spans: distinct, and no secret.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Source of ids: a count, mixed by splitmix64 from a seed that differs between processes.
pub(super) struct Ids {
    seed: u64,
    count: AtomicU64,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    /// Returns the next number.
    pub(super) fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed);
        let mut z = self.seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn span_id(&self) -> [u8; 8] {
        // An id of zero is none.
        self.next().max(1).to_be_bytes()
    }

    pub(super) fn trace_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next().max(1).to_be_bytes());
        id[8..].copy_from_slice(&self.next().to_be_bytes());
        id
    }
}
