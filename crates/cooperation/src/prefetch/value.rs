//! Value of a page: the sooner it is needed, the higher.
//!
//! Voelker 2000, section 4.3.3: the value of a buffer is an estimate of the time until the next
//! reference to its page. For a hinted page it is the number of hinted references before it, times
//! the time between references. For other pages it is the time since the last reference, so that
//! LRU is the special case without hints. Times between references are of computing, measured in
//! the recent past. They are scaled by the share of the time that the program was on a processor.
//!
//! The text leaves one case open: a page that a program *with* hints has used and no longer hints.
//! By its age it was used just now; by the hints it is not used for as long as they reach. The
//! better estimate depends on the share of references that were hinted: [`Value::unforetold`] moves
//! from one to the other in proportion. All is O(1).

/// Urgency of a page. The greater value is the sooner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    until_us: u64,
}

impl Value {
    /// Value of a page that will never be needed, and of a free frame: the least of all.
    pub const NEVER: Self = Self { until_us: u64::MAX };
    /// Value of a page that is needed now: the greatest of all.
    pub const NOW: Self = Self { until_us: 0 };

    /// Returns the value of a page that is needed in `seconds` seconds. Less than zero, or no
    /// number, counts as zero.
    pub fn until(seconds: f64) -> Self {
        Self { until_us: (seconds * 1e6) as u64 }
    }

    /// Returns the value of a page after `references_before` hinted references.
    pub fn hinted(references_before: u64, stride: &Stride) -> Self {
        Self::until(references_before as f64 * stride.seconds())
    }

    /// Returns the value of a page without a hint, by the seconds since its last use.
    pub fn unhinted(age_seconds: f64) -> Self {
        Self::until(age_seconds)
    }

    /// Returns the value of a page without a hint, where hints reach `horizon_seconds` ahead and
    /// `coverage` (from 0 to 1) of the references were hinted.
    pub fn unforetold(age_seconds: f64, horizon_seconds: f64, coverage: f64) -> Self {
        let coverage = if coverage.is_nan() { 0.0 } else { coverage.clamp(0.0, 1.0) };
        Self::until(age_seconds + coverage * (horizon_seconds - age_seconds).max(0.0))
    }

    /// Returns the time until the page is needed, in microseconds; `u64::MAX` for never.
    pub fn until_us(self) -> u64 {
        self.until_us
    }

    /// Makes the value of a page that is needed in `until_us` microseconds; `u64::MAX` for never.
    pub fn of_microseconds(until_us: u64) -> Self {
        Self { until_us }
    }

    /// Returns the value `seconds` seconds later, of a page without a reference in between. Never
    /// stays never.
    pub fn later(self, seconds: f64) -> Self {
        let passed = if self == Self::NEVER { 0 } else { (seconds * 1e6) as u64 };
        Self { until_us: self.until_us.saturating_sub(passed) }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.until_us.cmp(&self.until_us)
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Time between a program's references, as measured in the recent past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stride {
    computing_seconds: f64,
    scheduled: f64,
}

impl Stride {
    /// Starts with a guess of the seconds of computing between two references. A guess that is no
    /// number counts as zero.
    pub fn new(computing_seconds: f64) -> Self {
        Self {
            computing_seconds: if computing_seconds > 0.0 { computing_seconds } else { 0.0 },
            scheduled: 1.0,
        }
    }

    /// Records the computing time between two references. A negative value, or no number, is
    /// ignored.
    pub fn computed(&mut self, seconds: f64) {
        if seconds.is_finite() && seconds >= 0.0 {
            self.computing_seconds += NEWEST * (seconds - self.computing_seconds);
        }
    }

    /// Records the share of the time since the last report that the program was on a processor.
    pub fn scheduled(&mut self, share: f64) {
        if share.is_finite() {
            self.scheduled = share.clamp(LEAST_SCHEDULED, 1.0);
        }
    }

    /// Returns the seconds of computing between two references: the time between them when nothing
    /// stalls.
    pub fn computing_seconds(&self) -> f64 {
        self.computing_seconds
    }

    /// Returns the seconds between two references as clocks count them.
    pub fn seconds(&self) -> f64 {
        self.computing_seconds / self.scheduled
    }
}

/// Weight of the newest measurement in the mean.
const NEWEST: f64 = 1.0 / 16.0;
/// Least share on a processor: a program that hardly runs is not known to never run.
const LEAST_SCHEDULED: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sooner_is_worth_more() {
        let mut stride = Stride::new(1e-3);
        let hinted = |before, stride: &Stride| Value::hinted(before, stride);
        assert!(hinted(1, &stride) > hinted(2, &stride));
        assert!(Value::NOW > hinted(1, &stride) && hinted(u64::MAX, &stride) >= Value::NEVER);
        assert_eq!(hinted(10, &stride), Value::unhinted(0.01), "one scale for both");
        stride.scheduled(0.5);
        assert_eq!(hinted(10, &stride), Value::until(0.02), "half on the processor, twice as long");
        assert_eq!(Value::until(1.02).later(1.0), Value::until(0.02));
        assert_eq!(Value::NEVER.later(1.0), Value::NEVER);
    }

    #[test]
    fn hints_that_hold_are_believed() {
        let value = |age, coverage| Value::unforetold(age, 10.0, coverage);
        assert_eq!(value(1.0, 0.0), Value::until(1.0), "age alone");
        assert_eq!(value(1.0, 1.0), Value::until(10.0), "not within the hints' reach");
        assert_eq!(value(1.0, 0.5), Value::until(5.5));
        assert_eq!(value(20.0, 1.0), Value::until(20.0), "never sooner than its age says");
    }

    #[test]
    fn value_ignores_invalid_numbers() {
        assert_eq!(Value::until(f64::NAN), Value::NOW);
        assert_eq!(Value::until(-1.0), Value::NOW);
        assert_eq!(Value::until(f64::INFINITY), Value::NEVER);
        assert_eq!(Value::unforetold(1.0, 10.0, f64::NAN), Value::until(1.0));
        let mut stride = Stride::new(f64::NAN);
        stride.computed(f64::INFINITY);
        stride.scheduled(0.0);
        assert_eq!(stride.seconds(), 0.0);
    }

    #[test]
    fn stride_follows_measurements() {
        let mut stride = Stride::new(0.0);
        (0..100).for_each(|_| stride.computed(2e-3));
        assert!((stride.computing_seconds() - 2e-3).abs() < 1e-5);
    }
}
