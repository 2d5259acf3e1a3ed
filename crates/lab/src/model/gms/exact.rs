//! Exact mean value analysis: a getpage finds the mean queue of the network without its own node.
//!
//! Reiser and Lavenberg, *Mean-value analysis of closed multichain queueing networks*, JACM 1980.
//! For a fixed rate of putpages the recursion over 1, 2, … N nodes costs O(N·K). The rate that
//! equals f·X lies between zero and the busiest server's limit, and X falls when the rate grows. A
//! few secants within that bracket find the rate (Dowell and Jarratt, *A modified regula falsi
//! method*, BIT 1971).
//!
//! The analysis is exact for the model, in which putpages come at random and service times vary
//! exponentially.

use super::schweitzer::slowed;
use super::{Flow, NetworkError, Problem, Putpages};

pub(super) fn solve(problem: &Problem, putpages: Putpages) -> Result<Flow, NetworkError> {
    let size = u64::from(problem.nodes) * problem.demands.len() as u64;
    if size > MOST {
        return Err(NetworkError::TooLarge { found: size, most: MOST });
    }
    let f = match putpages {
        Putpages::Rate(rate) => return Ok(recursion(problem, rate)),
        Putpages::PerGetpage(0.0) => return Ok(recursion(problem, 0.0)),
        Putpages::PerGetpage(f) => f,
    };
    Ok(balanced(problem, f))
}

/// Returns the flow at which putpages are f times the getpages that they leave room for.
fn balanced(problem: &Problem, f: f64) -> Flow {
    // Each end has its rate, and the number of putpages missing at that rate. At the high end no
    // getpage need be left.
    let most = most_putpages(problem, f);
    let mut flow = recursion(problem, 0.0);
    let mut operations = flow.operations;
    let (mut low, mut high) = ((0.0, f * flow.throughput), (most, -most));
    let mut raised_last = None;
    for _ in 0..MOST_STEPS {
        let rate = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        flow = recursion(problem, rate);
        operations += flow.operations;
        let too_few = f * flow.throughput - rate;
        if too_few.abs() <= PRECISION * rate {
            break;
        }
        let raises = too_few > 0.0;
        let (moved, other) = if raises { (&mut low, &mut high) } else { (&mut high, &mut low) };
        *moved = (rate, too_few);
        // An end that stays counts for half, so that the other end does not creep.
        if raised_last == Some(raises) {
            other.1 /= 2.0;
        }
        raised_last = Some(raises);
    }
    Flow { operations, ..flow }
}

/// Returns the largest rate of putpages: the busiest server's limit, or that of getpages that never
/// wait.
fn most_putpages(problem: &Problem, f: f64) -> f64 {
    let longest = problem.demands.iter().copied().fold(0.0, f64::max);
    let cycle = problem.think + problem.demands.iter().sum::<f64>();
    (f * f64::from(problem.nodes) / cycle).min(1.0 / longest)
}

fn recursion(problem: &Problem, rate: f64) -> Flow {
    let demands = slowed(problem.demands, rate);
    let mut queues = vec![0.0; demands.len()];
    let mut responses = demands.clone();
    let mut throughput = 0.0;
    for nodes in 1..=problem.nodes {
        let mut cycle = problem.think;
        for ((response, demand), queue) in responses.iter_mut().zip(&demands).zip(&queues) {
            *response = demand * (1.0 + queue);
            cycle += *response;
        }
        throughput = f64::from(nodes) / cycle;
        for (queue, response) in queues.iter_mut().zip(&responses) {
            *queue = throughput * response;
        }
    }
    Flow { throughput, responses, operations: u64::from(problem.nodes) * demands.len() as u64 }
}

/// Largest product of global nodes and servers: some seconds of work.
const MOST: u64 = 10_000_000;
/// Largest number of steps; seldom more than ten are taken.
const MOST_STEPS: u32 = 100;
/// Relative precision of the rate.
const PRECISION: f64 = 1e-12;
