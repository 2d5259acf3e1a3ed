//! Control groups of a host: memory, CPU, disk, and the freezer.
//!
//! Version 1 has a tree for each controller, version 2 one for all. Which of them a machine has is
//! found by trying: a controller counts as present if a folder could be made in its tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Folders of one host's groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    folders: Vec<Group>,
    /// Only there if no group could be made: notes the ids of started processes.
    notes: Option<TempDir>,
}

#[derive(Debug)]
struct Group {
    controllers: Vec<&'static str>,
    folder: PathBuf,
    is_unified: bool,
}

impl Groups {
    /// Makes the groups called `name`, as far as the machine has the controllers.
    pub(super) fn make(name: &str) -> Self {
        let mut groups = Self::default();
        for tree in trees() {
            let folder = tree.folder.join(FAMILY).join(name);
            let had = |controller: &&&'static str| !groups.has(controller);
            let new: Vec<&'static str> = tree.controllers.iter().filter(had).copied().collect();
            if !new.is_empty() && fs::create_dir_all(&folder).is_ok() {
                let is_unified = tree.is_unified;
                groups.folders.push(Group { controllers: new, folder, is_unified });
            }
        }
        if groups.folders.is_empty() {
            groups.notes = tempfile::Builder::new().prefix("shoal-hosts-").tempdir().ok();
        }
        groups
    }

    /// Removes the groups called `name` of a creator that is gone, with their processes.
    pub(super) fn sweep(name: &str) {
        let found = trees().into_iter().map(|tree| tree.folder.join(FAMILY).join(name));
        let folders = found.filter(|folder| folder.exists()).map(|folder| {
            let is_unified = folder.join("cgroup.freeze").exists();
            Group { controllers: Vec::new(), folder, is_unified }
        });
        Self { folders: folders.collect(), notes: None }.remove();
    }

    /// Folders that a process joins by writing its id at the end of their `cgroup.procs`.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        let notes = self.notes.iter().map(TempDir::path);
        self.folders.iter().map(|group| group.folder.as_path()).chain(notes)
    }

    /// Processes in the groups.
    pub(super) fn processes(&self) -> Vec<u32> {
        let read = |folder: &Path| fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let mut found: Vec<u32> = Vec::new();
        for text in self.folders().map(read) {
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        found.sort_unstable();
        found.dedup();
        // The number of a process that was noted and has ended may be another's by now.
        found.retain(|process| self.notes.is_none() || is_own_child(*process));
        found
    }

    /// Limits memory, page cache included.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        self.write("memory", ["memory.limit_in_bytes", "memory.max"], &bytes.to_string())
    }

    /// Limits the CPU time of all processes together, in hundredths of a core.
    pub(super) fn limit_cpu(&self, percent: u32) -> Result<(), String> {
        let quota = u64::from(percent) * CPU_PERIOD_US / 100;
        let group = self.group("cpu")?;
        if group.is_unified {
            return write(&group.folder.join("cpu.max"), &format!("{quota} {CPU_PERIOD_US}"));
        }
        write(&group.folder.join("cpu.cfs_period_us"), &CPU_PERIOD_US.to_string())?;
        write(&group.folder.join("cpu.cfs_quota_us"), &quota.to_string())
    }

    /// Limits reads and writes of a block device, named `MAJOR:MINOR`, in bytes a second each.
    pub(super) fn limit_disk(&self, device: &str, bytes_per_second: u64) -> Result<(), String> {
        let group = self.group("blkio")?;
        if group.is_unified {
            let line = format!("{device} rbps={bytes_per_second} wbps={bytes_per_second}");
            return write(&group.folder.join("io.max"), &line);
        }
        let line = format!("{device} {bytes_per_second}");
        write(&group.folder.join("blkio.throttle.read_bps_device"), &line)?;
        write(&group.folder.join("blkio.throttle.write_bps_device"), &line)
    }

    /// Freezes all processes, or thaws them. An error where there is no freezer.
    pub(super) fn set_frozen(&self, frozen: bool) -> Result<(), String> {
        let group = self.group("freezer")?;
        if group.is_unified {
            return write(&group.folder.join("cgroup.freeze"), if frozen { "1" } else { "0" });
        }
        let state = group.folder.join("freezer.state");
        let wanted = if frozen { "FROZEN" } else { "THAWED" };
        write(&state, wanted)?;
        let is_so = || fs::read_to_string(&state).is_ok_and(|text| text.trim() == wanted);
        if crate::wait::within(Duration::from_secs(10), is_so) {
            return Ok(());
        }
        Err(format!("{} does not become {wanted}", state.display()))
    }

    /// Ends the processes that are left and removes the groups.
    pub(super) fn remove(&self) {
        let _ = self.set_frozen(false);
        for group in &self.folders {
            // In a sweep the controllers are not known.
            let _ = fs::write(group.folder.join("freezer.state"), "THAWED");
        }
        for process in self.processes() {
            super::end(process);
        }
        for folder in self.folders.iter().map(|group| &group.folder) {
            crate::wait::within(Duration::from_secs(5), || {
                fs::remove_dir(folder).is_ok() || !folder.exists()
            });
        }
    }

    fn has(&self, controller: &str) -> bool {
        self.group(controller).is_ok()
    }

    fn group(&self, controller: &str) -> Result<&Group, String> {
        let found = self.folders.iter().find(|group| group.controllers.contains(&controller));
        found.ok_or_else(|| format!("no control group of {controller} can be made here"))
    }

    /// Writes a limit into the file of version 1 or of version 2.
    fn write(&self, controller: &str, files: [&str; 2], value: &str) -> Result<(), String> {
        let group = self.group(controller)?;
        write(&group.folder.join(files[usize::from(group.is_unified)]), value)
    }
}

/// Mounted tree of control groups.
struct Tree {
    folder: PathBuf,
    controllers: Vec<&'static str>,
    is_unified: bool,
}

/// All trees, those of version 1 first: a controller is in one tree only.
fn trees() -> Vec<Tree> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut trees = Vec::new();
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[_, folder, kind, options, ..] = words.as_slice() else { continue };
        let folder = PathBuf::from(folder);
        if kind == "cgroup" {
            let has = |name: &&&'static str| options.split(',').any(|option| option == **name);
            let controllers = CONTROLLERS.iter().filter(has).copied().collect();
            trees.push(Tree { folder, controllers, is_unified: false });
        } else if kind == "cgroup2" {
            let controllers = unified_controllers(&folder);
            trees.push(Tree { folder, controllers, is_unified: true });
        }
    }
    trees.retain(|tree| !tree.controllers.is_empty());
    trees.sort_by_key(|tree| tree.is_unified);
    trees
}

/// Controllers that a tree of version 2 hands down. Freezing is part of the tree itself.
fn unified_controllers(folder: &Path) -> Vec<&'static str> {
    let family = folder.join(FAMILY);
    let mut found = vec!["freezer"];
    let _ = fs::create_dir_all(&family);
    for (name, ours) in [("memory", "memory"), ("cpu", "cpu"), ("io", "blkio")] {
        let hand_down = |folder: &Path| fs::write(folder.join("cgroup.subtree_control"), format!("+{name}"));
        // The root may hand it down already and refuse to be told again.
        let _ = hand_down(folder);
        if hand_down(&family).is_ok() {
            found.push(ours);
        }
    }
    found
}

/// Returns `true` if this process started the one of this id.
fn is_own_child(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.is_some_and(|parent| parent.trim() == std::process::id().to_string())
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("{}: {error}", path.display()))
}

/// Names of version 1.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "blkio", "freezer"];

/// The folder of all grounds' groups in each tree.
const FAMILY: &str = "shoal-hosts";

const CPU_PERIOD_US: u64 = 100_000;
