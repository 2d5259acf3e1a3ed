//! Consistent hashing: nodes own intervals of a ring, and a key's home is the first node at or
//! after it.
//!
//! Karger et al., *Consistent hashing and random trees*, STOC 1997; *Web caching with consistent
//! hashing*, WWW 1999. Every node has 160 points on the ring for weight 1, which keeps loads within
//! some 8% (one deviation) of even. A lost node's intervals go to their neighbours. O(log points) a
//! key; 16 bytes a point. Fits many nodes and many lookups; [`Rendezvous`](super::Rendezvous) is
//! more even and smaller.

use super::HashPlacement;
use crate::route::NodeId;
use shoal_core::{Key, mixed};

/// Ring of points.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Points with their nodes, in order.
    points: Vec<(u64, NodeId)>,
}

impl Ring {
    /// Makes nodes of equal weight.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut ring = Self::default();
        nodes.into_iter().for_each(|node| ring.insert(node, 1.0));
        ring
    }
}

impl HashPlacement for Ring {
    fn home(&self, key: Key) -> Option<NodeId> {
        let at = self.points.partition_point(|(point, _)| *point < key.low());
        self.points.get(at).or(self.points.first()).map(|(_, node)| *node)
    }

    fn insert(&mut self, node: NodeId, weight: f64) {
        self.remove(node);
        let points = if weight > 0.0 { (POINTS * weight).round().clamp(1.0, MOST_POINTS) as u64 } else { 0 };
        let place = |number| (mixed(mixed(node.0) ^ mixed(number + 1)), node);
        self.points.extend((0..points).map(place));
        self.points.sort_unstable();
        debug_assert!(self.points.iter().filter(|(_, other)| *other == node).count() as u64 == points);
    }

    fn remove(&mut self, node: NodeId) {
        self.points.retain(|(_, other)| *other != node);
    }
}

/// Points of a node of weight 1.
const POINTS: f64 = 160.0;
/// Largest number of points, for nodes of a hundred times the usual weight and more. The lightest
/// nodes still have one point.
const MOST_POINTS: f64 = 16_000.0;
