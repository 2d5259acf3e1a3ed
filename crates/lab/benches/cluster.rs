//! Speed of the systems of cooperative caching and request distribution, and their results on one
//! generated trace, as a table.
//!
//! `cargo bench -p shoal-lab --bench cluster`; docs/experiments/speed.md keeps the figures. Sixteen
//! nodes of 2,000 frames, a server of 4,000, four million requests made beforehand, CPU time on one
//! core. `-- gms lard 600000` takes these systems alone, with this number of requests. `untimed`
//! reads no clock: valgrind, which counts instructions, has none that it could read.

use rustix::time::{ClockId, clock_gettime};
use shoal_lab::cluster::{ClusterSize, RunPlan, SYSTEMS, SchemeOptions, ServiceTimes, serve, simulate};
use shoal_lab::simulator::ZipfTrace;
use std::time::Duration;

fn main() {
    let told: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let count = told.iter().find_map(|word| word.parse().ok()).unwrap_or(REQUESTS);
    let is_name = |word: &&String| word.parse::<usize>().is_err() && *word != UNTIMED;
    let names: Vec<&String> = told.iter().filter(is_name).collect();
    let cpu_time = || if told.iter().any(|word| word == UNTIMED) { Duration::ZERO } else { cpu_time() };
    let size = ClusterSize { nodes: vec![2000; 16], server: 4000, objects: OBJECTS };
    let requests: Vec<(usize, u32)> = requests().take(count).collect();
    let (options, warm_up) = (SchemeOptions { idle: 4, ..SchemeOptions::default() }, count as u64 / 4);
    println!(
        "| system | mean ms | from disk | server load | million a CPU second | queued: a second | million a CPU second |\n|---|--:|--:|--:|--:|--:|--:|"
    );
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    for (_, make) in SYSTEMS.iter().filter(|(name, _)| is_wanted(name)) {
        let began = cpu_time();
        let mut system = make(&size, &options);
        let found = simulate(system.as_mut(), &size, requests.iter().copied(), warm_up);
        let middle = cpu_time();
        let mut system = make(&size, &options);
        let plan = RunPlan { warm_up, failure: None };
        let queued = serve(system.as_mut(), &size, &ServiceTimes::pai(16), requests.iter().copied(), plan);
        let millions = |time: Duration| count as f64 / time.as_secs_f64() / 1e6;
        println!(
            "| {} | {:.2} | {:.1}% | {:.2} | {:.1} | {:.0} | {:.1} |",
            system.name(),
            found.mean_ms(),
            found.disk as f64 / found.requests.max(1) as f64 * 100.0,
            found.load_per_request(),
            millions(middle - began),
            queued.throughput(),
            millions(cpu_time() - middle),
        );
    }
}

/// Returns requests: half for objects that all nodes share, half for objects of one node. Both
/// halves follow Zipf with exponent 0.8.
fn requests() -> impl Iterator<Item = (usize, u32)> {
    let mut common = ZipfTrace::new(COMMON, 0.8, 1, 1);
    let mut own = ZipfTrace::new(OWN, 0.8, 1, 2);
    let mut nodes = ZipfTrace::new(32, 0.0, 1, 3);
    let draw = move || {
        let drawn = nodes.next()?.object;
        let node = (drawn / 2) as u32;
        let object = match drawn % 2 {
            0 => common.next()?.object as u32,
            _ => COMMON + node * OWN + own.next()?.object as u32,
        };
        Some((node as usize, object))
    };
    std::iter::from_fn(draw)
}

/// Returns the CPU time that the process has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const UNTIMED: &str = "untimed";
const REQUESTS: usize = 4_000_000;
const COMMON: u32 = 50_000;
const OWN: u32 = 5_000;
const OBJECTS: usize = (COMMON + 16 * OWN) as usize;
