//! Speed of the models of Voelker 2000, as a table.
//!
//! `cargo bench -p shoal-lab --bench models`: CPU time on one core, the best of several rounds,
//! beside how far the answer is from one that is computed at greater cost.
//! docs/experiments/speed.md keeps the figures.

use rustix::time::{ClockId, clock_gettime};
use shoal_lab::model::gms::{Method, Network, ServerDemand};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::{Form, Model, Web};
use std::hint::black_box;
use std::time::Duration;

fn main() {
    println!("| question | time | bar | off by |\n|---|--:|--:|--:|");
    for rates in Rates::ALL {
        for population in [500.0, 5e5, 5e8] {
            wide_area(rates, population);
        }
    }
    for method in [Method::Schweitzer, Method::Linearizer] {
        for nodes in [10, 100, 1000] {
            global_memory(method, nodes, 100);
        }
    }
}

/// Prints C_N for 3.2 billion documents, beside the sum of `document_by_document`.
fn wide_area(rates: Rates, population: f64) {
    let web = Web::table_5_1(rates);
    let exact = document_by_document(&web, population);
    let ask = || {
        let model = Model::new(web.clone(), Form::Sum).expect("Table 5.1 has a model");
        model.cacheable_hit_rate(population).expect("a population").total()
    };
    let (seconds, found) = best_of(ask);
    let off = (found - exact).abs() / exact;
    println!(
        "| C_N, n = 3.2 billion, {}, N = {population:e} | {:.3} ms | 5 ms | {off:.0e} |",
        rates.name,
        seconds * 1e3
    );
}

/// Solves a network of `servers` servers with a load that keeps the busiest at work, beside the
/// exact solution.
fn global_memory(method: Method, nodes: u32, servers: u32) {
    let network = Network::skewed(ServerDemand::OO7, nodes, servers, 0.05);
    let exact = network.solve(Method::Exact).expect("a network").response_seconds;
    let (seconds, found) = best_of(|| network.solve(method).expect("a network").response_seconds);
    let off = (found - exact).abs() / exact;
    println!(
        "| {}, {servers} centres, {nodes} global nodes | {:.3} ms | 1 ms | {off:.0e} |",
        method.name(),
        seconds * 1e3
    );
}

/// Returns the least CPU time of several rounds, each long enough for the clock, and the answer.
fn best_of(ask: impl Fn() -> f64) -> (f64, f64) {
    let round = || {
        let began = cpu_time();
        let mut asked = 0;
        loop {
            black_box(ask());
            asked += 1;
            let took = (cpu_time() - began).as_secs_f64();
            if took > LEAST_SECONDS {
                return took / f64::from(asked);
            }
        }
    };
    let seconds = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    (seconds, ask())
}

/// Returns Σ p_i · λN p_i / (λN p_i + μ_i), independently of the model's way of summing. Ranks up
/// to ten million are summed document by document. Beyond them, each block of 1/100,000 of the rank
/// counts by its midpoint, with an error of the order of its width squared.
fn document_by_document(web: &Web, population: f64) -> f64 {
    let weight = |rank: f64| rank.powf(-web.alpha);
    let per_day = web.requests_per_day * population;
    let blocks = Blocks { next: 1, last: web.documents };
    let total: f64 = blocks.map(|(middle, count)| count * weight(middle)).sum();
    let blocks =
        Blocks { next: 1, last: web.popular }.chain(Blocks { next: web.popular + 1, last: web.documents });
    let hit = |(middle, count): (f64, f64)| {
        let is_popular = middle <= web.popular as f64;
        let days = if is_popular { web.popular_change.mean_days } else { web.unpopular_change.mean_days };
        let share = weight(middle) / total;
        let asked = per_day * share;
        count * share * asked / (asked + 1.0 / days)
    };
    blocks.map(hit).sum()
}

/// Ranks in blocks: the middle of each, and how many ranks it holds.
struct Blocks {
    next: u64,
    last: u64,
}

impl Iterator for Blocks {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        if self.next > self.last {
            return None;
        }
        let width = if self.next <= EACH { 1 } else { self.next / EACH_PART };
        let end = (self.next + width).min(self.last + 1);
        let (middle, count) = ((self.next + end - 1) as f64 / 2.0, (end - self.next) as f64);
        self.next = end;
        Some((middle, count))
    }
}

/// Returns the CPU time that the process has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const ROUNDS: usize = 5;
const LEAST_SECONDS: f64 = 0.05;
/// Ranks up to which each document is summed by itself.
const EACH: u64 = 10_000_000;
const EACH_PART: u64 = 100_000;
