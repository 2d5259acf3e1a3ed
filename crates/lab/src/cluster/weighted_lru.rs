//! Weighted LRU: the least valuable copy in all memories is evicted.
//!
//! Dahlin et al. 1994, section 2.5. A copy's worth is the cost of a new copy over the time since
//! its use. The cost is the network's when another copy exists, and else the disk's. A node that
//! needs room looks for the node with the least valuable copy. The node's own least valuable copy
//! goes to that node, or is evicted when no copy is worth less. The simulation knows values that a
//! real node could only estimate.
//!
//! Two costs make two kinds of copies, and the oldest of a kind is worth least. Only the oldest
//! duplicate and the oldest singlet of each memory are compared: O(nodes) an eviction.

use super::ages::{AgedCopy, CopyKind};
use super::{Cluster, ClusterScheme, DISK_US, HOP_US, MEMORY_US, ServedFrom, TRANSFER_US, greedy};

/// Weighted LRU.
#[derive(Default)]
pub struct WeightedLru;

/// The copy worth least.
#[derive(Clone, Copy)]
struct Least {
    node: usize,
    kind: CopyKind,
    /// `None` for a free frame.
    copy: Option<AgedCopy>,
}

impl WeightedLru {
    fn make_room(cluster: &mut Cluster, node: usize) {
        let own = lesser(cluster.now, |kind| Some((node, cluster.oldest_of(kind, node)?)));
        let Some(own) = own else { return };
        let Some(copy) = own.copy else { return };
        let lowest = if own.kind == CopyKind::Singlet { lowest(cluster, own) } else { own };
        debug_assert!(own.node == node, "a node evicts a copy of its own");
        cluster.remove(node, copy.object());
        if lowest.node != node {
            if let Some(gone) = lowest.copy {
                cluster.remove(lowest.node, gone.object());
            }
            debug_assert!(!cluster.nodes[lowest.node].is_full(), "a frame was freed");
            cluster.insert(lowest.node, copy.object(), copy.last_used());
            cluster.forward(node, lowest.node);
        }
    }
}

/// Returns the copy worth least in all memories: another node's only when it is worth less than
/// `own`. A free frame of another node is worth nothing.
fn lowest(cluster: &mut Cluster, own: Least) -> Least {
    let has_room = |node: &usize| !cluster.nodes[*node].is_full() && cluster.serves(*node);
    if let Some(node) = (0..cluster.nodes.len()).find(has_room) {
        return Least { node, kind: CopyKind::Singlet, copy: None };
    }
    let now = cluster.now;
    lesser(now, |kind| cluster.oldest_of_all(kind))
        .filter(|least| is_worth_less(now, least, &own))
        .unwrap_or(own)
}

/// Returns the one worth less of the oldest duplicate and the oldest singlet.
fn lesser(now: u32, mut oldest: impl FnMut(CopyKind) -> Option<(usize, AgedCopy)>) -> Option<Least> {
    let mut least = |kind: CopyKind| oldest(kind).map(|(node, copy)| Least { node, kind, copy: Some(copy) });
    match (least(CopyKind::Duplicate), least(CopyKind::Singlet)) {
        (Some(duplicate), Some(singlet)) if is_worth_less(now, &singlet, &duplicate) => Some(singlet),
        (duplicate, singlet) => duplicate.or(singlet),
    }
}

/// Returns `true` if a copy is worth less than another: its cost over its age is smaller.
fn is_worth_less(now: u32, one: &Least, other: &Least) -> bool {
    let age = |least: &Least| least.copy.map_or(u32::MAX, |copy| now - copy.last_used());
    cost_us(one.kind) * (u64::from(age(other)) + 1) < cost_us(other.kind) * (u64::from(age(one)) + 1)
}

/// Returns the time that a new copy takes once a copy of a kind is evicted.
fn cost_us(kind: CopyKind) -> u64 {
    match kind {
        CopyKind::Duplicate => AGAIN_US,
        CopyKind::Singlet => AGAIN_US + DISK_US,
    }
}

impl ClusterScheme for WeightedLru {
    fn name(&self) -> &'static str {
        "weighted lru"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        cluster.keep_copies_by_age();
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

const AGAIN_US: u64 = MEMORY_US + TRANSFER_US + 3 * HOP_US;
