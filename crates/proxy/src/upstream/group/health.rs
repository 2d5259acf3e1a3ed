//! What is known about an upstream's health, from requests (passive) and from checks (active).
//!
//! Passive: [`FAILURES`] requests in a row without any HTTP answer (refused, unreachable, timed
//! out, cut, garbage) take an upstream out for a backoff that doubles each time, from [`BACKOFF`]
//! to [`BACKOFF_MAX`], give or take a quarter. Then it is asked again: one success clears it, one
//! failure takes it out for longer. An error status is an answer: one broken page must not take a
//! server out. Active: so many failed checks in a row take it out, so many successful ones bring it
//! back.
//!
//! It is *down* while checks fail, or since it was taken out until it answers. That is told once,
//! and then that it is up again; of one that goes up and down all the time, once in [`QUIET`].

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
    /// That it is down has been told.
    is_told: bool,
    /// When that was told the last time.
    told_at: Option<Instant>,
}

/// What is to be told of an upstream that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    Down,
    Up,
}

impl Health {
    pub fn is_in(&self, now: Instant) -> bool {
        !self.checks_failing && self.out_until.is_none_or(|until| now >= until)
    }

    /// How long its backoff lasts from `now`; `None` when it is in, or out for another reason.
    pub fn back_in(&self, now: Instant) -> Option<Duration> {
        self.out_until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Whether that it is down has been told, and still holds.
    pub fn is_logged(&self) -> bool {
        self.is_told
    }

    /// Takes note of an answer. True when it is to be told that it is up again.
    pub fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.ejections = 0;
        self.out_until = None;
        !self.is_down() && std::mem::take(&mut self.is_told)
    }

    /// Takes note of a failure. The backoff that begins, when it is to be told that it is down.
    pub fn failed(&mut self, now: Instant, random: u64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        // Requests sent before it was taken out fail later; they tell nothing new.
        let already_out = self.out_until.is_some_and(|until| now < until);
        if self.failures < FAILURES || already_out {
            return None;
        }
        let backoff = backoff(self.ejections, random);
        self.out_until = Some(now + backoff);
        self.ejections = self.ejections.saturating_add(1);
        self.should_log_down(now).then_some(backoff)
    }

    /// Takes note of a check. What is to be told, if anything.
    pub fn checked(&mut self, healthy: bool, threshold: u32, now: Instant) -> Option<HealthChange> {
        if healthy != self.checks_failing {
            self.contrary_checks = 0;
            return (self.checks_failing && self.should_log_down(now)).then_some(HealthChange::Down);
        }
        self.contrary_checks += 1;
        if self.contrary_checks < threshold {
            return None;
        }
        self.checks_failing = !healthy;
        self.contrary_checks = 0;
        match healthy {
            // Checks that bring it back also end a backoff.
            true => self.succeeded().then_some(HealthChange::Up),
            false => self.should_log_down(now).then_some(HealthChange::Down),
        }
    }

    fn is_down(&self) -> bool {
        self.checks_failing || self.ejections > 0
    }

    /// Of one that is down: whether that is to be told now.
    fn should_log_down(&mut self, now: Instant) -> bool {
        let is_quiet = self.told_at.is_none_or(|at| now.saturating_duration_since(at) >= QUIET);
        let is_due = self.is_down() && !self.is_told && is_quiet;
        if is_due {
            self.is_told = true;
            self.told_at = Some(now);
        }
        is_due
    }
}

/// [`BACKOFF`] doubled `ejections` times, at most [`BACKOFF_MAX`], then between three and five
/// quarters of it.
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
/// Least time between two lines that an upstream is down.
const QUIET: Duration = Duration::from_secs(10);

const _: () = assert!(BACKOFF.as_millis() < BACKOFF_MAX.as_millis() && FAILURES > 0);

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
            health.checked(healthy, 2, now);
            assert_eq!(health.is_in(now), is_in);
        }
    }

    #[test]
    fn an_outage_is_told_once_and_its_end_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut health = Health::default();
        let told: Vec<_> = (0..100).filter_map(|_| health.failed(start, 250)).collect();
        assert_eq!(told, [Duration::from_secs(1)]);
        // The later backoffs of the same outage are no news.
        assert!((1..50).all(|seconds| health.failed(at(seconds), 250).is_none() && health.is_logged()));
        assert_eq!([health.succeeded(), health.succeeded()], [true, false]);
        assert!(!health.is_logged());
    }

    #[test]
    fn one_that_goes_up_and_down_all_the_time_is_told_of_now_and_then() {
        let start = Instant::now();
        let mut health = Health::default();
        let (mut downs, mut ups) = (0, 0);
        for millis in 0..30_000 {
            let now = start + Duration::from_millis(millis);
            downs += (0..3).filter_map(|_| health.failed(now, 250)).count();
            ups += usize::from(health.succeeded());
        }
        assert_eq!((downs, ups), (3, 3));
    }

    #[test]
    fn checks_and_requests_tell_of_one_outage_together() {
        let start = Instant::now();
        let mut health = Health::default();
        assert!((0..3).any(|_| health.failed(start, 250).is_some()));
        assert_eq!(health.checked(false, 1, start), None, "it is known");
        assert!(!health.succeeded(), "checks still fail");
        assert_eq!(health.checked(true, 1, start), Some(HealthChange::Up));
        // The next begins too soon to be told at once, and is told when it lasts.
        assert_eq!(health.checked(false, 1, start), None);
        assert_eq!(health.checked(false, 1, start + QUIET), Some(HealthChange::Down));
        assert_eq!(health.checked(false, 1, start + QUIET), None);
        assert_eq!(health.checked(true, 1, start + QUIET), Some(HealthChange::Up));
    }
}
