//! The cursor's way round the volume, with the hits behind it: Maltzahn's Figure 6 of a running
//! volume.
//!
//! A hit counts for its distance behind the cursor at that time, in [`RING_PARTS`] parts of the
//! ring. Objects just written are near, objects that the cursor reaches next are far.

use crate::{RING_PARTS, RingView};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counts since the opening.
pub(super) struct RingCounts {
    cursor: AtomicU32,
    passed: AtomicU64,
    offered: AtomicU64,
    admitted: AtomicU64,
    carried: AtomicU64,
    hits: [AtomicU64; RING_PARTS],
}

impl RingCounts {
    /// Begins to count with the cursor in a stripe.
    pub(super) fn at(stripe: u32) -> Self {
        Self {
            cursor: AtomicU32::new(stripe),
            passed: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            hits: [const { AtomicU64::new(0) }; RING_PARTS],
        }
    }

    /// Moves the cursor into a stripe, `steps` stripes ahead.
    pub(super) fn advance(&self, stripe: u32, steps: u32) {
        self.cursor.store(stripe, Relaxed);
        self.passed.fetch_add(u64::from(steps), Relaxed);
    }

    /// Counts a hit on an object in this stripe of `stripes`.
    pub(super) fn count_hit(&self, stripe: u32, stripes: u32) {
        assert!(stripe < stripes, "a hit beyond the ring");
        let cursor = self.cursor.load(Relaxed).min(stripes - 1);
        let behind = (u64::from(cursor) + u64::from(stripes) - u64::from(stripe)) % u64::from(stripes);
        let part = behind * RING_PARTS as u64 / u64::from(stripes);
        self.hits[part as usize].fetch_add(1, Relaxed);
    }

    /// Counts an object that was offered, and perhaps admitted.
    pub(super) fn count_offer(&self, is_admitted: bool) {
        self.offered.fetch_add(1, Relaxed);
        self.admitted.fetch_add(u64::from(is_admitted), Relaxed);
    }

    /// Counts objects that are written again.
    pub(super) fn count_carried(&self, objects: u64) {
        self.carried.fetch_add(objects, Relaxed);
    }

    /// Returns the state of a ring of `stripes` stripes.
    pub(super) fn view(&self, stripes: u32) -> RingView {
        RingView {
            cursor: self.cursor.load(Relaxed),
            stripes,
            passed: self.passed.load(Relaxed),
            offered: self.offered.load(Relaxed),
            admitted: self.admitted.load(Relaxed),
            carried: self.carried.load(Relaxed),
            hits: self.hits.iter().map(|hits| hits.load(Relaxed)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_count_by_their_way_behind_the_cursor() {
        let ring = RingCounts::at(0);
        ring.advance(10, 10);
        for stripe in [10, 9, 11, 255] {
            ring.count_hit(stripe, 256);
        }
        ring.count_offer(true);
        ring.count_offer(false);
        ring.count_carried(3);
        let view = ring.view(256);
        let hits: Vec<(usize, u64)> =
            view.hits.iter().copied().enumerate().filter(|(_, hits)| *hits > 0).collect();
        // Stripe 10 and 9 are nearest, 255 is 11 stripes behind, and 11 comes next.
        assert_eq!(hits, [(0, 2), (5, 1), (127, 1)]);
        assert_eq!((view.cursor, view.passed, view.stripes), (10, 10, 256));
        assert_eq!((view.offered, view.admitted, view.carried), (2, 1, 3));
        let small = RingCounts::at(7);
        small.count_hit(2, 4);
        assert_eq!(small.view(4).hits[32], 1, "a cursor beyond the ring counts as its end");
    }
}
