//! Epochs of a node: the estimates of T, of the cost of a fault, and the rate b for the next one.
//!
//! Voelker 2000 takes T_j, the time between two global requests of node j, and N_g as known
//! (section 3.6.1). A node that runs counts its requests over an epoch and smooths. The cost of an
//! epoch is the mean time of a fault from any source, and [`Tuner`] minimizes it. An epoch with few
//! faults is joined to the next one: its mean would be noise.

use super::Tuner;
use std::time::Duration;

/// Estimates over epochs.
#[derive(Clone, Debug)]
pub struct Epochs {
    began: Duration,
    requests: u64,
    faults: u64,
    fault_seconds: f64,
    /// Smoothed requests a second.
    rate: f64,
    tuner: Tuner,
    fixed: Option<f64>,
}

impl Epochs {
    /// Begins the first epoch. `fixed` is the rate b that the operator has set.
    pub fn new(fixed: Option<f64>, now: Duration) -> Self {
        let tuner = Tuner::new(B_FIRST);
        Self { began: now, requests: 0, faults: 0, fault_seconds: 0.0, rate: 0.0, tuner, fixed }
    }

    /// Sets the rate that the operator has set, after a reload.
    pub fn fix(&mut self, fixed: Option<f64>) {
        self.fixed = fixed;
    }

    /// Counts requests to servers: getpages and putpages.
    pub fn requested(&mut self, count: u64) {
        self.requests += count;
    }

    /// Records faults: objects that were not in RAM, with their time until the bytes were there.
    pub fn faulted(&mut self, count: u64, seconds: f64) {
        self.faults += count;
        self.fault_seconds += if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
    }

    /// Ends the epoch, if its time is over. Returns `true` if it has.
    pub fn tick(&mut self, now: Duration) -> bool {
        let length = now.saturating_sub(self.began);
        if length < EPOCH {
            return false;
        }
        let rate = self.requests as f64 / length.as_secs_f64();
        self.rate += (rate - self.rate) * SMOOTHING;
        debug_assert!(self.rate.is_finite() && self.rate >= 0.0);
        self.began = now;
        self.requests = 0;
        if self.faults >= FAULTS_MIN {
            self.tuner.epoch(self.fault_seconds / self.faults as f64);
            (self.faults, self.fault_seconds) = (0, 0.0);
        }
        true
    }

    /// Returns T in seconds. A node without requests counts as one that sends a request each epoch.
    pub fn seconds_between(&self) -> f64 {
        (1.0 / self.rate.max(f64::MIN_POSITIVE)).min(EPOCH.as_secs_f64())
    }

    /// Returns the load balancing rate b in force.
    pub fn b(&self) -> f64 {
        self.fixed.unwrap_or_else(|| self.tuner.b())
    }
}

/// Length of an epoch.
pub const EPOCH: Duration = Duration::from_secs(2);

/// Faults from which the mean of an epoch is told to the tuner.
const FAULTS_MIN: u64 = 50;

/// Weight of the latest epoch in the rate.
const SMOOTHING: f64 = 0.25;

/// Rate before anything was measured. The lab's best fixed rates lie around it.
const B_FIRST: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_measured_over_epochs() {
        let mut epochs = Epochs::new(None, Duration::ZERO);
        assert!((epochs.seconds_between() - 2.0).abs() < 1e-9, "nothing was measured yet");
        for epoch in 1..=40 {
            epochs.requested(200);
            assert!(!epochs.tick(EPOCH * epoch - Duration::from_millis(1)));
            assert!(epochs.tick(EPOCH * epoch));
        }
        assert!((epochs.seconds_between() - 0.01).abs() < 1e-4, "{}", epochs.seconds_between());
    }

    #[test]
    fn tuner_finds_the_best_rate_and_a_setting_fixes_it() {
        let mut epochs = Epochs::new(None, Duration::ZERO);
        for epoch in 1..2000 {
            let cost = 1.0 + (epochs.b() - 0.9).powi(2);
            epochs.faulted(100, 100.0 * cost);
            epochs.faulted(0, f64::NAN);
            epochs.tick(EPOCH * epoch);
        }
        assert!(epochs.b() > 0.75, "{}", epochs.b());
        epochs.fix(Some(0.0));
        assert_eq!(epochs.b(), 0.0);
    }

    #[test]
    fn short_epochs_are_joined() {
        let mut epochs = Epochs::new(None, Duration::ZERO);
        epochs.faulted(FAULTS_MIN - 1, 1.0);
        assert!(epochs.tick(EPOCH));
        assert_eq!(epochs.faults, FAULTS_MIN - 1);
        epochs.faulted(1, 1.0);
        assert!(epochs.tick(EPOCH * 2));
        assert_eq!(epochs.faults, 0);
    }
}
