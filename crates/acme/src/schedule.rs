//! Time of the next order for a certificate. Pure: times are seconds since 1970, seeds are
//! arguments.
//!
//! A certificate is renewed at about two thirds of its lifetime, or within the window that the
//! authority suggests (ARI, RFC 9773). Windows shift within bounds: an authority cannot make the
//! node order without an end, nor let a certificate end. Failures double the wait.

use shoal_core::mixed;

/// Times of earlier attempts to get a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Failures since the last success.
    pub failures: u32,
    /// Earliest time of the next order.
    pub wait_until: u64,
}

/// Time in which an authority wants a certificate to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Beginning.
    pub start: u64,
    /// End.
    pub end: u64,
}

/// Reason for which an order failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The authority could not be asked, or had a fault itself: nothing was counted against us.
    Unreachable,
    /// The authority refused, or did not accept a proof.
    Refused,
}

impl Attempts {
    /// Notes a failure at `now`. `retry` is the shortest wait after a refusal, and `retry_after`
    /// the wait that the authority asked for.
    pub fn failed(&mut self, why: Failure, now: u64, (retry, retry_after): (u64, Option<u64>), seed: u64) {
        let first = match why {
            Failure::Unreachable => (retry / 15).max(1),
            Failure::Refused => retry,
        };
        let doubled = first.saturating_mul(1 << self.failures.min(20)).min(WAIT_MAX.max(retry));
        // A quarter more at most, so that nodes that failed together do not come back together.
        let wait = doubled + mixed(seed) % (doubled / 4 + 1);
        let asked = retry_after.unwrap_or(0).min(RETRY_AFTER_MAX);
        self.failures = self.failures.saturating_add(1);
        self.wait_until = now.saturating_add(wait.max(asked));
        debug_assert!(self.wait_until > now, "a failure is followed by a wait");
    }

    /// Notes a success at `now`, of a certificate with this lifetime.
    pub fn succeeded(&mut self, now: u64, retry: u64, lifetime: u64) {
        let pause = (lifetime / 10).clamp(retry.min(lifetime / 2), PAUSE_MAX.max(retry));
        *self = Self { failures: 0, wait_until: now.saturating_add(pause) };
    }

    /// Returns the time of the next order: `renewal`, or at once for a certificate that is not
    /// there, but not before the wait is over. A wait beyond the longest is from a wrong clock.
    pub fn due_at(&self, renewal: Option<u64>, now: u64) -> u64 {
        let wait_until = self.wait_until.min(now.saturating_add(RETRY_AFTER_MAX));
        renewal.unwrap_or(0).max(wait_until)
    }
}

/// Returns the time at which a certificate that is valid in these times is renewed.
///
/// RFC 9773, section 4.2: "select a uniform random time within the suggested window".
pub fn renewal_at((not_before, not_after): (u64, u64), suggested: Option<Window>, seed: u64) -> u64 {
    let lifetime = not_after.saturating_sub(not_before);
    let late = not_before + lifetime - lifetime / 10;
    let own = not_before + lifetime / 3 * 2 - mixed(seed) % (lifetime / 30 + 1);
    debug_assert!(own <= late, "two thirds come before nine tenths");
    match suggested.filter(|window| window.start <= window.end) {
        Some(Window { start, end }) => {
            let point = start + mixed(seed) % (end - start).saturating_add(1).max(1);
            point.min(late)
        }
        None => own,
    }
}

/// Longest wait after failures, in seconds: a day.
const WAIT_MAX: u64 = 86_400;
/// Longest wait that an authority can ask for: a week.
const RETRY_AFTER_MAX: u64 = 7 * 86_400;
/// Longest pause after a success, which an authority's window cannot shorten: a day.
const PAUSE_MAX: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400;

    #[test]
    fn renewal_is_at_two_thirds() {
        let times = (1_000_000, 1_000_000 + 90 * DAY);
        let days = |at: u64| (at - times.0) / DAY;
        for seed in 0..100 {
            assert!((57..=60).contains(&days(renewal_at(times, None, seed))));
        }
        let window =
            |from: u64, to: u64| Some(Window { start: times.0 + from * DAY, end: times.0 + to * DAY });
        for seed in 0..100 {
            assert!((30..=32).contains(&days(renewal_at(times, window(30, 32), seed))));
            assert_eq!(days(renewal_at(times, window(500, 600), seed)), 81, "not after nine tenths");
            assert_eq!(renewal_at(times, window(40, 30), seed), renewal_at(times, None, seed));
        }
        assert_eq!(renewal_at((9, 3), None, 1), 9, "a certificate without a lifetime");
    }

    #[test]
    fn failures_double_the_wait() {
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        for seed in 0..12 {
            attempts.failed(Failure::Refused, 1000, (900, None), seed);
            waits.push(attempts.wait_until - 1000);
        }
        for (number, wait) in waits.iter().enumerate() {
            let least = (900 << number).min(DAY);
            assert!((least..=least + least / 4).contains(wait), "{number}: {wait}");
        }
        // Fewer than five failures in the first hour, as authorities allow.
        assert!(waits[..3].iter().sum::<u64>() > 3600);
        attempts.succeeded(1000, 900, 90 * DAY);
        assert_eq!(attempts, Attempts { failures: 0, wait_until: 1000 + DAY });
    }

    #[test]
    fn authority_wish_is_kept_within_a_week() {
        for (asked, wait) in [(None, 1), (Some(60), 60), (Some(3 * DAY), 3 * DAY), (Some(u64::MAX), 7 * DAY)]
        {
            let mut attempts = Attempts::default();
            attempts.failed(Failure::Unreachable, 50, (15, asked), 0);
            assert_eq!(attempts.wait_until, 50 + wait);
        }
    }

    #[test]
    fn wrong_clock_delays_a_week_at_most() {
        let attempts = Attempts { failures: 1, wait_until: u64::MAX };
        assert_eq!(attempts.due_at(None, 100), 100 + 7 * DAY);
        assert_eq!(Attempts::default().due_at(None, 100), 0);
        assert_eq!(Attempts { failures: 0, wait_until: 500 }.due_at(Some(400), 100), 500);
        assert_eq!(Attempts { failures: 0, wait_until: 500 }.due_at(Some(600), 100), 600);
    }

    #[test]
    fn short_lifetimes_are_renewed_in_time() {
        let mut attempts = Attempts::default();
        attempts.succeeded(100, 900, 9);
        let renewal = renewal_at((100, 109), None, 3);
        assert!(attempts.due_at(Some(renewal), 100) < 108, "{attempts:?} {renewal}");
    }

    proptest! {
        /// For any window, no order follows within the wait, and none comes too late.
        #[test]
        fn any_window_is_bounded(
            not_before in 0u64..1 << 40, lifetime in 0u64..1 << 34,
            start in any::<u64>(), end in any::<u64>(), seed in any::<u64>(),
        ) {
            let not_after = not_before + lifetime;
            let at = renewal_at((not_before, not_after), Some(Window { start, end }), seed);
            prop_assert!(at <= not_after);
            let mut attempts = Attempts::default();
            attempts.succeeded(not_before, 900, lifetime);
            prop_assert!(attempts.due_at(Some(at), not_before) >= not_before + lifetime.min(9000) / 10);
        }
    }
}
