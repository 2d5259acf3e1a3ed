//! One run: events in the order of time, and after each event the prefetches that it makes
//! possible.
//!
//! | file | |
//! |---|---|
//! | `process` | a program under way: its hints, the places and values of its pages |
//! | `fault` | a program references a page |
//! | `ahead` | pages are fetched before their reference |
//! | `give_way` | pages leave for others |
//! | `devices` | processors, links and disks |
//! | `epochs` | knowledge of nodes about each other |

mod ahead;
mod devices;
mod epochs;
mod fault;
mod give_way;
mod process;

use super::memory::{NodeFrames, Page};
use super::{FILE_PAGES, PrefetchResult, PrefetchSetup, Program};
use crate::global_memory::contention::BalancingRate;
use devices::NodeDevices;
use epochs::Knowledge;
use process::{Process, State};
use shoal_cooperation::NodeId;
use shoal_cooperation::prefetch::{AccessTimes, FileAliases, FileCopy, PrefetchRequest};
use shoal_trace::Random;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A simulation under way.
pub(super) struct PrefetchRun<'a> {
    setting: &'a PrefetchSetup,
    times: AccessTimes,
    nodes: Vec<PrefetchNode>,
    processes: Vec<Process<'a>>,
    agenda: BinaryHeap<Reverse<(u64, u64, PrefetchEvent)>>,
    /// Number of events so far, which orders those of one time.
    scheduled: u64,
    /// Time of the simulation, in nanoseconds.
    now: u64,
    /// That of the coordinator, or of each node.
    knowledge: Vec<Knowledge>,
    random: Random,
    /// Nodes that may be able to prefetch more.
    awake: BTreeSet<usize>,
    epochs: u64,
    /// Epochs that each node planned.
    coordinated: Vec<u64>,
    rates: Vec<f64>,
    /// Nodes with each file on disk; `None` where all have all.
    aliases: Option<FileAliases>,
}

/// One node.
struct PrefetchNode {
    memory: NodeFrames,
    station: NodeDevices,
    requester: shoal_cooperation::prefetch::PrefetchRequester,
    /// Number of pages that come from global memory before their reference.
    incoming: usize,
}

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrefetchEvent {
    /// A program has computed up to its next reference.
    Reference { process: usize },
    /// A disk has read a page.
    DiskDone { node: usize },
    /// A page has come from global memory.
    Arrived { page: Page, ahead: bool },
    /// A prefetch request has come to a node; its value in microseconds.
    Asked { node: usize, page: Page, until_us: u64 },
    /// The time of an epoch is over.
    EpochOver { planner: usize, number: u64 },
    /// A node's memory and disk are there from now on.
    Joins { node: usize },
}

impl<'a> PrefetchRun<'a> {
    pub fn new(programs: &'a [Program], setting: &'a PrefetchSetup, times: AccessTimes) -> Self {
        let process = |(index, program): (usize, &'a Program)| {
            Process::new(program, setting.homes[index], setting.seed.wrapping_add(index as u64))
        };
        let processes: Vec<Process<'a>> = programs.iter().enumerate().map(process).collect();
        let waiting = setting.outstanding.saturating_mul(setting.frames.len());
        let joins = |index: usize| setting.joining.is_some_and(|joining| joining.node == index);
        let node = |(index, frames): (usize, &usize)| PrefetchNode {
            memory: NodeFrames::new(if joins(index) { 0 } else { *frames }, programs.len()),
            station: NodeDevices::new(setting.costs.disk, waiting),
            requester: shoal_cooperation::prefetch::PrefetchRequester::new(index, setting.outstanding),
            incoming: 0,
        };
        let nodes: Vec<PrefetchNode> = setting.frames.iter().enumerate().map(node).collect();
        let mut run = Self {
            setting,
            times,
            knowledge: Knowledge::of_all(setting),
            nodes,
            agenda: BinaryHeap::new(),
            scheduled: 0,
            now: 0,
            random: Random::of(setting.seed, 5),
            awake: setting.homes.iter().copied().collect(),
            epochs: 0,
            coordinated: vec![0; setting.frames.len()],
            rates: Vec::new(),
            aliases: setting.copies.map(|copies| aliases(&processes, setting.frames.len(), copies)),
            processes,
        };
        run.begin_epochs();
        if let Some(joining) = setting.joining {
            run.schedule(after(0, joining.after_seconds), PrefetchEvent::Joins { node: joining.node });
        }
        for process in 0..run.processes.len() {
            // No page is in memory yet, so that no value can change.
            run.processes[process].disclose_hints();
            run.compute(process);
        }
        run
    }

    pub fn finish(mut self) -> PrefetchResult {
        self.prefetch();
        while self.processes.iter().any(|process| process.state != State::Done)
            && let Some(Reverse((now, _, event))) = self.agenda.pop()
        {
            debug_assert!(now >= self.now, "time goes on: {now} after {}", self.now);
            self.now = now;
            self.happen(event);
            self.prefetch();
            self.end_epochs_if_over();
        }
        let seconds = self.seconds();
        let busy = |node: &PrefetchNode| {
            if seconds > 0.0 { node.station.disk_busy_seconds() / seconds } else { 0.0 }
        };
        PrefetchResult {
            programs: self.processes.iter().map(|process| process.finished).collect(),
            seconds,
            epochs: self.epochs,
            coordinated: self.coordinated,
            disks: self.nodes.iter().map(busy).collect(),
            rates: if matches!(self.setting.balancing, BalancingRate::Tuned(_)) {
                self.rates
            } else {
                Vec::new()
            },
        }
    }

    fn happen(&mut self, event: PrefetchEvent) {
        match event {
            PrefetchEvent::Reference { process } => self.reference(process),
            PrefetchEvent::DiskDone { node } => self.disk_done(node),
            PrefetchEvent::Arrived { page, ahead } => {
                let home = self.processes[page.0 as usize].home;
                self.nodes[home].incoming -= usize::from(ahead);
                self.charge(page.0 as usize, self.setting.costs.receive_seconds);
                self.arrive(page);
            }
            PrefetchEvent::Asked { node, page, until_us } => {
                let from = self.processes[page.0 as usize].home;
                let value = shoal_cooperation::prefetch::Value::of_microseconds(until_us);
                self.asked(node, PrefetchRequest { page, from, value });
            }
            PrefetchEvent::Joins { node } => {
                self.nodes[node].memory.grow(self.setting.frames[node]);
                self.begin_epochs();
            }
            PrefetchEvent::EpochOver { planner, number } => self.epoch_is_over(planner, number),
        }
    }

    fn schedule(&mut self, at: u64, event: PrefetchEvent) {
        self.scheduled += 1;
        self.agenda.push(Reverse((at, self.scheduled, event)));
    }

    /// Returns the time, in seconds.
    fn seconds(&self) -> f64 {
        self.now as f64 / NANOSECONDS
    }
}

/// Returns the directory of all programs' files, with this number of copies of each.
fn aliases(processes: &[Process<'_>], nodes: usize, copies: usize) -> FileAliases {
    let mut aliases = FileAliases::default();
    for (index, process) in processes.iter().enumerate() {
        let others = |file: usize| {
            (0..nodes - 1).map(move |step| (process.home + 1 + (file + step) % (nodes - 1)) % nodes)
        };
        for file in 0..process.pages.len().div_ceil(FILE_PAGES as usize) {
            let name = file_of(index, file as u32 * FILE_PAGES);
            let nodes = std::iter::once(process.home).chain(others(file));
            for node in nodes.take(copies.max(1)) {
                aliases.add(name, FileCopy { node: NodeId(node as u64), local_file: name });
            }
        }
    }
    aliases
}

/// Returns the name of the file that has a page of a program.
fn file_of(process: usize, page: u32) -> u64 {
    (process as u64) << 32 | u64::from(page / FILE_PAGES)
}

/// Returns the time `seconds` after `now`; it stops before it would wrap.
fn after(now: u64, seconds: f64) -> u64 {
    now.saturating_add((seconds * NANOSECONDS) as u64)
}

const NANOSECONDS: f64 = 1e9;
