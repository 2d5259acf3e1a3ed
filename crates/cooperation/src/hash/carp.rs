//! Cache Array Routing Protocol (CARP): homes as Squid and Microsoft's proxies compute them, so
//! that a Shoal can join such an array.
//!
//! Valloppillil and Ross, *Cache Array Routing Protocol v1.0*, Internet draft
//! draft-vinod-carp-v1-03, 1998. URL and node name are hashed to 32 bits and combined. A factor
//! then gives each node its load share (section 3.4 of the draft). The node with the highest score
//! is the home. O(nodes) a key. The hash mixes little: loads are off by up to a fifth. Where no
//! other implementation takes part, [`Rendezvous`](super::Rendezvous) is more even. With unequal
//! shares a lost node changes the others' factors, so that a few of their keys move too.

use super::HashPlacement;
use crate::route::NodeId;
use shoal_core::Key;

/// Members of an array.
#[derive(Clone, Debug, Default)]
pub struct Carp {
    /// Members by ascending load share, as the factors need it.
    members: Vec<Member>,
}

#[derive(Clone, Debug)]
struct Member {
    node: NodeId,
    hash: u32,
    weight: f64,
    factor: f64,
}

impl Carp {
    /// Makes an array of members by name and share.
    pub fn of<'a>(members: impl IntoIterator<Item = (NodeId, &'a str, f64)>) -> Self {
        let mut array = Self::default();
        for (node, name, weight) in members {
            array.insert_named(node, name, weight);
        }
        array
    }

    /// Adds a member under the name by which all members know it. A present member gets the new
    /// name and share.
    pub fn insert_named(&mut self, node: NodeId, name: &str, weight: f64) {
        self.take_in(node, scrambled(hashed(name.as_bytes())), weight);
    }

    /// Returns the home of a URL; the draft's hash covers the URL's own bytes.
    pub fn home_of(&self, url: &str) -> Option<NodeId> {
        self.best(hashed(url.as_bytes()))
    }

    fn best(&self, url: u32) -> Option<NodeId> {
        let score = |member: &Member| f64::from(scrambled(url ^ member.hash)) * member.factor;
        self.members.iter().max_by(|a, b| score(a).total_cmp(&score(b))).map(|member| member.node)
    }

    fn take_in(&mut self, node: NodeId, hash: u32, weight: f64) {
        self.members.retain(|member| member.node != node);
        if weight > 0.0 && weight.is_finite() {
            self.members.push(Member { node, hash, weight, factor: 1.0 });
        }
        self.compute_factors();
    }

    /// Computes the factors: X_1 = (K·P_1)^(1/K); X_k = ((K−k+1)·(P_k − P_{k−1}) / ΠX +
    /// X_{k−1}^(K−k+1))^(1/(K−k+1)).
    fn compute_factors(&mut self) {
        self.members.sort_by(|a, b| a.weight.total_cmp(&b.weight).then(a.node.cmp(&b.node)));
        let sum: f64 = self.members.iter().map(|member| member.weight).sum();
        let (mut product, mut before, mut share_before) = (1.0, 0.0f64, 0.0);
        let mut left = self.members.len() as f64;
        for member in &mut self.members {
            let share = member.weight / sum;
            member.factor = (left * (share - share_before) / product + before.powf(left)).powf(1.0 / left);
            product *= member.factor;
            (before, share_before) = (member.factor, share);
            left -= 1.0;
        }
    }
}

impl HashPlacement for Carp {
    /// Returns the home of a key by the key's own bits, as its URL is not available.
    fn home(&self, key: Key) -> Option<NodeId> {
        self.best(key.low() as u32)
    }

    /// Adds a member; its name is its number.
    fn insert(&mut self, node: NodeId, weight: f64) {
        self.insert_named(node, &node.0.to_string(), weight);
    }

    fn remove(&mut self, node: NodeId) {
        self.take_in(node, 0, 0.0);
    }
}

fn hashed(bytes: &[u8]) -> u32 {
    let add = |hash: u32, byte: &u8| hash.wrapping_add(hash.rotate_left(19)).wrapping_add(u32::from(*byte));
    bytes.iter().fold(0, add)
}

fn scrambled(hash: u32) -> u32 {
    hash.wrapping_add(hash.wrapping_mul(0x6253_1965)).rotate_left(21)
}
