//! Pace of one origin: the time that a fetch takes now, and pauses after overload.
//!
//! Prefetching reads two facts about an origin. F_D of the predicate ([`super::predicate`]) is the
//! mean time of recent fetches. An origin is *loaded* when that mean is far above the time that the
//! origin needs at rest: prefetches then stop, since each would delay a client's miss. An answer
//! 429 or 5xx, or none at all, stops them too, for a time that doubles from failure to failure.
//!
//! The time at rest follows faster fetches soon, and slowly those slower ones that were alone. An
//! origin that has become slow for good is not taken for loaded for ever.
//!
//! The number of prefetches in flight has a *limit*, so that a client's miss waits for few of them.
//! It follows from the times as TCP Vegas' window does (Brakmo and Peterson, 1995). Of n fetches
//! in flight that each take a time t, n · (1 − 1.5 · rest/t) wait for others. The limit rises while
//! less than one waits, and falls while more than two do. A disk that takes one at a time gets
//! three. An origin that takes any number at once gets as many as the settings allow. O(1), 40
//! bytes.

/// Times, pauses and limit of one origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OriginPace {
    mean_seconds: f64,
    rest_seconds: f64,
    paused_until: f64,
    failures: u32,
    limit: f64,
    /// `true` until fetches first waited for each other.
    is_new: bool,
}

impl Default for OriginPace {
    fn default() -> Self {
        let (mean_seconds, rest_seconds, paused_until) = (0.0, 0.0, 0.0);
        Self { mean_seconds, rest_seconds, paused_until, failures: 0, limit: FIRST_LIMIT, is_new: true }
    }
}

impl OriginPace {
    /// Records a fetch that took `seconds` to its head. No prefetch was at the origin beside it if
    /// `is_alone`. Times that are no numbers are ignored.
    pub fn answered(&mut self, seconds: f64, is_alone: bool) {
        if !(seconds.is_finite() && seconds >= 0.0) {
            return;
        }
        self.failures = 0;
        if self.mean_seconds == 0.0 {
            (self.mean_seconds, self.rest_seconds) = (seconds, seconds);
            return;
        }
        self.mean_seconds += NEWEST * (seconds - self.mean_seconds);
        let weight = match (seconds < self.rest_seconds, is_alone) {
            (true, _) => FASTER_AT_REST,
            (false, true) => NEWEST_AT_REST,
            (false, false) => 0.0,
        };
        self.rest_seconds += weight * (seconds - self.rest_seconds);
    }

    /// Records a prefetch likewise, with `in_flight` prefetches at the origin, itself included. The
    /// limit follows.
    pub fn prefetched(&mut self, seconds: f64, in_flight: usize) {
        let is_known = self.mean_seconds > 0.0 && seconds.is_finite() && seconds >= 0.0;
        self.answered(seconds, in_flight <= 1);
        if is_known {
            self.move_limit(seconds, in_flight as f64);
        }
    }

    fn move_limit(&mut self, seconds: f64, in_flight: f64) {
        let waiting = in_flight * (1.0 - USUAL * self.rest_seconds / seconds.max(LEAST_SECONDS));
        if waiting > MOST_WAITING {
            self.is_new = false;
            self.limit -= 1.0 / self.limit;
        } else if waiting < LEAST_WAITING && in_flight >= self.limit.floor() {
            self.limit += if self.is_new { 1.0 } else { 1.0 / self.limit };
        }
        self.limit = self.limit.clamp(1.0, LARGEST_LIMIT);
    }

    /// Returns the number of prefetches that may be in flight at the origin.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Records an answer that asks for less, or none. `retry_after_seconds` is the origin's own
    /// wish.
    pub fn refused(&mut self, now: f64, retry_after_seconds: Option<f64>) {
        let own = FIRST_PAUSE_SECONDS * f64::from(1_u32 << self.failures.min(DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        let pause = retry_after_seconds.filter(|pause| pause.is_finite()).unwrap_or(own).max(own);
        self.paused_until = self.paused_until.max(now + pause.min(LONGEST_PAUSE_SECONDS));
    }

    /// Returns the mean time of a fetch in seconds; 0 before the first.
    pub fn fetch_seconds(&self) -> f64 {
        self.mean_seconds
    }

    /// Returns `true` if the origin takes much longer than at rest.
    pub fn is_loaded(&self) -> bool {
        self.mean_seconds > LOADED * self.rest_seconds + LEAST_DELAY_SECONDS
    }

    /// Returns `true` if the origin is left alone at `now`, since it asked for less.
    pub fn is_paused(&self, now: f64) -> bool {
        now < self.paused_until
    }

    /// Returns `true` if prefetches may be sent at `now`.
    pub fn may_ask(&self, now: f64) -> bool {
        !self.is_paused(now) && !self.is_loaded()
    }

    /// Lets a loaded origin be tried again: nothing was asked for a while, and its old times say
    /// little about now. One that stays slow is usual after some tries.
    pub fn forget_load(&mut self) {
        self.rest_seconds += FORGOTTEN_AT_REST * (self.mean_seconds - self.rest_seconds).max(0.0);
        self.mean_seconds = self.mean_seconds.min(LOADED * self.rest_seconds);
    }
}

/// Weight of the newest time in the mean.
const NEWEST: f64 = 1.0 / 8.0;
/// Weight of a longer time in the time at rest.
const NEWEST_AT_REST: f64 = 1.0 / 128.0;
/// Weight of a shorter one: a single cheap answer says little.
const FASTER_AT_REST: f64 = 1.0 / 4.0;
/// Weight of the mean in the time at rest when the load is forgotten.
const FORGOTTEN_AT_REST: f64 = 1.0 / 4.0;
/// Multiple of the time at rest that is no sign of waiting: answers differ.
const USUAL: f64 = 1.5;
const LEAST_SECONDS: f64 = 1e-6;
/// Fetches that wait for others: fewer raise the limit, more lower it (α and β of Vegas).
const LEAST_WAITING: f64 = 1.0;
const MOST_WAITING: f64 = 2.0;
/// Prefetches in flight at an origin: before its times are known, and ever.
const FIRST_LIMIT: f64 = 4.0;
const LARGEST_LIMIT: f64 = 4096.0;
/// Multiple of the time at rest from which an origin is loaded.
const LOADED: f64 = 3.0;
/// Delay that is no load yet: scheduling on a busy machine.
const LEAST_DELAY_SECONDS: f64 = 0.05;
const FIRST_PAUSE_SECONDS: f64 = 1.0;
/// Doublings of the pause.
const DOUBLINGS: u32 = 6;
const LONGEST_PAUSE_SECONDS: f64 = 300.0;

const _: () = assert!(size_of::<OriginPace>() == 40);
const _: () = assert!(LOADED > 1.0 && FIRST_PAUSE_SECONDS < LONGEST_PAUSE_SECONDS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_answers_mean_load_until_they_are_usual() {
        let mut pace = OriginPace::default();
        assert!(pace.may_ask(0.0) && pace.fetch_seconds() == 0.0);
        (0..20).for_each(|_| pace.answered(0.05, true));
        assert!(pace.may_ask(0.0));
        (0..20).for_each(|_| pace.answered(1.0, true));
        assert!(pace.is_loaded() && !pace.may_ask(0.0));
        (0..200).for_each(|_| pace.answered(1.0, true));
        assert!(pace.may_ask(0.0), "a slow origin, not a loaded one");
        (0..20).for_each(|_| pace.answered(9.0, true));
        assert!(pace.is_loaded());
        pace.forget_load();
        assert!(!pace.is_loaded());
    }

    #[test]
    fn pauses_double_and_end_with_an_answer() {
        let mut pace = OriginPace::default();
        pace.refused(10.0, None);
        assert!(!pace.may_ask(10.9) && pace.may_ask(11.0));
        pace.refused(11.0, None);
        assert!(!pace.may_ask(12.9) && pace.may_ask(13.0));
        pace.refused(13.0, Some(30.0));
        assert!(!pace.may_ask(42.9) && pace.may_ask(43.0), "the origin's own wish");
        pace.refused(43.0, Some(1e12));
        assert!(pace.may_ask(343.0), "an endless pause is none");
        pace.answered(0.1, true);
        pace.refused(400.0, Some(f64::NAN));
        assert!(pace.may_ask(401.0), "the first again");
    }

    #[test]
    fn senseless_times_are_ignored() {
        let mut pace = OriginPace::default();
        [f64::NAN, f64::INFINITY, -1.0].into_iter().for_each(|seconds| pace.prefetched(seconds, 1));
        assert_eq!(pace, OriginPace::default());
    }

    /// Returns the limit after answers of an origin that serves `at_once` fetches at a time, each
    /// in `seconds`. As many as the limit are in flight.
    fn limit_after(answers: usize, at_once: usize, seconds: f64) -> usize {
        let mut pace = OriginPace::default();
        pace.prefetched(seconds, 1);
        for _ in 0..answers {
            let in_flight = pace.limit().min(32);
            pace.prefetched(seconds * in_flight.div_ceil(at_once) as f64, in_flight);
        }
        pace.limit()
    }

    #[test]
    fn limit_follows_the_fetches_at_once() {
        assert_eq!(limit_after(3000, 1, 0.013), 3, "a disk");
        assert!(limit_after(28, 1000, 0.05) >= 32, "after as many answers as are in flight");
        let four = limit_after(3000, 4, 0.05);
        assert!((4..=8).contains(&four), "{four}");
    }

    #[test]
    fn limit_rises_only_where_it_is_reached() {
        let mut pace = OriginPace::default();
        (0..1000).for_each(|_| pace.prefetched(0.01, 1));
        assert_eq!(pace.limit(), FIRST_LIMIT as usize);
    }

    #[test]
    fn cheap_answers_hide_no_usual_ones() {
        let mut pace = OriginPace::default();
        for at in 0..2000 {
            pace.prefetched(if at % 10 == 0 { 0.005 } else { 0.05 }, 1 + at % pace.limit());
        }
        assert!(!pace.is_loaded() && pace.limit() >= 2, "{pace:?}");
        (0..50).for_each(|_| pace.answered(0.9, false));
        assert!(pace.is_loaded(), "clients' own misses tell of load");
        let tries = (0..20).take_while(|_| {
            pace.forget_load();
            pace.answered(0.9, true);
            pace.is_loaded()
        });
        assert!(tries.count() < 12, "slow for good");
    }
}
