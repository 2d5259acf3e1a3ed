//! View: the members of a cluster as one node believes them to be, and the homes that follow.
//!
//! A view never changes; another membership is another view. Two nodes with equal views have equal
//! fingerprints and compute the same homes. Homes are those of weighted rendezvous hashing (see
//! [`crate::hash`]), under a secret of the cluster. Nobody outside can therefore choose keys that
//! all have one home.

use crate::route::NodeId;
use shoal_core::{Key, KeySecret, rendezvous_score};
use std::net::SocketAddr;
use std::sync::Arc;

/// State of a member, as it says itself or as the others agreed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberState {
    /// Compares purges and lists; home of nothing yet.
    Joining,
    /// Home of its share of the keys.
    In,
    /// Hands over its objects; home of nothing.
    Draining,
    /// Left, or was declared dead.
    Out,
}

/// One node of the cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Number of the node, a hash of its name: the same in each of its lives.
    pub id: NodeId,
    /// Name of the node, unique in the cluster.
    pub name: Arc<str>,
    /// Address for peers, TCP and UDP.
    pub address: SocketAddr,
    /// Share of the keys relative to other members: bytes of its disk and RAM, in GiB.
    pub weight: f64,
    /// State of the member.
    pub state: MemberState,
    /// Number of this start of the node; a later start has a higher number.
    pub life: u64,
    /// Level in a hierarchy: 0 is nearest to the clients.
    pub level: u8,
}

/// Members of a cluster, in the order of their numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    members: Vec<Member>,
    secret: KeySecret,
    fingerprint: u64,
}

/// Nodes that are to keep a key: the first is its home, the others take its place in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Homes {
    nodes: [Option<NodeId>; HOMES_MAX],
}

impl NodeId {
    /// Returns the number of the node with this name.
    pub fn named(name: &str) -> Self {
        Self(Key::unkeyed(name.as_bytes()).low())
    }
}

impl View {
    /// Makes a view of these members. Of two with one number, the one with the later life counts.
    pub fn new(mut members: Vec<Member>, secret: KeySecret) -> Self {
        members.sort_by(|a, b| a.id.cmp(&b.id).then(b.life.cmp(&a.life)));
        members.dedup_by_key(|member| member.id);
        let fingerprint = fingerprint(&members);
        debug_assert!(members.is_sorted_by(|one, next| one.id < next.id), "each node once");
        Self { members, secret, fingerprint }
    }

    /// Returns a view of other members under the same secret.
    pub fn with_members(&self, members: Vec<Member>) -> Self {
        Self::new(members, self.secret)
    }

    /// Returns all members, in the order of their numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the member with this number.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        let at = self.members.binary_search_by_key(&id, |member| member.id).ok()?;
        debug_assert_eq!(self.members[at].id, id, "found by its number");
        Some(&self.members[at])
    }

    /// Returns a number that is equal for equal views: of all that homes depend on, and lives.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the hash of a full key under the secret of placement, the same at all nodes. Digests
    /// have keys in this form, so that nobody outside can choose keys that look alike.
    pub fn digest_key(&self, full_key: &[u8]) -> Key {
        self.secret.key(full_key)
    }

    /// Returns the homes of a full key. Only members that are in are homes.
    pub fn homes(&self, full_key: &[u8]) -> Homes {
        self.homes_among(full_key, |_| true)
    }

    /// Returns the homes of a full key among some of the members.
    pub(crate) fn homes_among(&self, full_key: &[u8], is_among: impl Fn(&Member) -> bool) -> Homes {
        let key = self.secret.key(full_key);
        let mut best = [(f64::NEG_INFINITY, None); HOMES_MAX];
        for member in self.members.iter().filter(|member| member.is_home() && is_among(member)) {
            let score = rendezvous_score(key, member.id.0, member.weight);
            let at = best.partition_point(|(other, _)| *other >= score);
            if at < HOMES_MAX {
                best[at..].rotate_right(1);
                best[at] = (score, Some(member.id));
            }
        }
        debug_assert!(best.is_sorted_by(|one, next| one.0 >= next.0), "the highest score first");
        Homes { nodes: best.map(|(_, node)| node) }
    }
}

impl Member {
    /// Returns `true` if the member can be a home.
    pub fn is_home(&self) -> bool {
        self.state == MemberState::In && self.weight > 0.0 && self.weight.is_finite()
    }
}

impl Homes {
    /// Makes a list of these nodes, in their order.
    pub fn listed(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut homes = Self::default();
        homes.nodes.iter_mut().zip(nodes).for_each(|(slot, node)| *slot = Some(node));
        homes
    }

    /// Returns the homes in order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().copied().flatten()
    }

    /// Returns the first home.
    pub fn first(&self) -> Option<NodeId> {
        self.nodes[0]
    }

    /// Returns `true` if the node is one of the homes.
    pub fn contains(&self, node: NodeId) -> bool {
        self.iter().any(|home| home == node)
    }
}

fn fingerprint(members: &[Member]) -> u64 {
    debug_assert!(members.is_sorted_by_key(|member| member.id), "equal views in one order");
    let mut bytes = Vec::with_capacity(members.len() * 32);
    for member in members.iter().filter(|member| member.state != MemberState::Out) {
        bytes.extend(member.id.0.to_le_bytes());
        bytes.extend(member.life.to_le_bytes());
        bytes.extend(member.weight.to_bits().to_le_bytes());
        bytes.push(member.state as u8);
        if member.level != 0 {
            // Views without levels have the numbers of nodes that know none.
            bytes.push(member.level);
        }
    }
    Key::unkeyed(&bytes).low()
}

/// Most homes of a key: with three, two nodes may fail at once.
pub const HOMES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn view(count: u64) -> View {
        View::new((0..count).map(member).collect(), KeySecret::NONE)
    }

    fn member(number: u64) -> Member {
        let name: Arc<str> = format!("node{number}").into();
        let address = ([127, 0, 0, 1], 3131).into();
        Member {
            id: NodeId::named(&name),
            name,
            address,
            weight: 1.0,
            state: MemberState::In,
            life: 1,
            level: 0,
        }
    }

    fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..20_000u32).map(|number| format!("http://a.test/{number}").into_bytes())
    }

    #[test]
    fn homes_differ_and_are_spread_evenly() {
        let view = view(8);
        let mut count = std::collections::HashMap::new();
        for key in keys() {
            let homes: Vec<_> = view.homes(&key).iter().collect();
            assert_eq!(homes.len(), HOMES_MAX);
            assert!(homes[0] != homes[1] && homes[1] != homes[2] && homes[0] != homes[2]);
            *count.entry(homes[0]).or_insert(0) += 1;
        }
        assert!(count.values().all(|count| (2_300..2_700).contains(count)), "{count:?}");
    }

    #[test]
    fn second_home_takes_over_and_other_keys_stay() {
        let before = view(8);
        let lost = before.members()[3].id;
        let after = View::new(
            before.members().iter().filter(|member| member.id != lost).cloned().collect(),
            KeySecret::NONE,
        );
        assert_ne!(before.fingerprint(), after.fingerprint());
        for key in keys() {
            let homes: Vec<_> = before.homes(&key).iter().collect();
            let expected = if homes[0] == lost { homes[1] } else { homes[0] };
            assert_eq!(after.homes(&key).first(), Some(expected));
        }
    }

    #[test]
    fn only_members_that_are_in_are_homes() {
        let mut members: Vec<_> = (0..4).map(member).collect();
        members[0].state = MemberState::Joining;
        members[1].state = MemberState::Draining;
        members[2].weight = 0.0;
        let only = members[3].id;
        let view = View::new(members, KeySecret::NONE);
        assert!(keys().all(|key| view.homes(&key).iter().eq([only])));
        assert_eq!(View::new(Vec::new(), KeySecret::NONE).homes(b"a"), Homes::default());
    }

    #[test]
    fn later_life_counts() {
        let (old, mut new) = (member(1), member(1));
        new.life = 2;
        new.weight = 5.0;
        let one = View::new(vec![old.clone(), new.clone()], KeySecret::NONE);
        assert_eq!(one, View::new(vec![new.clone(), old], KeySecret::NONE));
        assert_eq!(one.member(new.id), Some(&new));
    }
}
