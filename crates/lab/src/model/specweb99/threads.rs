//! The file cache under several threads, which the paper leaves open: "with multiple threads, file
//! cache performance could be worse".
//!
//! Threads take operations one after another and share one processor and the cache. A thread that
//! misses waits for the disk; meanwhile others go on. Two things change for the cache. Bytes being
//! read take room that holds no file yet. An access may find its file being read already, which is
//! a miss for its client and costs the disk nothing. The disk is a delay for each transfer: an
//! array large enough that transfers do not queue.
//!
//! O(log threads) an operation. Same seed, same result.

use super::simulation::AccessSums;
use super::{FileCacheResult, PathLength, Population, transfers};
use crate::simulator::Alias;
use shoal_policy::{Handle, Replacement};
use shoal_trace::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Setting of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSetup {
    /// Room in the cache, in bytes.
    pub cache_bytes: u64,
    /// Threads; one at least.
    pub threads: u32,
    /// Time of a transfer from disk, in seconds.
    pub transfer_seconds: f64,
    /// λ: operations a second that the processor can do when every file is cached.
    pub full_rate: f64,
    /// Cost of an operation.
    pub path: PathLength,
    /// Requests that fill the cache and are not counted.
    pub warm_up: u64,
    /// Requests that are counted.
    pub requests: u64,
    /// The seed.
    pub seed: u64,
}

/// Result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ThreadResult {
    /// The cache and the disk. Accesses that waited for another's read are no hits.
    pub outcome: FileCacheResult,
    /// Share of accesses that waited for another's read.
    pub shared: f64,
    /// Operations a second.
    pub throughput: f64,
    /// Largest number of bytes being read at once.
    pub reading_bytes_max: u64,
}

/// Runs the simulation with this policy.
pub fn simulate(
    population: &Population,
    policy: Box<dyn Replacement<u64>>,
    setting: &ThreadSetup,
) -> ThreadResult {
    let mut run = ThreadRun::new(population, policy, setting);
    let mut begun_at = 0.0;
    for turn in 0..setting.warm_up + setting.requests {
        if turn == setting.warm_up {
            (run.counted, run.shared, run.reading_max) = (AccessSums::default(), 0, 0);
            begun_at = run.processor_free;
        }
        if !run.operation() {
            break;
        }
    }
    let requests = setting.requests.max(1) as f64;
    ThreadResult {
        outcome: run.counted.outcome(),
        shared: run.shared as f64 / requests,
        throughput: requests / (run.processor_free - begun_at).max(f64::MIN_POSITIVE),
        reading_bytes_max: run.reading_max,
    }
}

struct ThreadRun<'a> {
    setting: &'a ThreadSetup,
    population: &'a Population,
    files: Alias,
    random: Random,
    policy: Box<dyn Replacement<u64>>,
    handles: HashMap<u64, Handle>,
    /// Files being read, with the nanosecond of each arrival.
    coming: HashMap<u64, u64>,
    /// Files being read, in order of arrival.
    arrivals: BinaryHeap<Reverse<(u64, u64)>>,
    /// Time at which each thread is free, in nanoseconds.
    threads: BinaryHeap<Reverse<u64>>,
    processor_free: f64,
    reading: u64,
    reading_max: u64,
    shared: u64,
    counted: AccessSums,
}

impl<'a> ThreadRun<'a> {
    fn new(population: &'a Population, policy: Box<dyn Replacement<u64>>, setting: &'a ThreadSetup) -> Self {
        Self {
            setting,
            population,
            files: Alias::new(population.items().iter().map(|item| item.probability).collect()),
            random: Random::new(setting.seed),
            policy,
            handles: HashMap::new(),
            coming: HashMap::new(),
            arrivals: BinaryHeap::new(),
            threads: (0..setting.threads.max(1)).map(|_| Reverse(0)).collect(),
            processor_free: 0.0,
            reading: 0,
            reading_max: 0,
            shared: 0,
            counted: AccessSums::default(),
        }
    }

    /// Runs the next operation, on the thread that is free first. Returns `false` when there is
    /// nothing to request.
    fn operation(&mut self) -> bool {
        let number = self.files.choose(self.random.bits());
        let Some(item) = self.population.items().get(number) else { return false };
        let (file, bytes) = (number as u64, item.bytes);
        let Reverse(free) = self.threads.pop().unwrap_or_default();
        let begin = self.processor_free.max(free as f64 / NANOSECONDS);
        self.arrived_until((begin * NANOSECONDS) as u64);
        let path = self.setting.path;
        let mut instructions = path.cached;
        let mut done = None;
        if let Some(handle) = self.handles.get(&file) {
            self.policy.hit(*handle);
            self.counted.add(true, bytes);
        } else if let Some(arrives) = self.coming.get(&file) {
            self.shared += 1;
            self.counted.add_shared(bytes);
            done = Some(*arrives);
        } else {
            self.counted.add(false, bytes);
            instructions += path.replacement + transfers(bytes) * path.transfer;
            done = Some(0);
        }
        self.processor_free = begin + instructions / (self.setting.full_rate * path.cached);
        let computed = (self.processor_free * NANOSECONDS) as u64;
        let done = match done {
            None => computed,
            Some(0) => self.read(file, bytes, computed),
            Some(arrives) => arrives.max(computed),
        };
        self.threads.push(Reverse(done));
        true
    }

    /// Begins to read a file. Returns the time of its arrival.
    fn read(&mut self, file: u64, bytes: f64, now: u64) -> u64 {
        let arrives = now + (transfers(bytes) * self.setting.transfer_seconds * NANOSECONDS).max(1.0) as u64;
        self.reading += bytes as u64;
        self.reading_max = self.reading_max.max(self.reading);
        self.make_room();
        self.coming.insert(file, arrives);
        self.arrivals.push(Reverse((arrives, file)));
        arrives
    }

    /// Takes in the files that have arrived by now.
    fn arrived_until(&mut self, now: u64) {
        while let Some(Reverse((arrives, file))) = self.arrivals.peek().copied() {
            if arrives > now {
                break;
            }
            self.arrivals.pop();
            self.coming.remove(&file);
            let bytes = self.population.items()[file as usize].bytes as u64;
            self.reading -= bytes;
            if bytes + self.reading <= self.setting.cache_bytes {
                let room = self.setting.cache_bytes - self.reading - bytes;
                self.evict_to(room);
                self.handles.insert(file, self.policy.insert(file, bytes));
            }
        }
    }

    /// Makes room for the files being read: their bytes count at once.
    fn make_room(&mut self) {
        self.evict_to(self.setting.cache_bytes.saturating_sub(self.reading));
    }

    fn evict_to(&mut self, room: u64) {
        while self.policy.weight() > room {
            let Some(victim) = self.policy.evict() else { break };
            self.handles.remove(&victim.key);
        }
    }
}

const NANOSECONDS: f64 = 1e9;
