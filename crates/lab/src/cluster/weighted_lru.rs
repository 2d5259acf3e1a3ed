//! Weighted LRU: the least valuable copy in all memories is evicted.
//!
//! Dahlin et al. 1994, section 2.5. A copy's worth is the cost of a new copy over the time since
//! its use. The cost is the network's when another copy exists, and else the disk's. A node that
//! needs room looks for the node with the least valuable copy. The node's own least valuable copy
//! goes to that node, or is evicted when no copy is worth less. The simulation knows values that a
//! real node could only estimate, but looks at the oldest few of each memory only: O(nodes) an
//! eviction.

use super::{
    Cluster, ClusterScheme, DISK_US, HOP_US, MEMORY_US, MOST_NODES, ServedFrom, TRANSFER_US, greedy,
};

/// Weighted LRU.
#[derive(Default)]
pub struct WeightedLru;

/// A copy and its worth, in microseconds a request since it was used.
#[derive(Clone, Copy)]
struct Least {
    node: usize,
    /// The copy's object; `None` for a free frame.
    object: Option<u32>,
    worth: f32,
}

impl WeightedLru {
    fn make_room(cluster: &mut Cluster, node: usize) {
        let mut own = Least::NONE;
        cluster.nodes[node].from_oldest().take(LOOKED_AT).for_each(|copy| own.consider(cluster, node, copy));
        let Some(object) = own.object else { return };
        let lowest = if cluster.copies(object) == 1 { lowest(cluster, own) } else { own };
        let last_used = cluster.nodes[node].last_used(object);
        cluster.remove(node, object);
        if lowest.node != node {
            if let Some(gone) = lowest.object {
                cluster.remove(lowest.node, gone);
            }
            cluster.insert(lowest.node, object, last_used);
            cluster.forward(node, lowest.node);
        }
    }
}

impl Least {
    /// A value above every copy's worth.
    const NONE: Self = Self { node: 0, object: None, worth: f32::INFINITY };

    /// Replaces this copy by another that is worth less.
    fn consider(&mut self, cluster: &Cluster, node: usize, (object, last_used): (u32, u32)) {
        let cost = if cluster.copies(object) > 1 { AGAIN_US } else { AGAIN_US + DISK_US };
        let worth = cost as f32 / (1 + cluster.now - last_used) as f32;
        if worth < self.worth {
            *self = Self { node, object: Some(object), worth };
        }
    }
}

/// Returns the copy worth least in all memories. `own` is that of the evicting node; a free frame
/// of another node is worth nothing.
///
/// All memories are walked at once, one step each in turn: a step waits for memory, and so the
/// waits of different memories overlap.
fn lowest(cluster: &Cluster, own: Least) -> Least {
    let has_room = |node: &usize| !cluster.nodes[*node].is_full() && cluster.serves(*node);
    if let Some(node) = (0..cluster.nodes.len()).find(has_room) {
        return Least { node, object: None, worth: 0.0 };
    }
    let mut lowest = own;
    let mut frames = [0; MOST_NODES];
    for _ in 0..LOOKED_AT {
        for (node, (memory, frame)) in cluster.nodes.iter().zip(&mut frames).enumerate() {
            let Some((next, object, last_used)) = memory.step_from_oldest(*frame) else { continue };
            *frame = next;
            if node != own.node {
                lowest.consider(cluster, node, (object, last_used));
            }
        }
    }
    lowest
}

impl ClusterScheme for WeightedLru {
    fn name(&self) -> &'static str {
        "weighted lru"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let served = greedy::ask(cluster, node, object);
        if cluster.nodes[node].is_full() {
            Self::make_room(cluster, node);
        }
        cluster.insert(node, object, cluster.now);
        served
    }
}

/// Number of oldest copies of each memory that are looked at.
const LOOKED_AT: usize = 4;
const AGAIN_US: u64 = MEMORY_US + TRANSFER_US + 3 * HOP_US;
