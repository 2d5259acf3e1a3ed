//! Schweitzer's approximation: a getpage finds (N − 1)/N of the queue with all N nodes.
//!
//! Schweitzer, *Approximate analysis of multiclass closed networks of queues*, International
//! Conference on Stochastic Control and Optimization, 1979. The open class is at λ = f·X:
//!
//! ```text
//! R = d·(1 + (N−1)/N·X·R) / (1 − f·X·d), which is R = d / (1 − (f + (N−1)/N)·X·d)
//! ```
//!
//! This is the equation of [`super::root`]. O(servers) a step, some ten steps.
//!
//! The approximation overrates waiting most where a server is nearly always busy: by a tenth of the
//! response time in Figure 3.3's worst case.

use super::root::Equation;
use super::{Flow, Problem, Putpages};

pub(super) fn solve(problem: &Problem, putpages: Putpages) -> Flow {
    let nodes = f64::from(problem.nodes);
    let of_queue = (nodes - 1.0) / nodes;
    match putpages {
        Putpages::PerGetpage(f) => Equation {
            nodes,
            think: problem.think,
            demands: problem.demands,
            factors: &[],
            found: f + of_queue,
        }
        .solve(),
        Putpages::Rate(rate) => {
            let demands = slowed(problem.demands, rate);
            Equation { nodes, think: problem.think, demands: &demands, factors: &[], found: of_queue }.solve()
        }
    }
}

/// Returns the demands at servers after `rate` putpages a second have used up a part of them.
pub(super) fn slowed(demands: &[f64], rate: f64) -> Vec<f64> {
    demands.iter().map(|demand| demand / (1.0 - rate * demand)).collect()
}
