//! Levels: the parents and siblings of a node in a live hierarchy.
//!
//! ```text
//!  level 2      top-1   top-2            ─► origin
//!                  ▲       ▲              one of them by the hash of the key, then another
//!  level 1      mid-1   mid-2            ◄─► siblings: for stored copies, by their digests
//!                  ▲       ▲
//!  level 0   edge-1  edge-2  edge-3      ◄── clients (any level has clients of its own)
//! ```
//!
//! A miss goes to a node of a higher level, and from the last one to the origin; each node on the
//! way keeps a copy. Chankhunthod et al., *A hierarchical Internet object cache*, USENIX 1996, has
//! one parent for each cache. Here the nodes of a level share the keys: a level holds each object
//! once. A lost parent moves its own keys alone. [`Hierarchy`](crate::hierarchy) is the
//! form with one parent, for the lab.
//!
//! **No circle.** Only nodes of a higher level are parents, and a request makes
//! [`HOPS_MAX`](crate::HOPS_MAX) hops at most. Views and levels may nevertheless differ between
//! nodes. So a flight that waits for a parent is joined only by requests with as many hops: each
//! wait leads to a request with more hops, and the chain ends with them.
//!
//! Costs O(members) a miss.

use crate::route::NodeId;
use crate::view::{Homes, View};

/// Parents of a node for some keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ParentRule {
    /// Nodes of the lowest level above that has a home.
    #[default]
    NextLevel,
    /// Nodes of this level, if it is above.
    Level(u8),
    /// These nodes, those of them that are above.
    Nodes(Vec<NodeId>),
    /// None: the origin is asked.
    Origin,
}

impl View {
    /// Returns the parents of a full key for the node `here` of this level, in the order in which
    /// they are asked.
    pub fn parents(&self, here: NodeId, level: u8, rule: &ParentRule, full_key: &[u8]) -> Homes {
        let above = || self.members().iter().filter(|it| it.is_home() && it.id != here && it.level > level);
        let next = || above().map(|member| member.level).min();
        let parents = match rule {
            ParentRule::Origin => return Homes::default(),
            ParentRule::Nodes(nodes) => self.homes_among(full_key, |member| {
                member.id != here && member.level > level && nodes.contains(&member.id)
            }),
            ParentRule::Level(_) | ParentRule::NextLevel => {
                let chosen = if let ParentRule::Level(chosen) = rule { Some(*chosen) } else { next() };
                let Some(chosen) = chosen.filter(|chosen| *chosen > level) else { return Homes::default() };
                self.homes_among(full_key, |member| member.id != here && member.level == chosen)
            }
        };
        debug_assert!(!parents.contains(here), "a node is no parent of its own");
        parents
    }

    /// Returns `true` if a node is of this level, and not the node `here`.
    pub fn is_sibling(&self, here: NodeId, level: u8, node: NodeId) -> bool {
        node != here && self.member(node).is_some_and(|member| member.level == level)
    }
}

/// Highest level: with two hops, a request passes three levels.
pub const LEVEL_MAX: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Member, MemberState};
    use shoal_core::KeySecret;

    /// Three nodes of level 0, two of level 1, two of level 2.
    fn view() -> View {
        let member = |(number, level): (u64, u8)| Member {
            id: NodeId(number),
            name: format!("node{number}").into(),
            address: ([127, 0, 0, 1], 3131).into(),
            weight: 1.0,
            state: MemberState::In,
            life: 1,
            level,
        };
        let levels = [(1, 0), (2, 0), (3, 0), (11, 1), (12, 1), (21, 2), (22, 2)];
        View::new(levels.into_iter().map(member).collect(), KeySecret::NONE)
    }

    fn parents(here: u64, level: u8, rule: &ParentRule, key: &[u8]) -> Vec<u64> {
        view().parents(NodeId(here), level, rule, key).iter().map(|node| node.0).collect()
    }

    fn sorted(mut nodes: Vec<u64>) -> Vec<u64> {
        nodes.sort_unstable();
        nodes
    }

    #[test]
    fn next_level_shares_the_keys() {
        let mut firsts = [0; 2];
        for number in 0..1000_u32 {
            let key = format!("http://a.test/{number}");
            let asked = parents(1, 0, &ParentRule::NextLevel, key.as_bytes());
            assert_eq!(sorted(asked.clone()), [11, 12]);
            assert_eq!(asked, parents(3, 0, &ParentRule::NextLevel, key.as_bytes()), "all agree");
            firsts[(asked[0] - 11) as usize] += 1;
        }
        assert!(firsts.iter().all(|count| (400..600).contains(count)), "{firsts:?}");
    }

    #[test]
    fn only_nodes_above_are_parents() {
        let key = b"http://a.test/";
        assert_eq!(sorted(parents(11, 1, &ParentRule::NextLevel, key)), [21, 22]);
        assert_eq!(parents(21, 2, &ParentRule::NextLevel, key), [0; 0]);
        assert_eq!(sorted(parents(1, 0, &ParentRule::Level(2), key)), [21, 22]);
        for rule in [ParentRule::Level(0), ParentRule::Level(1), ParentRule::Origin] {
            assert_eq!(parents(11, 1, &rule, key), [0; 0], "{rule:?}");
        }
        let named = ParentRule::Nodes([1, 11, 12, 21].map(NodeId).to_vec());
        assert_eq!(parents(11, 1, &named, key), [21], "neither itself, nor beside, nor below");
    }

    #[test]
    fn lost_level_is_passed_over() {
        let members = view().members().to_vec();
        let left = members.into_iter().filter(|member| member.level != 1).collect();
        let view = View::new(left, KeySecret::NONE);
        let asked = view.parents(NodeId(1), 0, &ParentRule::NextLevel, b"a");
        assert_eq!(sorted(asked.iter().map(|node| node.0).collect()), [21, 22]);
    }

    #[test]
    fn siblings_are_of_the_same_level() {
        let view = view();
        assert!(view.is_sibling(NodeId(1), 0, NodeId(2)) && !view.is_sibling(NodeId(1), 0, NodeId(1)));
        assert!(!view.is_sibling(NodeId(1), 0, NodeId(11)) && !view.is_sibling(NodeId(1), 0, NodeId(9)));
    }
}
