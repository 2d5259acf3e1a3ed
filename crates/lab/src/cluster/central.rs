//! Centrally coordinated caching: a part of each client's memory is the server's to manage.
//!
//! Dahlin et al. 1994, section 2.3. The coordinated parts are one cache behind the server's own, replaced by LRU over all of them; what the server gives up goes there. A
//! client manages the rest for itself, and what stands there serves nobody else. Each request that misses locally goes through the server, and
//! so does each block that is placed.

use super::{BLOCK, Cluster, Memory, Served, Size, System};

/// See the file's head.
pub struct Central {
    /// Frames that each client keeps for itself.
    local: Vec<usize>,
    /// All coordinated parts.
    coordinated: Memory,
}

impl Central {
    /// This share of each client's memory is coordinated; Dahlin et al. found 0.8 good.
    pub fn new(size: &Size, coordinated_share: f64) -> Self {
        let local = locals(size, coordinated_share);
        let coordinated = size.nodes.iter().zip(&local).map(|(all, local)| all.saturating_sub(*local)).sum();
        Self { local, coordinated: Memory::new(coordinated, size.objects) }
    }
}

/// The frames that each client keeps for itself, at least one.
pub(super) fn locals(size: &Size, coordinated_share: f64) -> Vec<usize> {
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

impl System for Central {
    fn name(&self) -> &'static str {
        "centrally coordinated caching"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> Served {
        if cluster.touch(node, object) {
            return Served::Local;
        }
        let is_coordinated = !cluster.server.has(object) && self.coordinated.touch(object, cluster.now);
        let served = if is_coordinated {
            cluster.pass_on()
        } else {
            let (served, evicted) = cluster.ask_server(object, 2);
            if let Some(evicted) = evicted
                && !self.coordinated.touch(evicted, cluster.now)
            {
                self.coordinated.take_in(evicted, cluster.now);
                cluster.counts.server_load += BLOCK;
                cluster.counts.forwarded += 1;
            }
            served
        };
        keep(cluster, node, object, self.local[node]);
        served
    }
}
