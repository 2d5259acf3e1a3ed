//! Counts of a run, and the latencies of Dahlin et al. 1994 without queueing.

use super::ServedFrom;

/// Counts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClusterCounts {
    /// Requests.
    pub requests: u64,
    /// Requests served from the node's own memory.
    pub local: u64,
    /// Requests served from another node's memory.
    pub remote: u64,
    /// Requests served from the server's memory.
    pub server: u64,
    /// Requests served from disk.
    pub disk: u64,
    /// Writes that brought nothing in.
    pub written_through: u64,
    /// Time of all requests together, in microseconds.
    pub microseconds: u64,
    /// Load of the server: 1 a message, 2 a block.
    pub server_load: u64,
    /// Blocks sent from one node to another to be kept, or to make kept ones safe.
    pub forwarded: u64,
    /// Requests that changed their object.
    pub writes: u64,
    /// Blocks written to disk.
    pub disk_writes: u64,
    /// Blocks sent to rebuild the pages of a lost node.
    pub rebuilt: u64,
    /// Changed blocks of which no good copy is left.
    pub lost: u64,
}

impl ClusterCounts {
    pub(super) fn add(&mut self, served: ServedFrom) {
        self.requests += 1;
        let sent = |hops: u32| MEMORY_US + TRANSFER_US + u64::from(hops) * HOP_US;
        let (count, microseconds) = match served {
            ServedFrom::Local => (&mut self.local, MEMORY_US),
            ServedFrom::Remote { hops, .. } => (&mut self.remote, sent(hops)),
            ServedFrom::Server(hops) => (&mut self.server, sent(hops)),
            ServedFrom::Disk(hops) => (&mut self.disk, sent(hops) + DISK_US),
            ServedFrom::OwnDisk => (&mut self.disk, MEMORY_US + DISK_US),
            ServedFrom::WrittenThrough => (&mut self.written_through, MEMORY_US),
        };
        *count += 1;
        self.microseconds += microseconds;
        debug_assert_eq!(
            self.requests,
            self.local + self.remote + self.server + self.disk + self.written_through,
            "each is served once"
        );
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        assert!(before.requests <= self.requests, "earlier counts are of the same run");
        Self {
            requests: self.requests - before.requests,
            local: self.local - before.local,
            remote: self.remote - before.remote,
            server: self.server - before.server,
            disk: self.disk - before.disk,
            written_through: self.written_through - before.written_through,
            microseconds: self.microseconds - before.microseconds,
            server_load: self.server_load - before.server_load,
            forwarded: self.forwarded - before.forwarded,
            writes: self.writes - before.writes,
            disk_writes: self.disk_writes - before.disk_writes,
            rebuilt: self.rebuilt - before.rebuilt,
            lost: self.lost - before.lost,
        }
    }

    /// Returns the mean time of a request, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.microseconds as f64 / 1e3 / self.requests.max(1) as f64
    }

    /// Returns the server's load for each request.
    pub fn load_per_request(&self) -> f64 {
        self.server_load as f64 / self.requests.max(1) as f64
    }

    /// Returns the mean time of a request, in milliseconds, when its node also waits for the blocks
    /// it sends away. A forwarded block costs a hop and the wire, a written block the disk.
    pub fn mean_ms_with_pageouts(&self) -> f64 {
        let sent = self.forwarded * (TRANSFER_US + HOP_US) + self.disk_writes * DISK_US;
        (self.microseconds + sent) as f64 / 1e3 / self.requests.max(1) as f64
    }
}

pub(super) const MEMORY_US: u64 = 250;
pub(super) const HOP_US: u64 = 200;
pub(super) const TRANSFER_US: u64 = 400;
pub(super) const DISK_US: u64 = 14_800;
pub(super) const MESSAGE: u64 = 1;
pub(super) const BLOCK: u64 = 2;
