//! Known answers for few requests, and invariants of every run.

use super::*;
use crate::cluster::{FrontEnd, Greedy, SYSTEMS, SchemeOptions};
use shoal_trace::Random;

fn size(nodes: usize, frames: usize) -> ClusterSize {
    ClusterSize { nodes: vec![frames; nodes], server: frames, objects: 200 }
}

fn with(nodes: usize, outstanding: usize) -> ServiceTimes {
    ServiceTimes { outstanding, ..ServiceTimes::pai(nodes) }
}

const HIT_US: u64 = 290 + 640;
const MISS_US: u64 = 290 + 28_820 + 640;

fn run(nodes: usize, outstanding: usize, requests: &[(usize, u32)], warm_up: u64) -> ThroughputResult {
    let plan = RunPlan { warm_up, failure: None };
    serve(&mut FrontEnd::wrr(), &size(nodes, 100), &with(nodes, outstanding), requests.iter().copied(), plan)
}

#[test]
fn serial_requests_take_the_sum_of_their_parts() {
    let found = run(1, 1, &[(0, 1), (0, 1), (0, 2), (0, 1)], 0);
    assert_eq!(found.answered, 4);
    assert_eq!((found.seconds * 1e6).round() as u64, 2 * HIT_US + 2 * MISS_US);
    assert!((found.delay_ms * 4e3 - (2 * HIT_US + 2 * MISS_US) as f64).abs() < 1e-6);
    let warm = run(1, 1, &[(0, 1), (0, 1), (0, 1)], 1);
    assert!((warm.throughput() - 1e6 / HIT_US as f64).abs() < 1e-6, "{}", warm.throughput());
    assert!((warm.nodes[0].processor - 1.0).abs() < 1e-9 && warm.nodes[0].disk == 0.0);
}

#[test]
fn requests_wait_for_processor_and_shared_reads() {
    let hits: Vec<(usize, u32)> = vec![(0, 1); 41];
    let found = run(1, 4, &hits, 20);
    assert!(
        (found.delay_ms * 1e3 / (4 * HIT_US) as f64 - 1.0).abs() < 1e-9,
        "four wait in line: {}",
        found.delay_ms
    );
    // two requests for one object that is on disk: one read; the second is answered right after the
    // first
    let found = run(1, 3, &[(0, 1), (0, 1)], 0);
    assert_eq!((found.counts.disk, found.counts.local), (1, 1));
    assert_eq!((found.seconds * 1e6).round() as u64, 290 + 28_820 + 640 + 640);
    // two objects: two reads, one after the other
    let found = run(1, 3, &[(0, 1), (0, 2)], 0);
    assert_eq!((found.seconds * 1e6).round() as u64, 290 + 2 * 28_820 + 640);
}

#[test]
fn a_remote_hit_takes_both_processors_and_the_way() {
    // the first request brings the object to node 0; node 1 gets it through the server
    let requests = [(0, 7), (1, 7)];
    let size = ClusterSize { server: 0, ..size(2, 100) };
    let plan = RunPlan { warm_up: 1, failure: None };
    let found = serve(&mut Greedy, &size, &with(2, 1), requests, plan);
    assert_eq!(found.counts.remote, 1);
    assert_eq!((found.seconds * 1e6).round() as u64, 290 + 2 * 200 + 40 + 640 + 200 + 640);
}

#[test]
fn every_system_answers_within_station_capacity() {
    let mut random = Random::new(3);
    let requests: Vec<(usize, u32)> =
        (0..4000).map(|_| (random.below(4) as usize, (200.0 * random.unit().powi(2)) as u32)).collect();
    for (name, make) in SYSTEMS {
        for failure in [None, Some((2000, 3))] {
            let size = size(4, 20);
            let options = SchemeOptions { idle: 2, region: 2, ..SchemeOptions::default() };
            let run = |outstanding| {
                let mut system = make(&size, &options);
                let plan = RunPlan { warm_up: 1000, failure };
                serve(system.as_mut(), &size, &with(4, outstanding), requests.iter().copied(), plan)
            };
            let (one, many) = (run(1), run(50));
            assert!(one.throughput() > 0.0 && one.throughput() <= many.throughput() * 1.05, "{name}");
            let counts = many.counts;
            assert_eq!(counts.local + counts.remote + counts.server + counts.disk, counts.requests, "{name}");
            assert!(many.answered <= counts.requests + 50 && many.answered + 50 >= counts.requests, "{name}");
            for busy in many.nodes.iter().chain([&many.server]) {
                for share in [busy.processor, busy.disk, busy.underused] {
                    assert!((0.0..=1.0).contains(&share), "{name}: {busy:?}");
                }
            }
            assert!(many.imbalance() >= 1.0 && many.delay_ms >= one.delay_ms * 0.95, "{name}");
            assert_eq!(run(50), many, "{name}: the seed decides");
        }
    }
}

#[test]
fn empty_run_gives_default_results() {
    let none: [(usize, u32); 0] = [];
    for found in [run(2, 5, &none, 0), run(2, 5, &[(0, 1)], 9)] {
        assert_eq!(found, ThroughputResult::default());
        assert_eq!((found.throughput(), found.imbalance(), found.underused()), (0.0, 1.0, 0.0));
    }
    let found = run(2, 0, &[(0, 1), (9, 1), (0, 9999)], 0);
    assert_eq!(found.answered, 2, "a front end answers for clients, objects must exist");
}
