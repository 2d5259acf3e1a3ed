//! Home history: the previous homes of keys, for a minute after each change of the view.
//!
//! After a change a key may have a new home, which does not hold the object yet. The new home asks
//! the previous one, as holder, before the origin. Of several views within the minute the oldest
//! counts first, because its homes had the most time to gather their objects.

use crate::route::NodeId;
use crate::view::{Member, MemberState, View};
use std::sync::Arc;
use std::time::Duration;

/// Views that were replaced lately, oldest first.
#[derive(Clone, Debug, Default)]
pub struct HomeHistory {
    views: Vec<PastView>,
    /// Current view with the draining nodes as homes, while some node drains.
    undrained: Option<View>,
}

#[derive(Clone, Debug)]
struct PastView {
    view: Arc<View>,
    /// End of the view, as time since the node's start.
    ended: Duration,
}

impl HomeHistory {
    /// Records that `before` was replaced by `after` at `now`, at the node `here`. A node that was
    /// the only home it knew takes the homes that the others had without it.
    pub fn changed(&mut self, before: &Arc<View>, after: &View, here: NodeId, now: Duration) {
        let mut homes = before.members().iter().filter(|member| member.is_home());
        if homes.all(|member| member.id == here) {
            let others = after.members().iter().filter(|member| member.id != here).cloned();
            self.replaced(Arc::new(after.with_members(others.collect())), now);
        } else {
            self.replaced(Arc::clone(before), now);
        }
        let drains = |member: &Member| member.state == MemberState::Draining;
        self.undrained = after.members().iter().any(drains).then(|| {
            let mut members = after.members().to_vec();
            members.iter_mut().filter(|member| drains(member)).for_each(|it| it.state = MemberState::In);
            after.with_members(members)
        });
    }

    /// Records that a view was replaced at `now`. Views without a home are not kept.
    pub fn replaced(&mut self, view: Arc<View>, now: Duration) {
        self.forget(now);
        if view.members().iter().any(|member| member.is_home()) {
            if self.views.len() == PAST_VIEWS_MAX {
                self.views.remove(PAST_VIEWS_MAX - 1);
            }
            self.views.push(PastView { view, ended: now });
        }
        assert!(self.views.len() <= PAST_VIEWS_MAX, "the history is bounded");
    }

    /// Returns the node to ask as holder: a node that drains and would be the home. Else it is the
    /// home in the oldest view of the last minute in which another node was the home. The node must
    /// still be a member of `current`.
    pub fn previous_home(&self, key: &[u8], current: &View, here: NodeId, now: Duration) -> Option<NodeId> {
        let recent = self.views.iter().filter(|past| now.saturating_sub(past.ended) < PREVIOUS_HOME_ASKED);
        let past = recent.filter_map(|past| past.view.homes(key).first());
        // A node that drains has the object as long as it stays.
        let drained = self.undrained.iter().filter_map(|view| view.homes(key).first());
        drained.chain(past).find(|node| {
            let member = current.member(*node);
            *node != here && member.is_some_and(|member| member.state != MemberState::Out)
        })
    }

    /// Forgets views that ended more than a minute ago.
    pub fn forget(&mut self, now: Duration) {
        self.views.retain(|past| now.saturating_sub(past.ended) < PREVIOUS_HOME_ASKED);
    }

    /// Returns `true` if no view is remembered, so that no key has a previous home.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty() && self.undrained.is_none()
    }
}

/// Time after a change of the view during which previous homes are asked.
pub const PREVIOUS_HOME_ASKED: Duration = Duration::from_secs(60);

/// Most views that are remembered. In a storm of changes the newest of them gives way.
pub const PAST_VIEWS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::KeySecret;

    fn view(nodes: &[u64]) -> Arc<View> {
        let member = |number: &u64| Member {
            id: NodeId(*number),
            name: format!("node{number}").into(),
            address: ([127, 0, 0, 1], 3131).into(),
            weight: 1.0,
            state: MemberState::In,
            life: 1,
            level: 0,
        };
        Arc::new(View::new(nodes.iter().map(member).collect(), KeySecret::NONE))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn previous_home_is_asked_for_a_minute() {
        let mut history = HomeHistory::default();
        history.replaced(view(&[1]), at(10));
        let current = view(&[1, 2]);
        assert_eq!(history.previous_home(b"a", &current, NodeId(2), at(69)), Some(NodeId(1)));
        assert_eq!(history.previous_home(b"a", &current, NodeId(2), at(70)), None);
        assert_eq!(history.previous_home(b"a", &current, NodeId(1), at(11)), None, "asks not itself");
        history.forget(at(70));
        assert!(history.is_empty());
    }

    #[test]
    fn draining_node_is_asked_as_long_as_it_stays() {
        let (before, mut members) = (view(&[1, 2]), view(&[1, 2]).members().to_vec());
        members[0].state = MemberState::Draining;
        let after = before.with_members(members);
        let mut history = HomeHistory::default();
        history.changed(&before, &after, NodeId(2), at(0));
        let of_first = |key: &&[u8; 1]| before.homes(*key).first() == Some(NodeId(1));
        let key = [b"a", b"b", b"c", b"d", b"e", b"f"].into_iter().find(of_first).expect("half of them");
        assert_eq!(history.previous_home(key, &after, NodeId(2), at(600)), Some(NodeId(1)));
        history.changed(&Arc::new(after), &view(&[2]), NodeId(2), at(700));
        assert_eq!(history.previous_home(key, &view(&[2]), NodeId(2), at(701)), None, "it has left");
    }

    #[test]
    fn draining_node_comes_before_earlier_homes() {
        let (before, mut members) = (view(&[1, 2, 3]), view(&[1, 2, 3]).members().to_vec());
        members[0].state = MemberState::Draining;
        let after = before.with_members(members.clone());
        // Node 3 had nearly all keys once.
        members[2].weight = 1e6;
        let earlier = Arc::new(before.with_members(members.split_off(1)));
        let mut history = HomeHistory::default();
        history.changed(&earlier, &before, NodeId(2), at(0));
        history.changed(&before, &after, NodeId(2), at(10));
        let moves = |key: &[u8; 1]| {
            let homes = [&*earlier, &*before, &after].map(|view| view.homes(key).first());
            homes == [3, 1, 2].map(|node| Some(NodeId(node)))
        };
        let key = (0..=255).map(|byte| [byte]).find(moves).expect("a sixth of the keys");
        assert_eq!(history.previous_home(&key, &after, NodeId(2), at(11)), Some(NodeId(1)));
    }

    #[test]
    fn joining_node_takes_homes_of_the_others() {
        let mut history = HomeHistory::default();
        let after = view(&[1, 2, 3]);
        history.changed(&view(&[3]), &after, NodeId(3), at(0));
        let expected = view(&[1, 2]).homes(b"a").first();
        assert_eq!(history.previous_home(b"a", &after, NodeId(3), at(1)), expected);
    }

    #[test]
    fn oldest_view_of_a_member_counts() {
        let mut history = HomeHistory::default();
        history.replaced(view(&[5]), at(0));
        history.replaced(view(&[1]), at(1));
        for step in 0..20 {
            history.replaced(view(&[7]), at(2 + step));
        }
        let current = view(&[1, 2, 7]);
        assert_eq!(history.previous_home(b"a", &current, NodeId(2), at(30)), Some(NodeId(1)));
        assert_eq!(history.previous_home(b"a", &view(&[2]), NodeId(2), at(30)), None);
    }
}
