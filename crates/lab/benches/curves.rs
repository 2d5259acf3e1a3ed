//! Cost of miss-ratio curves: CPU seconds and memory of each method for 20 sizes in one pass, and
//! the error of sampled curves.
//!
//! `cargo bench -p shoal-lab --bench curves`; see docs/experiments/curves.md.

use rustix::time::{ClockId, clock_gettime};
use shoal_lab::curve::{Curve, MiniSimulation, Shards, sizes_between};
use shoal_lab::simulator::{Request, ZipfTrace};
use shoal_policy::ReplacementPolicy;
use std::hint::black_box;
use std::time::Duration;

fn main() {
    println!(
        "| way | requests | CPU s | of these the stream's | MB | mean error, points | largest | bound holds |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let mut bench = Bench::of(100_000_000);
    bench.shards("SHARDS, rate 0.001", Shards::fixed_rate(0.001, 1));
    bench.shards("SHARDS, 8192 objects", Shards::fixed_size(8192, 1));
    bench = Bench::of(10_000_000);
    bench.exact = Some(bench.shards("exact stack distances", Shards::exact()));
    for rate in [0.001, 0.01, 0.1] {
        bench.shards(&format!("SHARDS, rate {rate}"), Shards::fixed_rate(rate, 1));
    }
    for objects in [8192, 65_536] {
        bench.shards(&format!("SHARDS, {objects} objects"), Shards::fixed_size(objects, 1));
    }
    bench.simulated("lru");
    bench.exact = None;
    ["s3_fifo", "gdsf"].into_iter().for_each(|policy| bench.simulated(policy));
}

/// One stream with its exact curve.
struct Bench {
    requests: usize,
    sizes: Vec<u64>,
    stream_s: f64,
    exact: Option<Curve>,
}

impl Bench {
    fn of(requests: usize) -> Self {
        let sizes = sizes_between(40_000_000, 20_000_000_000, 20);
        let stream_s = seconds(|| {
            black_box(stream(requests).map(|request| request.object ^ request.bytes).fold(0, |a, b| a ^ b));
        });
        Self { requests, sizes, stream_s, exact: None }
    }

    fn shards(&self, name: &str, mut shards: Shards) -> Curve {
        let all = stream(self.requests);
        let taken = seconds(|| all.for_each(|request| shards.request(request.object, request.bytes)));
        let memory = shards.memory_bytes();
        let curve = shards.finish().curve(&self.sizes);
        self.row(name, taken, Some(memory), &curve);
        curve
    }

    fn simulated(&self, name: &str) {
        let policy = ReplacementPolicy::<u64>::named(name).expect("it is in the table");
        let mut simulation = MiniSimulation::new(policy.construct, &self.sizes, 0.01, 1);
        let all = stream(self.requests);
        let taken = seconds(|| all.for_each(|request| simulation.request(request.object, request.bytes)));
        self.row(&format!("simulated {name}, rate 0.01"), taken, None, &simulation.curve());
    }

    fn row(&self, name: &str, taken: f64, memory: Option<usize>, curve: &Curve) {
        let memory = memory.map_or("–".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        let off = self.exact.as_ref().map_or("– | – | –".into(), |exact| compared(curve, exact));
        let (millions, stream_s) = (self.requests / 1_000_000, self.stream_s);
        println!("| {name} | {millions}M | {taken:.1} | {stream_s:.1} | {memory} | {off} |");
    }
}

/// Returns a curve's distance from the exact one as a row's cells.
fn compared(curve: &Curve, exact: &Curve) -> String {
    let pairs = || curve.points.iter().zip(&exact.points);
    let off: Vec<f64> = pairs().map(|(a, b)| (a.hit_ratio - b.hit_ratio).abs() * 100.0).collect();
    let held = off.iter().zip(&curve.points).filter(|(off, point)| **off <= point.error * 100.0).count();
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    format!("{mean:.2} | {:.2} | {held} of {}", off.iter().fold(0.0, |a: f64, b| a.max(*b)), off.len())
}

/// Returns requests after Zipf 0.8 over five million objects. Each object has its own size of about
/// 8 KB.
fn stream(requests: usize) -> impl Iterator<Item = Request> {
    let sized = |request: Request| {
        let drawn = request.object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Request { bytes: 200 + ((drawn * drawn) >> 32) % 24_000, ..request }
    };
    ZipfTrace::new(5_000_000, 0.8, 1, 1).take(requests).map(sized)
}

fn seconds(run: impl FnOnce()) -> f64 {
    let before = cpu_time();
    run();
    (cpu_time() - before).as_secs_f64()
}

/// Returns the CPU time that the process has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
