//! When what waits is written and brought to disk: so early that a loss of power costs the last
//! second of inserts at most.
//!
//! The time counts from the oldest insert that is not on the disk, not from the last time that
//! something was brought there: a round begins so long before that insert is a second old as the
//! round may take. How long that is, is learnt from the last rounds:
//!
//! ```text
//!   oldest insert               round begins      written, synced     1 s
//!        |---------- waits -----------|==================|- - - - - - -|
//!                                     |<-------- allowance ----------->|
//! ```
//!
//! The allowance is twice what the slowest of the last rounds took, a quarter of a second at least
//! and half a second at most; half a second at first. So the promise holds on a disk that writes
//! and syncs within a quarter of a second, also when that is new; on one that takes up to half a
//! second, once it has been seen. On one that takes longer a round follows the other, and twice the
//! time of a round may be lost. Whoever writes a stripe that has filled meanwhile spares the round
//! that work, but not the sync. With inserts at all times there are 1.33 rounds a second and at
//! most 2; without any, none.

use super::Volume;
use crate::Error;
use crate::architectures::maintenance::Clock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Decides when the next round begins.
#[derive(Debug)]
pub(super) struct SyncPacer {
    /// Since when something waits.
    oldest: Option<Duration>,
    /// What the slowest of the last rounds took; it is forgotten slowly.
    slowest: Duration,
}

impl Default for SyncPacer {
    fn default() -> Self {
        Self { oldest: None, slowest: LOST_MAX / 4 }
    }
}

impl SyncPacer {
    /// Something waits, for as long as is known.
    fn notice(&mut self, now: Duration) {
        self.oldest.get_or_insert(now);
    }

    /// When the next round has to begin. `None` when nothing waits.
    pub(super) fn due(&self) -> Option<Duration> {
        let allowance = (2 * self.slowest).clamp(ALLOWANCE_MIN, LOST_MAX / 2);
        debug_assert!(allowance < LOST_MAX);
        self.oldest.map(|oldest| oldest + LOST_MAX - allowance)
    }

    /// A round has come to its end. What has been inserted meanwhile may be as old as its
    /// beginning.
    fn end_round(&mut self, began: Duration, ended: Duration, more_waits: bool) {
        let took = ended.saturating_sub(began);
        self.slowest = took.max(self.slowest * 7 / 8);
        debug_assert!(self.slowest >= took, "a slow round that is not learnt from");
        self.oldest = more_waits.then_some(began);
    }
}

impl Volume {
    /// Begins a round if one is due. Says for how long there will be nothing to do, unless the bell
    /// rings.
    pub(super) fn sync_if_due(&self, clock: Clock<'_>) -> Duration {
        if !self.directory.is_recovered.load(Relaxed) {
            // Nothing may be written yet; the bell rings when it may.
            return IDLE_PAUSE;
        }
        let mut pace = self.pace.lock();
        let began = clock();
        if self.queue.lock().is_unsynced() {
            pace.notice(began);
        }
        match pace.due() {
            None => IDLE_PAUSE,
            Some(due) if due > began => due - began,
            Some(_) => {
                // After a failure the next round tries again.
                self.file.note_in_background(self.flush_and_sync());
                let more_waits = self.queue.lock().is_unsynced();
                pace.end_round(began, clock(), more_waits);
                Duration::ZERO
            }
        }
    }

    /// Writes what waits, and returns when all that was ever written is on the disk.
    pub(super) fn flush_and_sync(&self) -> Result<(), Error> {
        let due = self.queue.lock().begin_sync();
        // Who holds the log's end has written what he took from the queue when he lets it go.
        let written = self.write_due(&mut self.writer.lock(), due);
        let unmarked = self.queue.lock().take_unmarked();
        for (key, entry) in unmarked {
            // The object is out of the table, and the log says so.
            self.file.note_in_background(self.mark_removed(key, entry));
        }
        let outcome = written.and_then(|_| self.file.sync_data());
        if outcome.is_err() {
            self.queue.lock().leave_unsynced();
        }
        outcome
    }
}

/// An insert is on the disk after this time, or it may be lost.
const LOST_MAX: Duration = Duration::from_secs(1);
/// A round gets this time at least, and half of the above at most: what is inserted while it runs
/// waits for all of it and for all of the next one.
const ALLOWANCE_MIN: Duration = Duration::from_millis(250);
/// Without anything that waits.
const IDLE_PAUSE: Duration = Duration::from_secs(1);

const _: () = assert!(ALLOWANCE_MIN.as_millis() * 2 <= LOST_MAX.as_millis());

#[cfg(test)]
mod tests {
    use super::*;

    /// Has something inserted at every millisecond of a minute, and rounds that take as long as
    /// `round_ms` says of each. Gives the age of the oldest insert that was ever not on the disk,
    /// and how many rounds there were.
    fn oldest_and_rounds(round_ms: impl Fn(u64) -> u64) -> (Duration, u64) {
        let (mut pace, mut rounds, mut oldest) = (SyncPacer::default(), 0, Duration::ZERO);
        let mut synced_until = Duration::ZERO;
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(60) {
            pace.notice(now);
            let began = now.max(pace.due().expect("something waits"));
            now = began + Duration::from_millis(round_ms(rounds));
            // Until now power could be lost without what was inserted just after the round before
            // began.
            oldest = oldest.max(now - synced_until);
            (synced_until, rounds) = (began, rounds + 1);
            pace.end_round(began, now, true);
        }
        (oldest, rounds)
    }

    #[test]
    fn a_second_is_lost_at_most_whatever_a_round_takes_up_to_half_of_it() {
        for round_ms in [0, 1, 30, 100, 249, 250, 300, 400, 499, 500] {
            let (oldest, rounds) = oldest_and_rounds(|_| round_ms);
            assert!(oldest <= LOST_MAX, "{oldest:?} with rounds of {round_ms} ms");
            assert!(rounds <= 120, "{rounds} rounds of {round_ms} ms in a minute");
        }
    }

    #[test]
    fn rounds_of_any_length_up_to_a_quarter_need_no_learning() {
        let (oldest, rounds) = oldest_and_rounds(|round| round * 97 % 251);
        assert!(oldest <= LOST_MAX && rounds < 110, "{oldest:?}, {rounds} rounds");
    }

    #[test]
    fn one_slow_round_is_remembered_for_a_while() {
        let (oldest, _) = oldest_and_rounds(|round| if round % 6 == 0 { 400 } else { 5 });
        assert!(oldest <= LOST_MAX, "{oldest:?}");
    }

    #[test]
    fn a_slower_disk_loses_two_rounds_at_most() {
        let (oldest, _) = oldest_and_rounds(|_| 2000);
        assert_eq!(oldest, Duration::from_secs(4));
    }

    #[test]
    fn a_quick_disk_is_synced_no_more_often_than_it_has_to_be() {
        let (_, rounds) = oldest_and_rounds(|_| 10);
        assert!((79..=83).contains(&rounds), "{rounds} rounds in a minute");
    }

    #[test]
    fn nothing_is_due_when_nothing_waits() {
        let mut pace = SyncPacer::default();
        assert_eq!(pace.due(), None);
        pace.notice(Duration::from_secs(5));
        assert_eq!(pace.due(), Some(Duration::from_millis(5500)));
        pace.end_round(Duration::from_millis(5500), Duration::from_millis(5501), false);
        assert_eq!(pace.due(), None);
    }
}
