//! Rendezvous hashing: the home is the node with the highest score for the key.
//!
//! After Thaler and Ravishankar 1998, weighted after Schindelhauer and Schomaker 2005: see
//! [`rendezvous_score`]. A lost node's keys go to the node with the second score, and no other key
//! moves. O(nodes) a key; 16 bytes a node.

use super::HashPlacement;
use crate::route::NodeId;
use shoal_core::{Key, rendezvous_score};

/// Nodes with their weights.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// Nodes in order of their names.
    nodes: Vec<(NodeId, f64)>,
}

impl Rendezvous {
    /// Makes nodes of equal weight.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut homes = Self::default();
        nodes.into_iter().for_each(|node| homes.insert(node, 1.0));
        homes
    }
}

impl HashPlacement for Rendezvous {
    fn home(&self, key: Key) -> Option<NodeId> {
        let score = |(node, weight): &(NodeId, f64)| rendezvous_score(key, node.0, *weight);
        let best = self.nodes.iter().max_by(|a, b| score(a).total_cmp(&score(b)).then(a.0.cmp(&b.0)));
        best.map(|(node, _)| *node)
    }

    fn insert(&mut self, node: NodeId, weight: f64) {
        self.remove(node);
        if weight > 0.0 && weight.is_finite() {
            let at = self.nodes.partition_point(|(other, _)| *other < node);
            self.nodes.insert(at, (node, weight));
            debug_assert!(self.nodes.is_sorted_by(|one, next| one.0 < next.0), "each node once");
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.nodes.retain(|(other, _)| *other != node);
    }
}
