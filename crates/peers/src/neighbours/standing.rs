//! Standing of a neighbour: failures and wrong answers that set it aside for a time.
//!
//! Failures in a row (`connect_fail_limit`) and false hits in a row set a neighbour aside. The time
//! doubles with each further occasion, up to [`ASIDE_MAX`]; a good answer ends it.

use std::time::Duration;

/// Record of a neighbour. Times are since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustRecord {
    failures: u32,
    false_hits: u32,
    /// Occasions since the last good answer.
    occasions: u32,
    aside_until: Option<Duration>,
}

impl TrustRecord {
    /// Returns `true` if the neighbour may be used `now`.
    pub fn may_be_used(&self, now: Duration) -> bool {
        self.aside_until.is_none_or(|until| now >= until)
    }

    /// Notes a useful response.
    pub fn served(&mut self) {
        *self = Self::default();
    }

    /// Notes a failure to reach the neighbour. Returns `true` if it is set aside now.
    pub fn failed(&mut self, now: Duration, limit: u32) -> bool {
        self.failures = self.failures.saturating_add(1);
        // After a time aside, one failure is enough.
        let is_due = self.failures >= limit || self.occasions > 0;
        is_due && self.set_aside(now)
    }

    /// Notes that the neighbour lacked a URL that it said it holds. Returns `true` if it is set
    /// aside now.
    pub fn lied(&mut self, now: Duration) -> bool {
        self.failures = 0;
        self.false_hits = self.false_hits.saturating_add(1);
        self.false_hits >= FALSE_HITS_MAX && self.set_aside(now)
    }

    fn set_aside(&mut self, now: Duration) -> bool {
        let time = ASIDE_MIN * 2u32.saturating_pow(self.occasions.min(10));
        self.aside_until = Some(now + time.min(ASIDE_MAX));
        self.occasions = self.occasions.saturating_add(1);
        (self.failures, self.false_hits) = (0, 0);
        debug_assert!(!self.may_be_used(now), "it is left alone");
        true
    }
}

/// False hits in a row that set a neighbour aside. Digests are wrong now and then.
const FALSE_HITS_MAX: u32 = 16;
/// Bounds of the time aside.
const ASIDE_MIN: Duration = Duration::from_secs(10);
const ASIDE_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failures_in_a_row_set_aside_for_growing_times() {
        let mut standing = TrustRecord::default();
        assert!(!standing.failed(at(1), 2) && standing.may_be_used(at(1)));
        assert!(standing.failed(at(1), 2));
        assert!(!standing.may_be_used(at(10)) && standing.may_be_used(at(11)));
        assert!(standing.failed(at(11), 2), "one more is enough");
        assert!(!standing.may_be_used(at(30)) && standing.may_be_used(at(31)));
        assert!((0..20).all(|_| standing.failed(at(31), 2)));
        assert!(standing.may_be_used(at(31) + ASIDE_MAX));
        standing.served();
        assert!(standing.may_be_used(at(31)) && !standing.failed(at(31), 2));
    }

    #[test]
    fn false_hits_in_a_row_set_aside() {
        let mut standing = TrustRecord::default();
        assert!((1..FALSE_HITS_MAX).all(|_| !standing.lied(at(1))));
        assert!(standing.lied(at(1)) && !standing.may_be_used(at(2)));
        let mut mixed = TrustRecord::default();
        for _ in 0..100 {
            assert!(!mixed.lied(at(1)));
            mixed.served();
        }
    }
}
