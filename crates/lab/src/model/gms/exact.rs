//! Exact mean value analysis: a getpage finds the queue that there is when its own node does not
//! ask.
//!
//! Reiser and Lavenberg, *Mean-value analysis of closed multichain queueing networks*, JACM 1980.
//! For a fixed rate of putpages the recursion over 1, 2, … N nodes costs O(N·K). The rate that
//! equals f·X is between none and what the busiest server could take, and X falls when it grows, so
//! a few secants within that bracket find it (Dowell and Jarratt, *A modified regula falsi method*,
//! BIT 1971).
//!
//! It is exact for the model, in which putpages come at random and service times vary
//! exponentially.

use super::schweitzer::slowed;
use super::{Error, Flow, Problem, Putpages};

pub(super) fn solve(problem: &Problem, putpages: Putpages) -> Result<Flow, Error> {
    let size = u64::from(problem.nodes) * problem.demands.len() as u64;
    if size > MOST {
        return Err(Error::TooLarge { found: size, most: MOST });
    }
    let f = match putpages {
        Putpages::Rate(rate) => return Ok(recursion(problem, rate)),
        Putpages::PerGetpage(0.0) => return Ok(recursion(problem, 0.0)),
        Putpages::PerGetpage(f) => f,
    };
    Ok(balanced(problem, f))
}

/// Where putpages are f times the getpages that they leave room for.
fn balanced(problem: &Problem, f: f64) -> Flow {
    // at each end: the rate, and by how much too few putpages that is. At the high end no getpage
    // need be left
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
        // an end that stays counts for half, lest the other creep
        if raised_last == Some(raises) {
            other.1 /= 2.0;
        }
        raised_last = Some(raises);
    }
    Flow { operations, ..flow }
}

/// No more putpages than the busiest server can take, and none but for getpages that never wait.
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

/// Most global nodes times servers: some seconds of work.
const MOST: u64 = 10_000_000;
/// Seldom more than ten are taken.
const MOST_STEPS: u32 = 100;
/// A rate that is known to such a part of itself is known well enough.
const PRECISION: f64 = 1e-12;
