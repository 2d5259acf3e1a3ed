//! Decides when the log's writer yields its core.
//!
//! The writer shares a core with a worker if each core has a worker. The worker waits for each
//! write. A write of 256 KiB takes one or two hundred microseconds, as long as the slowest hit in a
//! hundred. The writer therefore yields after each small piece. A worker that is always busy would
//! never return the core, and lines would stay unwritten. In this case the writer stops yielding
//! and lets the scheduler share the core.

use std::time::{Duration, Instant};

/// Policy that decides about yielding from the length of the last turn.
#[derive(Debug, Default)]
pub(super) struct YieldPolicy {
    /// Time until which the writer does not yield.
    paused_until: Option<Instant>,
}

impl YieldPolicy {
    /// Returns `true` if the writer should yield now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| now >= until)
    }

    /// Records that the writer yielded at `from` and ran again at `back`.
    pub fn has_taken(&mut self, from: Instant, back: Instant) {
        if back.saturating_duration_since(from) > TURN_MAX {
            self.paused_until = Some(back + PAUSE);
        }
    }
}

/// Maximum bytes of lines per write.
pub(super) const PIECE: usize = 8 << 10;

/// A longer turn means that the other thread is never done.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Time without yielding after a long turn. Few lines wait for one such turn each second.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turn_pauses_yielding() {
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
