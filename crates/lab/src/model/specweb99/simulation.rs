//! The file cache itself, by any policy, before a server with one queue.
//!
//! Operations arrive as a Poisson stream of the target rate λ at one server that executes λ·L_0
//! instructions a second. The server could just keep up if every file were cached. An operation
//! takes L_0 instructions, ζ_F for a miss and ζ_D for each transfer. The queue grows without end
//! when that is too much, and the throughput is the number of operations finished in the time.
//!
//! The paper says no more of its simulation than "an LRU file-cache and a server represented by a
//! single server queuing station". Its disk columns agree to 6%; its throughput to 1.3%.
//!
//! O(1) a request for most policies. Same seed, same result.

use super::{FileCacheResult, PathLength, Population, transfers};
use crate::simulator::{Alias, Capacity, Request, Simulator};
use shoal_policy::Replacement;
use shoal_trace::Random;

/// Setting of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileCacheSetup {
    /// Room in the cache, in bytes.
    pub cache_bytes: u64,
    /// Requests that fill the cache and are not counted.
    pub warm_up: u64,
    /// Requests that are counted.
    pub requests: u64,
    /// λ: operations a second that arrive.
    pub arrivals: f64,
    /// Cost of an operation.
    pub path: PathLength,
    /// The seed of files and arrivals.
    pub seed: u64,
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerResult {
    /// The cache and the disk.
    pub outcome: FileCacheResult,
    /// Operations finished a second.
    pub throughput: f64,
    /// Mean time from arrival to the end, in seconds. Where the server cannot keep up, the value
    /// only shows growth.
    pub response_seconds: f64,
}

/// Runs the simulation with this policy.
pub fn simulate(
    population: &Population,
    policy: Box<dyn Replacement<u64>>,
    setting: &FileCacheSetup,
) -> ServerResult {
    let items = population.items();
    let files = Alias::new(items.iter().map(|item| item.probability).collect());
    let mut random = Random::new(setting.seed);
    let mut cache = Simulator::new(policy, Capacity::Bytes(setting.cache_bytes));
    let mut server = ServerQueue::new(setting);
    let mut counted = AccessSums::default();
    for turn in 0..setting.warm_up + setting.requests {
        let file = files.choose(random.bits());
        let Some(bytes) = items.get(file).map(|item| item.bytes) else { break };
        let hit = cache.request(Request { object: file as u64, bytes: bytes as u64 });
        if turn >= setting.warm_up {
            counted.add(hit, bytes);
            server.serve(hit, bytes, random.exponential(1.0 / setting.arrivals));
        }
    }
    ServerResult {
        outcome: counted.outcome(),
        throughput: server.served / server.free_at.max(f64::MIN_POSITIVE),
        response_seconds: server.responses / server.served.max(1.0),
    }
}

/// Sums over accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccessSums {
    requests: f64,
    hits: f64,
    bytes: f64,
    bytes_read: f64,
    transfers: f64,
}

impl AccessSums {
    pub fn add(&mut self, hit: bool, bytes: f64) {
        self.requests += 1.0;
        self.bytes += bytes;
        if hit {
            self.hits += 1.0;
        } else {
            self.bytes_read += bytes;
            self.transfers += transfers(bytes);
        }
    }

    /// Counts an access that finds its file being read already: a miss that reads nothing itself.
    pub fn add_shared(&mut self, bytes: f64) {
        self.requests += 1.0;
        self.bytes += bytes;
    }

    pub fn outcome(&self) -> FileCacheResult {
        let requests = self.requests.max(1.0);
        FileCacheResult {
            hit_ratio: self.hits / requests,
            byte_hit_ratio: 1.0 - self.bytes_read / self.bytes.max(1.0),
            bytes_read: self.bytes_read / requests,
            transfers: self.transfers / requests,
        }
    }
}

/// One queue, first come first served, by Lindley's recursion.
struct ServerQueue {
    path: PathLength,
    instructions_per_second: f64,
    arrived_at: f64,
    free_at: f64,
    served: f64,
    responses: f64,
}

impl ServerQueue {
    fn new(setting: &FileCacheSetup) -> Self {
        Self {
            path: setting.path,
            instructions_per_second: setting.arrivals * setting.path.cached,
            arrived_at: 0.0,
            free_at: 0.0,
            served: 0.0,
            responses: 0.0,
        }
    }

    fn serve(&mut self, hit: bool, bytes: f64, gap: f64) {
        let missed = if hit { 0.0 } else { self.path.replacement + transfers(bytes) * self.path.transfer };
        self.arrived_at += gap;
        self.free_at =
            self.free_at.max(self.arrived_at) + (self.path.cached + missed) / self.instructions_per_second;
        self.served += 1.0;
        self.responses += self.free_at - self.arrived_at;
    }
}
