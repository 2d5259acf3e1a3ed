//! Search for the best load balancing rate, when pages are replaced by age and load and nodes wait
//! for servers.
//!
//! The dissertation studies waiting by a model without replacement, and replacement by a simulation
//! without waiting. Here one simulation has both: global nodes run programs, and idle nodes serve
//! their pages one at a time. A live cluster's own functions ([`shoal_cooperation::global_memory`])
//! decide the place of an evicted page.
//!
//! ```text
//! node:   compute … miss ─► getpage: wait for the server, be served ─┬─► evict the oldest page
//!            ▲         └──► disk, when no node has the page ─────────┤     └─► putpage to
//!            └───────────────────────────────────────────────────────┘         choose(…)
//! epoch:  M putpages ─► ages of all servers' pages ─► age weights ─► select(…) for each node
//! ```
//!
//! As in the model, a request takes a server's time and nothing else; the time on the wire is part
//! of the think time. Getpages wait and putpages do not, and disks are each node's own. As in GMS,
//! the initiator's weights stand for an epoch, and a page older than the epoch's least age is
//! dropped. A putpage changes the server's memory when it is sent. Servers take requests in order,
//! so this makes no difference.
//!
//! O(log nodes + log pages) a fault, O(1) a hit; an epoch costs O(M·log M) for M putpages.

mod run;
mod server;

#[cfg(test)]
mod tests;

use super::{Application, FaultCosts, Faults};

/// Setting of a simulation.
#[derive(Clone, Debug)]
pub struct ContentionSetup {
    /// Nodes that run programs, the given ones in turn.
    pub global_nodes: usize,
    /// Pages of the nodes that are idle from the start.
    pub idle_pages: Vec<usize>,
    /// Pages of one more idle node, which joins when the measured part begins.
    pub newcomer_pages: Option<usize>,
    /// Costs of faults and computing.
    pub costs: FaultCosts,
    /// Source of the load balancing rate.
    pub balancing: BalancingRate,
    /// Definition of balanced load.
    pub targets: Targets,
    /// `true` if frequencies are bounded, with borrowing, so that no idle node gets more requests
    /// than it can serve.
    pub bounded: bool,
    /// Share of its time that each idle node works for itself, in pieces of a millisecond; none for
    /// nodes beyond the list. A node with own work is a *local* node.
    pub own_work: Vec<f64>,
    /// Source of U* and N_g for the bounds.
    pub limits: UtilizationLimits,
    /// Mean references of a node that only fill memories.
    pub warm_up: usize,
    /// Mean references of a node that are measured.
    pub measured: usize,
    /// Seed of all random draws.
    pub seed: u64,
}

/// Source of U* and N_g, where frequencies are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtilizationLimits {
    /// Every server counts as idle: U* is 1. N_g is known.
    AllIdle,
    /// U* of a local node is [`CAP`] less its own work; both this and N_g are known.
    Given,
    /// Each server measures its own work and counts its askers.
    Estimated,
}

/// Source of the load balancing rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BalancingRate {
    /// A fixed rate.
    Fixed(f64),
    /// The tuner, beginning with this rate.
    Tuned(f64),
}

/// Definition of balanced load: the quantity that target weights are in proportion to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Each server's memory, as in section 3.6.1.
    Memory,
    /// No quantity: all servers have the same weight.
    Equal,
}

/// Results of a run's measured part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentionResult {
    /// Time of a node for its references, in seconds.
    pub seconds: f64,
    /// Faults by the place that served them.
    pub faults: Faults,
    /// Mean time of a getpage, in seconds.
    pub getpage_seconds: f64,
    /// Mean time of a fault, in seconds, over all places.
    pub fault_seconds: f64,
    /// Evicted pages put into global memory.
    pub putpages: u64,
    /// Evicted pages that no server may take.
    pub unplaced: u64,
    /// Each server's busy share of the time, the newcomer last.
    pub utilizations: Vec<f64>,
    /// The load balancing rate, by epoch.
    pub rates: Vec<f64>,
    /// Mean wait of a piece of the local nodes' own work, in seconds.
    pub own_wait_seconds: f64,
    /// N_g of the last epoch's bounds.
    pub global_nodes: u32,
}

/// Share of its time for which a local node may be busy altogether, where others ask it too.
pub const CAP: f64 = 0.8;

/// Runs programs over a cluster. Without programs, nodes or references nothing happens.
pub fn simulate(applications: &[Application], setting: &ContentionSetup) -> ContentionResult {
    simulate_parts(applications, setting, &[setting.measured]).pop().unwrap_or_default()
}

/// Runs programs as [`simulate`] does. Returns the results of the measured part up to each of these
/// numbers of references of a node, in rising order.
pub fn simulate_parts(
    applications: &[Application],
    setting: &ContentionSetup,
    measured: &[usize],
) -> Vec<ContentionResult> {
    assert!(measured.is_sorted(), "one run passes them in turn: {measured:?}");
    let usable: Vec<&Application> = applications.iter().filter(|one| !one.references.is_empty()).collect();
    if usable.is_empty() || setting.global_nodes == 0 || measured.last() == Some(&0) {
        return vec![ContentionResult::default(); measured.len()];
    }
    let mut run = run::ContentionRun::new(&usable, setting);
    let began = run.warm_up();
    let part = |references: &usize| {
        if *references == 0 {
            return ContentionResult::default();
        }
        let ended = run.measure(*references);
        run.clone().end(*references, began, ended)
    };
    measured.iter().map(part).collect()
}

impl ContentionSetup {
    /// Returns a cluster like that of the second graph of Figure 3.3, with eleven idle nodes. The
    /// last becomes idle when the measured part begins and has this share of the others' memory.
    /// Each node has a quarter of its program's pages; the idle nodes have room for one half of
    /// all.
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
            costs: FaultCosts::OO7,
            balancing: BalancingRate::Fixed(0.0),
            targets: Targets::Memory,
            bounded: false,
            own_work: Vec::new(),
            limits: UtilizationLimits::AllIdle,
            warm_up: longest / 2,
            measured: longest / 2,
            seed: 1,
        }
    }
}
