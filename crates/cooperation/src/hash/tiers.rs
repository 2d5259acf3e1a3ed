//! Homes in tiers: one in the city, one in the state, and so on, each for the nodes of its group.
//!
//! Voelker 2000, section 5.3, leaves it as obvious: a flat hash sends every request over the
//! average distance of all nodes. With tiers a request goes to the nearest group's home first. On a
//! miss this home asks the next group's home, and keeps a copy. This is a hierarchy with upper
//! levels spread over all nodes, so that no node is a bottleneck. O(nodes of the groups passed) a
//! key.

use super::{HashPlacement, Rendezvous};
use crate::route::{NodeId, Route};
use shoal_core::Key;
use std::collections::BTreeMap;

/// Groups within groups.
#[derive(Clone, Debug, Default)]
pub struct Tiers {
    /// Groups of each tier, the narrowest tier first.
    tiers: Vec<BTreeMap<u64, Rendezvous>>,
    /// Each node's group at every tier.
    places: BTreeMap<NodeId, Vec<u64>>,
}

impl Tiers {
    /// Makes tiers from nodes with the names of their groups, the narrowest first. A node with
    /// fewer groups than others has no part in the wider ones.
    pub fn new(places: impl IntoIterator<Item = (NodeId, Vec<u64>)>) -> Self {
        let mut tiers = Self::default();
        for (node, groups) in places {
            tiers.lose(node);
            if tiers.tiers.len() < groups.len() {
                tiers.tiers.resize_with(groups.len(), BTreeMap::new);
            }
            for (tier, group) in tiers.tiers.iter_mut().zip(&groups) {
                tier.entry(*group).or_default().insert(node, 1.0);
            }
            tiers.places.insert(node, groups);
        }
        tiers
    }
}

impl Route for Tiers {
    fn path(&self, entry: NodeId, key: Key, path: &mut Vec<NodeId>) {
        path.clear();
        let groups = self.places.get(&entry).map_or(&[][..], Vec::as_slice);
        for (tier, group) in self.tiers.iter().zip(groups) {
            let home = tier.get(group).and_then(|homes| homes.home(key));
            path.extend(home.filter(|home| !path.contains(home)));
        }
    }

    fn lose(&mut self, gone: NodeId) {
        let groups = self.places.remove(&gone).unwrap_or_default();
        for (tier, group) in self.tiers.iter_mut().zip(groups) {
            if let Some(homes) = tier.get_mut(&group) {
                homes.remove(gone);
            }
        }
    }
}
