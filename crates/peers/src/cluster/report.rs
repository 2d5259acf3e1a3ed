//! Report on the cluster for operators: its members, and how this node's asks of each one went.

use super::shared_memory::MemoryReport;
use super::{ClusterHandle, PeerNode};
use serde::Serialize;
use shoal_cluster::ClusterStatus;
use shoal_cooperation::SkipReason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Cluster as this node sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterReport {
    /// Membership.
    #[serde(flatten)]
    pub status: ClusterStatus,
    /// Each other node as this node's asks found it, in the order of the view.
    pub peers: Vec<PeerRow>,
    /// Shared memory; `None` if it is off.
    pub shared_memory: Option<MemoryReport>,
}

/// Another node, as this node's asks found it.
#[derive(Clone, Debug, Serialize)]
pub struct PeerRow {
    /// Name of the node.
    pub name: String,
    /// `asked`, or the reason for which this node does not ask the other one.
    pub state: &'static str,
    /// Longest wait for a sign of life, in milliseconds.
    pub timeout_ms: f64,
    /// Decayed 99th percentile of the time to a sign of life, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Asks by result.
    pub asks: AskCounts,
    /// Times that asks were stopped.
    pub stopped: u64,
    /// Bytes of bodies received from the node.
    pub received_bytes: u64,
    /// Purges of this node that the other one has not confirmed.
    pub purges_lag: u64,
}

/// Asks of one node, by result.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AskCounts {
    /// Answered with a response.
    pub served: u64,
    /// Answered without: busy, another view, purges to make up for, or no copy.
    pub declined: u64,
    /// The node could not reach the origin.
    pub failed: u64,
    /// Refused or broken connections.
    pub refused: u64,
    /// No sign of life in time.
    pub late: u64,
    /// Wrong objects.
    pub wrong: u64,
    /// Not sent, since asks were stopped.
    pub skipped: u64,
}

impl ClusterHandle {
    /// Returns a row for each other member.
    pub fn peer_rows(&self) -> Vec<PeerRow> {
        let members = self.members();
        let others = members.view.members().iter().filter(|member| member.id != self.own());
        let row = |peer: &PeerNode| {
            let lag = self.invalidation().map_or(0, |purges| purges.lag_of(peer.node));
            PeerRow::of(peer, lag)
        };
        others.filter_map(|member| members.peer(member.id)).map(|peer| row(peer)).collect()
    }
}

impl ClusterHandle {
    /// Returns the state of shared memory; `None` if it is off.
    pub fn memory_report(&self) -> Option<MemoryReport> {
        self.shared_memory()?.report(self)
    }
}

impl PeerRow {
    fn of(peer: &PeerNode, purges_lag: u64) -> Self {
        let (status, tally) = (peer.status(), &peer.tally);
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let counts = status.counts;
        Self {
            name: peer.name.to_string(),
            state: peer_state(status.skipped),
            timeout_ms: milliseconds(status.timeout),
            p99_ms: status.p99.map(milliseconds),
            asks: AskCounts {
                served: count(&tally.served),
                declined: count(&tally.declined),
                failed: count(&tally.failed),
                refused: counts.refused,
                late: counts.timed_out,
                wrong: counts.lied,
                skipped: counts.skipped_refused + counts.skipped_timed_out + counts.skipped_lied,
            },
            stopped: counts.opened,
            received_bytes: count(&tally.bytes),
            purges_lag,
        }
    }
}

/// Returns the words for a peer that is asked, or for the reason why it is not.
pub fn peer_state(skipped: Option<SkipReason>) -> &'static str {
    match skipped {
        None => "asked",
        Some(SkipReason::Refused) => "refuses connections",
        Some(SkipReason::TimedOut) => "does not answer in time",
        Some(SkipReason::Lied) => "set aside: it sent a wrong object",
    }
}
