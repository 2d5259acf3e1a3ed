//! Speed of the policies: million requests a second of CPU, beside libCacheSim's.
//!
//! The setting is that of libCacheSim's figures: 20 million requests, Zipf 0.8 over a million
//! objects of one size, room for 100,000, the trace in memory. The clock is an argument: the CPU
//! time of the process.

use super::{Capacity, Counts, Request, Simulator, ZipfTrace};
use shoal_policy::{Fifo, Gdsf, LfuDa, Lru, Replacement, Ring, S3Fifo, SecondChance, Sieve, Slru, WTinyLfu};
use std::fmt::Write;
use std::time::Duration;

/// Setting of a run.
#[derive(Clone, Copy, Debug)]
pub struct SpeedSetup {
    /// Requests in the trace.
    pub requests: usize,
    /// Distinct objects.
    pub objects: u32,
    /// Zipf's exponent.
    pub alpha: f64,
    /// Capacity in objects.
    pub room: u64,
    /// Seed of the trace.
    pub seed: u64,
    /// Runs of each policy; the best counts.
    pub rounds: u32,
}

impl SpeedSetup {
    /// The setting of libCacheSim's figures.
    pub const REFERENCE: Self =
        Self { requests: 20_000_000, objects: 1_000_000, alpha: 0.8, room: 100_000, seed: 1, rounds: 5 };

    /// Returns the trace.
    pub fn trace(&self) -> Vec<Request> {
        ZipfTrace::new(self.objects, self.alpha, 1, self.seed).take(self.requests).collect()
    }
}

/// One policy's result.
#[derive(Clone, Debug)]
pub struct SpeedRow {
    /// The policy's name.
    pub policy: &'static str,
    /// libCacheSim's speed (2024) in this setting on this kind of machine, in million requests a
    /// second of CPU.
    pub reference: f64,
    /// The shortest CPU time of all rounds.
    pub cpu: Duration,
    /// Counts of the run.
    pub counts: Counts,
    /// Bytes of memory for each object in the cache, everything counted.
    pub bytes_per_object: f64,
}

impl SpeedRow {
    /// Returns million requests a second of CPU.
    pub fn speed(&self) -> f64 {
        self.counts.requests as f64 / self.cpu.as_secs_f64().max(1e-9) / 1e6
    }
}

/// Runs every policy over one trace, in turns, so that a disturbance meets all of them. `cpu_time`
/// reads the CPU time that the process has taken.
pub fn measure(setting: &SpeedSetup, cpu_time: &dyn Fn() -> Duration) -> Vec<SpeedRow> {
    let trace = setting.trace();
    let mut best: Vec<SpeedRow> = Vec::new();
    for _ in 0..setting.rounds.max(1) {
        let rows = round(&trace, setting.room, cpu_time);
        if best.is_empty() {
            best = rows;
            continue;
        }
        for (best, row) in best.iter_mut().zip(rows) {
            best.cpu = best.cpu.min(row.cpu);
        }
    }
    best
}

/// Returns the rows as a Markdown table.
pub fn table(rows: &[SpeedRow]) -> String {
    let mut text = String::from(
        "| policy | libCacheSim, million requests a CPU-second | ours | times | miss ratio | bytes an object |\n\
         |---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (speed, times) = (row.speed(), row.speed() / row.reference);
        let (miss_ratio, bytes) = (row.counts.miss_ratio(), row.bytes_per_object);
        let _ = writeln!(
            text,
            "| `{}` | {:.1} | {speed:.1} | {times:.1} | {miss_ratio:.4} | {bytes:.1} |",
            row.policy, row.reference
        );
    }
    text
}

fn round(trace: &[Request], room: u64, cpu_time: &dyn Fn() -> Duration) -> Vec<SpeedRow> {
    vec![
        one(Fifo::new(), 7.0, trace, room, cpu_time),
        one(Ring::<SecondChance, u64>::new(), 6.7, trace, room, cpu_time),
        one(Sieve::new(), 8.9, trace, room, cpu_time),
        one(Lru::new(), 6.5, trace, room, cpu_time),
        one(Slru::<u64>::new(), 5.9, trace, room, cpu_time),
        one(LfuDa::new(), 3.0, trace, room, cpu_time),
        one(S3Fifo::new(), 2.5, trace, room, cpu_time),
        one(WTinyLfu::new(), 2.4, trace, room, cpu_time),
        one(Gdsf::new(), 1.3, trace, room, cpu_time),
    ]
}

fn one<P: Replacement<u64>>(
    policy: P,
    reference: f64,
    trace: &[Request],
    room: u64,
    cpu_time: &dyn Fn() -> Duration,
) -> SpeedRow {
    let name = policy.name();
    let mut simulator = Simulator::new(policy, Capacity::Objects(room));
    let before = cpu_time();
    let counts = simulator.run(trace.iter().copied());
    let cpu = cpu_time().saturating_sub(before);
    let bytes_per_object = simulator.memory_bytes() as f64 / simulator.objects().max(1) as f64;
    SpeedRow { policy: name, reference, cpu, counts, bytes_per_object }
}
