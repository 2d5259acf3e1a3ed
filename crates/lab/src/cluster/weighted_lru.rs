//! Weighted LRU: what is worth least in all memories goes.
//!
//! Dahlin et al. 1994, section 2.5. A copy is worth what it costs to get again (over the network when there is another, from disk when not) over the time since it was
//! used. A node that needs room gives up its own least, or passes it on to the node whose least is worth still less. All is known here that a real node could only estimate,
//! but of each memory the oldest few alone are looked at: O(nodes) an eviction.

use super::{Cluster, DISK_US, HOP_US, MEMORY_US, Served, System, TRANSFER_US, greedy};

/// See the file's head.
#[derive(Default)]
pub struct WeightedLru;

/// A copy and what it is worth, in microseconds a request since it was used.
#[derive(Clone, Copy)]
struct Least {
    node: usize,
    /// None where a frame is free.
    object: Option<u32>,
    worth: f32,
}

impl WeightedLru {
    fn make_room(cluster: &mut Cluster, node: usize) {
        let Some((own, object)) = least(cluster, node).and_then(|own| Some((own, own.object?))) else {
            return;
        };
        let passes_on = cluster.copies(object) == 1;
        let others = (0..cluster.nodes.len()).filter(|other| *other != node && passes_on);
        let all = others.filter_map(|other| least(cluster, other));
        let lowest = all.fold(own, |lowest, one| if one.worth < lowest.worth { one } else { lowest });
        let last_used = cluster.nodes[node].last_used(object);
        cluster.remove(node, object);
        if lowest.node != node {
            if let Some(gone) = lowest.object {
                cluster.remove(lowest.node, gone);
            }
            cluster.insert(lowest.node, object, last_used);
            cluster.counts.forwarded += 1;
        }
    }
}

/// What is worth least in a memory; a free frame is worth nothing.
fn least(cluster: &Cluster, node: usize) -> Option<Least> {
    let memory = &cluster.nodes[node];
    if !memory.is_full() {
        return Some(Least { node, object: None, worth: 0.0 });
    }
    let worth = |(object, last_used): (u32, u32)| {
        let cost = if cluster.copies(object) > 1 { AGAIN_US } else { AGAIN_US + DISK_US };
        Least { node, object: Some(object), worth: cost as f32 / (1 + cluster.now - last_used) as f32 }
    };
    memory.from_oldest().take(LOOKED_AT).map(worth).min_by(|a, b| a.worth.total_cmp(&b.worth))
}

impl System for WeightedLru {
    fn name(&self) -> &'static str {
        "weighted lru"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> Served {
        if cluster.touch(node, object) {
            return Served::Local;
        }
        let served = greedy::ask(cluster, node, object);
        if cluster.nodes[node].is_full() {
            Self::make_room(cluster, node);
        }
        cluster.insert(node, object, cluster.now);
        served
    }
}

/// How many of the oldest of each memory are looked at.
const LOOKED_AT: usize = 4;
const AGAIN_US: u64 = MEMORY_US + TRANSFER_US + 3 * HOP_US;
