//! Weighted round robin (WRR): requests in turn to the back-ends, weighted by how much each has to
//! do.
//!
//! Pai et al. 1998, section 2.2: what commercial front ends do. Load is as even as can be, and
//! every back-end is asked for everything, so that each cache holds much the same: adding back-ends
//! adds no cache. Fits where what is asked for fits into one memory. O(back-ends) a choice.

use super::{Backends, Distribution, Turn};

/// See the file's head.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    weights: Vec<f64>,
    turn: Turn,
}

impl RoundRobin {
    /// Back-ends that can do so much, in proportion to each other. One without a weight, or whose
    /// weight is not above zero, counts as 1.
    pub fn weighted(weights: Vec<f64>) -> Self {
        Self { weights, turn: Turn::default() }
    }

    /// How much a back-end has to do, once it has this request too.
    fn busy(&self, backend: usize, load: u32) -> f64 {
        let weight = self.weights.get(backend).copied().filter(|weight| *weight > 0.0).unwrap_or(1.0);
        (f64::from(load) + 1.0) / weight
    }
}

impl Distribution for RoundRobin {
    fn choose(&mut self, _target: u64, backends: &dyn Backends) -> Option<usize> {
        if self.weights.is_empty() {
            return self.turn.least_loaded(backends.loads());
        }
        let mut turn = std::mem::take(&mut self.turn);
        let chosen = turn.least_by(backends.loads(), |backend, load| self.busy(backend, load));
        self.turn = turn;
        chosen
    }
}
