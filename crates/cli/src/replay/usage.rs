//! Resources that this process has used: CPU, page faults, memory, bytes moved to and from storage.
//!
//! The source is `/proc/self`. User and system time are counted in clock ticks (10 ms). The sum of
//! both comes from the process's clock in nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Resources used since the process began, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// CPU time in user space and in the kernel, in seconds.
    pub cpu_seconds: f64,
    /// CPU time in user space, in seconds, to 10 ms.
    pub user_seconds: f64,
    /// CPU time in the kernel, in seconds, to 10 ms.
    pub system_seconds: f64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
    /// Bytes read from storage for this process.
    pub storage_bytes_read: u64,
    /// Bytes that this process has dirtied for writing to storage.
    pub storage_bytes_written: u64,
    /// Current resident memory, in bytes.
    pub resident_bytes: u64,
    /// Peak of resident memory so far, in bytes.
    pub resident_bytes_most: u64,
}

impl Usage {
    /// Returns the resources used so far. Values that the system does not provide are 0.
    pub fn now() -> Self {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (stat, status, io) = (text("stat"), text("status"), text("io"));
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as u64;
        // Fields are counted from the process's state, which follows its name in parentheses.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Self {
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            user_seconds: field(11) as f64 / ticks,
            system_seconds: field(12) as f64 / ticks,
            minor_faults: field(7),
            major_faults: field(9),
            storage_bytes_read: named(&io, "read_bytes:"),
            storage_bytes_written: named(&io, "write_bytes:"),
            resident_bytes: field(21) * page,
            resident_bytes_most: named(&status, "VmHWM:") * 1024,
        }
    }

    /// Returns the resources used since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            storage_bytes_read: self.storage_bytes_read.saturating_sub(earlier.storage_bytes_read),
            storage_bytes_written: self.storage_bytes_written.saturating_sub(earlier.storage_bytes_written),
            ..*self
        }
    }
}

/// Returns the number after `name` at the beginning of a line.
fn named(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen() {
        let before = Usage::now();
        let held: Vec<u64> = (0..4_000_000u64).map(|n| n.wrapping_mul(n)).collect();
        assert!(held.contains(&4));
        let used = Usage::now().since(&before);
        assert!(used.cpu_seconds > 0.0 && used.minor_faults > 1000, "{used:?}");
        assert!(used.resident_bytes > 30_000_000 && used.resident_bytes_most >= used.resident_bytes);
    }
}
