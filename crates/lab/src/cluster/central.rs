//! Centrally coordinated caching: the server manages a part of each client's memory.
//!
//! Dahlin et al. 1994, section 2.3. The coordinated parts are one cache behind the server's own,
//! replaced by LRU over all of them. The server's victims go there. A client manages the rest of
//! its memory for itself, and that part serves no other client. Each local miss and each placed
//! block go through the server.

use super::{BLOCK, Cluster, ClusterScheme, ClusterSize, NodeMemory, SERVER, ServedFrom};

/// Centrally coordinated caching.
pub struct Central {
    /// Frames that each client keeps for itself.
    local: Vec<usize>,
    /// Frames that each client lends.
    parts: Vec<usize>,
    /// Memory of all coordinated parts together.
    coordinated: NodeMemory,
    /// For each node, the first frame of the coordinated parts after its own.
    ends: Vec<usize>,
}

impl Central {
    /// Creates the scheme with this share of each client's memory coordinated; Dahlin et al. found
    /// 0.8 good.
    pub fn new(size: &ClusterSize, coordinated_share: f64) -> Self {
        let local = locals(size, coordinated_share);
        let parts = size.nodes.iter().zip(&local).map(|(all, local)| all.saturating_sub(*local));
        let mut central = Self {
            coordinated: NodeMemory::new(0, size.objects),
            ends: Vec::new(),
            parts: parts.collect(),
            local,
        };
        central.share_out(size.objects);
        central
    }

    /// Rebuilds the coordinated cache from the nodes' parts, empty.
    fn share_out(&mut self, objects: usize) {
        let sum = |end: &mut usize, part: &usize| {
            *end += part;
            Some(*end)
        };
        self.ends = self.parts.iter().scan(0, sum).collect();
        self.coordinated = NodeMemory::new(self.ends.last().copied().unwrap_or(0), objects);
    }

    /// Returns the node that holds a coordinated block.
    fn holder(&self, object: u32) -> usize {
        let frame = self.coordinated.frame(object).unwrap_or(0);
        self.ends.partition_point(|end| *end <= frame).min(self.ends.len().saturating_sub(1))
    }

    /// Places the server's victim on one of the clients.
    fn place(&mut self, cluster: &mut Cluster, object: u32) {
        if self.coordinated.touch(object, cluster.now) || self.coordinated.capacity() == 0 {
            return;
        }
        self.coordinated.take_in(object, cluster.now);
        cluster.counts.server_load += BLOCK;
        cluster.forward(SERVER, self.holder(object));
    }
}

/// Returns the frames that each client keeps for itself, at least one.
pub(super) fn locals(size: &ClusterSize, coordinated_share: f64) -> Vec<usize> {
    let share = 1.0 - coordinated_share.clamp(0.0, 1.0);
    size.nodes.iter().map(|frames| ((*frames as f64 * share) as usize).clamp(1, (*frames).max(1))).collect()
}

/// Puts an object into the part of a node's memory that is its own.
pub(super) fn keep(cluster: &mut Cluster, node: usize, object: u32, frames: usize) {
    if cluster.nodes[node].len() >= frames
        && let Some(evicted) = cluster.nodes[node].oldest()
    {
        cluster.remove(node, evicted);
    }
    cluster.insert(node, object, cluster.now);
}

impl ClusterScheme for Central {
    fn name(&self) -> &'static str {
        "centrally coordinated caching"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let is_coordinated = !cluster.server.has(object) && self.coordinated.touch(object, cluster.now);
        let served = if is_coordinated {
            cluster.pass_on(self.holder(object))
        } else {
            let (served, evicted) = cluster.ask_server(object, 2);
            if let Some(evicted) = evicted {
                self.place(cluster, evicted);
            }
            served
        };
        keep(cluster, node, object, self.local[node]);
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        self.coordinated.remove(object);
        cluster.written(node, object);
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        let stayed: Vec<(u32, u32)> =
            self.coordinated.from_oldest().filter(|(object, _)| self.holder(*object) != node).collect();
        self.parts[node] = 0;
        self.share_out(cluster.objects());
        for (object, last_used) in stayed {
            self.coordinated.take_in(object, last_used);
        }
    }
}
