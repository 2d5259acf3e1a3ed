//! Waiting time for the answers of one neighbour, learnt from earlier answers.
//!
//! The wait is twice the smoothed time of earlier answers, within bounds, as Squid waits. A
//! neighbour that answered nothing several times in a row is down: it is asked rarely, and nobody
//! waits for it.

use std::time::Duration;

/// Answers of one neighbour, as they bound the next wait.
#[derive(Clone, Debug, Default)]
pub struct AnswerTimes {
    /// Smoothed time of an answer.
    mean: Option<Duration>,
    /// Questions without an answer since the last one.
    unanswered: u32,
    /// Time of the last question to a neighbour that is down, since the start.
    probed: Option<Duration>,
}

impl AnswerTimes {
    /// Notes an answer that took this long.
    pub fn answered(&mut self, took: Duration) {
        let took = took.min(WAIT_MAX);
        self.mean = Some(self.mean.map_or(took, |mean| (mean * 7 + took) / 8));
        self.unanswered = 0;
    }

    /// Notes that no answer came in time. The next wait is longer, up to its bound.
    pub fn missed(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.mean = self.mean.map(|mean| (mean * 2).min(WAIT_MAX));
    }

    /// Returns the wait for the next answer, at most `limit`.
    pub fn wait(&self, limit: Duration) -> Duration {
        let learnt = self.mean.map_or(FIRST_WAIT, |mean| mean * 2);
        learnt.clamp(WAIT_MIN, WAIT_MAX).min(limit)
    }

    /// Returns `true` if the last questions had no answer.
    pub fn is_down(&self) -> bool {
        self.unanswered >= DOWN_AFTER
    }

    /// Returns `true` if a question shall be sent `now`: always to a neighbour that is up, and
    /// once in a while to one that is down.
    pub fn may_ask(&mut self, now: Duration) -> bool {
        if !self.is_down() {
            return true;
        }
        let is_due = self.probed.is_none_or(|probed| now.saturating_sub(probed) >= PROBE_EVERY);
        if is_due {
            self.probed = Some(now);
        }
        is_due
    }
}

/// Bounds of the wait, and the wait before the first answer.
pub const WAIT_MIN: Duration = Duration::from_millis(5);
/// Longest wait for an answer.
pub const WAIT_MAX: Duration = Duration::from_secs(2);
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Unanswered questions in a row after which a neighbour is down.
const DOWN_AFTER: u32 = 8;
/// Time between questions to a neighbour that is down.
const PROBE_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn wait_follows_the_answers() {
        let mut times = AnswerTimes::default();
        assert_eq!(times.wait(LIMIT), FIRST_WAIT);
        (0..50).for_each(|_| times.answered(Duration::from_millis(20)));
        assert_eq!(times.wait(LIMIT), Duration::from_millis(40));
        (0..50).for_each(|_| times.answered(Duration::from_micros(10)));
        assert_eq!(times.wait(LIMIT), WAIT_MIN);
        (0..90).for_each(|_| times.answered(Duration::from_secs(100)));
        assert!(times.wait(LIMIT) <= WAIT_MAX);
        assert_eq!(times.wait(Duration::from_millis(30)), Duration::from_millis(30));
    }

    #[test]
    fn silent_neighbour_is_down_until_it_answers() {
        let mut times = AnswerTimes::default();
        (0..DOWN_AFTER).for_each(|_| times.missed());
        assert!(times.is_down());
        let at = Duration::from_secs;
        assert!(times.may_ask(at(5)));
        assert!(!times.may_ask(at(5) + PROBE_EVERY / 2));
        assert!(times.may_ask(at(5) + PROBE_EVERY));
        times.answered(Duration::from_millis(1));
        assert!(!times.is_down() && times.may_ask(at(6)));
    }
}
