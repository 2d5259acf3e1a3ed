//! Files that outlive the process, but not the machine's power: in shared memory, so that no disk
//! sees them.
//!
//! The files are in a folder for this user alone, inside the folder of POSIX shared memory on
//! Linux. Without shared memory, or if another user has made a folder of that name, there are no
//! such files. Callers do without them.

use super::{FileSystem, OsFs, private};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, fstatfs, mkdirat, openat};
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tracing::debug;

/// Returns the folder, or `None`.
#[must_use]
pub fn files() -> Option<Arc<dyn FileSystem>> {
    let found = folder(SHARED_MEMORY, &format!("shoal-{}", geteuid().as_raw()));
    let found = found.inspect_err(|why| debug!(why, "no files in shared memory"));
    found.ok().map(|folder| Arc::new(OsFs::at(folder)) as Arc<dyn FileSystem>)
}

fn folder(parent: &str, name: &str) -> Result<OwnedFd, &'static str> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parent = openat(CWD, parent, flags, Mode::empty()).map_err(|_| "there is no shared memory")?;
    let is_memory = fstatfs(&parent).is_ok_and(|found| found.f_type == TMPFS);
    is_memory.then_some(()).ok_or("what should be shared memory is on a disk")?;
    // The folder may exist already.
    let _ = mkdirat(&parent, name, private::FOLDER);
    let folder = openat(&parent, name, flags, Mode::empty()).map_err(|_| "the folder cannot be opened")?;
    let stat = fstat(&folder).map_err(|_| "the folder cannot be looked at")?;
    let is_ours = stat.st_uid == geteuid().as_raw() && FileType::from_raw_mode(stat.st_mode).is_dir();
    is_ours.then_some(()).ok_or("the folder is somebody else's")?;
    private::tighten(&folder);
    Ok(folder)
}

const SHARED_MEMORY: &str = "/dev/shm";
/// TMPFS_MAGIC.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// Runs a test in shared memory, if the machine has some.
    fn with_folder(test: impl Fn(&Path)) {
        let Ok(parent) = tempfile::tempdir_in(SHARED_MEMORY) else {
            eprintln!("skipped: this machine has no shared memory");
            return;
        };
        test(parent.path());
    }

    #[test]
    fn transient_folder_is_private_and_no_link() {
        with_folder(|parent| {
            let of = |name: &str| folder(parent.to_str().expect("a name"), name);
            assert!(of("new").is_ok() && of("new").is_ok());
            fs::set_permissions(parent.join("new"), Permissions::from_mode(0o777)).expect("ours");
            assert!(of("new").is_ok());
            let mode = fs::metadata(parent.join("new")).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "tightened");
            symlink(parent.join("new"), parent.join("link")).expect("made");
            fs::write(parent.join("file"), "").expect("written");
            assert!(of("link").is_err() && of("file").is_err());
        });
    }

    #[test]
    fn a_folder_on_a_disk_is_no_shared_memory() {
        assert!(folder("/proc", "shoal").is_err());
        assert!(folder("/nowhere", "shoal").is_err());
    }
}
