//! The equation in one unknown that both approximations solve.
//!
//! Let a getpage find a fixed multiple of the queue with all N nodes. Its time at a server is then
//! a function of the throughput alone: R = a·d / (1 − s·X·d). The rest of the model is the response
//! time law X·(Z + ΣR(X)) = N. Its left side grows with X and is convex. The literature's iteration
//! over all queues becomes Newton's method in one dimension, kept in a bracket: O(servers) a step.

use super::Flow;

/// The equation X·(Z + Σ a·d / (1 − s·X·d)) = N.
pub(super) struct Equation<'a> {
    /// N, at least 1.
    pub nodes: f64,
    /// Z, in seconds.
    pub think: f64,
    /// d of each server, in seconds.
    pub demands: &'a [f64],
    /// a of each server; one for all where the slice is empty.
    pub factors: &'a [f64],
    /// s: share of the queue that a getpage finds, with the putpages' part.
    pub found: f64,
}

impl Equation<'_> {
    pub(super) fn solve(&self) -> Flow {
        let mut operations = 0;
        let mut value = |throughput: f64| {
            operations += self.demands.len() as u64;
            self.value(throughput)
        };
        let (mut low, mut high) = (0.0, self.most());
        let mut throughput = high / 2.0;
        for _ in 0..MOST_STEPS {
            let (excess, slope) = value(throughput);
            if excess > 0.0 {
                high = throughput
            } else {
                low = throughput
            }
            let newton = throughput - excess / slope;
            let next = if newton > low && newton < high { newton } else { (low + high) / 2.0 };
            let moved = (next - throughput).abs();
            throughput = next;
            if moved <= PRECISION * throughput {
                break;
            }
        }
        let mut responses: Vec<f64> =
            (0..self.demands.len()).map(|index| self.response(index, throughput)).collect();
        self.keep_response_time_law(throughput, &mut responses);
        Flow { throughput, responses, operations }
    }

    /// Gives the busiest servers the getpages that are missing from N = X·(Z + ΣR). Near a server's
    /// limit X has too few digits to compute that server's R from it.
    fn keep_response_time_law(&self, throughput: f64, responses: &mut [f64]) {
        let cycle = self.nodes / throughput;
        let missing = cycle - self.think - responses.iter().sum::<f64>();
        if missing.abs() <= LAW_TOLERANCE * cycle {
            return;
        }
        let longest = self.demands.iter().copied().fold(0.0, f64::max);
        let is_busiest = |index: &usize| self.demands[*index] >= longest * (1.0 - LAW_TOLERANCE);
        let busiest: Vec<usize> = (0..self.demands.len()).filter(is_busiest).collect();
        assert!(!busiest.is_empty(), "one demand is the longest");
        for index in &busiest {
            responses[*index] += missing / busiest.len() as f64;
        }
    }

    /// Returns an upper bound of the throughput: no queue is shorter than none, and no server works
    /// more than always.
    fn most(&self) -> f64 {
        let empty = self.think + (0..self.demands.len()).map(|index| self.response(index, 0.0)).sum::<f64>();
        let longest = self.demands.iter().copied().fold(0.0, f64::max);
        (self.nodes / empty).min(1.0 / (self.found * longest))
    }

    /// Returns the left side less the right one, and its slope.
    fn value(&self, throughput: f64) -> (f64, f64) {
        let (mut cycle, mut slope) = (self.think, 0.0);
        for (index, demand) in self.demands.iter().enumerate() {
            let response = self.response(index, throughput);
            cycle += response;
            slope += response * self.found * demand / (1.0 - self.found * throughput * demand);
        }
        (throughput * cycle - self.nodes, cycle + throughput * slope)
    }

    fn response(&self, index: usize, throughput: f64) -> f64 {
        let factor = self.factors.get(index).copied().unwrap_or(1.0);
        factor * self.demands[index] / (1.0 - self.found * throughput * self.demands[index])
    }
}

/// Largest number of steps: halving alone reaches the last bit in that number.
const MOST_STEPS: u32 = 100;
/// Relative change of the throughput below which a step is the last.
const PRECISION: f64 = 1e-14;
/// Share of the cycle by which responses computed from the throughput may miss the response time
/// law.
const LAW_TOLERANCE: f64 = 1e-9;
