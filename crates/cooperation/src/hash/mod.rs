//! Homes by hash: every key has one node that keeps it, and everybody computes which without
//! asking.
//!
//! | rule | cost of a home | what moves when a node of m is lost |
//! |---|---|---|
//! | [`Rendezvous`] | O(m) hashes | its own keys, evenly to all others by weight |
//! | [`Ring`] | O(log m) | its own keys, to its neighbours on the ring |
//! | [`Carp`] | O(m) hashes of 32 bits | its own keys where weights are equal; as Squid and ISA Server choose parents |
//!
//! The hash-based scheme of Voelker 2000, section 5.3, after Karger et al. 1999 and Valloppillil &
//! Ross 1998. One copy of each object in all caches, and load spread evenly, at the price of going
//! to the home for every request: fits where nodes are near each other. [`Tiers`] is for where they
//! are not.

mod carp;
mod rendezvous;
mod ring;
mod tiers;

#[cfg(test)]
mod tests;

pub use carp::Carp;
pub use rendezvous::Rendezvous;
pub use ring::Ring;
pub use tiers::Tiers;

use crate::route::{NodeId, Route};
use shoal_core::Key;

/// A rule that gives every key a home.
pub trait HashPlacement {
    /// The node that keeps a key; `None` when there are no nodes.
    fn home(&self, key: Key) -> Option<NodeId>;

    /// Takes in a node that gets this share of the keys in proportion to the others' weights. One
    /// that is in gets the new weight; a weight that is not above zero takes it out.
    fn insert(&mut self, node: NodeId, weight: f64);

    /// Takes out a node that is gone.
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
