//! Options of a node's part in a cluster.

use crate::ClusterError;
use crate::membership::{NodeFacts, is_name};
use shoal_cooperation::MemberState;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of [`super::Cluster::start`].
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of this node; empty for its address.
    pub node: String,
    /// Address for peers, TCP and UDP.
    pub peer: SocketAddr,
    /// Seeds: addresses, or DNS names with ports.
    pub join: Vec<String>,
    /// File of the keys; `None` on loopback only.
    pub key_file: Option<PathBuf>,
    /// Share of the keys relative to other nodes'.
    pub weight: f64,
    /// Level in a hierarchy.
    pub level: u8,
    /// State at the start: `In`, or `Joining` until [`super::Cluster::admit`].
    pub state: MemberState,
}

impl ClusterOptions {
    /// Checks the options and returns the facts of this node.
    pub(super) fn facts(&self) -> Result<NodeFacts, ClusterError> {
        let fault = |why: String| Err(ClusterError::Options(why));
        if !is_name(&self.cluster) {
            return fault("cluster.name: use 1 to 64 letters, digits, and characters of `._-:[]`".into());
        }
        if self.key_file.is_none() && !self.peer.ip().is_loopback() {
            return fault(format!(
                "cluster.key_file: a cluster beyond loopback needs keys, and cluster.peer is {}; make a file with `shoal \
                 cluster init FILE` and copy it to each node",
                self.peer
            ));
        }
        let name: Arc<str> = match self.node.as_str() {
            "" => self.peer.to_string().into(),
            name => name.into(),
        };
        let (address, weight, state, level) = (self.peer, self.weight as f32, self.state, self.level);
        let facts = NodeFacts { name, address, weight, state, level };
        match facts.fault() {
            Some(why) => fault(format!("cluster.node or cluster.peer: {why}")),
            None => Ok(facts),
        }
    }
}
