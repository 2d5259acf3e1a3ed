//! Requests that wait for processors and disks: throughput, delay and how busy each node is.
//!
//! A closed system, as in Pai et al. 1998, section 3.1. `outstanding` requests are under way, the
//! next of the trace begins when one is answered, and times in the trace do not count. Each node
//! has a processor and a disk, the server a processor and several disks; all serve in the order of
//! arrival. The legs of a request, by the place that served it:
//!
//! ```text
//! local     connection and sending it, by the node
//! remote    connection ─► (who is asked) ─► the holder sends ─► the node sends
//! server    connection ─► the server sends ─► the node sends
//! disk      connection ─► (the server, its disk) or the own disk ─► … ─► the node sends
//! ```
//!
//! The place that serves a request is decided when the request begins, and memories change at once.
//! A request for an object that another request at that node still reads waits for the same read.
//! Blocks that go from node to node, and blocks written to disk, take the time of processors and
//! disks and delay no request directly. Blocks sent to rebuild a lost node's pages are counted and
//! take no time. O(log stations) an event, one to six events a request.

mod agenda;
mod clock;
mod journey;
mod run;

#[cfg(test)]
mod tests;

use super::{Access, ClusterCounts, ClusterScheme, ClusterSize, RunPlan};
use run::QueueRun;
use shoal_cooperation::distribution::Thresholds;

/// Service time of each part of a request, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// The processor, to make and close a connection.
    pub connection_us: u64,
    /// The processor, for an object sent.
    pub send_us: u64,
    /// The processor, for a message handled.
    pub message_us: u64,
    /// The way between two nodes.
    pub hop_us: u64,
    /// The disk, for an object read or written.
    pub disk_us: u64,
    /// The server's disks, among which objects are dealt out; at least one.
    pub server_disks: usize,
    /// Number of requests under way at once.
    pub outstanding: usize,
}

impl ServiceTimes {
    /// Returns the service times of Pai et al. 1998, section 3.1, for objects of 8 KB. A connection
    /// takes 145 µs to make and 145 µs to close. Sending 512 bytes takes 40 µs. Finding an object
    /// on disk takes 28 ms, reading 4 KB 410 µs. The number of requests is LARD's admission limit.
    /// The server has as many disks as there are nodes, so that a server and nodes with own disks
    /// have the same number. A message costs the time of sending 512 bytes. A hop costs 200 µs
    /// (Dahlin et al. 1994), which the paper leaves out.
    pub fn pai(nodes: usize) -> Self {
        Self {
            connection_us: 2 * 145,
            send_us: 16 * 40,
            message_us: 40,
            hop_us: 200,
            disk_us: 28_000 + 2 * 410,
            server_disks: nodes,
            outstanding: Thresholds::PAI.admitted(nodes),
        }
    }
}

/// Work of a node during a run.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct NodeUtilization {
    /// Requests that the node answered.
    pub requests: u64,
    /// Share of the time in which the node's processor was busy.
    pub processor: f64,
    /// Share of the time in which the node's disk was busy; for a server's disks, their mean.
    pub disk: f64,
    /// Share of the time in which the node was underused: answering fewer requests than 40% of
    /// T_low (section 3.1).
    pub underused: f64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ThroughputResult {
    /// Places that served the requests begun during the measured time. The latencies in it are
    /// those without queues.
    pub counts: ClusterCounts,
    /// Requests answered during the measured time.
    pub answered: u64,
    /// Length of the measured time.
    pub seconds: f64,
    /// Mean time from a request's beginning to its answer.
    pub delay_ms: f64,
    /// Utilization of each node.
    pub nodes: Vec<NodeUtilization>,
    /// Utilization of the server.
    pub server: NodeUtilization,
}

impl ThroughputResult {
    /// Returns requests answered a second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.answered as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the most requests that any node answered, over the mean: 1 is balance.
    pub fn imbalance(&self) -> f64 {
        let most = self.nodes.iter().map(|node| node.requests).max().unwrap_or(0);
        let all: u64 = self.nodes.iter().map(|node| node.requests).sum();
        if all == 0 { 1.0 } else { most as f64 * self.nodes.len() as f64 / all as f64 }
    }

    /// Returns the mean over nodes of the share of time in which they were underused.
    pub fn underused(&self) -> f64 {
        self.nodes.iter().map(|node| node.underused).sum::<f64>() / self.nodes.len().max(1) as f64
    }
}

/// Runs a system over requests that wait for each other. The measured time begins with the first
/// request after the warm-up and ends with the trace. Requests still under way at the end do not
/// count. A trace shorter than `outstanding` is measured to its last answer.
pub fn serve(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    service: &ServiceTimes,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    plan: RunPlan,
) -> ThroughputResult {
    let mut run = QueueRun::new(size, *service, plan);
    let mut requests = requests.into_iter().map(Into::into);
    let is_short = (0..service.outstanding.max(1)).any(|_| !run.begin_next(system, &mut requests));
    while let Some(journey) = run.clock.next() {
        let answered = run.next_stage(journey);
        if answered && !run.begin_next(system, &mut requests) && !is_short && run.has_lasted() {
            break;
        }
    }
    run.outcome()
}
