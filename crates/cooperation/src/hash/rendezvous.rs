//! Rendezvous hashing: the home is the node with the highest score for the key.
//!
//! Thaler and Ravishankar, *Using name-based mappings to increase hit rates*, IEEE/ACM Transactions on Networking 1998. A score hangs on
//! key and node alone, so that a lost node's keys go to whoever came second and no other key moves. Weights after Schindelhauer and Schomaker, *Weighted
//! distributed hash tables*, SPAA 2005: score −w / ln u for uniform u wins with probability w / Σw. O(nodes) a key; 16 bytes a node.

use super::{Homes, mixed};
use crate::route::NodeId;
use shoal_core::Key;

/// Nodes by weight.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// By name.
    nodes: Vec<(NodeId, f64)>,
}

impl Rendezvous {
    /// Nodes of equal weight.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut homes = Self::default();
        nodes.into_iter().for_each(|node| homes.insert(node, 1.0));
        homes
    }
}

impl Homes for Rendezvous {
    fn home(&self, key: Key) -> Option<NodeId> {
        let score = |(node, weight): &(NodeId, f64)| {
            let bits = mixed(key.low() ^ mixed(node.0.wrapping_add(key.high())));
            // from 2^-54 up to just below 1, so that the logarithm is finite and below zero
            let unit = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -weight / unit.ln()
        };
        let best = self.nodes.iter().max_by(|a, b| score(a).total_cmp(&score(b)).then(a.0.cmp(&b.0)));
        best.map(|(node, _)| *node)
    }

    fn insert(&mut self, node: NodeId, weight: f64) {
        self.remove(node);
        if weight > 0.0 && weight.is_finite() {
            let at = self.nodes.partition_point(|(other, _)| *other < node);
            self.nodes.insert(at, (node, weight));
        }
    }

    fn remove(&mut self, node: NodeId) {
        self.nodes.retain(|(other, _)| *other != node);
    }
}
