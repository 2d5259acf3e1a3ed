//! Disks of the settings: their file systems, mounts and devices. A disk that hangs is told.

use crate::doctor::facts::DiskFact;
use shoal_settings::Settings;
use shoal_store::patience::all_within;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks at each disk, each on a thread of its own.
pub(super) fn disks(settings: &Settings) -> Vec<DiskFact> {
    let misfits = shoal_proxy::node::misfits(settings);
    let paths: Vec<PathBuf> = settings.store.all_disks().into_iter().map(|disk| disk.path).collect();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let look = |path: &PathBuf| {
        let (path, mounts) = (path.clone(), mounts.clone());
        move || fact(&path, &mounts)
    };
    let looked = all_within(PATIENCE, "disk", paths.iter().map(look).collect());
    let with_misfit = |(at, (fact, path)): (usize, (Option<DiskFact>, &PathBuf))| {
        let silent = || failed(path, format!("no answer within {} s", PATIENCE.as_secs()));
        let misfit = misfits.iter().find(|(disk, _)| *disk == at).map(|(_, why)| why.clone());
        DiskFact { misfit, ..fact.unwrap_or_else(silent) }
    };
    looked.into_iter().zip(&paths).enumerate().map(with_misfit).collect()
}

fn failed(path: &Path, error: String) -> DiskFact {
    DiskFact { path: path.into(), error: Some(error), ..DiskFact::default() }
}

/// Looks at a disk, or at the folder in which the node would make it.
fn fact(path: &Path, mounts: &str) -> DiskFact {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let there =
        absolute.ancestors().find_map(|path| Some((path.canonicalize().ok()?, path.metadata().ok()?)));
    let Some((place, data)) = there else { return failed(path, "no part of its path is there".into()) };
    let is_device = data.file_type().is_block_device();
    let device = if is_device { data.rdev() } else { data.dev() };
    let mut fact = DiskFact {
        path: path.into(),
        is_device,
        is_rotational: is_rotational(device),
        ..DiskFact::default()
    };
    if is_device {
        return fact;
    }
    if let Some((kind, options)) = mount_of(mounts, &place) {
        (fact.kind, fact.options) = (kind, options);
    }
    match rustix::fs::statvfs(&place) {
        Ok(space) => {
            (fact.total, fact.free) = (space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize);
            (fact.inodes, fact.inodes_free) = (space.f_files, space.f_favail);
        }
        Err(error) => fact.error = Some(error.to_string()),
    }
    fact
}

/// Returns kind and options of the mount that a path is on, by proc_pid_mountinfo(5). A later mount
/// of one place hides an earlier one.
fn mount_of(mounts: &str, path: &Path) -> Option<(String, Vec<String>)> {
    let parsed = mounts.lines().filter_map(|line| {
        let (own, rest) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(4);
        let place = PathBuf::from(unescaped(own.next()?));
        let options = own.next()?.split(',').map(str::to_owned);
        let mut rest = rest.split(' ');
        let (kind, of_system) = (rest.next()?.to_owned(), rest.nth(1).unwrap_or_default());
        let all = options.chain(of_system.split(',').map(str::to_owned)).collect();
        Some((place, (kind, all)))
    });
    let fitting = parsed.filter(|(place, _)| path.starts_with(place));
    fitting.max_by_key(|(place, _)| place.as_os_str().len()).map(|(_, found)| found)
}

/// Returns a path with its octal escapes resolved.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Returns `true` if the device turns; for a partition its whole device is asked.
fn is_rotational(device: u64) -> Option<bool> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let at = |below: &str| {
        std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{below}queue/rotational")).ok()
    };
    at("").or_else(|| at("../")).map(|text| text.trim() == "1")
}

/// Longest wait for all disks.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:40 / /srv/my\\040disk rw,noatime - xfs /dev/sdb1 rw,data=journal
31 22 0:41 / /srv ro - nfs4 server:/ ro,sync
nonsense
";

    #[test]
    fn mounts_are_found_by_the_longest_place() {
        let kind = |path: &str| mount_of(MOUNTS, Path::new(path)).map(|(kind, _)| kind);
        assert_eq!(kind("/var/cache").as_deref(), Some("ext4"));
        assert_eq!(kind("/srv/other").as_deref(), Some("nfs4"));
        assert_eq!(kind("/srv/my disk/shoal").as_deref(), Some("xfs"));
        let (_, options) = mount_of(MOUNTS, Path::new("/srv/my disk")).expect("a mount");
        assert_eq!(options, ["rw", "noatime", "rw", "data=journal"]);
        assert_eq!(mount_of("", Path::new("/a")), None);
    }

    #[test]
    fn folder_to_be_made_is_looked_at_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let fact = fact(&folder.path().join("a/b"), MOUNTS);
        assert_eq!((fact.error, fact.kind.as_str(), fact.is_device), (None, "ext4", false));
        assert!(fact.total >= fact.free && fact.total > 0);
    }
}
