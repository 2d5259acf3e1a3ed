//! Clusters whose nodes share memories or requests, side by side: nodes with memories, a server
//! with memory and disk, and one trace of who asks for what.
//!
//! Voelker 2000, chapter 2. Each system is a file behind one trait, [`ClusterScheme`], and decides
//! where requests are answered and where copies go; [`Cluster`] holds the memories and the books.
//!
//! | system | shares what | who replaces |
//! |---|---|---|
//! | [`Direct`] | nothing: idle memory is private backing store | each client |
//! | [`Greedy`] | all clients' memories, found by the server | each client, for itself |
//! | [`Central`] | a part of each memory, as one | the server, by LRU over all |
//! | [`Hashed`] | the same part, parted by hash | each node its part |
//! | [`NChance`] | all memories | each client; a singlet goes to another at random, n times |
//! | [`WeightedLru`] | all memories | whoever holds what is worth least: cost of getting it again over age |
//! | [`Gms`] | all memories | by epochs, the node that holds the oldest |
//! | [`Pager`] | nothing: idle memory keeps what clients write too, with or without [`pager::Redundancy`] | nobody |
//! | [`Dodo`] | nothing: idle memory keeps regions of many pages | nobody |
//! | [`FrontEnd`] | requests, which a front end hands to back-ends with disks of their own | each back-end, or [`Gms`] |
//!
//! The first seven are the taxonomy of Dahlin, Wang, Anderson, Patterson, *Cooperative caching:
//! using remote client memory to improve file system performance*, OSDI 1994, with GMS (Feeley et
//! al., SOSP 1995); [`Pager`] is Markatos and Dramitinos 1996, [`Dodo`] Koussih, Acharya, Setia
//! 1999, [`FrontEnd`] Pai et al. 1998.
//!
//! Two drivers take a system through a trace. [`simulate`] makes nobody wait for anybody, with the
//! latencies of Dahlin et al.: 250 µs from memory, 200 µs a hop, 400 µs for a block on the wire,
//! 14.8 ms from disk; what a busy server means is told by its load, 1 for a message, 2 for a block
//! sent or read from disk. [`serve`] queues requests at processors and disks and tells throughput.
//! Whether a block is a singlet stands in its metadata, and where an evicted one went is told with
//! the request that it made room for, so that neither costs a message. An object is one block,
//! whatever its size. What a node writes is written to disk when it leaves the node, unless the
//! system keeps it safe otherwise, and others' copies of it go. O(1) a request but for
//! [`WeightedLru`], whose evictions look at each node. Memory: 4 bytes an object for each node, and
//! 24 a frame.

mod central;
mod counts;
mod direct;
mod dodo;
mod front_end;
mod gms;
mod greedy;
mod hashed;
mod memory;
mod n_chance;
pub mod pager;
mod queues;
mod state;
mod systems;
mod weighted_lru;

#[cfg(test)]
mod tests;

pub use central::Central;
pub use counts::Counts;
pub use direct::Direct;
pub use dodo::{Dodo, RegionReplacement};
pub use front_end::FrontEnd;
pub use gms::{DiskPlacement, Gms};
pub use greedy::Greedy;
pub use hashed::Hashed;
pub use memory::Memory;
pub use n_chance::NChance;
pub use pager::Pager;
pub use queues::{NodeUtilization, ServiceTimes, ThroughputResult, serve};
pub use state::{Cluster, ClusterSize};
pub use systems::{SYSTEMS, SchemeConstructor, SchemeOptions, named};
pub use weighted_lru::WeightedLru;

use counts::{BLOCK, DISK_US, HOP_US, MEMORY_US, MESSAGE, TRANSFER_US};
use state::{BackgroundOp, MOST_NODES, SERVER};

/// Decides where requests are served and where copies go.
pub trait ClusterScheme {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Which node answers a client: the client's own, unless a front end hands requests out. `None`
    /// when no node can.
    fn answers(&mut self, _cluster: &Cluster, client: usize, _object: u32) -> Option<usize> {
        Some(client)
    }

    /// A node wants an object. The system says from where it comes, and afterwards the node holds
    /// it (but for [`RegionReplacement::FirstIn`]).
    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom;

    /// A node has changed an object that it has just got: no other copy is good any more.
    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        cluster.written(node, object);
    }

    /// A node is gone with its memory, which the cluster has emptied: what the system knows of the
    /// node goes too.
    fn lost(&mut self, _cluster: &mut Cluster, _node: usize) {}
}

/// Where a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFrom {
    /// From the node's own memory.
    Local,
    /// From another node's memory.
    Remote {
        /// Which.
        from: usize,
        /// Over so many hops.
        hops: u32,
        /// Who knew that it is there.
        asked: LocatedBy,
    },
    /// From the server's memory, over so many hops.
    Server(u32),
    /// From the server's disk, over so many hops.
    Disk(u32),
    /// From a disk of the node's own.
    OwnDisk,
}

/// Who was asked where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocatedBy {
    /// Nobody: the node knew.
    Nobody,
    /// The server.
    Server,
    /// A node that keeps a part of the directory.
    Node(usize),
}

/// What one node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The node, or the client of a front end.
    pub node: usize,
    /// The object.
    pub object: u32,
    /// Whether it is changed.
    pub is_write: bool,
}

impl From<(usize, u32)> for Access {
    fn from((node, object): (usize, u32)) -> Self {
        Self { node, object, is_write: false }
    }
}

/// What happens during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunPlan {
    /// So many requests first fill the memories and are not counted.
    pub warm_up: u64,
    /// After so many requests this node is lost.
    pub failure: Option<(u64, usize)>,
}

/// Runs a system over requests, where nobody waits for anybody. The first `warm_up` are not
/// counted. Requests of nodes or for objects that do not exist are passed over.
pub fn simulate(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    warm_up: u64,
) -> Counts {
    simulate_with(system, size, requests, RunPlan { warm_up, failure: None })
}

/// The same with everything that may happen. Requests of a node that is lost are passed over too.
pub fn simulate_with(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    plan: RunPlan,
) -> Counts {
    let mut cluster = Cluster::new(size);
    let mut before = Counts::default();
    for access in requests {
        if cluster.counts.requests == plan.warm_up {
            before = cluster.counts;
        }
        cluster.perform(system, access.into());
        cluster.clock_us = cluster.counts.microseconds;
        cluster.fail(system, plan.failure);
    }
    if cluster.counts.requests <= plan.warm_up { Counts::default() } else { cluster.counts.since(&before) }
}
