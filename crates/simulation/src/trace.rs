//! Trace: the hash over all events of a run, and the last of them.

use shoal_core::mixed;
use std::collections::VecDeque;
use std::time::Duration;

/// Events of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: u64,
    count: u64,
    tail: VecDeque<TraceLine>,
}

#[derive(Clone, Copy, Debug)]
struct TraceLine {
    at: Duration,
    name: &'static str,
    numbers: [u64; 3],
}

impl Trace {
    /// Adds an event with its facts.
    pub fn note(&mut self, at: Duration, name: &'static str, numbers: [u64; 3]) {
        let mut hash = mixed(self.hash ^ at.as_nanos() as u64);
        for number in numbers.into_iter().chain([name.len() as u64]) {
            hash = mixed(hash.wrapping_add(number));
        }
        self.hash = hash;
        self.count += 1;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        debug_assert!(self.tail.back().is_none_or(|last| last.at <= at), "events come in their order");
        self.tail.push_back(TraceLine { at, name, numbers });
        debug_assert!(self.tail.len() <= TAIL, "the tail is bounded");
    }

    /// Returns the hash over all events.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last events as text, one a line.
    pub fn tail(&self) -> String {
        let line = |line: &TraceLine| {
            let [one, two, three] = line.numbers;
            format!("  {:>12.6} {:<12} {one} {two} {three}\n", line.at.as_secs_f64(), line.name)
        };
        self.tail.iter().map(line).collect()
    }
}

/// Events that are kept for the text.
const TAIL: usize = 40;
