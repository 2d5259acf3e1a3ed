//! Limits of the process, memory, the kernel's settings, the clock, the user.

use crate::doctor::facts::{Clock, Kernel, Memory, OpenFiles, User};
use rustix::process::{Resource, getrlimit};
use shoal_store::patience::all_within;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Returns the limit of open files, of the node's process if there is one.
pub(super) fn open_files(pid: Option<u32>) -> OpenFiles {
    let of_node = pid.and_then(|pid| text(format!("/proc/{pid}/limits"))).and_then(|text| hard_limit(&text));
    OpenFiles {
        hard: of_node.unwrap_or_else(|| getrlimit(Resource::Nofile).maximum),
        is_nodes: of_node.is_some(),
        of_machine: number("/proc/sys/fs/file-max"),
    }
}

/// Returns the hard limit of open files in proc_pid_limits(5), `None` within for no limit.
fn hard_limit(text: &str) -> Option<Option<u64>> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Returns the memory of the machine, and the limit of the control group.
pub(super) fn memory(pid: Option<u32>) -> Memory {
    let info = text("/proc/meminfo").unwrap_or_default();
    let group = text(pid.map_or("/proc/self/cgroup".into(), |pid| format!("/proc/{pid}/cgroup")));
    let huge_pages = text("/sys/kernel/mm/transparent_hugepage/enabled");
    Memory {
        total: kilobytes(&info, "MemTotal:").unwrap_or(0),
        group_limit: group.and_then(|group| group_limit(&group)),
        overcommit: number("/proc/sys/vm/overcommit_memory"),
        huge_pages: huge_pages.and_then(|text| chosen(&text).map(str::to_owned)),
    }
}

/// Returns a value of proc_meminfo(5) in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the word in brackets.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

/// Returns the lowest limit of a control group and those above it (cgroups(7)), of either version.
fn group_limit(text: &str) -> Option<u64> {
    let limit_in = |root: &str, path: &str, file: &str| {
        let mut folder = PathBuf::from(format!("{root}{path}"));
        let mut lowest: Option<u64> = None;
        while folder.starts_with(root) {
            lowest = lowest.into_iter().chain(number(folder.join(file))).min();
            if !folder.pop() {
                break;
            }
        }
        lowest
    };
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        match controllers {
            "" => limit_in("/sys/fs/cgroup", path, "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                limit_in("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    };
    text.lines().filter_map(of_line).min()
}

/// Returns the kernel's settings of the network.
pub(super) fn kernel() -> Kernel {
    let ports = text("/proc/sys/net/ipv4/ip_local_port_range");
    let pair = |text: String| {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    Kernel {
        somaxconn: number("/proc/sys/net/core/somaxconn"),
        syn_backlog: number("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
        local_ports: ports.and_then(pair),
        timestamps: number("/proc/sys/net/ipv4/tcp_timestamps"),
        tw_reuse: number("/proc/sys/net/ipv4/tcp_tw_reuse"),
    }
}

/// Returns the state of the clock.
pub(super) fn clock() -> Clock {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Clock {
        is_synchronised: synchronised(),
        unix_s: since.map_or(0, |since| since.as_secs()),
        step: Duration::ZERO,
    }
}

/// Returns `true` if systemd knows of a time service that keeps the clock.
fn synchronised() -> Option<bool> {
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return Some(true);
    }
    let ask = || {
        let arguments = ["show", "--property=NTPSynchronized", "--value"];
        let output =
            Command::new("timedatectl").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let told = all_within(SYSTEMD_PATIENCE, "clock", vec![ask]).into_iter().flatten().flatten().next();
    match told.as_deref() {
        Some("yes") => Some(true),
        Some("no") => Some(false),
        _ => None,
    }
}

/// Returns the user of a process, or of this one.
pub(super) fn user(pid: Option<u32>) -> User {
    let of_node = pid.and_then(|pid| text(format!("/proc/{pid}/status"))).and_then(|text| user_of(&text));
    of_node.unwrap_or_else(|| {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let own = rustix::process::getegid();
        let gids = groups.into_iter().chain([own]).map(rustix::process::Gid::as_raw).collect();
        User::new(rustix::process::geteuid().as_raw(), gids, false)
    })
}

/// Returns the effective user and the groups in proc_pid_status(5).
fn user_of(text: &str) -> Option<User> {
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
    };
    let effective = |name: &str| numbers(name)?.get(1).copied();
    let mut gids = numbers("Groups:")?;
    gids.extend(effective("Gid:"));
    Some(User::new(effective("Uid:")?, gids, true))
}

/// Returns `true` if the process of this number is Shoal's, here.
pub(super) fn is_shoal(pid: u32) -> bool {
    text(format!("/proc/{pid}/comm")).is_some_and(|name| name.trim() == "shoal")
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the number in a file, `None` for `max` too.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// Longest wait for systemd.
const SYSTEMD_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(hard_limit(limits), Some(Some(524_288)));
        assert_eq!(hard_limit("Max open files  unlimited  unlimited files"), Some(None));
        assert_eq!(hard_limit(""), None);
        assert_eq!(kilobytes("MemTotal:       16 kB\n", "MemTotal:"), Some(16_384));
        assert_eq!(kilobytes("MemTotal: many", "MemTotal:"), None);
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        let status = "Name:\tshoal\nUid:\t0\t65532\t0\t0\nGid:\t1\t2\t1\t1\nGroups:\t7 8 \n";
        assert_eq!(user_of(status), Some(User::new(65532, vec![7, 8, 2], true)));
        assert_eq!(user_of("Uid:\t1"), None);
    }

    #[test]
    fn own_process_is_read() {
        let pid = std::process::id();
        assert!(open_files(Some(pid)).is_nodes);
        let (own, by_pid) = (user(None), user(Some(pid)));
        assert_eq!(own.uid, by_pid.uid);
        assert!(!is_shoal(pid), "the test has another name");
    }
}
