//! Disks: room, file system, mount options, device.

use crate::doctor::facts::DiskFact;
use crate::finding::Finding;
use crate::show;
use shoal_settings::Settings;

/// Judges each disk of the settings.
pub(super) fn disks(settings: &Settings, disks: &[DiskFact]) -> Vec<Finding> {
    if disks.is_empty() {
        return vec![Finding::ok("disk: the settings have none; RAM serves alone")];
    }
    disks.iter().flat_map(|disk| one(settings, disk)).collect()
}

fn one(settings: &Settings, disk: &DiskFact) -> Vec<Finding> {
    let path = disk.path.display();
    if let Some(error) = &disk.error {
        return vec![Finding::bad(
            format!("disk {path}: {error}"),
            "make the folder, or mount its disk, for the node's user",
        )];
    }
    let mut findings = Vec::new();
    if let Some(why) = &disk.misfit {
        findings.push(Finding::bad(format!("disk {why}"), "the node does not start so"));
    }
    if disk.is_device {
        findings.push(Finding::ok(format!("disk {path}: a block device{}", turning(disk))));
        return findings;
    }
    findings.extend(kind(disk));
    findings.extend(options(disk));
    let used = disk.total.saturating_sub(disk.free);
    if disk.total > 0 && used > disk.total / 100 * 97 {
        findings.push(Finding::warn(
            format!("disk {path}: {} of {} are free", show::size(disk.free), show::size(disk.total)),
            "file systems slow down when they are full; free some, or lower store.disk",
        ));
    }
    let is_files = settings.store.architecture != "volume";
    if is_files && disk.inodes > 0 && disk.inodes_free < disk.inodes / 20 {
        findings.push(Finding::warn(
            format!("disk {path}: {} of {} inodes are free", show::count(disk.inodes_free), show::count(disk.inodes)),
            "the architecture makes a file for each object: `volume` does not, or make the file system with more inodes",
        ));
    }
    debug_assert!(disk.free <= disk.total || disk.total == 0, "free bytes are a part");
    if findings.is_empty() {
        findings.push(Finding::ok(format!(
            "disk {path}: {}{}, {} of {} free",
            disk.kind,
            turning(disk),
            show::size(disk.free),
            show::size(disk.total)
        )));
    }
    findings
}

fn turning(disk: &DiskFact) -> &'static str {
    match disk.is_rotational {
        Some(true) => " on a disk that turns",
        Some(false) => " on flash",
        None => "",
    }
}

fn kind(disk: &DiskFact) -> Option<Finding> {
    let path = disk.path.display();
    let told = |what: &str| format!("disk {path}: {} is {what}", disk.kind);
    match disk.kind.as_str() {
        "tmpfs" | "ramfs" | "hugetlbfs" => Some(Finding::warn(
            told("memory: the cache is counted twice and gone after a restart"),
            "name a folder of a disk, or no disk: store.directory = \"none\"",
        )),
        "overlay" | "aufs" => Some(Finding::warn(
            told("a container's own layer: slow, and gone with the container"),
            "mount a volume there",
        )),
        kind if is_remote(kind) => Some(Finding::warn(
            told("a network's: each hit waits for it, and locks may not hold"),
            "name a folder of a disk of this machine",
        )),
        _ => None,
    }
}

fn is_remote(kind: &str) -> bool {
    ["nfs", "cifs", "smb", "9p", "fuse", "ceph", "gluster", "lustre", "afs", "virtiofs"]
        .iter()
        .any(|remote| kind.starts_with(remote))
        && kind != "fuseblk"
}

fn options(disk: &DiskFact) -> Vec<Finding> {
    let path = disk.path.display();
    let has = |option: &str| disk.options.iter().any(|own| own == option);
    let mut findings = Vec::new();
    if has("ro") {
        findings.push(Finding::bad(
            format!("disk {path}: the file system is mounted read-only"),
            "look for errors in `dmesg`, repair it, `mount -o remount,rw`",
        ));
    }
    for (option, cost) in [
        ("sync", "each write waits for the device"),
        ("strictatime", "each read writes the time of the read"),
        ("data=journal", "each byte is written twice"),
    ] {
        if has(option) {
            findings.push(Finding::warn(
                format!("disk {path}: mounted with {option}: {cost}"),
                "mount it with defaults,noatime",
            ));
        }
    }
    findings
}
