//! Lost nodes: members that were declared dead lately, asked again and again if they live.
//!
//! A cut in the network makes both sides believe that the other one is dead. The first message that
//! passes again ends that. So each side sends announces, to one lost node at a time. The wait
//! between two announces grows with the time since the loss: the cost of a node that stays dead is
//! bounded, and a cut that heals is noticed after a small part of its own length. The living share
//! the work: all of them together send about as much as one of three.
//!
//! Costs O(log n) for each change, O(1) an ask; at most [`LOST_MAX`] nodes are kept.

use super::NodeIdentity;
use shoal_cooperation::NodeId;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// Members that were lost lately.
#[derive(Debug, Default)]
pub(super) struct LostNodes {
    nodes: BTreeMap<NodeId, LostNode>,
    /// Time of the next ask.
    next: Option<Duration>,
    /// Node that was asked last.
    asked: Option<NodeId>,
}

#[derive(Debug)]
struct LostNode {
    identity: NodeIdentity,
    since: Duration,
}

impl LostNodes {
    /// Notes that a member was declared dead, or has left.
    pub(super) fn lost(&mut self, identity: NodeIdentity, now: Duration) {
        if self.nodes.len() < LOST_MAX || self.nodes.contains_key(&identity.id) {
            self.nodes.insert(identity.id, LostNode { identity, since: now });
            let soon = now + ASK_PAUSE_MIN;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
        debug_assert!(self.nodes.len() <= LOST_MAX, "the table is bounded");
    }

    /// Forgets a node that lives, or is removed from the list of members.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        if self.nodes.is_empty() {
            self.next = None;
        }
    }

    /// Returns the time of the next ask.
    pub(super) fn next_ask(&self) -> Option<Duration> {
        self.next
    }

    /// Returns the node to ask, if the time has come. `living` is the number of living members.
    pub(super) fn take_due(&mut self, now: Duration, living: usize) -> Option<NodeIdentity> {
        self.next.filter(|next| *next <= now)?;
        self.nodes.retain(|_, node| now.saturating_sub(node.since) < ASKED_FOR);
        let after = self.asked.map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.nodes.range((after, Bound::Unbounded)).next();
        let Some((id, node)) = following.or_else(|| self.nodes.first_key_value()) else {
            self.next = None;
            return None;
        };
        let lately = self.nodes.values().map(|node| node.since).max().unwrap_or(now);
        let pause = (now.saturating_sub(lately) / PART_OF_ABSENCE).max(ASK_PAUSE_MIN);
        let share = (living as u32 / SHARERS).max(1);
        self.asked = Some(*id);
        self.next = Some(now + pause * share);
        Some(node.identity.clone())
    }
}

/// Shortest wait between two asks.
const ASK_PAUSE_MIN: Duration = Duration::from_millis(250);

/// Time since the loss over the wait between two asks.
const PART_OF_ABSENCE: u32 = 128;

/// Time after which a lost node is left to the slower asks of foca.
const ASKED_FOR: Duration = Duration::from_secs(256);

/// Living members that send without a longer wait.
const SHARERS: u32 = 3;

/// Most lost nodes that are kept.
pub(super) const LOST_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::NodeFacts;
    use shoal_cooperation::MemberState;

    fn node(number: usize) -> NodeIdentity {
        let facts = NodeFacts {
            name: format!("n{number}").into(),
            address: ([10, 0, 0, 1], 3131).into(),
            weight: 1.0,
            state: MemberState::In,
            level: 0,
        };
        NodeIdentity::new(1, facts)
    }

    /// Asks of a node in a time, one second after the other.
    fn asks(lost: &mut LostNodes, seconds: std::ops::Range<u64>, living: usize) -> Vec<NodeIdentity> {
        let steps = seconds.flat_map(|second| (0..100).map(move |step| (second, step)));
        let at = steps.map(|(second, step)| Duration::from_millis(second * 1000 + step * 10));
        at.filter_map(|now| lost.take_due(now, living)).collect()
    }

    #[test]
    fn lost_nodes_are_asked_in_turn() {
        let mut lost = LostNodes::default();
        lost.lost(node(1), Duration::ZERO);
        lost.lost(node(2), Duration::ZERO);
        let asked = asks(&mut lost, 0..2, 3);
        assert!((7..=8).contains(&asked.len()), "{}", asked.len());
        assert!(asked.windows(2).all(|pair| pair[0] != pair[1]), "each in its turn");
        lost.forget(node(1).id);
        assert!(asks(&mut lost, 2..4, 3).iter().all(|asked| *asked == node(2)));
        lost.forget(node(2).id);
        assert_eq!((asks(&mut lost, 4..9, 3).len(), lost.next_ask()), (0, None));
    }

    #[test]
    fn asks_of_a_dead_node_grow_rare_and_end() {
        let mut lost = LostNodes::default();
        lost.lost(node(1), Duration::ZERO);
        let (first, later) = (asks(&mut lost, 0..10, 1).len(), asks(&mut lost, 200..210, 1).len());
        assert!(first >= 38 && (5..=8).contains(&later), "{first} {later}");
        assert_eq!(asks(&mut lost, 256..300, 1).len(), 0);
        assert_eq!(lost.next_ask(), None);
    }

    #[test]
    fn large_clusters_share_the_asks() {
        let mut lost = LostNodes::default();
        lost.lost(node(1), Duration::ZERO);
        assert!(asks(&mut lost, 0..10, 15).len() <= 9);
    }

    #[test]
    fn storm_of_losses_keeps_the_table_bounded() {
        let mut lost = LostNodes::default();
        (0..1000).for_each(|number| lost.lost(node(number), Duration::ZERO));
        assert_eq!(lost.nodes.len(), LOST_MAX);
    }
}
