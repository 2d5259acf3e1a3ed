//! Hash-distributed caching: centrally coordinated caching, each block with a home node by hash.
//!
//! Dahlin et al. 1994, section 2.3. A client asks the home node first, which passes the request on
//! to the server when it does not have the block. The server sends its victims to their homes. The
//! server therefore hears only of blocks not found, at the price of one more hop for those.

use super::central::{keep, locals};
use super::{
    BLOCK, BackgroundOp, Cluster, ClusterScheme, ClusterSize, LocatedBy, NodeMemory, SERVER, ServedFrom,
};

/// Hash-distributed caching.
pub struct HashDistribution {
    local: Vec<usize>,
    /// Each node's part of the coordinated cache.
    parts: Vec<NodeMemory>,
}

impl HashDistribution {
    /// Creates the scheme with this share of each client's memory coordinated.
    pub fn new(size: &ClusterSize, coordinated_share: f64) -> Self {
        let local = locals(size, coordinated_share);
        let part = |(all, local): (&usize, &usize)| NodeMemory::new(all.saturating_sub(*local), size.objects);
        let parts = size.nodes.iter().zip(&local).map(part).collect();
        Self { local, parts }
    }

    fn home(&self, object: u32) -> usize {
        // Fibonacci hashing: consecutive numbers go to different nodes
        let mixed = u64::from(object).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((mixed * self.parts.len() as u64) >> 32) as usize
    }
}

impl ClusterScheme for HashDistribution {
    fn name(&self) -> &'static str {
        "hash-distributed caching"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let home = self.home(object);
        let served = if self.parts[home].touch(object, cluster.now) {
            if home == node {
                ServedFrom::Local
            } else {
                ServedFrom::Remote { from: home, hops: 2, asked: LocatedBy::Nobody }
            }
        } else {
            cluster.chore(BackgroundOp::Message(home));
            let (served, evicted) = cluster.ask_server(object, 3);
            if let Some(evicted) = evicted {
                let home = self.home(evicted);
                // A lost node's part has no room and is not replaced.
                if !self.parts[home].touch(evicted, cluster.now) && self.parts[home].capacity() > 0 {
                    self.parts[home].take_in(evicted, cluster.now);
                    cluster.counts.server_load += BLOCK;
                    cluster.forward(SERVER, home);
                }
            }
            served
        };
        keep(cluster, node, object, self.local[node]);
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        let home = self.home(object);
        self.parts[home].remove(object);
        cluster.written(node, object);
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        self.parts[node] = NodeMemory::new(0, cluster.objects());
    }
}
