//! Homes by hash: every key has one node that keeps it, and every node computes the home itself.
//!
//! | rule | cost of a home | keys that move when a node of m is lost |
//! |---|---|---|
//! | [`Rendezvous`] | O(m) hashes | its own keys, evenly to all others by weight |
//! | [`Ring`] | O(log m) | its own keys, to its neighbours on the ring |
//! | [`Carp`] | O(m) hashes of 32 bits | its own keys where weights are equal |
//!
//! [`Carp`] chooses as Squid and ISA Server choose parents.
//!
//! The hash-based scheme of Voelker 2000, section 5.3, after Karger et al. 1999 and Valloppillil &
//! Ross 1998. All caches together hold one copy of each object, and load is spread evenly. The
//! price is a request to the home each time, so the scheme fits nodes that are near each other.
//! [`Tiers`] is for nodes that are far apart.

mod carp;
mod rendezvous;
mod ring;
mod tiers;

#[cfg(test)]
mod tests;

pub use carp::{Carp, CarpRule};
pub use rendezvous::Rendezvous;
pub use ring::Ring;
pub use tiers::Tiers;

use crate::route::{NodeId, Route};
use shoal_core::Key;

/// Rule that gives every key a home.
pub trait HashPlacement {
    /// Returns the node that keeps a key; `None` when there are no nodes.
    fn home(&self, key: Key) -> Option<NodeId>;

    /// Adds a node; its share of the keys is in proportion to the others' weights. A present node
    /// gets the new weight; a weight that is not above zero removes it.
    fn insert(&mut self, node: NodeId, weight: f64);

    /// Removes a node that is gone.
    fn remove(&mut self, node: NodeId);
}

impl<H: HashPlacement> Route for H {
    fn path(&self, _entry: NodeId, key: Key, path: &mut Vec<NodeId>) {
        path.clear();
        path.extend(self.home(key));
    }

    fn lose(&mut self, gone: NodeId) {
        self.remove(gone);
    }
}
