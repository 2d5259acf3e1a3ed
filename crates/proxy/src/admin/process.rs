//! Metrics of this process from the operating system, named as in other Prometheus clients.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// A gauge or counter of this process: kind, name, help, value.
pub(super) type Row = (&'static str, &'static str, &'static str, f64);

/// Returns all readable values. A system without `/proc` has fewer.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, name, help) in [
        (0, "process_virtual_memory_bytes", "Virtual memory size in bytes."),
        (1, "process_resident_memory_bytes", "Resident memory size in bytes."),
    ] {
        if let Some(pages) = field("/proc/self/statm", index) {
            rows.push(("gauge", name, help, pages * page_size() as f64));
        }
    }
    if let Some(seconds) = start_seconds() {
        let help = "Start time of the process since unix epoch in seconds.";
        rows.push(("gauge", "process_start_time_seconds", help, seconds));
    }
    if let Some(seconds) = cpu_seconds() {
        rows.push(("counter", "process_cpu_seconds_total", "User and system CPU time in seconds.", seconds));
    }
    let (open, limit) = files();
    if let Some(open) = open {
        rows.push(("gauge", "process_open_fds", "Open file descriptors.", open as f64));
    }
    if let Some(limit) = limit {
        rows.push(("gauge", "process_max_fds", "Most file descriptors that may be open.", limit as f64));
    }
    rows
}

/// Returns the number of open file descriptors and its limit, where the system tells them.
pub(super) fn files() -> (Option<u64>, Option<u64>) {
    let open = std::fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64).ok();
    (open, getrlimit(Resource::Nofile).current)
}

/// Returns the CPU time in milliseconds and the resident memory in bytes, where the system tells
/// them.
pub(crate) fn usage() -> (Option<u64>, Option<u64>) {
    let rss = field("/proc/self/statm", 1).map(|pages| (pages * page_size() as f64) as u64);
    (cpu_seconds().map(|seconds| (seconds * 1000.0) as u64), rss)
}

/// Returns the number at position `index` of a file of blank-separated fields.
fn field(path: &str, index: usize) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Returns the CPU time. proc_pid_stat(5): utime is field 14 and stime field 15.
fn cpu_seconds() -> Option<f64> {
    Some(stat_ticks(14)? + stat_ticks(15)?)
}

/// Returns the start time. starttime is field 22, in ticks since the machine's start. The machine
/// started at `btime` (proc_stat(5)).
fn start_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + stat_ticks(22)?)
}

/// Returns a field of proc_pid_stat(5) that counts ticks, in seconds. The second field is the
/// command in parentheses, and may itself contain blanks and parentheses.
fn stat_ticks(number: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let ticks: f64 = rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()?;
    Some(ticks / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_measured() {
        let rows = rows();
        let value = |name| rows.iter().find(|row| row.1 == name).map(|row| row.3);
        assert!(value("process_resident_memory_bytes").is_some_and(|bytes| bytes > 100_000.0));
        assert!(value("process_open_fds").is_some_and(|count| count >= 3.0));
        assert!(value("process_cpu_seconds_total").is_some_and(|seconds| seconds < 1e6));
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let age = value("process_start_time_seconds").map(|start| now.as_secs_f64() - start);
        assert!(age.is_some_and(|age| (-2.0..3600.0).contains(&age)), "{age:?}");
    }
}
