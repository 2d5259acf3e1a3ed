//! The block device that holds a folder, and the kernel's counts for the device.
//!
//! A folder's device number leads through `/sys/dev/block` to the device. The device's `stat` file
//! has the columns of `/proc/diskstats` (Linux, Documentation/admin-guide/iostats.rst). The counts
//! include other users of the device. The report therefore names other mounts of the same disk.

use rustix::fs::{major, minor};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Block device.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Name of the device, as in /dev.
    pub name: String,
    /// Disk that the device is a partition of.
    pub part_of: Option<String>,
    /// File behind a loop device.
    pub backing_file: Option<String>,
    /// Mount point of the folder's file system.
    pub mounted_at: String,
    /// Other mount points of file systems on the same disk.
    pub shared_with: Vec<String>,
    #[serde(skip)]
    stat: PathBuf,
}

/// Activity of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Completed reads, after merging.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Sum of the durations of all reads, in milliseconds.
    pub read_ms: u64,
    /// Completed writes, after merging.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of the durations of all writes, in milliseconds.
    pub write_ms: u64,
    /// Time with at least one operation under way, in milliseconds.
    pub busy_ms: u64,
}

impl Device {
    /// Returns the device that holds a folder. The error is the reason why there is no device.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let found = rustix::fs::stat(folder).map_err(|error| error.to_string())?;
        let number = format!("{}:{}", major(found.st_dev), minor(found.st_dev));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::of).collect();
        let link = PathBuf::from("/sys/dev/block").join(&number);
        let Ok(place) = fs::canonicalize(&link) else {
            let kind = mounts.iter().find(|mount| mount.number == number).map_or("?", |mount| mount.kind);
            return Err(format!("a {kind} file system has no block device of its own"));
        };
        let base = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let disk = match place.join("partition").exists() {
            true => place.parent().map(Path::to_path_buf).unwrap_or_else(|| place.clone()),
            false => place.clone(),
        };
        let is_same_disk = |mount: &&Mount<'_>| {
            let other = fs::canonicalize(PathBuf::from("/sys/dev/block").join(mount.number));
            other.is_ok_and(|other| other.starts_with(&disk))
        };
        let own = own_mount(folder, &mounts);
        let mut shared_with: Vec<String> = mounts
            .iter()
            .filter(|mount| Some(mount.point) != own)
            .filter(is_same_disk)
            .map(|mount| mount.point.to_owned())
            .collect();
        shared_with.sort();
        shared_with.dedup();
        Ok(Self {
            name: base(&place).unwrap_or(number),
            part_of: base(&disk).filter(|_| disk != place),
            backing_file: fs::read_to_string(place.join("loop/backing_file"))
                .ok()
                .map(|file| file.trim().into()),
            mounted_at: own.unwrap_or("/").into(),
            shared_with,
            stat: place.join("stat"),
        })
    }

    /// Returns the device's activity so far.
    pub fn activity(&self) -> Result<Activity, String> {
        let text =
            fs::read_to_string(&self.stat).map_err(|error| format!("{}: {error}", self.stat.display()))?;
        Activity::of(&text).ok_or_else(|| format!("{}: cannot be understood", self.stat.display()))
    }

    /// Describes the device in words.
    pub fn described(&self) -> String {
        let mut text = self.name.clone();
        if let Some(disk) = &self.part_of {
            text += &format!(", a partition of {disk}");
        }
        if let Some(file) = &self.backing_file {
            text += &format!(", a loop device over {file}");
        }
        match self.shared_with.as_slice() {
            [] if self.mounted_at == "/" => text + "; the system's own, whose other traffic is counted too",
            [] => text + "; no other file system of it is mounted here",
            [one] => text + &format!("; shared with {one}, whose traffic is counted too"),
            [first, rest @ ..] => {
                text + &format!("; shared with {first} and {} more, whose traffic is counted too", rest.len())
            }
        }
    }
}

impl Activity {
    fn of(stat: &str) -> Option<Self> {
        let numbers: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let at = |index: usize| numbers.get(index).copied();
        Some(Self {
            reads: at(0)?,
            bytes_read: at(2)? * SECTOR_BYTES,
            read_ms: at(3)?,
            writes: at(4)?,
            bytes_written: at(6)? * SECTOR_BYTES,
            write_ms: at(7)?,
            busy_ms: at(9)?,
        })
    }

    /// Returns the activity since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            read_ms: self.read_ms.saturating_sub(earlier.read_ms),
            writes: self.writes.saturating_sub(earlier.writes),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            write_ms: self.write_ms.saturating_sub(earlier.write_ms),
            busy_ms: self.busy_ms.saturating_sub(earlier.busy_ms),
        }
    }
}

/// Line of `/proc/self/mountinfo`.
struct Mount<'a> {
    number: &'a str,
    point: &'a str,
    kind: &'a str,
}

impl<'a> Mount<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ');
        let (number, point) = (fields.nth(2)?, fields.nth(1)?);
        Some(Self { number, point, kind: fields.skip_while(|field| *field != "-").nth(1)? })
    }
}

/// Returns the folder's mount point: the longest mount point that the folder begins with.
fn own_mount<'a>(folder: &Path, mounts: &[Mount<'a>]) -> Option<&'a str> {
    let folder = fs::canonicalize(folder).ok()?;
    let holding = mounts.iter().filter(|mount| folder.starts_with(mount.point));
    holding.map(|mount| mount.point).max_by_key(|point| point.len())
}

/// Unit of the kernel's counts, for devices of any sector size.
const SECTOR_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_columns_are_read() {
        let stat = "   100  5  2000  30  400  50  60000  700  0  800  730  0 0 0 0 9 9\n";
        let activity = Activity::of(stat).expect("columns");
        assert_eq!((activity.reads, activity.bytes_read, activity.read_ms), (100, 1_024_000, 30));
        assert_eq!((activity.writes, activity.bytes_written, activity.write_ms), (400, 30_720_000, 700));
        assert_eq!(activity.busy_ms, 800);
        assert_eq!(activity.since(&activity), Activity::default());
        assert_eq!(Activity::of("1 2 3"), None);
    }

    #[test]
    fn a_folder_without_a_device_has_a_reason() {
        let why = Device::of(Path::new("/proc")).expect_err("nothing lies below it");
        assert_eq!(why, "a proc file system has no block device of its own");
        assert!(Device::of(Path::new("/absent")).is_err());
    }

    #[test]
    fn mounts_are_found_by_their_longest_point() {
        let lines = ["1 0 8:1 / / rw - ext4 /dev/sda1 rw", "2 1 7:0 / /usr rw shared:1 - ext2 /dev/loop0 rw"];
        let mounts: Vec<_> = lines.iter().filter_map(|line| Mount::of(line)).collect();
        assert_eq!((mounts[1].number, mounts[1].point, mounts[1].kind), ("7:0", "/usr", "ext2"));
        assert_eq!(own_mount(Path::new("/usr/bin/.."), &mounts), Some("/usr"));
        assert_eq!(own_mount(Path::new("/etc"), &mounts), Some("/"));
    }
}
