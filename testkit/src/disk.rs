//! What stands in a folder on disk, and harming it on purpose.

use crate::seeded::Random;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file below `folder`, sorted by path. Files that vanish meanwhile are left out.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => found.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    found.sort();
    found
}

/// Bytes of blocks that the files below `folder` occupy, as `du` counts; folders themselves are not
/// charged.
pub fn occupied(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|path| path.symlink_metadata().ok()).map(|data| data.blocks() * 512).sum()
}

/// Inverts `count` bytes from `offset`.
pub fn flip(path: &Path, offset: u64, count: usize) {
    let bytes = std::fs::read(path).expect("the file is there");
    let start = (offset as usize).min(bytes.len());
    let end = (start + count).min(bytes.len());
    let flipped: Vec<u8> = bytes[start..end].iter().map(|byte| !byte).collect();
    overwrite(path, start as u64, &flipped);
}

/// Overwrites bytes in place.
pub fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the file is there");
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes)).expect("the file can be written");
}

/// Overwrites a random stretch of the file, at most a quarter of it, with noise.
pub fn scribble(path: &Path, random: &mut Random) {
    let length = std::fs::metadata(path).expect("the file is there").len().max(1);
    let offset = random.below(length);
    let count = 1 + random.below(length / 4 + 1).min(length - offset);
    let noise: Vec<u8> = (0..count).map(|_| random.next_u64() as u8).collect();
    overwrite(path, offset, &noise);
}

/// A small file system in RAM, unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many bytes at `folder`; an error says why that is not possible here.
    pub fn mount(folder: &Path, bytes: u64) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let size = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "shoal-test"]).arg(folder).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self(folder.into())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // lazily, since a process that is just ending may still hold a file
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
