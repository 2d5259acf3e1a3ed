//! Linearizer: Schweitzer's approximation, corrected by the change of each queue's share with one
//! node less.
//!
//! Chandy and Neuse, *Linearizer: a heuristic algorithm for queueing network models of computing
//! systems*, CACM 1982. Let F(n) = Q(n)/n and δ = F(N−1) − F(N), which is taken to be the same for
//! N − 1. A getpage among n then finds (n−1)·(F(n) + δ). Each of its parts is again the equation of
//! [`super::root`]: R = (1 + (n−1)·δ)·d / (1 − s·X·d). Putpages come at f·X(N) with one node less
//! too, since mean value analysis removes a node from an otherwise unchanged network. Seven
//! equations, some ten steps each, O(servers) a step.

use super::root::Equation;
use super::schweitzer::slowed;
use super::{Flow, Problem, Putpages};

pub(super) fn solve(problem: &Problem, putpages: Putpages) -> Flow {
    let nodes = f64::from(problem.nodes);
    let mut change = vec![0.0; problem.demands.len()];
    let mut flow = with_all(problem, putpages, &change);
    let mut operations = flow.operations;
    if problem.nodes > 1 {
        for _ in 0..CORRECTIONS {
            let fewer = with_one_less(problem, putpages.rate(flow.throughput), &change);
            for (index, change) in change.iter_mut().enumerate() {
                let share_of_fewer = fewer.throughput * fewer.responses[index] / (nodes - 1.0);
                *change = share_of_fewer - flow.throughput * flow.responses[index] / nodes;
            }
            flow = with_all(problem, putpages, &change);
            operations += fewer.operations + flow.operations;
        }
    }
    Flow { operations, ..flow }
}

fn with_all(problem: &Problem, putpages: Putpages, change: &[f64]) -> Flow {
    let nodes = f64::from(problem.nodes);
    let slowed_demands;
    let (demands, of_putpages) = match putpages {
        Putpages::PerGetpage(f) => (problem.demands, f),
        Putpages::Rate(rate) => {
            slowed_demands = slowed(problem.demands, rate);
            (slowed_demands.as_slice(), 0.0)
        }
    };
    let factors = factors(nodes, change);
    let found = of_putpages + (nodes - 1.0) / nodes;
    Equation { nodes, think: problem.think, demands, factors: &factors, found }.solve()
}

fn with_one_less(problem: &Problem, rate: f64, change: &[f64]) -> Flow {
    let nodes = f64::from(problem.nodes) - 1.0;
    let demands = slowed(problem.demands, rate);
    let found = (nodes - 1.0) / nodes;
    Equation { nodes, think: problem.think, demands: &demands, factors: &factors(nodes, change), found }
        .solve()
}

/// Returns 1 + (n−1)·δ, which is above zero except for rounding: a share falls by no more than (1 −
/// F)/(n − 1).
fn factors(nodes: f64, change: &[f64]) -> Vec<f64> {
    change.iter().map(|change| (1.0 + (nodes - 1.0) * change).max(0.0)).collect()
}

/// Number of corrections: the authors found two enough, and a third costs little.
const CORRECTIONS: u32 = 3;
