//! Clusters with shared memories or requests, side by side: nodes with memories, a server with
//! memory and disk, and one trace of requests by node.
//!
//! Voelker 2000, chapter 2. Each system is a file behind one trait, [`ClusterScheme`], and decides
//! where requests are answered and where copies go; [`Cluster`] holds the memories and the books.
//!
//! | system | shares | replaced by |
//! |---|---|---|
//! | [`Direct`] | nothing: idle memory is private backing store | each client |
//! | [`Greedy`] | all clients' memories, found by the server | each client, for itself |
//! | [`Central`] | a part of each memory, as one | the server, by LRU over all |
//! | [`HashDistribution`] | the same part, parted by hash | each node its part |
//! | [`NChance`] | all memories | each client; a singlet goes to another at random, n times |
//! | [`WeightedLru`] | all memories | the holder of least worth: cost of a new copy over age |
//! | [`Gms`] | all memories | by epochs, the node that holds the oldest |
//! | [`Pager`] | nothing: idle memory keeps writes too ([`pager::Redundancy`]) | nobody |
//! | [`Dodo`] | nothing: idle memory keeps regions of many pages | nobody |
//! | [`FrontEnd`] | requests, handed to back-ends with own disks | each back-end, or [`Gms`] |
//!
//! The first seven are the taxonomy of Dahlin, Wang, Anderson, Patterson, *Cooperative caching:
//! using remote client memory to improve file system performance*, OSDI 1994, with GMS (Feeley et
//! al., SOSP 1995); [`Pager`] is Markatos and Dramitinos 1996, [`Dodo`] Koussih, Acharya, Setia
//! 1999, [`FrontEnd`] Pai et al. 1998.
//!
//! Two drivers take a system through a trace.
//!
//! [`simulate`] has no queues, and the latencies of Dahlin et al.: 250 µs from memory, 200 µs a
//! hop, 400 µs for a block on the wire, 14.8 ms from disk. The server's load tells how busy it is:
//! 1 for a message, 2 for a block sent or read from disk. [`serve`] queues requests at processors
//! and disks and tells throughput.
//!
//! A block's metadata says whether it is a singlet. A node tells the place of an evicted block with
//! the request that it made room for. Neither costs a message. An object of any size is one block.
//! A changed block is written to disk when it leaves its node, unless the system keeps it safe
//! otherwise. A write invalidates the copies of other nodes.
//!
//! A request is O(1), except that [`WeightedLru`] looks at each node when it evicts. It and
//! [`NChance`] keep copies by age. Memory: 4 bytes an object for each node, and 24 a frame.

mod ages;
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
mod recorded;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use central::Central;
pub use counts::ClusterCounts;
pub use direct::Direct;
pub use dodo::{Dodo, RegionReplacement};
pub use front_end::FrontEnd;
pub use gms::{DiskPlacement, Gms};
pub use greedy::Greedy;
pub use hashed::HashDistribution;
pub use memory::NodeMemory;
pub use n_chance::NChance;
pub use pager::Pager;
pub use queues::{NodeUtilization, ServiceTimes, ThroughputResult, serve};
pub use state::{Cluster, ClusterSize};
pub use systems::{SYSTEMS, SchemeConstructor, SchemeOptions, named};
pub use weighted_lru::WeightedLru;

use counts::{BLOCK, DISK_US, HOP_US, MEMORY_US, MESSAGE, TRANSFER_US};
use state::{BackgroundOp, SERVER};

/// Decides where requests are served and where copies go.
pub trait ClusterScheme {
    /// Returns the system's name.
    fn name(&self) -> &'static str;

    /// Returns the node that answers a client: the client's own, unless a front end distributes
    /// requests. `None` when no node can.
    fn answers(&mut self, _cluster: &Cluster, client: usize, _object: u32) -> Option<usize> {
        Some(client)
    }

    /// Serves an object to a node and says from where. Afterwards the node holds the object, except
    /// with [`RegionReplacement::FirstIn`].
    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom;

    /// Serves a node's change of an object. By default the node gets the object first.
    fn write(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        let served = self.request(cluster, node, object);
        self.written(cluster, node, object);
        served
    }

    /// Handles a node's change of an object that it has just got: no other copy is valid any more.
    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        cluster.written(node, object);
    }

    /// Forgets a lost node. The cluster has emptied its memory.
    fn lost(&mut self, _cluster: &mut Cluster, _node: usize) {}
}

/// Place that served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFrom {
    /// From the node's own memory.
    Local,
    /// From another node's memory.
    Remote {
        /// The node.
        from: usize,
        /// Hops of the request.
        hops: u32,
        /// Node that located the object.
        asked: LocatedBy,
    },
    /// From the server's memory, over this number of hops.
    Server(u32),
    /// From the server's disk, over this number of hops.
    Disk(u32),
    /// From a disk of the node's own.
    OwnDisk,
    /// From nowhere: a write that brings nothing in.
    WrittenThrough,
}

/// Node that was asked for an object's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocatedBy {
    /// No node: the requesting node knew.
    Nobody,
    /// The server.
    Server,
    /// A node that keeps a part of the directory.
    Node(usize),
}

/// One node's request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The node, or the client of a front end.
    pub node: usize,
    /// The object.
    pub object: u32,
    /// `true` if the request changes the object.
    pub is_write: bool,
}

impl From<(usize, u32)> for Access {
    fn from((node, object): (usize, u32)) -> Self {
        Self { node, object, is_write: false }
    }
}

/// Events during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RunPlan {
    /// Number of requests that first fill the memories and are not counted.
    pub warm_up: u64,
    /// Number of requests after which a node is lost, and the node.
    pub failure: Option<(u64, usize)>,
}

/// Runs a system over requests without queues. The first `warm_up` requests are not counted.
/// Requests of unknown nodes or for unknown objects are passed over.
pub fn simulate(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    warm_up: u64,
) -> ClusterCounts {
    simulate_with(system, size, requests, RunPlan { warm_up, failure: None })
}

/// Runs a system over requests with the events of a [`RunPlan`]. Requests of a lost node are passed
/// over too.
pub fn simulate_with(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    plan: RunPlan,
) -> ClusterCounts {
    let mut cluster = Cluster::new(size);
    let mut before = ClusterCounts::default();
    for access in requests {
        if cluster.counts.requests == plan.warm_up {
            before = cluster.counts;
        }
        cluster.perform(system, access.into());
        cluster.clock_us = cluster.counts.microseconds;
        cluster.fail(system, plan.failure);
    }
    if cfg!(debug_assertions) {
        cluster.invariants();
    }
    if cluster.counts.requests <= plan.warm_up {
        ClusterCounts::default()
    } else {
        cluster.counts.since(&before)
    }
}
