//! Finding a store to look at: which architecture made it, and whether a process has it open.

use super::signature::Signature;
use super::volume;
use crate::Error;
use crate::fs::{Access, DeviceFs, FileSystem, OsBlockDevice, OsFs, OverlayFs};
use crate::inspect::Inspect;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Looks at the store in a folder or on a block device. Takes no lock and writes nothing.
///
/// # Errors
/// [`Error::Unusable`] when there is no store, or one that cannot be looked at.
pub fn inspect(directory: &Path) -> Result<Box<dyn Inspect>, Error> {
    let unusable = |why: String| Error::Unusable(format!("{}: {why}", directory.display()));
    let named = |error: Error| match error {
        Error::Unusable(why) => unusable(why),
        other => other,
    };
    let (files, lock): (Arc<dyn FileSystem>, _) = match OsBlockDevice::is_one(directory) {
        true => {
            let medium = OsBlockDevice::open(directory, Access::Read)?;
            let device = DeviceFs::open(Box::new(medium), Access::Read);
            (Arc::new(device.map_err(named)?), directory.to_owned())
        }
        false => {
            let files = OsFs::open(directory).map_err(|error| unusable(error.to_string()))?;
            (Arc::new(files), directory.join("lock"))
        }
    };
    let signature = Signature::read(&*files).map_err(|error| unusable(error.to_string()))?;
    let is_live = is_locked(&lock);
    match signature {
        None => Err(unusable("there is no store of Shoal here that says which architecture made it".into())),
        Some(signature) if signature.architecture == volume::NAME => {
            let secret = signature.keys.map(|keys| keys.secret);
            let view = volume::inspect_volume(Arc::new(OverlayFs::new(files, MADE_MAX)), is_live, secret);
            view.map_err(named)
        }
        Some(signature) => Err(unusable(format!(
            "the store is one of {}, whose objects are files: look at them by name (docs/FORMATS.md); the running node \
             tells of it with `shoal status`",
            signature.architecture
        ))),
    }
}

/// Makes a block device empty and ready for a volume; what it holds is lost, if `erases` allows
/// that.
///
/// # Errors
/// [`Error::Unusable`] when it is no block device, is in use, or holds something that may not be
/// erased.
pub fn format(device: &Path, erases: bool) -> Result<(), Error> {
    if !OsBlockDevice::is_one(device) {
        return Err(Error::Unusable(format!(
            "{} is no block device; a folder needs no formatting",
            device.display()
        )));
    }
    DeviceFs::format(&OsBlockDevice::open(device, Access::Write)?, erases)
}

/// Whether some process holds a lock on this file, as far as the kernel tells: without trying,
/// since that would keep a node from starting for an instant.
fn is_locked(lock: &Path) -> bool {
    let (Ok(data), Ok(locks)) = (fs::metadata(lock), fs::read_to_string("/proc/locks")) else { return false };
    // `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`: the last of the three is the inode
    let inode = data.ino().to_string();
    let is_ours = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.any(|word| word == "FLOCK") && words.any(|word| word.rsplit(':').next() == Some(&*inode))
    };
    locks.lines().any(is_ours)
}

/// RAM for an index that has to be made from the contents of a volume without one.
const MADE_MAX: u64 = 1 << 40;
