//! State of the process in the status of a node: limits, and counts of trouble.

use super::process;
use crate::metrics::Metrics;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// State of the process, by which `shoal status` judges a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStatus {
    /// Time of day, in milliseconds since 1970; 0 if unknown.
    pub unix_ms: u64,
    /// Open file descriptors; 0 if unknown.
    pub open_files: u64,
    /// Limit of open file descriptors; 0 if there is none.
    pub open_files_max: u64,
    /// Resident memory in bytes; 0 if unknown.
    pub resident_bytes: u64,
    /// Client connections open.
    pub connections: u64,
    /// `max_connections`.
    pub connections_max: u64,
    /// Times that a listener stopped accepting since `max_connections` was reached.
    pub connections_full: u64,
    /// Faults of Shoal itself, since the start.
    pub panics: u64,
    /// Lines of the access log and the error log that were dropped, since the start.
    pub log_lines_dropped: u64,
    /// `true` while a new process is taking over.
    pub is_upgrading: bool,
}

impl ProcessStatus {
    /// Reads the state of this process.
    pub fn read(metrics: &Metrics, connections_max: u64) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let files = process::files();
        Self {
            unix_ms: since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            open_files: files.0.unwrap_or(0),
            open_files_max: files.1.unwrap_or(0),
            resident_bytes: process::usage().1.unwrap_or(0),
            connections: metrics.connections_open.value(),
            connections_max,
            connections_full: metrics.connections_full.value(),
            panics: metrics.panics.value(),
            log_lines_dropped: metrics.log_lines_dropped.value() + metrics.error_log_lines_dropped.value(),
            is_upgrading: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_state_has_limits_and_counts() {
        let metrics = Metrics::default();
        metrics.panics.increment();
        let status = ProcessStatus::read(&metrics, 77);
        assert_eq!((status.connections_max, status.panics, status.log_lines_dropped), (77, 1, 0));
        assert!(status.open_files >= 3 && status.resident_bytes > 100_000, "{status:?}");
        assert!(status.open_files_max >= status.open_files || status.open_files_max == 0);
        assert!(status.unix_ms > 1_600_000_000_000);
    }
}
