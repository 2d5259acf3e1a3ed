//! A cluster that prefetches together: programs that told what they will ask for, the disks and the
//! memory of idle nodes at work for them.
//!
//! The prototype of Voelker 2000, chapter 4 (PGMS), simulated event by event with its measured
//! costs (Tables 4.1 and 4.2). All that is decided, which page is fetched where and what gives way,
//! is decided by [`shoal_cooperation::prefetch`], which a live cluster calls; here are only
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
//! What the chapter does not say is settled so, on the side of what a kernel can know:
//!
//! - Pages are read only and belong to one program; every node's disk has a copy of every file
//!   (section 4.3.2).
//! - A request for a page whose prefetch only waits in a queue withdraws it and reads the page from
//!   the own disk; one whose prefetch has begun waits for it.
//! - Prefetches to local memory take pages in order and pass over those that another node is
//!   reading. At most [`MOST_INCOMING`] pages are under way over the network and one from the own
//!   disk. Programs' own faults go before prefetches at their own disk, and both before what other
//!   nodes ask.
//! - What is left of an epoch's weights all nodes know at once; in a cluster acknowledgements tell
//!   it.
//! - A putpage costs its sender what a request does and takes the receiver's link as long as any
//!   page; it is not in the tables.
//!
//! | module | |
//! |---|---|
//! | [`program`] | what programs ask for and what they tell of it |
//! | `disk` | one disk: how long a page takes |
//! | `memory` | the pages of one node, by worth |
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
pub use program::{Hinting, Program};

use crate::global_memory::contention::Balancing;
use shoal_cooperation::prefetch::AccessTimes;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct PrefetchSetup {
    /// The frames of each node.
    pub frames: Vec<usize>,
    /// The node of each program.
    pub homes: Vec<usize>,
    /// What is prefetched.
    pub prefetching: Prefetching,
    /// What everything costs.
    pub costs: Costs,
    /// B: prefetches to global memory that one node has outstanding at most.
    pub outstanding: usize,
    /// T: how long an epoch lasts at most, in seconds.
    pub epoch_seconds: f64,
    /// Whether weights follow ages alone or loads too, and who chooses the rate.
    pub balancing: Balancing,
    /// A node that joins later.
    pub joining: Option<Joining>,
    /// Seed of what is drawn: where evicted pages go.
    pub seed: u64,
}

/// A node whose memory and disk are there only from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joining {
    /// Which node: one that runs nothing.
    pub node: usize,
    /// After how many seconds.
    pub after_seconds: f64,
}

/// What is prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetching {
    /// From the own disk into local memory.
    pub disk_to_local: bool,
    /// From global memory into local memory.
    pub global_to_local: bool,
    /// From other nodes' disks into their memory.
    pub disk_to_global: bool,
}

impl Prefetching {
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

/// What things cost, in seconds: Tables 4.1 and 4.2, and section 4.4.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Processor time of a node that asks for a page from global memory, as requester and manager.
    pub getpage_seconds: f64,
    /// The way of the request.
    pub wire_seconds: f64,
    /// How long a page keeps the link of the node that sends it, or gets it.
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

impl Costs {
    /// Those of the testbed. Asking, sending, and receiving overlap, so that a page takes 370 µs
    /// altogether where the table's parts sum to 412 µs: what is left for the request's way is 370
    /// less the rest. A putpage counts as the request of a getpage does, since the tables have
    /// none.
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

    /// The same with another time for a page from global memory, all its parts in proportion.
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

    /// F_G and F_D, as the predicate counts them.
    ///
    /// # Errors
    /// When a page from global memory takes as long as one from disk, or a cost is no number.
    pub fn times(&self) -> Result<AccessTimes, Error> {
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
            return Err(Error::Cost { found: *found });
        }
        AccessTimes::new(0.0, global, self.disk.random_seconds)
            .map_err(|_| Error::Levels { global_seconds: global, disk_seconds: self.disk.random_seconds })
    }
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefetchResult {
    /// Each program.
    pub programs: Vec<ProgramResult>,
    /// When the last one was done, in seconds.
    pub seconds: f64,
    /// How many epochs it took.
    pub epochs: u64,
    /// Each node's disk: the share of the time that it worked.
    pub disks: Vec<f64>,
    /// The load balancing rate, by epoch.
    pub rates: Vec<f64>,
}

/// What one program did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramResult {
    /// From its start to its end, in seconds.
    pub elapsed_seconds: f64,
    /// Computing, in seconds.
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
    /// Neither computing nor fetching anything itself: waiting, in seconds.
    pub fn stall_seconds(&self) -> f64 {
        (self.elapsed_seconds - self.user_seconds - self.system_seconds).max(0.0)
    }

    /// Fetches into local memory.
    pub fn into_local(&self) -> u64 {
        self.disk_to_local.all() + self.global_to_local.all()
    }
}

/// Fetches of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetches {
    /// Before they were asked for.
    pub in_time: u64,
    /// Waited for, prefetched or not.
    pub stalls: u64,
    /// How many of both were the first of their page: from any disk, or, out of global memory, into
    /// local memory.
    pub cold: u64,
}

impl Fetches {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.in_time + self.stalls
    }

    /// Those of pages that had been there before and had to leave.
    pub fn capacity(&self) -> u64 {
        self.all() - self.cold
    }
}

/// Why nothing can be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// No program, or one that asks for nothing.
    NoReferences,
    /// Programs and their nodes are not of one number.
    Homes {
        /// Programs.
        programs: usize,
        /// Nodes told for them.
        homes: usize,
    },
    /// A program's node is not there, or has fewer frames than are under way at once; or a node has
    /// more than any machine.
    Frames {
        /// Which node, from 0.
        node: usize,
        /// How many it has.
        found: usize,
    },
    /// More nodes than are simulated.
    Nodes {
        /// How many.
        found: usize,
    },
    /// A cost is negative or no number.
    Cost {
        /// What it is.
        found: f64,
    },
    /// The disk is not slower than the network.
    Levels {
        /// A page from global memory.
        global_seconds: f64,
        /// A page from disk.
        disk_seconds: f64,
    },
    /// The node that joins is not there, or runs a program.
    Joining {
        /// Which node, from 0.
        node: usize,
    },
    /// An epoch is too short to plan in, or longer than anything lasts.
    Epoch {
        /// What it is, in seconds.
        found: f64,
    },
}

impl std::fmt::Display for Error {
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

impl std::error::Error for Error {}

/// Whether something can take so long.
fn is_cost(seconds: f64) -> bool {
    (0.0..=MOST_SECONDS).contains(&seconds)
}

/// Runs programs over a cluster to their ends.
///
/// # Errors
/// When there is nothing to run, or nothing to run it on, or a cost is none.
pub fn simulate(programs: &[Program], setting: &PrefetchSetup) -> Result<PrefetchResult, Error> {
    let times = setting.check(programs)?;
    Ok(run::Run::new(programs, setting, times).finish())
}

impl PrefetchSetup {
    /// The testbed with one program: node 0 runs it, and as many idle nodes are beside it; each has
    /// so many frames.
    pub fn testbed(frames: usize, idle: usize) -> Self {
        Self {
            frames: vec![frames; 1 + idle],
            homes: vec![0],
            prefetching: Prefetching::ALL,
            costs: Costs::TESTBED,
            outstanding: 8,
            epoch_seconds: 5.0,
            balancing: Balancing::Fixed(0.0),
            joining: None,
            seed: 1,
        }
    }

    fn check(&self, programs: &[Program]) -> Result<AccessTimes, Error> {
        if programs.is_empty() || programs.iter().any(|one| one.references.is_empty()) {
            return Err(Error::NoReferences);
        }
        if self.homes.len() != programs.len() {
            return Err(Error::Homes { programs: programs.len(), homes: self.homes.len() });
        }
        if !(1..=MOST_NODES).contains(&self.frames.len()) {
            return Err(Error::Nodes { found: self.frames.len() });
        }
        let frames = |node: usize| self.frames.get(node).copied().unwrap_or(0);
        if let Some(node) = self.homes.iter().find(|node| frames(**node) < LEAST_FRAMES) {
            return Err(Error::Frames { node: *node, found: frames(*node) });
        }
        if let Some((node, found)) = self.frames.iter().enumerate().find(|(_, frames)| **frames > MOST_FRAMES)
        {
            return Err(Error::Frames { node, found: *found });
        }
        if !(LEAST_EPOCH_SECONDS..=MOST_SECONDS).contains(&self.epoch_seconds) {
            return Err(Error::Epoch { found: self.epoch_seconds });
        }
        if let Some(one) = programs.iter().find(|one| !is_cost(one.computing_seconds)) {
            return Err(Error::Cost { found: one.computing_seconds });
        }
        if let Some(joining) = self.joining
            && (self.homes.contains(&joining.node) || joining.node >= self.frames.len())
        {
            return Err(Error::Joining { node: joining.node });
        }
        self.costs.times()
    }
}

/// Pages that come to one node over the network at once, beside those that it waits for.
pub const MOST_INCOMING: usize = 4;
/// A node with a program needs more than can be under way to it.
pub const LEAST_FRAMES: usize = 16;
/// 8 TB of pages.
pub const MOST_FRAMES: usize = 1 << 30;
/// Nothing that is simulated takes longer at once.
pub const MOST_SECONDS: f64 = 1000.0;
/// Epochs must not be shorter than what nodes tell each other takes.
pub const LEAST_EPOCH_SECONDS: f64 = 0.01;
/// More nodes than any cluster of this kind had.
pub const MOST_NODES: usize = 1000;
