//! Outcome of one run of an architecture, on any disk.

use crate::workload::share;
use shoal_machine1999::CallTimes;

/// The measured part of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Name of the architecture, with its replacement policy where that varies.
    pub name: String,
    /// Requests measured.
    pub requests: u64,
    /// Measured requests that hit.
    pub hits: u64,
    /// Transfers to and from the disks for files, their inodes, folders and maps of free space.
    pub files: Transfers,
    /// Transfers for the memory-mapped file.
    pub mapped: Transfers,
    /// Time of the run, in seconds: on the modelled machine its own time, otherwise real time.
    pub seconds: f64,
    /// Calls that lead to a file by its name; only on the modelled machine.
    pub calls: CallTimes,
}

/// Transfers between memory and disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Transfers {
    /// Returns the number of transfers.
    pub fn count(self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the mean bytes of a transfer; `None` when there was none.
    pub fn mean_bytes(self) -> Option<f64> {
        mean(self.bytes_read + self.bytes_written, self.count())
    }

    /// Returns the mean bytes of a read; `None` when there was none.
    pub fn mean_read_bytes(self) -> Option<f64> {
        mean(self.bytes_read, self.reads)
    }

    /// Returns the mean bytes of a write; `None` when there was none.
    pub fn mean_written_bytes(self) -> Option<f64> {
        mean(self.bytes_written, self.writes)
    }
}

fn mean(bytes: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| bytes as f64 / count as f64)
}

impl RunResult {
    /// Returns all transfers.
    pub fn ios(&self) -> u64 {
        self.files.count() + self.mapped.count()
    }

    /// Returns the share of transfers that read.
    pub fn read_share(&self) -> f64 {
        share(self.files.reads + self.mapped.reads, self.ios())
    }

    /// Returns the share of requests that hit.
    pub fn hit_ratio(&self) -> f64 {
        share(self.hits, self.requests)
    }
}
