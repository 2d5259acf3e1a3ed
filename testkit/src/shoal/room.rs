//! How many connections wait without a task, as the kernel knows it.

use std::collections::{HashMap, HashSet};

/// Client connections of a process that wait without a task. They are those that an epoll instance
/// watches which is itself watched by another, its thread's; one with a task is watched by the
/// thread's directly. `None` when the process has ended.
pub fn waiting(pid: u32) -> Option<usize> {
    let mut watched: HashMap<String, Vec<String>> = HashMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?.flatten() {
        // One may be closed meanwhile.
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let targets = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let targets: Vec<_> =
            targets.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect();
        watched.insert(entry.file_name().to_string_lossy().into_owned(), targets);
    }
    // An instance may have several descriptors, each of which tells the same.
    let rooms: HashSet<_> = watched.values().flatten().collect();
    Some(rooms.into_iter().filter_map(|room| watched.get(room)).map(Vec::len).sum())
}
