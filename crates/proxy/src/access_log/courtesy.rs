//! When the writer lets others have its core.
//!
//! Where each core has a worker, the writer shares one. What it writes at once a worker waits for,
//! and 256 KiB take a hundred microseconds or two: as much as one hit in a hundred takes at all. So
//! it writes a little, and lets the worker have its turn. Where that turn has no end, since there
//! is always somebody to answer, courtesy would leave lines unwritten; then the scheduler has to
//! share the core out.

use std::time::{Duration, Instant};

/// Whether to give way, by what became of it before.
#[derive(Debug, Default)]
pub(super) struct YieldPolicy {
    /// Nobody is let in before that.
    paused_until: Option<Instant>,
}

impl YieldPolicy {
    /// Whether to let others have the core.
    pub fn is_due(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| now >= until)
    }

    /// Others were let in at `from`, and it came back at `back`.
    pub fn has_taken(&mut self, from: Instant, back: Instant) {
        if back.saturating_duration_since(from) > TURN_MAX {
            self.paused_until = Some(back + PAUSE);
        }
    }
}

/// Bytes of lines written at once.
pub(super) const PIECE: usize = 8 << 10;

/// A turn of others that is longer is one of somebody who is never done.
const TURN_MAX: Duration = Duration::from_millis(1);

/// How long nobody is let in after such a turn: few lines wait for one each second.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_back_soon_does_not_give_way_for_a_while() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut courtesy = YieldPolicy::default();
        assert!(courtesy.is_due(start));
        courtesy.has_taken(start, after(1));
        assert!(courtesy.is_due(after(1)));
        courtesy.has_taken(after(1), after(4));
        assert!(!courtesy.is_due(after(4)) && !courtesy.is_due(after(1003)));
        assert!(courtesy.is_due(after(1004)));
        courtesy.has_taken(after(1004), after(1005));
        assert!(courtesy.is_due(after(1005)));
    }
}
