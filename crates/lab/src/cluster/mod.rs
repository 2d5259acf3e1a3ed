//! Systems of cooperative caching side by side: workstations with memories of their own, a server with memory and disk, and one trace of who asks for what.
//!
//! Voelker 2000, section 2.1, after the taxonomy of Dahlin, Wang, Anderson, Patterson, *Cooperative caching: using remote client memory to improve file system
//! performance*, OSDI 1994, and GMS (Feeley et al., SOSP 1995). Each system is a file behind one trait, [`System`], and decides where copies go; [`Cluster`] holds the
//! memories and the books.
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
//!
//! Latencies are those of Dahlin et al.: 250 µs from memory, 200 µs a hop, 400 µs for a block on the wire, 14.8 ms from disk. Nobody waits for anybody;
//! what a busy server means is told by its load: 1 for a message, 2 for a block sent or read from disk. Whether a block is a singlet stands in its metadata, and where an
//! evicted one went is told with the request that it made room for, so that neither costs a message. Requests are reads. O(1) a request but for
//! [`WeightedLru`], whose evictions look at each node. Memory: 4 bytes an object for each node, and 24 a frame.

mod central;
mod direct;
mod gms;
mod greedy;
mod hashed;
mod memory;
mod n_chance;
mod weighted_lru;

#[cfg(test)]
mod tests;

pub use central::Central;
pub use direct::Direct;
pub use gms::Gms;
pub use greedy::Greedy;
pub use hashed::Hashed;
pub use memory::Memory;
pub use n_chance::NChance;
pub use weighted_lru::WeightedLru;

/// Decides where requests are served and where copies go.
pub trait System {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A node asks for an object. The system says from where it comes, and afterwards the node holds it.
    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> Served;
}

/// Where a request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// From the node's own memory.
    Local,
    /// From another node's memory, over so many hops.
    Remote(u32),
    /// From the server's memory, over so many hops.
    Server(u32),
    /// From disk, over so many hops.
    Disk(u32),
}

/// How large the cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Frames of each node, of which each has at least one; at most 64 nodes.
    pub nodes: Vec<usize>,
    /// Frames of the server.
    pub server: usize,
    /// Objects are numbered below this.
    pub objects: usize,
}

/// The memories, who holds what, and the books.
pub struct Cluster {
    /// Each node's memory.
    pub nodes: Vec<Memory>,
    /// The server's memory.
    pub server: Memory,
    /// The nodes that hold each object, a bit each.
    holders: Vec<u64>,
    /// Requests so far: the clock by which ages are told.
    pub now: u32,
    /// What was counted.
    pub counts: Counts,
}

/// What a run counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Of these, served from the node's own memory.
    pub local: u64,
    /// From another node's memory.
    pub remote: u64,
    /// From the server's memory.
    pub server: u64,
    /// From disk.
    pub disk: u64,
    /// How long all of them took, in microseconds.
    pub microseconds: u64,
    /// What the server did: 1 a message, 2 a block.
    pub server_load: u64,
    /// Blocks sent from one node to another to be kept.
    pub forwarded: u64,
}

/// Runs a system over requests, each a node and an object. The first `warm_up` are not counted. Requests of nodes or objects that do not exist are passed over.
pub fn simulate(
    system: &mut dyn System,
    size: &Size,
    requests: impl IntoIterator<Item = (usize, u32)>,
    warm_up: u64,
) -> Counts {
    let mut cluster = Cluster::new(size);
    let mut before = Counts::default();
    for (node, object) in requests {
        if node >= cluster.nodes.len() || object as usize >= size.objects {
            continue;
        }
        if cluster.counts.requests == warm_up {
            before = cluster.counts;
        }
        cluster.now += 1;
        let served = system.request(&mut cluster, node, object);
        cluster.counts.add(served);
    }
    if cluster.counts.requests <= warm_up { Counts::default() } else { cluster.counts.since(&before) }
}

impl Cluster {
    /// Empty memories. Nodes beyond the 64th are left out.
    pub fn new(size: &Size) -> Self {
        let memory = |frames: &usize| Memory::new(*frames, size.objects);
        Self {
            nodes: size.nodes.iter().take(MOST_NODES).map(|frames| memory(&(*frames).max(1))).collect(),
            server: memory(&size.server),
            holders: vec![0; size.objects],
            now: 0,
            counts: Counts::default(),
        }
    }

    /// Whether a node holds an object; then it has been used now.
    pub fn touch(&mut self, node: usize, object: u32) -> bool {
        self.nodes[node].touch(object, self.now)
    }

    /// How many nodes hold an object.
    pub fn copies(&self, object: u32) -> u32 {
        self.holders[object as usize].count_ones()
    }

    /// A node other than this one that holds an object.
    pub fn other_holder(&self, node: usize, object: u32) -> Option<usize> {
        let others = self.holders[object as usize] & !(1 << node);
        (others != 0).then(|| others.trailing_zeros() as usize)
    }

    /// Puts an object, last used at some time, into a node's memory, which has room.
    pub fn insert(&mut self, node: usize, object: u32, last_used: u32) {
        self.nodes[node].insert(object, last_used);
        self.holders[object as usize] |= 1 << node;
    }

    /// Takes an object out of a node's memory.
    pub fn remove(&mut self, node: usize, object: u32) {
        if self.nodes[node].remove(object) {
            self.holders[object as usize] &= !(1 << node);
        }
    }

    /// Asks the server's memory and, when it is not there either, the disk, whose block the server keeps. Gives what the server gave up for it.
    pub fn ask_server(&mut self, object: u32, hops: u32) -> (Served, Option<u32>) {
        if self.server.touch(object, self.now) {
            self.counts.server_load += MESSAGE + BLOCK;
            return (Served::Server(hops), None);
        }
        self.counts.server_load += MESSAGE + BLOCK + BLOCK;
        (Served::Disk(hops), self.server.take_in(object, self.now))
    }

    /// The server passes a request on to the node that holds the object.
    pub fn pass_on(&mut self) -> Served {
        self.counts.server_load += 2 * MESSAGE;
        Served::Remote(3)
    }
}

impl Counts {
    fn add(&mut self, served: Served) {
        self.requests += 1;
        let (count, microseconds) = match served {
            Served::Local => (&mut self.local, MEMORY_US),
            Served::Remote(hops) => (&mut self.remote, MEMORY_US + TRANSFER_US + u64::from(hops) * HOP_US),
            Served::Server(hops) => (&mut self.server, MEMORY_US + TRANSFER_US + u64::from(hops) * HOP_US),
            Served::Disk(hops) => {
                (&mut self.disk, MEMORY_US + TRANSFER_US + u64::from(hops) * HOP_US + DISK_US)
            }
        };
        *count += 1;
        self.microseconds += microseconds;
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            local: self.local - before.local,
            remote: self.remote - before.remote,
            server: self.server - before.server,
            disk: self.disk - before.disk,
            microseconds: self.microseconds - before.microseconds,
            server_load: self.server_load - before.server_load,
            forwarded: self.forwarded - before.forwarded,
        }
    }

    /// How long a request took on average, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.microseconds as f64 / 1e3 / self.requests.max(1) as f64
    }

    /// The server's load for each request.
    pub fn load_per_request(&self) -> f64 {
        self.server_load as f64 / self.requests.max(1) as f64
    }
}

/// As many as a set of holders has bits.
const MOST_NODES: usize = 64;
const MEMORY_US: u64 = 250;
const HOP_US: u64 = 200;
const TRANSFER_US: u64 = 400;
const DISK_US: u64 = 14_800;
const MESSAGE: u64 = 1;
const BLOCK: u64 = 2;
