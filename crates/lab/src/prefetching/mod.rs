//! A cluster that prefetches together: programs tell their future references, and idle nodes' disks
//! and memory work for them.
//!
//! The prototype of Voelker 2000, chapter 4 (PGMS), simulated event by event with its measured
//! costs (Tables 4.1 and 4.2). [`shoal_cooperation::prefetch`], which a live cluster calls, makes
//! all decisions: the pages to fetch, their targets and their victims. This module has only
//! processors, disks, links and time.
//!
//! ```text
//!  process: compute ─► reference ─┬─ local ─────────────────────────────► compute …
//!                                 └─ fault: own disk, or getpage ─ stall ─► compute …
//!  node:    at each reference and arrival ─► predicate due? ─► prefetch to local
//!                                        └─► fewer than B outstanding? ─► ask the next node's disk
//!  epoch:   values and loads of all ─► plan ─► weights, MaxValue
//! ```
//!
//! The chapter leaves these points open. Here they are settled on the side of facts that a kernel
//! can know:
//!
//! - Pages are read only and belong to one program. Every node's disk has a copy of every file, or
//!   [`PrefetchSetup::copies`] of them have (section 4.3.2); the program's own disk always has one.
//! - A prefetch that only waits in a queue is withdrawn when its page is requested; the program
//!   then reads the page from the own disk. A program waits for a prefetch that has begun.
//! - Prefetches to local memory take pages in order and pass over those that another node is
//!   reading. At most [`MOST_INCOMING`] pages are under way over the network and one from the own
//!   disk. Programs' own faults go before prefetches at their own disk. Both go before requests of
//!   other nodes.
//! - All nodes know the rest of an epoch's weights at once; in a cluster acknowledgements tell it.
//! - A putpage costs its sender the same as a request, and takes the receiver's link for the time
//!   of any page; it is not in the tables.
//!
//! | module | |
//! |---|---|
//! | [`program`] | references of programs, and their hints |
//! | `disk` | one disk: the time of a page |
//! | `memory` | the pages of one node, by value |
//! | `run` | the simulation |
//!
//! O(log pages) a reference or an event, and O(pages looked ahead) where the predicate must be
//! looked at.

mod disk;
mod memory;
pub mod program;
mod run;

#[cfg(test)]
mod tests;

pub use disk::DiskTimes;
pub use program::{HintCoverage, Program};

use crate::global_memory::contention::BalancingRate;
use shoal_cooperation::prefetch::AccessTimes;

/// Setting of a simulation.
#[derive(Clone, Debug)]
pub struct PrefetchSetup {
    /// The frames of each node.
    pub frames: Vec<usize>,
    /// The node of each program.
    pub homes: Vec<usize>,
    /// Kinds of prefetching.
    pub prefetching: PrefetchKinds,
    /// Costs of all operations.
    pub costs: PrefetchCosts,
    /// B: prefetches to global memory that one node has outstanding at most.
    pub outstanding: usize,
    /// T: longest time of an epoch, in seconds.
    pub epoch_seconds: f64,
    /// Planner of epochs.
    pub planning: EpochPlanner,
    /// Rule for weights: by ages alone or by loads too, with the source of the rate.
    pub balancing: BalancingRate,
    /// A node that joins later.
    pub joining: Option<JoiningNode>,
    /// Disks with a copy of each file, that of the program's node among them; `None` for all.
    /// Files have [`FILE_PAGES`] pages, and the other copies go to the other nodes in turn.
    pub copies: Option<usize>,
    /// Seed of the random targets of evicted pages.
    pub seed: u64,
}

/// Planner of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochPlanner {
    /// The node with the least load plans for all, which know the rest of its weights at once.
    Coordinator,
    /// Each node with a program plans for itself, from all reports, as a running Shoal does.
    /// Acknowledgements tell it of others' requests.
    Each,
}

/// A node that joins later with its memory and disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoiningNode {
    /// Number of the node, which runs no program.
    pub node: usize,
    /// Seconds from the start to its joining.
    pub after_seconds: f64,
}

/// Kinds of prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchKinds {
    /// From the own disk into local memory.
    pub disk_to_local: bool,
    /// From global memory into local memory.
    pub global_to_local: bool,
    /// From other nodes' disks into their memory.
    pub disk_to_global: bool,
}

impl PrefetchKinds {
    /// All kinds.
    pub const ALL: Self = Self { disk_to_local: true, global_to_local: true, disk_to_global: true };
    /// No kind: GMS.
    pub const NONE: Self = Self { disk_to_local: false, global_to_local: false, disk_to_global: false };

    /// Kinds by their names with + between them: dl (disk to local), gl (global to local), dg (disk
    /// to global); `none` alone for no kind.
    pub fn named(kinds: &str) -> Option<Self> {
        let mut found = Self::NONE;
        for kind in kinds.split('+').filter(|_| kinds != "none") {
            match kind {
                "dl" => found.disk_to_local = true,
                "gl" => found.global_to_local = true,
                "dg" => found.disk_to_global = true,
                _ => return None,
            }
        }
        Some(found)
    }
}

/// Costs in seconds: Tables 4.1 and 4.2, and section 4.4.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefetchCosts {
    /// Processor time of a node that asks for a page from global memory, as requester and manager.
    pub getpage_seconds: f64,
    /// The way of the request.
    pub wire_seconds: f64,
    /// Time that a page keeps the link of the node that sends or gets it.
    pub transfer_seconds: f64,
    /// Processor time for a page that comes in.
    pub receive_seconds: f64,
    /// Processor time when a page that came in is first used.
    pub access_seconds: f64,
    /// Processor time of a node that asks another to read from its disk, as requester and manager.
    pub ask_seconds: f64,
    /// The way of that request.
    pub ask_wire_seconds: f64,
    /// Processor time to start a disk and to hear from it.
    pub read_seconds: f64,
    /// Processor time of a node that sends an evicted page away.
    pub putpage_seconds: f64,
    /// The disks.
    pub disk: DiskTimes,
}

impl PrefetchCosts {
    /// Costs of the testbed. Asking, sending, and receiving overlap, so that a page takes 370 µs
    /// altogether where the table's parts sum to 412 µs. The request's way therefore takes 370 µs
    /// less the other parts. A putpage counts as a getpage's request, since the tables have none.
    pub const TESTBED: Self = Self {
        getpage_seconds: (67.9 + 53.9) * 1e-6,
        wire_seconds: (370.0 - 67.9 - 53.9 - 187.0 - 22.3) * 1e-6,
        transfer_seconds: 187e-6,
        receive_seconds: 22.3e-6,
        access_seconds: 153e-6,
        ask_seconds: (7.6 + 40.0) * 1e-6,
        ask_wire_seconds: 35e-6,
        read_seconds: 146e-6,
        putpage_seconds: 67.9e-6,
        disk: DiskTimes::TESTBED,
    };

    /// Returns costs with another time for a page from global memory, all its parts in proportion.
    pub fn with_global(self, seconds: f64) -> Self {
        let times = seconds / self.global_seconds();
        Self {
            getpage_seconds: self.getpage_seconds * times,
            wire_seconds: self.wire_seconds * times,
            transfer_seconds: self.transfer_seconds * times,
            receive_seconds: self.receive_seconds * times,
            ..self
        }
    }

    fn global_seconds(&self) -> f64 {
        self.getpage_seconds + self.wire_seconds + self.transfer_seconds + self.receive_seconds
    }

    /// Returns F_G and F_D, as the predicate counts them.
    ///
    /// # Errors
    /// When a page from global memory takes as long as one from disk, or a cost is no number.
    pub fn times(&self) -> Result<AccessTimes, SetupError> {
        let global = self.global_seconds();
        let all = [self.access_seconds, self.ask_seconds, self.read_seconds, self.putpage_seconds];
        let parts = [
            self.getpage_seconds,
            self.wire_seconds,
            self.transfer_seconds,
            self.receive_seconds,
            self.ask_wire_seconds,
        ];
        let disk = [self.disk.random_seconds, self.disk.sequential_seconds];
        if let Some(found) = all.iter().chain(&parts).chain(&disk).find(|cost| !is_cost(**cost)) {
            return Err(SetupError::Cost { found: *found });
        }
        AccessTimes::new(0.0, global, self.disk.random_seconds).map_err(|_| SetupError::Levels {
            global_seconds: global,
            disk_seconds: self.disk.random_seconds,
        })
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefetchResult {
    /// Results of each program.
    pub programs: Vec<ProgramResult>,
    /// End of the last program, in seconds.
    pub seconds: f64,
    /// Number of epochs.
    pub epochs: u64,
    /// Epochs that each node planned, as the node with the least load.
    pub coordinated: Vec<u64>,
    /// Share of the time that each node's disk worked.
    pub disks: Vec<f64>,
    /// The load balancing rate, by epoch.
    pub rates: Vec<f64>,
}

/// Results of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramResult {
    /// Time from its start to its end, in seconds.
    pub elapsed_seconds: f64,
    /// Computing time, in seconds.
    pub user_seconds: f64,
    /// Processor time of its node for its faults, prefetches and evictions, in seconds.
    pub system_seconds: f64,
    /// From the own disk into local memory.
    pub disk_to_local: Fetches,
    /// From global memory into local memory.
    pub global_to_local: Fetches,
    /// From other disks into global memory.
    pub disk_to_global: Fetches,
}

impl ProgramResult {
    /// Returns the waiting time, in seconds: neither computing nor work for its own fetches.
    pub fn stall_seconds(&self) -> f64 {
        (self.elapsed_seconds - self.user_seconds - self.system_seconds).max(0.0)
    }

    /// Returns the fetches into local memory.
    pub fn into_local(&self) -> u64 {
        self.disk_to_local.all() + self.global_to_local.all()
    }
}

/// Fetches of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetches {
    /// Fetches done before the program's request.
    pub in_time: u64,
    /// Fetches that the program waited for, prefetched or not.
    pub stalls: u64,
    /// Fetches of both kinds that were the first of their page: from any disk, or, out of global
    /// memory, into local memory.
    pub cold: u64,
}

impl Fetches {
    /// Returns all fetches.
    pub fn all(&self) -> u64 {
        self.in_time + self.stalls
    }

    /// Returns the fetches of pages that had been there before and were evicted.
    pub fn capacity(&self) -> u64 {
        self.all() - self.cold
    }
}

/// Reason why nothing can be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SetupError {
    /// No program, or one without references.
    NoReferences,
    /// The numbers of programs and of their nodes differ.
    Homes {
        /// Number of programs.
        programs: usize,
        /// Number of nodes given for them.
        homes: usize,
    },
    /// A program's node is missing, or has fewer frames than are under way at once; or a node has
    /// more than any machine.
    Frames {
        /// Number of the node, from 0.
        node: usize,
        /// Number of its frames.
        found: usize,
    },
    /// More nodes than are simulated.
    Nodes {
        /// Number of nodes.
        found: usize,
    },
    /// A cost is negative or no number.
    Cost {
        /// The cost.
        found: f64,
    },
    /// The disk is not slower than the network.
    Levels {
        /// Time of a page from global memory.
        global_seconds: f64,
        /// Time of a page from disk.
        disk_seconds: f64,
    },
    /// The node that joins does not exist, or runs a program.
    Joining {
        /// Number of the node, from 0.
        node: usize,
    },
    /// An epoch is too short to plan in, or longer than anything lasts.
    Epoch {
        /// Length of the epoch, in seconds.
        found: f64,
    },
}

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoReferences => write!(f, "there is no program, or one that asks for no page"),
            Self::Homes { programs, homes } => {
                write!(f, "{programs} programs and {homes} nodes for them do not belong together")
            }
            Self::Frames { node, found } => write!(
                f,
                "node {} has {found} frames, where {LEAST_FRAMES} to {MOST_FRAMES} are needed for a program, and no more for others",
                node + 1
            ),
            Self::Nodes { found } => write!(f, "{found} nodes, where 1 to {MOST_NODES} are simulated"),
            Self::Cost { found } => {
                write!(f, "a cost of {found} seconds, where one from 0 to {MOST_SECONDS} is needed")
            }
            Self::Levels { global_seconds, disk_seconds } => write!(
                f,
                "a page from global memory takes {global_seconds} s and one from disk {disk_seconds} s: without a slower disk \
                 there is nothing to decide"
            ),
            Self::Joining { node } => {
                write!(f, "node {} cannot join: it is not there, or runs a program from the start", node + 1)
            }
            Self::Epoch { found } => write!(
                f,
                "an epoch of {found} seconds, where {LEAST_EPOCH_SECONDS} to {MOST_SECONDS} are simulated"
            ),
        }
    }
}

impl std::error::Error for SetupError {}

/// Returns `true` if an operation can take this time.
fn is_cost(seconds: f64) -> bool {
    (0.0..=MOST_SECONDS).contains(&seconds)
}

/// Runs programs over a cluster to their ends.
///
/// # Errors
/// When there is no program, no node for it, or a cost is invalid.
pub fn simulate(programs: &[Program], setting: &PrefetchSetup) -> Result<PrefetchResult, SetupError> {
    let times = setting.check(programs)?;
    Ok(run::PrefetchRun::new(programs, setting, times).finish())
}

impl PrefetchSetup {
    /// Returns the testbed with one program: node 0 runs it, beside `idle` idle nodes. Each node
    /// has `frames` frames.
    pub fn testbed(frames: usize, idle: usize) -> Self {
        Self {
            frames: vec![frames; 1 + idle],
            homes: vec![0],
            prefetching: PrefetchKinds::ALL,
            costs: PrefetchCosts::TESTBED,
            outstanding: 8,
            epoch_seconds: 5.0,
            planning: EpochPlanner::Coordinator,
            balancing: BalancingRate::Fixed(0.0),
            joining: None,
            copies: None,
            seed: 1,
        }
    }

    fn check(&self, programs: &[Program]) -> Result<AccessTimes, SetupError> {
        if programs.is_empty() || programs.iter().any(|one| one.references.is_empty()) {
            return Err(SetupError::NoReferences);
        }
        if self.homes.len() != programs.len() {
            return Err(SetupError::Homes { programs: programs.len(), homes: self.homes.len() });
        }
        if !(1..=MOST_NODES).contains(&self.frames.len()) {
            return Err(SetupError::Nodes { found: self.frames.len() });
        }
        let frames = |node: usize| self.frames.get(node).copied().unwrap_or(0);
        if let Some(node) = self.homes.iter().find(|node| frames(**node) < LEAST_FRAMES) {
            return Err(SetupError::Frames { node: *node, found: frames(*node) });
        }
        if let Some((node, found)) = self.frames.iter().enumerate().find(|(_, frames)| **frames > MOST_FRAMES)
        {
            return Err(SetupError::Frames { node, found: *found });
        }
        if !(LEAST_EPOCH_SECONDS..=MOST_SECONDS).contains(&self.epoch_seconds) {
            return Err(SetupError::Epoch { found: self.epoch_seconds });
        }
        if let Some(one) = programs.iter().find(|one| !is_cost(one.computing_seconds)) {
            return Err(SetupError::Cost { found: one.computing_seconds });
        }
        if let Some(joining) = self.joining
            && (self.homes.contains(&joining.node) || joining.node >= self.frames.len())
        {
            return Err(SetupError::Joining { node: joining.node });
        }
        self.costs.times()
    }
}

/// Largest number of pages that come to one node over the network at once, beside those that it
/// waits for.
pub const MOST_INCOMING: usize = 4;
/// Least frames of a node with a program: more than can be under way to it.
pub const LEAST_FRAMES: usize = 16;
/// Largest number of frames: 8 TB of pages.
pub const MOST_FRAMES: usize = 1 << 30;
/// Longest time of any simulated operation.
pub const MOST_SECONDS: f64 = 1000.0;
/// Shortest epoch: an epoch must not be shorter than the exchange of the nodes' reports.
pub const LEAST_EPOCH_SECONDS: f64 = 0.01;
/// Largest number of nodes: more than any cluster of this kind had.
pub const MOST_NODES: usize = 1000;
/// Pages of a file, where not all disks have a copy.
pub const FILE_PAGES: u32 = 64;
