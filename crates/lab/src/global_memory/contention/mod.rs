//! Which load balancing rate is best, when pages are replaced by age and load and servers are
//! waited for.
//!
//! What the dissertation studies apart (waiting, by the model, with replacement left out;
//! replacement, by simulation, with waiting left out) in one simulation: global nodes run programs,
//! idle nodes serve their pages one at a time, and where an evicted page goes is decided by the
//! very functions that a live cluster calls ([`shoal_cooperation::global_memory`]).
//!
//! ```text
//! node:   compute … miss ─► getpage: wait for the server, be served ─┐
//!            ▲         └──► disk, when no node has the page           ├─► evict the oldest local page ─► putpage to choose(…)
//!            └───────────────────────────────────────────────────────┘
//! epoch:  so many putpages ─► ages of all servers' pages ─► age weights ─► select(…) for each node
//! ```
//!
//! As in the model a request takes a server's time and nothing else (what the wire takes is part of
//! the think time), getpages wait and putpages do not, and disks are each node's own. As in GMS the
//! initiator's weights stand for an epoch, and a page older than the epoch's least age is dropped.
//! A putpage changes the server's memory when it is sent; since servers take requests in order,
//! nobody can tell.
//!
//! O(log nodes + log pages) a fault, O(1) a hit; an epoch costs O(M·log M) for M putpages.

mod run;
mod server;

#[cfg(test)]
mod tests;

use super::{Application, Costs, Faults};

/// What is simulated.
#[derive(Clone, Debug)]
pub struct ContentionSetup {
    /// Nodes that run programs, the given ones in turn.
    pub global_nodes: usize,
    /// Pages of the nodes that are idle from the start.
    pub idle_pages: Vec<usize>,
    /// Pages of one more, which becomes idle when the measured part begins.
    pub newcomer_pages: Option<usize>,
    /// What faults and computing cost.
    pub costs: Costs,
    /// Who chooses the load balancing rate.
    pub balancing: Balancing,
    /// What balanced load is.
    pub targets: Targets,
    /// Whether frequencies are bounded, with borrowing, so that no idle node is asked for more than
    /// it can do.
    pub bounded: bool,
    /// References of each node, on average, that only fill memories.
    pub warm_up: usize,
    /// References of each node, on average, that are measured.
    pub measured: usize,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// Who chooses the load balancing rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Balancing {
    /// It is given.
    Fixed(f64),
    /// The tuner, beginning with this one.
    Tuned(f64),
}

/// What balanced load is: what target weights are in proportion to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Each server's memory, as in section 3.6.1.
    Memory,
    /// Nothing: all servers have the same.
    Equal,
}

/// What a run found, of its measured part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentionResult {
    /// How long a node takes for its references, in seconds.
    pub seconds: f64,
    /// Where faults were served.
    pub faults: Faults,
    /// How long a getpage takes on average, in seconds.
    pub getpage_seconds: f64,
    /// How long a fault takes on average, wherever it is served, in seconds.
    pub fault_seconds: f64,
    /// Evicted pages that were put into global memory.
    pub putpages: u64,
    /// Evicted pages that no server might take.
    pub unplaced: u64,
    /// Each server's busy share of the time, the newcomer last.
    pub utilizations: Vec<f64>,
    /// The load balancing rate, by epoch.
    pub rates: Vec<f64>,
}

/// Runs programs over a cluster. Without programs, nodes or references nothing happens.
pub fn simulate(applications: &[Application], setting: &ContentionSetup) -> ContentionResult {
    let usable: Vec<&Application> = applications.iter().filter(|one| !one.references.is_empty()).collect();
    if usable.is_empty() || setting.global_nodes == 0 || setting.measured == 0 {
        return ContentionResult::default();
    }
    run::Run::new(&usable, setting).finish()
}

impl ContentionSetup {
    /// A cluster like that of the second graph of Figure 3.3: eleven idle nodes, of which the last
    /// becomes idle when measuring begins and has this share of their memory. Each node has a
    /// quarter of its program's pages; the idle ones have room for one half of all.
    pub fn eleven(applications: &[Application], global_nodes: usize, newcomer_share: f64) -> Self {
        let pages =
            |node: usize| applications.get(node % applications.len().max(1)).map_or(0, |one| one.pages);
        let idle: usize = (0..global_nodes).map(pages).sum::<usize>() / 2;
        let newcomer = ((idle as f64 * newcomer_share) as usize).max(1);
        let longest = applications.iter().map(|one| one.references.len()).max().unwrap_or(0);
        Self {
            global_nodes,
            idle_pages: vec![(idle.saturating_sub(newcomer) / 10).max(1); 10],
            newcomer_pages: Some(newcomer),
            costs: Costs::OO7,
            balancing: Balancing::Fixed(0.0),
            targets: Targets::Memory,
            bounded: false,
            warm_up: longest / 2,
            measured: longest / 2,
            seed: 1,
        }
    }
}
