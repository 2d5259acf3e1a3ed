//! What a cyclic cursor carries over: objects that have proven popular since they were last
//! written.
//!
//! The frequency-based cyclic replacement of Maltzahn 1999, 3.6, moves a target pointer over the
//! objects and skips those whose reference count says that they are worth more than others; counts
//! are bounded (C_max) and age. Over a log that is written in large buffers, skipping an object
//! means to write it again with the next buffer. That costs bytes where skipping costs none, so a
//! count has to weigh more the larger the object is: a second miss costs one request whatever the
//! size.
//!
//! Counts are of hits served from the disk only. What RAM serves needs no disk: by trace, counting
//! those hits too carries 60% more bytes for 0.2 points of hit ratio.

/// The highest count: two bits of an index entry.
pub const HITS_MAX: u8 = 3;

/// What to do with an object that the cursor has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReinsertionDecision {
    /// Its space is taken.
    Evict,
    /// It is written again, with this count.
    Reinsert(u8),
}

/// Judges an object of so many bytes that has been hit so many times, counted up to [`HITS_MAX`],
/// since it was written.
pub fn decide(hits: u8, bytes: u64) -> ReinsertionDecision {
    debug_assert!(hits <= HITS_MAX);
    let wanted = match bytes {
        0..CARRIED_FOR_ONE => 1,
        CARRIED_FOR_ONE..CARRIED_FOR_TWO => 2,
        CARRIED_FOR_TWO..CARRIED_FOR_THREE => 3,
        _ => return ReinsertionDecision::Evict,
    };
    // Aging: halved, as by the paper's A_max, but never a reason of its own to be carried again.
    if hits >= wanted { ReinsertionDecision::Reinsert(hits / 2) } else { ReinsertionDecision::Evict }
}

/// Below so many bytes one hit is enough.
const CARRIED_FOR_ONE: u64 = 16 << 10;
/// Below so many bytes two are.
const CARRIED_FOR_TWO: u64 = 64 << 10;
/// Below so many bytes three are; what is larger is fetched again.
const CARRIED_FOR_THREE: u64 = 1 << 20;

const _: () = assert!(CARRIED_FOR_ONE < CARRIED_FOR_TWO && CARRIED_FOR_TWO < CARRIED_FOR_THREE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_is_weighed_against_size() {
        assert_eq!(decide(0, 100), ReinsertionDecision::Evict);
        assert_eq!(decide(1, 100), ReinsertionDecision::Reinsert(0));
        assert_eq!(decide(HITS_MAX, 100), ReinsertionDecision::Reinsert(1));
        assert_eq!(decide(1, 20_000), ReinsertionDecision::Evict);
        assert_eq!(decide(2, 20_000), ReinsertionDecision::Reinsert(1));
        assert_eq!(decide(HITS_MAX, 100_000), ReinsertionDecision::Reinsert(1));
        assert_eq!(decide(HITS_MAX, 2 << 20), ReinsertionDecision::Evict);
    }

    #[test]
    fn nothing_is_carried_for_ever() {
        let mut hits = HITS_MAX;
        let mut laps = 0;
        while let ReinsertionDecision::Reinsert(left) = decide(hits, 1) {
            hits = left;
            laps += 1;
        }
        assert_eq!(laps, 2);
    }
}
