//! The memories of a cluster, the holders of each object, and the books.

use super::{Access, BLOCK, ClusterScheme, Counts, LocatedBy, MESSAGE, Memory, ServedFrom};
use shoal_cooperation::distribution::{Backends, OUT_OF_SERVICE};

/// Size of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSize {
    /// Frames of each node, at least one each; at most 64 nodes.
    pub nodes: Vec<usize>,
    /// Frames of the server.
    pub server: usize,
    /// Number of objects; object numbers are below it.
    pub objects: usize,
}

/// Memories, holders and counts of a cluster.
pub struct Cluster {
    /// Each node's memory.
    pub nodes: Vec<Memory>,
    /// The server's memory.
    pub server: Memory,
    /// The nodes that hold each object, a bit each.
    holders: Vec<u64>,
    /// Requests so far: the clock for ages.
    pub now: u32,
    /// Time in microseconds. Without queues, the time of all requests so far together.
    pub clock_us: u64,
    /// Requests that each node is answering: none without queues, [`OUT_OF_SERVICE`] when it is
    /// lost.
    pub loads: Vec<u32>,
    /// Counts of the run.
    pub counts: Counts,
    /// Work that no request waits for, for a driver that queues it; `None` for other drivers.
    pub(super) chores: Option<Vec<BackgroundOp>>,
}

/// Work beside requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackgroundOp {
    /// A message that a node handles.
    Message(usize),
    /// A block from one node's memory, or [`SERVER`]'s, to another's.
    Block { from: usize, to: usize },
    /// A block that a node writes to its disk.
    Write(usize),
}

impl Cluster {
    /// Creates a cluster with empty memories. Nodes beyond the 64th are left out.
    pub fn new(size: &ClusterSize) -> Self {
        let memory = |frames: &usize| Memory::new(*frames, size.objects);
        let nodes: Vec<Memory> =
            size.nodes.iter().take(MOST_NODES).map(|frames| memory(&(*frames).max(1))).collect();
        Self {
            loads: vec![0; nodes.len()],
            nodes,
            server: memory(&size.server),
            holders: vec![0; size.objects],
            now: 0,
            clock_us: 0,
            counts: Counts::default(),
            chores: None,
        }
    }

    /// Takes a request through a system. Returns the node that answered it, and the place that
    /// served it. `None` for an unknown node or object, or when no node answers.
    pub fn perform(&mut self, system: &mut dyn ClusterScheme, access: Access) -> Option<(usize, ServedFrom)> {
        let Access { node, object, is_write } = access;
        if object as usize >= self.holders.len() {
            return None;
        }
        let serves = |node: &usize| *node < self.nodes.len() && self.serves(*node);
        let node = system.answers(self, node, object).filter(serves)?;
        self.now += 1;
        let served = system.request(self, node, object);
        if is_write {
            self.counts.writes += 1;
            system.written(self, node, object);
        }
        self.counts.add(served);
        Some((node, served))
    }

    /// Loses a node with its memory when the time of the failure has come.
    pub(super) fn fail(&mut self, system: &mut dyn ClusterScheme, failure: Option<(u64, usize)>) {
        let Some((_, node)) = failure.filter(|(after, _)| *after == self.counts.requests) else { return };
        if node >= self.nodes.len() || !self.serves(node) {
            return;
        }
        self.loads[node] = OUT_OF_SERVICE;
        let held: Vec<u32> = self.nodes[node].from_oldest().map(|(object, _)| object).collect();
        for object in held {
            self.counts.lost += u64::from(self.take(node, object));
        }
        system.lost(self, node);
    }

    /// Returns the number of objects; object numbers are below it.
    pub fn objects(&self) -> usize {
        self.holders.len()
    }

    /// Returns `true` if a node is in service.
    pub fn serves(&self, node: usize) -> bool {
        self.loads[node] != OUT_OF_SERVICE
    }

    /// Marks an object as used now. Returns `false` if the node does not hold it.
    pub fn touch(&mut self, node: usize, object: u32) -> bool {
        self.nodes[node].touch(object, self.now)
    }

    /// Returns the number of nodes that hold an object.
    pub fn copies(&self, object: u32) -> u32 {
        self.holders[object as usize].count_ones()
    }

    /// Returns a node other than this one that holds an object.
    pub fn other_holder(&self, node: usize, object: u32) -> Option<usize> {
        let others = self.holders[object as usize] & !(1 << node);
        (others != 0).then(|| others.trailing_zeros() as usize)
    }

    /// Puts an object with a time of last use into a node's memory, which has room.
    pub fn insert(&mut self, node: usize, object: u32, last_used: u32) {
        self.nodes[node].insert(object, last_used);
        self.holders[object as usize] |= 1 << node;
    }

    /// Takes an object out of a node's memory. A changed object is written to disk.
    pub fn remove(&mut self, node: usize, object: u32) {
        if self.take(node, object) {
            self.write(node);
        }
    }

    /// Takes an object out of a node's memory. Returns `true` if it was changed there and not yet
    /// written.
    pub fn take(&mut self, node: usize, object: u32) -> bool {
        let was_changed = self.nodes[node].is_changed(object);
        if self.nodes[node].remove(object) {
            self.holders[object as usize] &= !(1 << node);
        }
        was_changed
    }

    /// Handles a node's change of an object that it holds: the copies of other nodes and the server
    /// are old, and go.
    pub fn written(&mut self, node: usize, object: u32) {
        while let Some(other) = self.other_holder(node, object) {
            self.take(other, object);
        }
        self.server.remove(object);
        self.nodes[node].change(object);
    }

    /// Writes a block of a node to disk.
    pub fn write(&mut self, node: usize) {
        self.counts.disk_writes += 1;
        self.chore(BackgroundOp::Write(node));
    }

    /// Sends a block from one node to another, which keeps it.
    pub fn forward(&mut self, from: usize, to: usize) {
        self.counts.forwarded += 1;
        self.chore(BackgroundOp::Block { from, to });
    }

    pub(super) fn chore(&mut self, chore: BackgroundOp) {
        if let Some(chores) = &mut self.chores {
            chores.push(chore);
        }
    }

    /// Asks the server's memory for an object, then the disk; the server keeps a block read from
    /// disk. Returns the place that served the object and the server's victim.
    pub fn ask_server(&mut self, object: u32, hops: u32) -> (ServedFrom, Option<u32>) {
        if self.server.touch(object, self.now) {
            self.counts.server_load += MESSAGE + BLOCK;
            return (ServedFrom::Server(hops), None);
        }
        self.counts.server_load += MESSAGE + BLOCK + BLOCK;
        (ServedFrom::Disk(hops), self.server.take_in(object, self.now))
    }

    /// Passes a request on, through the server, to the node that holds the object.
    pub fn pass_on(&mut self, from: usize) -> ServedFrom {
        self.counts.server_load += 2 * MESSAGE;
        ServedFrom::Remote { from, hops: 3, asked: LocatedBy::Server }
    }
}

/// A front end's view of the nodes, with full knowledge.
impl Backends for Cluster {
    fn loads(&self) -> &[u32] {
        &self.loads
    }

    fn now(&self) -> u64 {
        self.clock_us
    }

    fn holder(&self, target: u64) -> Option<usize> {
        let holders = *self.holders.get(target as usize)?;
        (holders != 0).then(|| holders.trailing_zeros() as usize)
    }

    fn next_victim_used(&self, backend: usize) -> Option<u64> {
        let memory = &self.nodes[backend];
        if memory.is_full() {
            memory.oldest().map(|object| u64::from(memory.last_used(object)))
        } else {
            None
        }
    }
}

/// Bits in a set of holders.
pub(super) const MOST_NODES: usize = 64;
/// Number of the server where a node's number is expected.
pub(super) const SERVER: usize = usize::MAX;
