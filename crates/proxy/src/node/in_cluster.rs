//! A node as a member of a cluster.

use super::{Node, NodeError};
use crate::cluster::{ClusterHandle, ClusterReport};
use crate::exchange::{CacheEngine, HandOver, Whereabouts};
use crate::neighbours::{DriverOrders, NeighbourCaches, NeighbourThread};
use crate::upstream::Upstreams;
use shoal_handover::InheritedSockets;
use std::sync::Arc;
use std::time::Duration;

/// Starts the thread for neighbours, if there are any.
pub(super) fn start_neighbours(
    parts: Option<(Arc<NeighbourCaches>, DriverOrders)>,
    exchange: &Arc<CacheEngine>,
    upstreams: &Arc<Upstreams>,
    sockets: &mut InheritedSockets,
) -> Result<Option<NeighbourThread>, NodeError> {
    let start = |parts| {
        let (engine, metrics) = (Arc::clone(exchange), Arc::clone(exchange.metrics()));
        NeighbourThread::start(parts, engine, Arc::clone(upstreams), metrics, sockets)
    };
    parts.map(start).transpose().map_err(NodeError::Neighbours)
}

impl Node {
    /// Returns the state of the cluster as this node sees it; `None` if it is in none.
    pub fn cluster_report(&self) -> Option<ClusterReport> {
        let (handle, membership) = (self.cluster.as_ref()?, self.membership.as_ref()?);
        let (status, peers) = (membership.status(), handle.peer_rows());
        Some(ClusterReport { status, peers, shared_memory: handle.memory_report() })
    }

    /// Takes this node out of the homes of the cluster. Returns `false` if it is in none.
    pub fn drain_cluster(&self) -> bool {
        let is_member = self.membership.as_ref().inspect(|membership| membership.drain()).is_some();
        // Connections to peers belong to the runtime of a worker.
        if let (true, Some(worker)) = (is_member, self.checks.get()) {
            worker.spawn(HandOver(Arc::clone(&self.exchange)).offer_all());
        }
        is_member
    }

    /// Hands over the objects of a node that is about to stop: the node drains for a short time, in
    /// which the new homes take the objects that clients ask for, and the hottest ones. Blocks.
    /// Does nothing if no other node could take anything, or another process is this node now.
    pub(super) fn hand_over(&self) {
        let time = self.settings.lock().cluster.hand_over;
        let (Some(membership), Some(worker)) = (&self.membership, self.checks.get()) else { return };
        let others = self.cluster.as_ref().map_or(0, |cluster| cluster.other_homes());
        let holds = self.exchange.live().asks_homes;
        if time.is_zero() || others == 0 || !holds || membership.is_replaced() {
            return;
        }
        tracing::info!(seconds = time.as_secs_f64(), "handing over objects to the other nodes");
        membership.drain();
        let (told, heard) = std::sync::mpsc::channel();
        let offering = HandOver(Arc::clone(&self.exchange)).offer_before_stop();
        worker.spawn(async move {
            let _ = tokio::time::timeout(time, offering).await;
            tokio::time::sleep(TAKEN_WITHIN.min(time)).await;
            let _ = told.send(());
        });
        let _ = heard.recv_timeout(time);
    }

    /// Makes this node a home again, after a drain. Returns `false` if it is in no cluster.
    pub fn rejoin_cluster(&self) -> bool {
        self.membership.as_ref().inspect(|membership| membership.admit()).is_some()
    }

    /// Returns this node's part in a cluster, if it is in one.
    pub fn cluster(&self) -> Option<&Arc<ClusterHandle>> {
        self.cluster.as_ref()
    }

    /// Returns the remark of an explanation about the homes of a URL.
    pub(super) fn note_of_homes(&self, url: &str) -> Option<String> {
        let homes = self.exchange.home_names(url);
        let own = self.cluster.as_ref()?.name();
        if self.exchange.live().parents.is_some() {
            return Some(match homes.is_empty() {
                true => "This node has no parent for the URL: a miss asks the origin.".into(),
                false => format!(
                    "A miss asks the parents in the cluster, {}, before the origin. The body is stored here too.",
                    homes.join(", then ")
                ),
            });
        }
        let first = homes.first()?;
        let others: Vec<&str> = homes.iter().map(String::as_str).filter(|name| *name != own).collect();
        Some(match (first == own, others.is_empty()) {
            (_, true) => "This node is the only home in the cluster.".into(),
            (true, _) => "This node is the object's home in the cluster: it answers the other nodes.".into(),
            (false, _) => format!(
                "The object's home in the cluster is {first}: a miss asks {} before the origin, and a body from there \
                 is not stored here.",
                others.join(", then ")
            ),
        })
    }

    /// Finds the object of a URL in the cluster. Blocks.
    ///
    /// # Errors
    /// If this node is in no cluster or the URL cannot be read, in a line.
    pub fn whereabouts(&self, url: &str) -> Result<Whereabouts, String> {
        // Connections to peers belong to the runtime of a worker, which outlives this call.
        let worker = self.checks.get().ok_or("the node has not started yet")?;
        let (exchange, url) = (Arc::clone(&self.exchange), url.to_owned());
        let (told, heard) = std::sync::mpsc::channel();
        worker.spawn(async move { drop(told.send(exchange.whereabouts(&url).await)) });
        heard.recv().map_err(|_| "the node is stopping")?
    }
}

/// Time in which the new homes take the last objects that were offered.
const TAKEN_WITHIN: Duration = Duration::from_millis(400);
