//! Weighted round robin (WRR): requests go to the back-ends in turn, weighted by load.
//!
//! Pai et al. 1998, section 2.2: the policy of commercial front ends. Load is as even as possible.
//! Every back-end gets requests for every target, so that all caches hold much the same. Adding
//! back-ends adds no cache. Fits where the requested objects fit into one memory. O(back-ends) a
//! choice.

use super::{Backends, Distribution, Turn};

/// Policy WRR. See the file's head.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    weights: Vec<f64>,
    turn: Turn,
}

impl RoundRobin {
    /// Makes a policy for back-ends of these capacities, in proportion to each other. A back-end
    /// without a weight, or with one not above zero, counts as 1.
    pub fn weighted(weights: Vec<f64>) -> Self {
        Self { weights, turn: Turn::default() }
    }

    /// Returns the relative load of a back-end, this request included.
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
