//! The memories of a cluster, the holders of each object, and the books.

use super::ages::{AgedCopy, CopyKind, KindAges};
use super::{Access, BLOCK, ClusterCounts, ClusterScheme, LocatedBy, MESSAGE, NodeMemory, ServedFrom};
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
    pub nodes: Vec<NodeMemory>,
    /// The server's memory.
    pub server: NodeMemory,
    /// The nodes that hold each object, a bit each.
    holders: Vec<u64>,
    /// Duplicates and singlets by age, for systems that ask for them.
    duplicates: Option<KindAges>,
    singlets: Option<KindAges>,
    /// Requests so far: the clock for ages.
    pub now: u32,
    /// Time in microseconds. Without queues, the time of all requests so far together.
    pub clock_us: u64,
    /// Requests that each node is answering: none without queues, [`OUT_OF_SERVICE`] when it is
    /// lost.
    pub loads: Vec<u32>,
    /// Counts of the run.
    pub counts: ClusterCounts,
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
        let memory = |frames: &usize| NodeMemory::new(*frames, size.objects);
        let nodes: Vec<NodeMemory> =
            size.nodes.iter().take(MOST_NODES).map(|frames| memory(&(*frames).max(1))).collect();
        debug_assert!(nodes.len() <= MOST_NODES, "a node has a bit among the holders");
        Self {
            loads: vec![0; nodes.len()],
            nodes,
            server: memory(&size.server),
            holders: vec![0; size.objects],
            duplicates: None,
            singlets: None,
            now: 0,
            clock_us: 0,
            counts: ClusterCounts::default(),
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
        let served = if is_write {
            self.counts.writes += 1;
            system.write(self, node, object)
        } else {
            system.request(self, node, object)
        };
        self.check_served(node, object, served);
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
        assert!(self.nodes[node].is_empty(), "a lost node keeps nothing");
        system.lost(self, node);
    }

    /// Checks that each memory is sound, and that the holders of each object are the nodes that
    /// hold it. O(nodes · objects): drivers call this in debug builds, at the end of a run.
    pub(super) fn invariants(&self) {
        self.nodes.iter().chain([&self.server]).for_each(NodeMemory::invariants);
        for (object, holders) in self.holders.iter().enumerate() {
            let has = |(node, memory): (usize, &NodeMemory)| u64::from(memory.has(object as u32)) << node;
            let holding = self.nodes.iter().enumerate().map(has).fold(0, |all, one| all | one);
            assert_eq!(*holders, holding, "holders of object {object}");
        }
        for (node, memory) in self.nodes.iter().enumerate() {
            assert!(self.serves(node) || memory.is_empty(), "lost node {node} holds objects");
        }
    }

    /// Checks the place that a system says it served a request from.
    fn check_served(&self, node: usize, object: u32, served: ServedFrom) {
        if let ServedFrom::Remote { from, hops, .. } = served {
            debug_assert!(self.serves(from), "lost node {from} served object {object}");
            // A node does not know the server's part of its memory, and may be sent to itself.
            debug_assert!(
                hops > u32::from(from != node),
                "object {object} came to node {node} over {hops} hops"
            );
        }
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
        let has = self.nodes[node].touch(object, self.now);
        if has && self.duplicates.is_some() {
            self.note_kind(node, object);
        }
        has
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
        debug_assert!(!self.nodes[node].is_full(), "node {node} has no room for object {object}");
        debug_assert!(last_used <= self.now, "object {object} was used in the future");
        self.nodes[node].insert(object, last_used);
        self.holders[object as usize] |= 1 << node;
        self.note_kind(node, object);
        if self.copies(object) == 2
            && let Some(other) = self.other_holder(node, object)
        {
            self.note_change(other, object);
            self.note_kind(other, object);
        }
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
        debug_assert_eq!(
            self.nodes[node].has(object),
            self.holders[object as usize] & (1 << node) != 0,
            "node {node} and the holders of object {object} disagree"
        );
        if self.nodes[node].remove(object) {
            self.holders[object as usize] &= !(1 << node);
            self.note_change(node, object);
            if self.copies(object) == 1
                && let Some(last) = self.other_holder(node, object)
            {
                self.note_change(last, object);
                self.note_kind(last, object);
            }
        }
        was_changed
    }

    /// Begins to keep duplicates by age, before the first request.
    pub(super) fn keep_duplicates_by_age(&mut self) {
        let nodes = self.nodes.len();
        self.duplicates.get_or_insert_with(|| KindAges::new(nodes));
    }

    /// Begins to keep all copies by age, before the first request.
    pub(super) fn keep_copies_by_age(&mut self) {
        self.keep_duplicates_by_age();
        let nodes = self.nodes.len();
        self.singlets.get_or_insert_with(|| KindAges::new(nodes));
    }

    /// Returns a node's oldest copy of a kind that is kept by age.
    pub(super) fn oldest_of(&mut self, kind: CopyKind, node: usize) -> Option<AgedCopy> {
        let (nodes, holders) = (&self.nodes, &self.holders);
        let current = |node: usize, object| last_used_as(kind, &nodes[node], holders, object);
        match kind {
            CopyKind::Duplicate => self.duplicates.as_mut()?.oldest(node, current),
            CopyKind::Singlet => self.singlets.as_mut()?.oldest(node, current),
        }
    }

    /// Returns the oldest copy in all memories, of a kind that is kept by age, and its node.
    pub(super) fn oldest_of_all(&mut self, kind: CopyKind) -> Option<(usize, AgedCopy)> {
        let (nodes, holders) = (&self.nodes, &self.holders);
        let current = |node: usize, object| last_used_as(kind, &nodes[node], holders, object);
        match kind {
            CopyKind::Duplicate => self.duplicates.as_mut()?.oldest_of_all(current),
            CopyKind::Singlet => self.singlets.as_mut()?.oldest_of_all(current),
        }
    }

    /// Handles the loss or the change of kind of a copy.
    fn note_change(&mut self, node: usize, object: u32) {
        for ages in [&mut self.duplicates, &mut self.singlets].into_iter().flatten() {
            ages.changed(node, object);
        }
    }

    /// Puts a copy that came, was used or changed its kind among those of its kind.
    fn note_kind(&mut self, node: usize, object: u32) {
        let kind = kind_of(self.copies(object));
        let (memory, holders) = (&self.nodes[node], &self.holders);
        let ages = match kind {
            CopyKind::Duplicate => &mut self.duplicates,
            CopyKind::Singlet => &mut self.singlets,
        };
        if let Some(ages) = ages {
            let copy = AgedCopy::new(object, memory.last_used(object));
            let current = |object| last_used_as(kind, memory, holders, object);
            ages.push(node, copy, memory.capacity(), current);
        }
    }

    /// Handles a node's change of an object that it holds: the copies of other nodes and the server
    /// are old, and go.
    pub fn written(&mut self, node: usize, object: u32) {
        while let Some(other) = self.other_holder(node, object) {
            self.take(other, object);
        }
        self.server.remove(object);
        self.nodes[node].change(object);
        debug_assert!(self.copies(object) <= 1, "a changed object has old copies");
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

fn kind_of(copies: u32) -> CopyKind {
    if copies > 1 { CopyKind::Duplicate } else { CopyKind::Singlet }
}

/// Returns a copy's time of last use, if the memory holds it and it is of a kind.
fn last_used_as(kind: CopyKind, memory: &NodeMemory, holders: &[u64], object: u32) -> Option<u32> {
    if kind_of(holders[object as usize].count_ones()) != kind {
        return None;
    }
    memory.has(object).then(|| memory.last_used(object))
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
