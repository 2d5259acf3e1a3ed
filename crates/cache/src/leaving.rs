//! List of the disks that are on their way out of the store, in a file beside the purges.
//!
//! The settings do not name these disks any more. A process that ends before their objects are
//! copied tells the next one of them. One line a disk: its bytes, a space, its path.

use shoal_core::ByteCount;
use shoal_settings::Disk;
use shoal_store::fs::private;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Returns the disks in the list. A list that cannot be read counts as empty: its disks are not
/// used, and nothing wrong is served.
pub fn read(folder: &Path) -> Vec<Disk> {
    let mut text = String::new();
    let file = private::existing(&folder.join(NAME));
    if file.and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    text.lines().filter_map(parsed).take(DISKS_MAX).collect()
}

/// Writes the list, or removes an empty one.
///
/// # Errors
/// If the folder cannot be written to.
pub fn write(folder: &Path, disks: &[Disk]) -> io::Result<()> {
    let (path, next) = (folder.join(NAME), folder.join(NEXT));
    if disks.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let lines = disks.iter().filter_map(|disk| Some(format!("{} {}\n", disk.bytes.0, disk.path.to_str()?)));
    let text: String = lines.take(DISKS_MAX).collect();
    debug_assert!(text.lines().count() <= DISKS_MAX);
    let _ = fs::remove_file(&next);
    let mut file = private::file(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, &path)
}

fn parsed(line: &str) -> Option<Disk> {
    let (bytes, path) = line.split_once(' ')?;
    let bytes = ByteCount(bytes.parse().ok()?);
    (!path.is_empty()).then(|| Disk { path: path.into(), bytes, endurance: None })
}

/// Name of the list.
const NAME: &str = "leaving";
/// Name of a list that is being written.
const NEXT: &str = "leaving.next";
/// Most disks in a list.
const DISKS_MAX: usize = 64;
/// Longest list, in bytes.
const BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(path: &str, bytes: u64) -> Disk {
        Disk { path: path.into(), bytes: ByteCount(bytes), endurance: None }
    }

    #[test]
    fn list_comes_back_as_written() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read(folder.path()), []);
        let disks = [disk("/srv/a b", 5), disk("rel", 1 << 40)];
        for _ in 0..2 {
            write(folder.path(), &disks).expect("written");
            assert_eq!(read(folder.path()), disks);
        }
        write(folder.path(), &[]).expect("removed");
        write(folder.path(), &[]).expect("there is none");
        assert_eq!(read(folder.path()), []);
    }

    #[test]
    fn link_in_place_of_the_list_names_no_disk() {
        let (folder, elsewhere) = (tempfile::tempdir(), tempfile::tempdir());
        let (folder, elsewhere) = (folder.expect("a folder"), elsewhere.expect("a folder"));
        write(elsewhere.path(), &[disk("/a", 7)]).expect("written");
        std::os::unix::fs::symlink(elsewhere.path().join(NAME), folder.path().join(NAME)).expect("a link");
        assert_eq!(read(folder.path()), []);
    }

    #[test]
    fn damaged_lines_name_no_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(NAME), "x /a\n7\n7 \n-1 /b\n9 /c\n").expect("written");
        assert_eq!(read(folder.path()), [disk("/c", 9)]);
        fs::write(folder.path().join(NAME), [0xff, 0xfe]).expect("written");
        assert_eq!(read(folder.path()), []);
    }
}
