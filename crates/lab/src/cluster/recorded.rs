//! Counts of every system on one trace of a fixed seed, as they were recorded: a faster simulation
//! must count the same.

use super::*;
use shoal_trace::Random;

#[test]
fn counts_are_those_recorded() {
    let found: Vec<String> = SYSTEMS.iter().map(|(name, make)| line(name, *make)).collect();
    let recorded: Vec<&str> = RECORDED.lines().map(str::trim).collect();
    assert_eq!(found, recorded, "found:\n{}", found.join("\n"));
}

/// Returns a system's counts without queues, and its answers, time and delay with queues.
fn line(name: &str, make: SchemeConstructor) -> String {
    let size = ClusterSize { nodes: vec![80, 200, 120, 160, 40, 300], server: 250, objects: OBJECTS as usize };
    let options = SchemeOptions { idle: 2, region: 4, b: 0.3, ..SchemeOptions::default() };
    let plan = RunPlan { warm_up: 6000, failure: Some((14_000, 3)) };
    let ClusterCounts { local, remote, server, disk, forwarded, disk_writes, lost, .. } =
        simulate_with(make(&size, &options).as_mut(), &size, accesses(), plan);
    let queued = serve(make(&size, &options).as_mut(), &size, &ServiceTimes::pai(6), accesses(), plan);
    let (us, delay) = ((queued.seconds * 1e6).round(), (queued.delay_ms * 1e3).round());
    let answered = queued.answered;
    format!("{name} {local} {remote} {server} {disk} {forwarded} {disk_writes} {lost} {answered} {us} {delay}")
}

/// Returns requests, one of nine a write. Only products of draws decide, which come out the same
/// everywhere.
fn accesses() -> impl Iterator<Item = Access> {
    let mut random = Random::new(23);
    (0..24_000).map(move |at| {
        let node = random.below(6).min(random.below(6)) as usize;
        let (draw, is_shared) = (random.unit(), random.below(2) == 0);
        let of = |count: u32| (draw * draw * draw * draw * f64::from(count)) as u32;
        let object = if is_shared { of(SHARED) } else { SHARED + node as u32 * OWN + of(OWN) };
        Access { node, object, is_write: at % 9 == 4 }
    })
}

const SHARED: u32 = 3000;
const OWN: u32 = 900;
const OBJECTS: u32 = SHARED + 6 * OWN;

/// For each system: requests served from the own memory, from another's, from the server's and from
/// disk, blocks forwarded, written and lost; with queues requests answered, microseconds in all and
/// on average.
const RECORDED: &str = "";
