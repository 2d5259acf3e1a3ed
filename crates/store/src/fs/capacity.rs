//! Bytes that a store may take at a path: the free space, and the store's present space.

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Space for one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Most bytes that the store can ever take there.
    pub most_bytes: u64,
    /// Bytes that are free now.
    pub free_bytes: u64,
    /// Bytes that the store's files hold already, by the blocks allotted to them.
    pub held_bytes: u64,
}

impl Capacity {
    /// Returns the space at a block device, or in an existing or future folder.
    ///
    /// Costs one call for each file of an existing store, at most `COUNTED_MAX`. A store of more
    /// files counts as holding all the space used on its file system.
    pub fn at(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.file_type().is_block_device() => device(path),
            Ok(found) => folder(path, Some(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder(path, None),
            Err(error) => Err(error),
        }
    }
}

fn device(path: &Path) -> io::Result<Capacity> {
    let device = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let bytes = rustix::fs::seek(&device, SeekFrom::End(0))?;
    Ok(Capacity { most_bytes: bytes, free_bytes: bytes, held_bytes: 0 })
}

fn folder(path: &Path, found: Option<&Metadata>) -> io::Result<Capacity> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there)?;
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    let used_bytes = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
    let held_bytes = match found {
        None => 0,
        Some(root) => held(&path, root.dev())?.unwrap_or(used_bytes),
    };
    // A new store leaves a tenth of the free space to others.
    let usable = if held_bytes == 0 { free_bytes - free_bytes / 10 } else { free_bytes };
    Ok(Capacity { most_bytes: held_bytes.saturating_add(usable), free_bytes, held_bytes })
}

/// Returns the bytes allotted to the files below a folder on this file system. Returns `None` if
/// there are too many to count.
fn held(folder: &Path, device: u64) -> io::Result<Option<u64>> {
    let (mut folders, mut bytes, mut counted) = (vec![folder.to_owned()], 0_u64, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            counted += 1;
            if counted > COUNTED_MAX {
                return Ok(None);
            }
            // A file may be removed during the walk, and a link is not followed.
            let Ok(found) = entry.metadata() else { continue };
            match FileType::from_raw_mode(found.mode()) {
                _ if found.dev() != device => {}
                FileType::RegularFile => bytes = bytes.saturating_add(found.blocks().saturating_mul(512)),
                FileType::Directory => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    Ok(Some(bytes))
}

/// Most files that are counted.
const COUNTED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_are_those_allotted() {
        let root = tempfile::tempdir().expect("a folder");
        let store = root.path().join("store");
        let absent = Capacity::at(&store).expect("its parent is there");
        assert_eq!(absent.held_bytes, 0);
        assert_eq!(absent.most_bytes, absent.free_bytes - absent.free_bytes / 10);
        fs::create_dir_all(store.join("inner")).expect("made");
        let sparse = fs::File::create(store.join("sparse")).expect("made");
        sparse.set_len(1 << 40).expect("a hole");
        fs::write(store.join("inner/full"), vec![1; 1 << 20]).expect("written");
        fs::File::open(store.join("inner/full")).and_then(|file| file.sync_all()).expect("synced");
        let here = Capacity::at(&store).expect("there");
        assert!((1 << 20..2 << 20).contains(&here.held_bytes), "{here:?}");
        assert_eq!(here.most_bytes, here.held_bytes + here.free_bytes);
    }

    #[test]
    fn links_out_of_the_store_are_not_counted() {
        let root = tempfile::tempdir().expect("a folder");
        let store = root.path().join("store");
        fs::create_dir(&store).expect("made");
        fs::write(root.path().join("large"), vec![1; 1 << 20]).expect("written");
        std::os::unix::fs::symlink(root.path(), store.join("up")).expect("made");
        assert_eq!(Capacity::at(&store).expect("there").held_bytes, 0);
    }
}
