//! Health of an upstream, from requests (passive) and from checks (active).
//!
//! Passive: [`FAILURES`] requests in a row without any HTTP answer (refused, unreachable, timed
//! out, cut, garbage) take an upstream out for a backoff. Each further backoff doubles, from
//! [`BACKOFF`] to [`BACKOFF_MAX`], plus or minus a quarter. After the backoff the upstream is asked
//! again: one success clears it, one failure starts a longer backoff. An error status is an answer:
//! one broken page must not take a server out.
//!
//! Active: `threshold` failed checks in a row take the upstream out. As many successful ones bring
//! it back.
//!
//! An upstream is *down* while checks fail, and from the first backoff until it answers. The log
//! gets one line for each change. An upstream that changes often gets at most one line per
//! [`QUIET`] that it is down.

use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Health {
    /// Failed requests since the last answer.
    failures: u32,
    /// Backoffs since the last answer.
    ejections: u32,
    out_until: Option<Instant>,
    checks_failing: bool,
    /// Checks in a row that contradict `checks_failing`.
    contrary_checks: u32,
    /// The log says that the upstream is down.
    is_told: bool,
    /// Time of the last such log line.
    told_at: Option<Instant>,
}

/// Change to log after an active check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    Down,
    Up,
}

impl Health {
    pub fn is_in(&self, now: Instant) -> bool {
        !self.checks_failing && self.out_until.is_none_or(|until| now >= until)
    }

    /// Returns the rest of the backoff from `now`. Returns `None` if the upstream is in, or out for
    /// another reason.
    pub fn back_in(&self, now: Instant) -> Option<Duration> {
        self.out_until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Returns `true` if the log says that the upstream is down, and it still is.
    pub fn is_logged(&self) -> bool {
        self.is_told
    }

    /// Records an answer. Returns `true` if the log must say that the upstream is up again.
    pub fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.ejections = 0;
        self.out_until = None;
        !self.is_down() && std::mem::take(&mut self.is_told)
    }

    /// Records a failure. Returns the new backoff if the log must say that the upstream is down.
    pub fn failed(&mut self, now: Instant, random: u64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        // Requests sent before the backoff may fail later. They give no new information.
        let already_out = self.out_until.is_some_and(|until| now < until);
        if self.failures < FAILURES || already_out {
            return None;
        }
        let backoff = backoff(self.ejections, random);
        self.out_until = Some(now + backoff);
        self.ejections = self.ejections.saturating_add(1);
        self.should_log_down(now).then_some(backoff)
    }

    /// Records an active check. Returns the change to log, if any.
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
            // Successful checks also end a backoff.
            true => self.succeeded().then_some(HealthChange::Up),
            false => self.should_log_down(now).then_some(HealthChange::Down),
        }
    }

    fn is_down(&self) -> bool {
        self.checks_failing || self.ejections > 0
    }

    /// Returns `true` if the log must say now that the upstream is down.
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

/// Returns [`BACKOFF`] doubled `ejections` times, at most [`BACKOFF_MAX`], times a random factor
/// from 0.75 to 1.25.
fn backoff(ejections: u32, random: u64) -> Duration {
    let base = BACKOFF.saturating_mul(1 << ejections.min(10)).min(BACKOFF_MAX);
    let thousandths = 750 + (random % 501) as u32;
    base * thousandths / 1000
}

/// Requests without an answer, in a row, that take an upstream out.
const FAILURES: u32 = 3;
/// First backoff.
const BACKOFF: Duration = Duration::from_secs(1);
/// Longest backoff, before jitter.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Minimum time between two log lines that an upstream is down.
const QUIET: Duration = Duration::from_secs(10);

const _: () = assert!(BACKOFF.as_millis() < BACKOFF_MAX.as_millis() && FAILURES > 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_start_a_growing_backoff() {
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
        // Later backoffs of the same outage are not logged.
        assert!((1..50).all(|seconds| health.failed(at(seconds), 250).is_none() && health.is_logged()));
        assert_eq!([health.succeeded(), health.succeeded()], [true, false]);
        assert!(!health.is_logged());
    }

    #[test]
    fn flapping_upstream_is_logged_seldom() {
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
        // The next outage begins too soon for a log line, and is logged if it lasts.
        assert_eq!(health.checked(false, 1, start), None);
        assert_eq!(health.checked(false, 1, start + QUIET), Some(HealthChange::Down));
        assert_eq!(health.checked(false, 1, start + QUIET), None);
        assert_eq!(health.checked(true, 1, start + QUIET), Some(HealthChange::Up));
    }
}
