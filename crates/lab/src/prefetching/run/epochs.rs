//! Knowledge of nodes about each other, one epoch after the other.
//!
//! One coordinator plans for all nodes, or each node with a program plans for itself. In the second
//! case acknowledgements tell a node of others' requests.

use super::process::{Process, State};
use super::{PrefetchEvent, PrefetchRun, after};
use crate::global_memory::contention::BalancingRate;
use crate::prefetching::memory::PageRank;
use crate::prefetching::{EpochPlanner, PrefetchSetup};
use shoal_cooperation::global_memory::{Tuner, target_weights};
use shoal_cooperation::prefetch::{BufferGroup, Epoch, NodeReport, Value, coordinator, plan};

/// Facts known in an epoch.
pub(super) struct Knowledge {
    pub epoch: Epoch,
    tuner: Option<Tuner>,
    b: f64,
    /// Number of the epoch among those of all planners.
    number: u64,
    /// Processor time of each node before the epoch.
    processor_before: Vec<f64>,
}

impl Knowledge {
    /// Makes the knowledge of all planners.
    pub fn of_all(setting: &PrefetchSetup) -> Vec<Self> {
        let planners = match setting.planning {
            EpochPlanner::Coordinator => 1,
            EpochPlanner::Each => setting.frames.len(),
        };
        (0..planners).map(|_| Self::new(setting.balancing, setting.frames.len())).collect()
    }

    fn new(balancing: BalancingRate, nodes: usize) -> Self {
        let tuner = match balancing {
            BalancingRate::Fixed(_) => None,
            BalancingRate::Tuned(first) => Some(Tuner::new(first)),
        };
        let (BalancingRate::Fixed(b) | BalancingRate::Tuned(b)) = balancing;
        Self { epoch: Epoch::default(), tuner, b, number: 0, processor_before: vec![0.0; nodes] }
    }

    fn rate(&self) -> f64 {
        self.tuner.as_ref().map_or(self.b, Tuner::b)
    }
}

impl PrefetchRun<'_> {
    /// Returns the number of the planner of a node.
    pub fn planner_of(&self, node: usize) -> usize {
        match self.setting.planning {
            EpochPlanner::Coordinator => 0,
            EpochPlanner::Each => node,
        }
    }

    /// Returns the epoch that a node knows.
    pub fn epoch_of(&self, node: usize) -> &Epoch {
        &self.knowledge[self.planner_of(node)].epoch
    }

    /// Returns the epoch that a node knows, for changes.
    pub fn epoch_of_mut(&mut self, node: usize) -> &mut Epoch {
        let planner = self.planner_of(node);
        &mut self.knowledge[planner].epoch
    }

    /// Returns the planners: the coordinator, or the nodes with programs.
    fn planners(&self) -> Vec<usize> {
        match self.setting.planning {
            EpochPlanner::Coordinator => vec![0],
            EpochPlanner::Each => {
                (0..self.nodes.len()).filter(|node| self.setting.homes.contains(node)).collect()
            }
        }
    }

    pub fn end_epochs_if_over(&mut self) {
        for planner in self.planners() {
            if self.knowledge[planner].epoch.ending(self.seconds()).is_some() {
                self.begin_epoch(planner);
            }
        }
    }

    /// Begins an epoch of each planner.
    pub fn begin_epochs(&mut self) {
        self.planners().into_iter().for_each(|planner| self.begin_epoch(planner));
    }

    /// Ends an epoch because of its time, unless it has ended before.
    pub fn epoch_is_over(&mut self, planner: usize, number: u64) {
        if number == self.knowledge[planner].number {
            self.begin_epoch(planner);
        }
    }

    /// Begins an epoch: all nodes report the values of their pages, and the planner plans.
    fn begin_epoch(&mut self, planner: usize) {
        let now = self.seconds();
        let elapsed = now - self.knowledge[planner].epoch.began_seconds();
        debug_assert!(elapsed >= 0.0, "an epoch of {elapsed} s");
        self.measure(planner, elapsed);
        let wanted = self.wanted(planner, elapsed);
        let loads: Vec<NodeReport> =
            (0..self.nodes.len()).map(|node| self.load((planner, node), elapsed, wanted)).collect();
        let b = self.knowledge[planner].rate();
        let plans_for_all = self.setting.planning == EpochPlanner::Coordinator;
        if let Some(coordinator) = if plans_for_all { coordinator(&loads) } else { Some(planner) } {
            self.coordinated[coordinator] += 1;
        }
        // Loads are shares of a time, so that a plan is always made.
        let planned = plan(&loads, wanted, now, self.setting.epoch_seconds).unwrap_or_default();
        let planned = if b > 0.0 { planned.balanced(&self.targets(), b) } else { planned };
        self.rates.push(b);
        self.epochs += 1;
        let over = after(self.now, self.setting.epoch_seconds);
        self.schedule(over, PrefetchEvent::EpochOver { planner, number: self.epochs });
        self.awake.extend(self.setting.homes.iter().filter(|home| plans_for_all || **home == planner));
        let processors = self.nodes.iter().map(|node| node.station.processor_seconds).collect();
        let known = &mut self.knowledge[planner];
        (known.epoch, known.number, known.processor_before) = (planned, self.epochs, processors);
    }

    /// Tells a node that asked for a page how many buffers are left for it. A coordinator's epoch
    /// knows that already.
    pub fn acknowledge(&mut self, node: usize, from: usize, value: Value) {
        if self.setting.planning == EpochPlanner::Each {
            let most = self.epoch_of(from).weights().get(node).copied().unwrap_or(0);
            let left = self.buffers_below(node, value, most);
            self.epoch_of_mut(from).acknowledged(node, left);
        }
    }

    /// Returns the number of a node's buffers that are worth less than a value, `most` at most.
    fn buffers_below(&self, node: usize, value: Value, most: u64) -> u64 {
        let (memory, now) = (&self.nodes[node].memory, self.seconds());
        let mut left = (memory.free() as u64).min(most);
        for (index, process) in self.processes.iter().enumerate() {
            let shelf = memory.shelf(index);
            let is_less = |rank: &PageRank| process.value_of(*rank, now) < value;
            let hinted = shelf.hinted.iter().rev().map(|(place, _)| PageRank::Hinted(*place));
            left += hinted.take((most - left) as usize).take_while(is_less).count() as u64;
            let unhinted = shelf.unhinted.iter().map(|(used, _)| PageRank::Unhinted(*used));
            left += unhinted.take((most - left) as usize).take_while(is_less).count() as u64;
        }
        debug_assert!(left <= most, "a node gives no more than it has reported");
        left
    }

    /// Updates programs' strides with their share of the processor, and the tuner with the mean
    /// wait.
    fn measure(&mut self, planner: usize, elapsed: f64) {
        let (mut waited, mut references) = (0.0, 0);
        let plans_for_all = self.setting.planning == EpochPlanner::Coordinator;
        let of_planner = |process: &&mut Process<'_>| plans_for_all || process.home == planner;
        let own = self.processes.iter_mut().filter(of_planner);
        for process in own.filter(|process| process.state != State::Done) {
            waited += std::mem::take(&mut process.waited_seconds);
            references += std::mem::take(&mut process.references);
            let on_processor = std::mem::take(&mut process.on_processor_seconds);
            if elapsed > 0.0 {
                process.stride.scheduled(on_processor / elapsed);
            }
        }
        if let Some(tuner) = self.knowledge[planner].tuner.as_mut().filter(|_| references > 0) {
            tuner.epoch(waited / references as f64);
        }
    }

    /// Returns the number of pages likely to be replaced: by the rate of the last epoch, and at
    /// first an eighth of all.
    fn wanted(&self, planner: usize, elapsed: f64) -> u64 {
        let frames: usize = self.setting.frames.iter().sum();
        let first = frames as u64 / 8;
        if elapsed <= 0.0 {
            return first.max(LEAST_WANTED);
        }
        let rate = self.knowledge[planner].epoch.replaced_pages() as f64 / elapsed;
        ((rate * self.setting.epoch_seconds) as u64)
            .clamp(LEAST_WANTED, (frames as u64 / 2).max(LEAST_WANTED))
    }

    /// Returns a node's report: its least valuable pages, no more than can be wanted.
    fn load(&self, (planner, node): (usize, usize), elapsed: f64, wanted: u64) -> NodeReport {
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
        let before = self.knowledge[planner].processor_before[node];
        let busy = (self.nodes[node].station.processor_seconds - before).max(0.0);
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
