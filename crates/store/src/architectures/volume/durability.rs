//! Times at which queued records are written and synced: a power loss costs at most the last second
//! of inserts.
//!
//! The time counts from the oldest insert that is not on disk, not from the last sync. A round
//! begins early enough to end before that insert is a second old. The duration of a round is learnt
//! from the last rounds:
//!
//! ```text
//!   oldest insert               round begins      written, synced     1 s
//!        |---------- waits -----------|==================|- - - - - - -|
//!                                     |<-------- allowance ----------->|
//! ```
//!
//! The allowance is twice the duration of the slowest of the last rounds: at least a quarter of a
//! second, at most half a second. The first allowance is half a second. The promise thus holds on a
//! disk that writes and syncs within a quarter of a second, even a new one. On a disk that needs up
//! to half a second, the promise holds once a slow round has been seen. On a slower disk one round
//! follows the other, and twice the duration of a round may be lost.
//!
//! A thread that writes a full stripe meanwhile saves the round that write, but not the sync. With
//! steady inserts there are 1.33 rounds a second, at most 2; without inserts there are none.

use super::Volume;
use crate::Error;
use crate::architectures::maintenance::Clock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Decides when the next round begins.
#[derive(Debug)]
pub(super) struct SyncPacer {
    /// Time since which an insert waits.
    oldest: Option<Duration>,
    /// Duration of the slowest of the last rounds; decays slowly.
    slowest: Duration,
}

impl Default for SyncPacer {
    fn default() -> Self {
        Self { oldest: None, slowest: LOST_MAX / 4 }
    }
}

impl SyncPacer {
    /// Records that an insert waits, since `now` at the latest.
    fn notice(&mut self, now: Duration) {
        self.oldest.get_or_insert(now);
    }

    /// Returns the time at which the next round has to begin. Returns `None` when nothing waits.
    pub(super) fn due(&self) -> Option<Duration> {
        let allowance = (2 * self.slowest).clamp(ALLOWANCE_MIN, LOST_MAX / 2);
        debug_assert!(allowance < LOST_MAX);
        self.oldest.map(|oldest| oldest + LOST_MAX - allowance)
    }

    /// Records the end of a round. Inserts made meanwhile may be as old as the round's beginning.
    fn end_round(&mut self, began: Duration, ended: Duration, more_waits: bool) {
        let took = ended.saturating_sub(began);
        self.slowest = took.max(self.slowest * 7 / 8);
        debug_assert!(self.slowest >= took, "a slow round that is not learnt from");
        self.oldest = more_waits.then_some(began);
    }
}

impl Volume {
    /// Runs a round if one is due. Returns the time without further work, unless the bell rings.
    pub(super) fn sync_if_due(&self, clock: Clock<'_>) -> Duration {
        if !self.directory.is_recovered.load(Relaxed) || self.file.gate.is_closed() {
            // No write is allowed yet; the bell rings when it is.
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

    /// Writes the queued records, and returns when all earlier writes are on disk.
    pub(super) fn flush_and_sync(&self) -> Result<(), Error> {
        let due = self.queue.lock().begin_sync();
        // The holder of the log's end has written its records when it releases the lock.
        let written = self.write_due(&mut self.writer.lock(), due);
        let unmarked = self.queue.lock().take_unmarked();
        for (key, entry) in unmarked {
            // The object is out of the table, and the log records the removal.
            self.file.note_in_background(self.mark_removed(key, entry));
        }
        let outcome = written.and_then(|_| self.file.sync_data());
        if outcome.is_err() {
            self.queue.lock().leave_unsynced();
        }
        outcome
    }
}

/// Time after which an insert is on disk.
const LOST_MAX: Duration = Duration::from_secs(1);
/// Least allowance of a round; half of `LOST_MAX` is the most. An insert made during a round waits
/// for all of it and for all of the next one.
const ALLOWANCE_MIN: Duration = Duration::from_millis(250);
/// Pause when nothing waits.
const IDLE_PAUSE: Duration = Duration::from_secs(1);

const _: () = assert!(ALLOWANCE_MIN.as_millis() * 2 <= LOST_MAX.as_millis());

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts at every millisecond of a minute, with rounds that take `round_ms` each. Returns the
    /// greatest age of an insert not on disk, and the number of rounds.
    fn oldest_and_rounds(round_ms: impl Fn(u64) -> u64) -> (Duration, u64) {
        let (mut pace, mut rounds, mut oldest) = (SyncPacer::default(), 0, Duration::ZERO);
        let mut synced_until = Duration::ZERO;
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(60) {
            pace.notice(now);
            let began = now.max(pace.due().expect("something waits"));
            now = began + Duration::from_millis(round_ms(rounds));
            // A power loss now would lose the inserts made just after the previous round began.
            oldest = oldest.max(now - synced_until);
            (synced_until, rounds) = (began, rounds + 1);
            pace.end_round(began, now, true);
        }
        (oldest, rounds)
    }

    #[test]
    fn rounds_up_to_half_a_second_lose_a_second_at_most() {
        for round_ms in [0, 1, 30, 100, 249, 250, 300, 400, 499, 500] {
            let (oldest, rounds) = oldest_and_rounds(|_| round_ms);
            assert!(oldest <= LOST_MAX, "{oldest:?} with rounds of {round_ms} ms");
            assert!(rounds <= 120, "{rounds} rounds of {round_ms} ms in a minute");
        }
    }

    #[test]
    fn rounds_up_to_a_quarter_second_need_no_learning() {
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
    fn quick_disk_is_synced_at_least_rate() {
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
