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

/// Rule by which all members of an array compute homes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CarpRule {
    /// The Internet draft.
    #[default]
    Draft,
    /// Squid, since 2011: the hash of the URL is not reset between the members. So the member at
    /// place k, by ascending share, is compared with the hash of the URL written k times. Bytes
    /// above 0x7f count as negative, and a share below a thousandth is none.
    Squid,
}

/// Members of an array.
#[derive(Clone, Debug, Default)]
pub struct Carp {
    rule: CarpRule,
    /// Members by ascending load share, as the factors need it.
    members: Vec<CarpMember>,
}

#[derive(Clone, Debug)]
struct CarpMember {
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

    /// Makes an array of Squid's rule. Members of equal share stand in the order given, as in
    /// Squid's file.
    pub fn of_squid<'a>(members: impl IntoIterator<Item = (NodeId, &'a str, f64)>) -> Self {
        let mut array = Self { rule: CarpRule::Squid, members: Vec::new() };
        for (node, name, weight) in members {
            array.insert_named(node, name, weight);
        }
        array
    }

    /// Adds a member under the name by which all members know it. A present member gets the new
    /// name and share.
    pub fn insert_named(&mut self, node: NodeId, name: &str, weight: f64) {
        self.take_in(node, scrambled(hashed(0, name.as_bytes(), self.rule)), weight);
    }

    /// Returns the home of a URL; the draft's hash covers the URL's own bytes.
    pub fn home_of(&self, url: &str) -> Option<NodeId> {
        self.ranked(|_| url.to_owned()).first().copied()
    }

    /// Returns all members for a URL, its home first: the next one takes the place of a member that
    /// is down. Each member may hash another text of the URL.
    pub fn ranked(&self, text: impl Fn(NodeId) -> String) -> Vec<NodeId> {
        let mut running = 0;
        let mut scores: Vec<(f64, NodeId)> = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let start = if self.rule == CarpRule::Squid { running } else { 0 };
            running = hashed(start, text(member.node).as_bytes(), self.rule);
            scores.push((member.score(running), member.node));
        }
        if self.rule == CarpRule::Squid {
            scores.retain(|(score, _)| *score > 0.0);
        }
        // Of equal scores the last member is the draft's home, the first one Squid's.
        if self.rule == CarpRule::Draft {
            scores.reverse();
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        debug_assert!(scores.len() <= self.members.len());
        scores.into_iter().map(|(_, node)| node).collect()
    }

    fn best(&self, url: u32) -> Option<NodeId> {
        let score = |member: &CarpMember| member.score(url);
        self.members.iter().max_by(|a, b| score(a).total_cmp(&score(b))).map(|member| member.node)
    }

    fn take_in(&mut self, node: NodeId, hash: u32, weight: f64) {
        self.members.retain(|member| member.node != node);
        if weight > 0.0 && weight.is_finite() {
            self.members.push(CarpMember { node, hash, weight, factor: 1.0 });
        }
        self.compute_factors();
    }

    /// Computes the factors: X_1 = (K·P_1)^(1/K); X_k = ((K−k+1)·(P_k − P_{k−1}) / ΠX +
    /// X_{k−1}^(K−k+1))^(1/(K−k+1)).
    fn compute_factors(&mut self) {
        match self.rule {
            CarpRule::Draft => {
                self.members.sort_by(|a, b| a.weight.total_cmp(&b.weight).then(a.node.cmp(&b.node)));
            }
            CarpRule::Squid => self.members.sort_by(|a, b| a.weight.total_cmp(&b.weight)),
        }
        let sum: f64 = self.members.iter().map(|member| member.weight).sum();
        let (mut product, mut before, mut share_before) = (1.0, 0.0f64, 0.0);
        let mut left = self.members.len() as f64;
        for member in &mut self.members {
            let share = match member.weight / sum {
                share if self.rule == CarpRule::Squid && share < 0.001 => 0.0,
                share => share,
            };
            member.factor = (left * (share - share_before) / product + before.powf(left)).powf(1.0 / left);
            product *= member.factor;
            (before, share_before) = (member.factor, share);
            left -= 1.0;
        }
    }
}

impl CarpMember {
    fn score(&self, url: u32) -> f64 {
        f64::from(scrambled(url ^ self.hash)) * self.factor
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

/// Continues a hash over bytes. Squid adds them as signed characters.
fn hashed(start: u32, bytes: &[u8], rule: CarpRule) -> u32 {
    let number = |byte: u8| match rule {
        CarpRule::Draft => u32::from(byte),
        CarpRule::Squid => i32::from(byte.cast_signed()).cast_unsigned(),
    };
    let add = |hash: u32, byte: &u8| hash.wrapping_add(hash.rotate_left(19)).wrapping_add(number(*byte));
    bytes.iter().fold(start, add)
}

fn scrambled(hash: u32) -> u32 {
    hash.wrapping_add(hash.wrapping_mul(0x6253_1965)).rotate_left(21)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> [(NodeId, &'static str, f64); 3] {
        [(NodeId(1), "a", 1.0), (NodeId(2), "b", 1.0), (NodeId(3), "c", 2.0)]
    }

    #[test]
    fn ranks_begin_with_the_home_and_hold_each_member() {
        for array in [Carp::of(members()), Carp::of_squid(members())] {
            for number in 0..200 {
                let url = format!("http://x.test/{number}");
                let ranked = array.ranked(|_| url.clone());
                assert_eq!(ranked.first().copied(), array.home_of(&url));
                let mut all = ranked.clone();
                all.sort_unstable();
                assert_eq!(all, [NodeId(1), NodeId(2), NodeId(3)]);
            }
        }
    }

    #[test]
    fn squids_rule_differs_from_the_draft() {
        let (draft, squid) = (Carp::of(members()), Carp::of_squid(members()));
        let urls: Vec<String> = (0..1000).map(|number| format!("http://x.test/{number}")).collect();
        let same = urls.iter().filter(|url| draft.home_of(url) == squid.home_of(url)).count();
        assert!((200..800).contains(&same), "{same} of 1000 are the same");
        // The first member hashes the URL once, as in the draft.
        let one = [(NodeId(1), "a", 1.0)];
        assert!(urls.iter().all(|url| Carp::of(one).home_of(url) == Carp::of_squid(one).home_of(url)));
    }

    #[test]
    fn squid_gives_nothing_to_tiny_shares() {
        let array = Carp::of_squid([(NodeId(1), "a", 1.0), (NodeId(2), "b", 10_000.0)]);
        let ranked = array.ranked(|_| "http://x.test/".to_owned());
        assert_eq!(ranked, [NodeId(2)]);
    }
}
