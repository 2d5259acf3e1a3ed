//! Members of a view, with this node's way to each.

use super::PeerNode;
use shoal_cooperation::{Member, MemberState, NodeId, View};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A view, with the way to each of its members.
pub struct Membership {
    /// The members.
    pub view: Arc<View>,
    pub(super) peers: HashMap<NodeId, Arc<PeerNode>>,
}

impl Membership {
    /// Makes the membership of a view. Nodes that stay at their address are kept from `before`.
    pub(super) fn of(before: &HashMap<NodeId, Arc<PeerNode>>, view: Arc<View>, longest: Duration) -> Self {
        let peer = |member: &Member| {
            let is_same = |peer: &&Arc<PeerNode>| peer.target.address() == member.address;
            let kept = before.get(&member.id).filter(is_same).cloned();
            (member.id, kept.unwrap_or_else(|| Arc::new(PeerNode::new(member, longest))))
        };
        Self { peers: view.members().iter().map(peer).collect(), view }
    }

    /// Returns a member as this node knows it.
    pub fn peer(&self, node: NodeId) -> Option<&Arc<PeerNode>> {
        self.peers.get(&node)
    }

    /// Returns the weight of a node over the mean weight of all homes.
    pub(super) fn weight_share(&self, node: NodeId) -> f64 {
        let homes = || self.view.members().iter().filter(|member| member.is_home());
        let (count, sum) = (homes().count() as f64, homes().map(|member| member.weight).sum::<f64>());
        self.view.member(node).map_or(1.0, |member| member.weight * count / sum)
    }

    /// Returns `true` if a member is at this address for its peers.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.view.members().iter().any(|member| member.address == address)
    }

    /// Returns `true` if a member has this address, and has not left.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_it = |member: &Member| member.address.ip() == address && member.state != MemberState::Out;
        self.view.members().iter().any(is_it)
    }
}
