//! What the operating system says about this process, under the names that Prometheus clients share.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// A gauge or counter of this process: kind, name, help, value.
pub(super) type Row = (&'static str, &'static str, &'static str, f64);

/// What can be read; a system without `/proc` gives less.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(pages) = field("/proc/self/statm", 1) {
        let bytes = pages * page_size() as f64;
        rows.push(("gauge", "process_resident_memory_bytes", "Resident memory size in bytes.", bytes));
    }
    if let Some(seconds) = cpu_seconds() {
        rows.push(("counter", "process_cpu_seconds_total", "User and system CPU time in seconds.", seconds));
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        rows.push(("gauge", "process_open_fds", "Open file descriptors.", entries.count() as f64));
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        rows.push(("gauge", "process_max_fds", "Most file descriptors that may be open.", limit as f64));
    }
    rows
}

/// The number at this place of a file of blank-parted fields.
fn field(path: &str, index: usize) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// proc_pid_stat(5): utime is field 14 and stime field 15; the second field is the command in parentheses, which
/// may hold blanks and parentheses itself.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let ticks = rest.split_ascii_whitespace().skip(11).take(2).map(str::parse);
    let ticks: f64 = ticks.collect::<Result<Vec<f64>, _>>().ok()?.iter().sum();
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
    }
}
