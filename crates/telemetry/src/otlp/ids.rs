//! Ids of traces and spans: distinct, and no secret. Origins see them. They do not tell how many
//! requests there were.

use shoal_core::Key;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Source of ids: keyed hashes of a count and a seed. The count begins anew with each process,
/// while a store keeps its secret. The seed therefore differs between processes.
pub(super) struct Ids {
    seed: u64,
    count: AtomicU64,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    /// Returns the next number. Without the secret of the process it looks random.
    pub(super) fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed);
        // Keys of objects are text, which does not begin with a zero.
        let numbers = [0, self.seed, count];
        // The high half is made from the low half, so that it adds nothing.
        Key::of(numbers.map(u64::to_le_bytes).as_flattened()).low()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Returns the count behind a number of splitmix64, as an origin would.
    fn unmixed(mut z: u64) -> u64 {
        z ^= (z >> 31) ^ (z >> 62);
        z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
        z ^= (z >> 27) ^ (z >> 54);
        z = z.wrapping_mul(0x96de_1b17_3f11_9089);
        z ^ (z >> 30) ^ (z >> 60)
    }

    #[test]
    fn numbers_are_distinct_and_hide_the_count() {
        let ids = [Ids::new(1), Ids::new(2)];
        let numbers: Vec<u64> = ids.iter().flat_map(|ids| (0..1000).map(|_| ids.next())).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        let steps = numbers.windows(2).map(|two| unmixed(two[1]).wrapping_sub(unmixed(two[0])));
        assert_eq!(steps.collect::<HashSet<_>>().len(), numbers.len() - 1, "a step that is known");
    }
}
