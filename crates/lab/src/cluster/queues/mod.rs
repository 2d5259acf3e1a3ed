//! Requests that wait for processors and disks: throughput, delay and how busy each node is.
//!
//! A closed system, as Pai et al. 1998, section 3.1, have it: so many requests are under way, the
//! next of the trace begins when one is answered, and times in the trace do not count. Each node
//! has a processor and a disk, the server a processor and several disks; all serve in the order of
//! arrival. A request's way, by how it was served:
//!
//! ```text
//! local     connection and sending it, by the node
//! remote    connection ─► (who is asked) ─► the holder sends ─► the node sends
//! server    connection ─► the server sends ─► the node sends
//! disk      connection ─► (the server, its disk) or the own disk ─► … ─► the node sends
//! ```
//!
//! What is decided where requests are answered is decided when a request begins, and memories
//! change at once; but a request for what is still being read for another at that node waits for
//! the same read. What goes from node to node to be kept, and what is written to disk, takes the
//! time of processors and disks and keeps no request. Blocks sent to rebuild what a lost node held
//! are counted and take none. O(log stations) an event, one to six events a request.

mod clock;
mod journey;
mod run;

#[cfg(test)]
mod tests;

use super::{Access, ClusterScheme, ClusterSize, Counts, RunPlan};
use clock::ClockEvent;
use run::Run;
use shoal_cooperation::distribution::Thresholds;

/// What each part of a request takes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// The processor, for a connection: made, taken apart.
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
    /// How many requests are under way at once.
    pub outstanding: usize,
}

impl ServiceTimes {
    /// Servers of Pai et al. 1998, section 3.1, for objects of 8 KB: 145 µs to make a connection
    /// and as much to take it apart, 40 µs to send 512 bytes, 28 ms to find an object on disk and
    /// 410 µs to read 4 KB. As many requests as LARD lets in, and as many disks at the server as
    /// there are nodes, so that a server and nodes with disks of their own have as many. A message
    /// costs what sending 512 bytes does, and a hop 200 µs (Dahlin et al. 1994), which the paper
    /// leaves out.
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

/// What a node did.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct NodeUtilization {
    /// Requests that it answered.
    pub requests: u64,
    /// The share of the time in which its processor was busy.
    pub processor: f64,
    /// The share in which its disk was; for a server's disks, their mean.
    pub disk: f64,
    /// The share in which it was underused: answering fewer requests than 40% of T_low (section
    /// 3.1).
    pub underused: f64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ThroughputResult {
    /// Where requests were served that began while it was measured. The latencies in it are those
    /// where nobody waits.
    pub counts: Counts,
    /// Requests answered while it was measured.
    pub answered: u64,
    /// How long was measured.
    pub seconds: f64,
    /// From a request's beginning to its answer, on average.
    pub delay_ms: f64,
    /// Each node.
    pub nodes: Vec<NodeUtilization>,
    /// The server.
    pub server: NodeUtilization,
}

impl ThroughputResult {
    /// Requests answered a second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.answered as f64 / self.seconds } else { 0.0 }
    }

    /// The most requests that any node answered, over the mean: 1 is balance.
    pub fn imbalance(&self) -> f64 {
        let most = self.nodes.iter().map(|node| node.requests).max().unwrap_or(0);
        let all: u64 = self.nodes.iter().map(|node| node.requests).sum();
        if all == 0 { 1.0 } else { most as f64 * self.nodes.len() as f64 / all as f64 }
    }

    /// The mean over nodes of the share of time in which they were underused.
    pub fn underused(&self) -> f64 {
        self.nodes.iter().map(|node| node.underused).sum::<f64>() / self.nodes.len().max(1) as f64
    }
}

/// Runs a system over requests that wait for each other. Measured is from the beginning of the
/// first request after the warm-up until the trace is over, without what is then still under way; a
/// trace shorter than what is under way at once is measured to its last answer.
pub fn serve(
    system: &mut dyn ClusterScheme,
    size: &ClusterSize,
    service: &ServiceTimes,
    requests: impl IntoIterator<Item = impl Into<Access>>,
    plan: RunPlan,
) -> ThroughputResult {
    let mut run = Run::new(size, *service, plan);
    let mut requests = requests.into_iter().map(Into::into);
    let is_short = (0..service.outstanding.max(1)).any(|_| !run.begin_next(system, &mut requests));
    while let Some(happened) = run.clock.next() {
        let answered = match happened {
            ClockEvent::Served(journey) | ClockEvent::Arrived(journey) => run.next_stage(journey),
            ClockEvent::ChoreDone => false,
        };
        if answered && !run.begin_next(system, &mut requests) && !is_short && run.has_lasted() {
            break;
        }
    }
    run.outcome()
}
