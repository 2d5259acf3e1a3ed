//! Members: the truth about the nodes, and each node's late or wrong view of it.

use crate::network::Network;
use crate::random::Random;
use shoal_cooperation::{LEVEL_MAX, Member, MemberState, NodeId, View};
use shoal_core::KeySecret;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Nodes of a run, as they are.
#[derive(Debug)]
pub struct Members {
    nodes: Vec<Member>,
    index: BTreeMap<NodeId, usize>,
    /// Views by the states in them, so that equal views are one.
    views: BTreeMap<Vec<(MemberState, u64)>, Arc<View>>,
}

impl Members {
    /// Makes this number of nodes, all in, with weights from 1 to 2, and in three levels if asked
    /// to.
    pub fn new(count: usize, levels: bool, random: &mut Random) -> Self {
        let mut nodes: Vec<_> =
            (0..count).map(|index| member(index, f64::from((1.0 + random.unit()) as f32))).collect();
        let leveled = nodes.iter_mut().enumerate().filter(|_| levels);
        leveled.for_each(|(index, node)| node.level = (index % (usize::from(LEVEL_MAX) + 1)) as u8);
        let index: BTreeMap<_, _> =
            nodes.iter().enumerate().map(|(index, member)| (member.id, index)).collect();
        assert_eq!(index.len(), nodes.len(), "each node has a number of its own");
        Self { nodes, index, views: BTreeMap::new() }
    }

    /// Returns the index of a node.
    pub fn index(&self, id: NodeId) -> usize {
        self.index[&id]
    }

    /// Returns the number of a node.
    pub fn id(&self, index: usize) -> NodeId {
        self.nodes[index].id
    }

    /// Returns the nodes.
    pub fn all(&self) -> &[Member] {
        &self.nodes
    }

    /// Returns the state of a node.
    pub fn state(&self, index: usize) -> MemberState {
        self.nodes[index].state
    }

    /// Changes the state of a node. Returns the views of before and after.
    pub fn change(&mut self, index: usize, state: MemberState, life: u64) -> (Arc<View>, Arc<View>) {
        let before = self.truth();
        assert!(life >= self.nodes[index].life, "lives of a node only grow");
        self.nodes[index].state = state;
        self.nodes[index].life = life;
        (before, self.truth())
    }

    /// Returns the view of a node that knows all.
    pub fn truth(&mut self) -> Arc<View> {
        self.view_of(|_, member| member.state)
    }

    /// Returns the view of a node: members that it has not reached for a while are out.
    pub fn believed(&mut self, node: usize, network: &Network, now: Duration) -> Arc<View> {
        self.view_of(|index, member| {
            let is_lost = index != node && network.is_cut_for(node, index, SUSPECTED, now);
            if is_lost { MemberState::Out } else { member.state }
        })
    }

    /// Returns a wrong view: some members are missing, others are in although they are not.
    pub fn wrong(&mut self, node: usize, random: &mut Random) -> Arc<View> {
        let draws: Vec<_> = (0..self.nodes.len()).map(|_| random.unit()).collect();
        self.view_of(|index, member| match draws[index] {
            _ if index == node => member.state,
            draw if draw < 0.3 => MemberState::Out,
            draw if draw < 0.4 => MemberState::In,
            _ => member.state,
        })
    }

    fn view_of(&mut self, state: impl Fn(usize, &Member) -> MemberState) -> Arc<View> {
        let states: Vec<_> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, member)| (state(index, member), member.life))
            .collect();
        if self.views.len() > VIEWS_KEPT {
            self.views.clear();
        }
        if let Some(view) = self.views.get(&states) {
            return view.clone();
        }
        let members = self.nodes.iter().zip(&states).map(|(member, (state, life))| Member {
            state: *state,
            life: *life,
            ..member.clone()
        });
        let view = Arc::new(View::new(members.collect(), KeySecret::NONE));
        assert_eq!(view.members().len(), self.nodes.len(), "a view has all nodes, also those that are out");
        self.views.insert(states, view.clone());
        view
    }
}

fn member(index: usize, weight: f64) -> Member {
    let name = format!("node{index}");
    Member {
        id: NodeId::named(&name),
        name: name.into(),
        address: ([127, 0, 0, 1], 3131).into(),
        weight,
        state: MemberState::In,
        life: 1,
        level: 0,
    }
}

/// Time after which members that cannot be reached are out.
pub const SUSPECTED: Duration = Duration::from_secs(5);

const VIEWS_KEPT: usize = 64;
