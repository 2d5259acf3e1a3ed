//! Knowledge of nodes about each other, one epoch after the other.

use super::process::State;
use super::{PrefetchEvent, PrefetchRun, after};
use crate::global_memory::contention::BalancingRate;
use crate::prefetching::memory::PageRank;
use shoal_cooperation::global_memory::{Tuner, target_weights};
use shoal_cooperation::prefetch::{BufferGroup, Epoch, NodeReport, Value, coordinator, plan};

/// Facts known in an epoch.
pub(super) struct Knowledge {
    pub epoch: Epoch,
    tuner: Option<Tuner>,
    b: f64,
}

impl Knowledge {
    pub fn new(balancing: BalancingRate) -> Self {
        let tuner = match balancing {
            BalancingRate::Fixed(_) => None,
            BalancingRate::Tuned(first) => Some(Tuner::new(first)),
        };
        let (BalancingRate::Fixed(b) | BalancingRate::Tuned(b)) = balancing;
        Self { epoch: Epoch::default(), tuner, b }
    }

    fn rate(&self) -> f64 {
        self.tuner.as_ref().map_or(self.b, Tuner::b)
    }
}

impl PrefetchRun<'_> {
    pub fn end_epoch_if_over(&mut self) {
        if self.knowledge.epoch.ending(self.seconds()).is_some() {
            self.begin_epoch();
        }
    }

    /// Begins an epoch: all nodes report the values of their pages, and the coordinator plans.
    pub fn begin_epoch(&mut self) {
        let now = self.seconds();
        let elapsed = now - self.knowledge.epoch.began_seconds();
        debug_assert!(elapsed >= 0.0, "an epoch of {elapsed} s");
        self.measure(elapsed);
        let wanted = self.wanted(elapsed);
        let loads: Vec<NodeReport> =
            (0..self.nodes.len()).map(|node| self.load(node, elapsed, wanted)).collect();
        let b = self.knowledge.rate();
        if let Some(coordinator) = coordinator(&loads) {
            self.coordinated[coordinator] += 1;
        }
        // Loads are shares of a time, so that a plan is always made.
        let planned = plan(&loads, wanted, now, self.setting.epoch_seconds).unwrap_or_default();
        self.knowledge.epoch = if b > 0.0 { planned.balanced(&self.targets(), b) } else { planned };
        self.rates.push(b);
        self.epochs += 1;
        let over = after(self.now, self.setting.epoch_seconds);
        self.schedule(over, PrefetchEvent::EpochOver { number: self.epochs });
        self.awake.extend(self.setting.homes.iter().copied());
        for node in &mut self.nodes {
            node.station.processor_seconds = 0.0;
        }
    }

    /// Updates programs' strides with their share of the processor, and the tuner with the mean
    /// wait.
    fn measure(&mut self, elapsed: f64) {
        let (mut waited, mut references) = (0.0, 0);
        for process in self.processes.iter_mut().filter(|process| process.state != State::Done) {
            waited += std::mem::take(&mut process.waited_seconds);
            references += std::mem::take(&mut process.references);
            let on_processor = std::mem::take(&mut process.on_processor_seconds);
            if elapsed > 0.0 {
                process.stride.scheduled(on_processor / elapsed);
            }
        }
        if let Some(tuner) = self.knowledge.tuner.as_mut().filter(|_| references > 0) {
            tuner.epoch(waited / references as f64);
        }
    }

    /// Returns the number of pages likely to be replaced: by the rate of the last epoch, and at
    /// first an eighth of all.
    fn wanted(&self, elapsed: f64) -> u64 {
        let frames: usize = self.setting.frames.iter().sum();
        let first = frames as u64 / 8;
        if elapsed <= 0.0 {
            return first.max(LEAST_WANTED);
        }
        let rate = self.knowledge.epoch.replaced_pages() as f64 / elapsed;
        ((rate * self.setting.epoch_seconds) as u64)
            .clamp(LEAST_WANTED, (frames as u64 / 2).max(LEAST_WANTED))
    }

    /// Returns a node's report: its least valuable pages, no more than can be wanted.
    fn load(&self, node: usize, elapsed: f64, wanted: u64) -> NodeReport {
        let now = self.seconds();
        let memory = &self.nodes[node].memory;
        let mut buffers = vec![BufferGroup { value: Value::NEVER, count: memory.free() as u64 }];
        for (index, process) in self.processes.iter().enumerate() {
            let shelf = memory.shelf(index);
            let hinted = shelf.hinted.iter().rev().map(|(place, _)| PageRank::Hinted(*place));
            let unhinted = shelf.unhinted.iter().map(|(used, _)| PageRank::Unhinted(*used));
            let one = |standing| BufferGroup { value: process.value_of(standing, now), count: 1 };
            buffers.extend(hinted.take(wanted as usize).map(one));
            buffers.extend(unhinted.take(wanted as usize).map(one));
        }
        let busy = self.nodes[node].station.processor_seconds;
        NodeReport { processor: if elapsed > 0.0 { (busy / elapsed).min(1.0) } else { 0.0 }, buffers }
    }

    /// Returns balanced load: by memory, over the nodes that run nothing.
    fn targets(&self) -> Vec<f64> {
        let frames = |(index, node): (usize, &super::PrefetchNode)| {
            if self.setting.homes.contains(&index) { 0 } else { node.memory.frames() as u64 }
        };
        target_weights(&self.nodes.iter().enumerate().map(frames).collect::<Vec<u64>>())
    }
}

/// Least pages of an epoch.
const LEAST_WANTED: u64 = 64;
