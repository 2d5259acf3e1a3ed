//! What is known about an upstream's health, from requests (passive) and from checks (active).
//!
//! Passive: [`FAILURES`] requests in a row without any HTTP answer (refused, unreachable, timed out, cut,
//! garbage) take an upstream out for a backoff that doubles each time, from [`BACKOFF`] to [`BACKOFF_MAX`], give or
//! take a quarter. Then it is asked again: one success clears it, one failure takes it out for longer. An
//! error status is an answer: one broken page must not take a server out. Active: so many
//! failed checks in a row take it out, so many successful ones bring it back.

use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Health {
    /// Requests that failed since the last that was answered.
    failures: u32,
    /// How often it was taken out since the last answer.
    ejections: u32,
    out_until: Option<Instant>,
    checks_failing: bool,
    /// Checks in a row that contradict `checks_failing`.
    contrary_checks: u32,
}

impl Health {
    pub fn is_in(&self, now: Instant) -> bool {
        !self.checks_failing && self.out_until.is_none_or(|until| now >= until)
    }

    /// How long its backoff lasts from `now`; `None` when it is in, or out for another reason.
    pub fn back_in(&self, now: Instant) -> Option<Duration> {
        self.out_until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.ejections = 0;
        self.out_until = None;
    }

    pub fn failed(&mut self, now: Instant, random: u64) {
        self.failures = self.failures.saturating_add(1);
        // Requests sent before it was taken out fail later; they tell nothing new.
        let already_out = self.out_until.is_some_and(|until| now < until);
        if self.failures >= FAILURES && !already_out {
            self.out_until = Some(now + backoff(self.ejections, random));
            self.ejections = self.ejections.saturating_add(1);
        }
    }

    pub fn checked(&mut self, healthy: bool, threshold: u32) {
        if healthy != self.checks_failing {
            self.contrary_checks = 0;
            return;
        }
        self.contrary_checks += 1;
        if self.contrary_checks >= threshold {
            self.checks_failing = !healthy;
            self.contrary_checks = 0;
            self.succeeded_if(healthy);
        }
    }

    /// Checks that bring it back also end a backoff.
    fn succeeded_if(&mut self, healthy: bool) {
        if healthy {
            self.succeeded();
        }
    }
}

/// [`BACKOFF`] doubled `ejections` times, at most [`BACKOFF_MAX`], then between three and five quarters of it.
fn backoff(ejections: u32, random: u64) -> Duration {
    let base = BACKOFF.saturating_mul(1 << ejections.min(10)).min(BACKOFF_MAX);
    let thousandths = 750 + (random % 501) as u32;
    base * thousandths / 1000
}

/// Requests without an answer, in a row, that take an upstream out.
const FAILURES: u32 = 3;
/// The first backoff.
const BACKOFF: Duration = Duration::from_secs(1);
/// The longest backoff, before jitter.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_take_out_for_a_growing_while() {
        let start = Instant::now();
        let mut health = Health::default();
        health.failed(start, 250);
        health.failed(start, 250);
        health.succeeded();
        health.failed(start, 250);
        health.failed(start, 250);
        assert!(health.is_in(start));
        health.failed(start, 250);
        assert!(!health.is_in(start + Duration::from_millis(999)));
        let back = start + Duration::from_secs(1);
        assert!(health.is_in(back));
        health.failed(back, 250);
        assert!(!health.is_in(back + Duration::from_millis(1999)), "the second backoff is twice as long");
        assert!(health.is_in(back + Duration::from_secs(2)));
        health.succeeded();
        health.failed(back, 250);
        assert!(health.is_in(back), "a success clears the past");
    }

    #[test]
    fn a_backoff_is_bounded_and_jittered() {
        assert_eq!(backoff(0, 0), Duration::from_millis(750));
        assert_eq!(backoff(0, 500), Duration::from_millis(1250));
        assert_eq!(backoff(u32::MAX, 250), BACKOFF_MAX);
    }

    #[test]
    fn checks_take_out_and_bring_back_at_the_threshold() {
        let now = Instant::now();
        let mut health = Health::default();
        for (healthy, is_in) in [
            (false, true),
            (true, true),
            (false, true),
            (false, false),
            (true, false),
            (false, false),
            (true, false),
            (true, true),
        ] {
            health.checked(healthy, 2);
            assert_eq!(health.is_in(now), is_in);
        }
    }
}
