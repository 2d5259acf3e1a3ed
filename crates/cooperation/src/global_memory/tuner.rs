//! Tuner of the load balancing rate while the cluster runs.
//!
//! Voelker 2000, section 3.6.3, leaves it as future work: "dynamically tuning b at run-time using
//! measured impact on global memory paging rates". b trades the waiting time of getpages against
//! the faults that reach the disk. Both are in one number that a node can measure: the mean time of
//! a fault, from any source. [`Tuner`] takes that number for each epoch and searches the b with the
//! least. It steps in the direction that helped last (Hooke and Jeeves, *Direct search solution of
//! numerical and statistical problems*, JACM 1961, in one dimension).
//!
//! - It tries a b for some epochs, then another beside it. It moves when the second was better by
//!   more than the noise between epochs of one b.
//! - When neither side is better it halves its step. Below the least step it rests at the best b.
//!   It searches again when the cost there has changed by more than the noise, as when a node joins
//!   or the load rises.
//!
//! Fits loads that stay for tens of epochs. With faster changes b lags behind, at a value that was
//! good before. O(1) an epoch.

/// Search for the best load balancing rate, epoch by epoch.
#[derive(Clone, Debug)]
pub struct Tuner {
    best: f64,
    step: f64,
    upward: bool,
    /// Number of directions tried in vain since the last move.
    failures: u8,
    phase: Phase,
    window: Window,
    /// Cost at the best rate, as last measured.
    best_cost: Mean,
}

/// Rate that the current window of epochs measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Best rate so far.
    Base,
    /// Rate beside the best one.
    Trial,
    /// Best rate, with nothing more to try.
    Rest,
}

impl Tuner {
    /// Starts at a rate from 0 to 1.
    pub fn new(b: f64) -> Self {
        Self {
            best: if b.is_nan() { 0.5 } else { b.clamp(0.0, 1.0) },
            step: FIRST_STEP,
            upward: true,
            failures: 0,
            phase: Phase::Base,
            window: Window::default(),
            best_cost: Mean::default(),
        }
    }

    /// Returns the rate for the next epoch.
    pub fn b(&self) -> f64 {
        if self.phase == Phase::Trial { self.trial() } else { self.best }
    }

    /// Returns the best rate found so far.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// Records an epoch with this mean time of a fault, in any unit. The caller does not report an
    /// epoch without faults; a cost that is no number is ignored.
    pub fn epoch(&mut self, cost: f64) {
        if !cost.is_finite() || !self.window.add(cost) {
            return;
        }
        debug_assert!((0.0..=1.0).contains(&self.best));
        debug_assert!(self.failures < 2, "two failures halve the step");
        let found = std::mem::take(&mut self.window).mean();
        match self.phase {
            Phase::Base => {
                self.best_cost = found;
                self.phase = Phase::Trial;
                self.turn_at_an_end();
            }
            Phase::Trial => self.compare_rates(found),
            Phase::Rest => {
                if found.differs(&self.best_cost) {
                    self.step = FIRST_STEP;
                    self.best_cost = found;
                    self.phase = Phase::Trial;
                    self.turn_at_an_end();
                }
            }
        }
    }

    fn compare_rates(&mut self, found: Mean) {
        if found.value < self.best_cost.value && found.differs(&self.best_cost) {
            self.best = self.trial();
            self.best_cost = found;
            self.failures = 0;
            self.turn_at_an_end();
            return;
        }
        self.upward = !self.upward;
        self.failures += 1;
        if self.failures < 2 && (0.0..=1.0).contains(&self.beside()) {
            // The other side is compared with the base's current cost, since loads drift.
            self.phase = Phase::Base;
            return;
        }
        self.failures = 0;
        self.step /= 2.0;
        self.phase = if self.step < LEAST_STEP { Phase::Rest } else { Phase::Base };
    }

    /// Reverses the direction where a step would leave the range.
    fn turn_at_an_end(&mut self) {
        if (self.upward && self.best >= 1.0) || (!self.upward && self.best <= 0.0) {
            self.upward = !self.upward;
        }
    }

    fn trial(&self) -> f64 {
        self.beside().clamp(0.0, 1.0)
    }

    fn beside(&self) -> f64 {
        if self.upward { self.best + self.step } else { self.best - self.step }
    }
}

/// Epochs of one rate: the first ones settle the effects of the last rate and do not count.
#[derive(Clone, Debug, Default)]
struct Window {
    epochs: u32,
    sum: f64,
    squares: f64,
}

impl Window {
    /// Adds an epoch. Returns `true` if the window is full.
    fn add(&mut self, cost: f64) -> bool {
        self.epochs += 1;
        if self.epochs > SETTLING {
            self.sum += cost;
            self.squares += cost * cost;
        }
        self.epochs >= SETTLING + MEASURED
    }

    fn mean(&self) -> Mean {
        let count = f64::from(MEASURED);
        let value = self.sum / count;
        let variance = ((self.squares / count - value * value).max(0.0)) * count / (count - 1.0);
        Mean { value, error: (variance / count).sqrt() }
    }
}

/// Mean cost and its standard error.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    error: f64,
}

impl Mean {
    fn differs(&self, other: &Self) -> bool {
        let error = (self.error * self.error + other.error * other.error).sqrt();
        (self.value - other.value).abs() > (SIGNIFICANT * error).max(LEAST_CHANGE * other.value.abs())
    }
}

const FIRST_STEP: f64 = 0.2;
/// Least step: smaller ones make no measurable difference.
const LEAST_STEP: f64 = 0.04;
/// Epochs after a change that are not counted.
const SETTLING: u32 = 2;
/// Number of epochs in a mean.
const MEASURED: u32 = 6;
/// Standard errors from which a difference is not chance.
const SIGNIFICANT: f64 = 1.5;
/// Share of the cost below which a change is not worth a move.
const LEAST_CHANGE: f64 = 0.003;

const _: () = {
    // A variance needs two epochs.
    assert!(MEASURED > 1);
    assert!(LEAST_STEP < FIRST_STEP);
};
