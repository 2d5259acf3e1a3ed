//! Meters of this node: the utilization of its CPU, and the part that other nodes cause.

use super::CpuTime;
use parking_lot::Mutex;
use shoal_cooperation::global_memory::CostMeter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Load of this node.
pub(super) struct NodeLoad {
    cpu: CpuTime,
    cores: f64,
    last: Mutex<CpuSample>,
    /// Time spent for other nodes, in microseconds.
    served_us: AtomicU64,
    service: Mutex<CostMeter>,
    draws: AtomicU64,
}

/// Latest reading, and the utilizations that follow from it.
#[derive(Clone, Copy, Default)]
struct CpuSample {
    at: Duration,
    cpu_ms: u64,
    served_us: u64,
    /// Share of all cores that the process uses, and that it uses for other nodes.
    used: f64,
    for_others: f64,
}

impl NodeLoad {
    /// Makes the meters of a node that uses nothing yet.
    pub fn new(cpu: CpuTime, cores: usize) -> Self {
        Self {
            cpu,
            cores: cores.max(1) as f64,
            last: Mutex::default(),
            served_us: AtomicU64::new(0),
            service: Mutex::default(),
            draws: AtomicU64::new(0),
        }
    }

    /// Records the time spent on requests of other nodes.
    pub fn served(&self, time: Duration, requests: u32) {
        self.served_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.service.lock().took(time / requests.max(1));
    }

    /// Reads the CPU time. Called about once a second.
    pub fn read(&self, now: Duration) {
        let (cpu_ms, served_us) = ((self.cpu)().unwrap_or(0), self.served_us.load(Relaxed));
        let mut last = self.last.lock();
        let seconds = now.saturating_sub(last.at).as_secs_f64() * self.cores;
        if seconds <= 0.0 {
            return;
        }
        let share = |millis: f64| (millis / 1e3 / seconds).clamp(0.0, 1.0);
        let used = share(cpu_ms.saturating_sub(last.cpu_ms) as f64);
        let for_others = share(served_us.saturating_sub(last.served_us) as f64 / 1e3);
        debug_assert!((0.0..=1.0).contains(&used) && (0.0..=1.0).contains(&for_others));
        *last = CpuSample { at: now, cpu_ms, served_us, used, for_others };
    }

    /// Returns the share of all cores that the process uses.
    pub fn used(&self) -> f64 {
        self.last.lock().used
    }

    /// Returns the share of all cores that other nodes' requests use.
    pub fn for_others(&self) -> f64 {
        self.last.lock().for_others
    }

    /// Returns the mean time of a request of another node, in seconds.
    pub fn service_seconds(&self) -> Option<f64> {
        self.service.lock().seconds()
    }

    /// Returns the next number of a row.
    pub fn next_draw(&self) -> u64 {
        self.draws.fetch_add(1, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn utilization_is_measured_between_readings() {
        let cpu = Arc::new(AtomicU64::new(500));
        let reading = Arc::clone(&cpu);
        let load = NodeLoad::new(Box::new(move || Some(reading.load(Relaxed))), 2);
        load.read(Duration::from_secs(1));
        cpu.store(2500, Relaxed);
        load.served(Duration::from_millis(400), 4);
        load.read(Duration::from_secs(3));
        assert!((load.used() - 0.5).abs() < 1e-9, "two of four seconds of two cores");
        assert!((load.for_others() - 0.1).abs() < 1e-9);
        assert_eq!(load.service_seconds(), Some(0.1));
        load.read(Duration::from_secs(3));
        assert!((load.used() - 0.5).abs() < 1e-9, "no time has passed");
    }
}
