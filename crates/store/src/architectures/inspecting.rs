//! Inspection of a store: finds the architecture that made it, and tells whether a process has it
//! open.

use super::signature::Signature;
use super::volume;
use crate::Error;
use crate::fs::{Access, DeviceFs, FileSystem, OsBlockDevice, OsFs, OverlayFs};
use crate::inspect::Inspect;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Inspects the store in a folder or on a block device. Takes no lock and writes nothing.
///
/// # Errors
/// [`Error::Unusable`] when there is no store, or the store cannot be inspected.
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

/// Empties a block device and makes it ready for a volume. With `erases`, the data on the device is
/// lost.
///
/// # Errors
/// [`Error::Unusable`] when `device` is no block device, is in use, or holds data and `erases` is
/// false.
pub fn format(device: &Path, erases: bool) -> Result<(), Error> {
    if !OsBlockDevice::is_one(device) {
        return Err(Error::Unusable(format!(
            "{} is no block device; a folder needs no formatting",
            device.display()
        )));
    }
    DeviceFs::format(&OsBlockDevice::open(device, Access::Write)?, erases)
}

/// Empties a volume that no process has open: its objects are not found any more, and their space
/// is free. Other stores stay as they are.
///
/// # Errors
/// [`Error::Unusable`] when there is no volume, a process has it open, or its files cannot be
/// removed.
pub fn empty(directory: &Path) -> Result<(), Error> {
    let unusable = |why: String| Error::Unusable(format!("{}: {why}", directory.display()));
    let (files, _lock): (Arc<dyn FileSystem>, _) = match OsBlockDevice::is_one(directory) {
        true => {
            let medium = OsBlockDevice::open(directory, Access::Write)?;
            (Arc::new(DeviceFs::open(Box::new(medium), Access::Write)?), None)
        }
        false => {
            let files = OsFs::open(directory).map_err(|error| unusable(error.to_string()))?;
            (Arc::new(files), Some(super::opening::lock(directory)?))
        }
    };
    let signature = Signature::read(&*files).map_err(|error| unusable(error.to_string()))?;
    if signature.is_none_or(|signature| signature.architecture != volume::NAME) {
        return Err(unusable("there is no volume".into()));
    }
    volume::empty(&*files).map_err(|error| unusable(error.to_string()))
}

/// Returns the bytes of disk that the volume in a folder takes with its index; `None` without one.
pub fn volume_size(directory: &Path) -> Option<u64> {
    if OsBlockDevice::is_one(directory) {
        return None;
    }
    volume::size(&OsFs::open(directory).ok()?)
}

/// Returns `true` if the kernel lists a lock of some process on this file. Reads `/proc/locks`
/// instead of trying the lock: a trial lock could stop a node that starts at that instant.
fn is_locked(lock: &Path) -> bool {
    let (Ok(data), Ok(locks)) = (fs::metadata(lock), fs::read_to_string("/proc/locks")) else { return false };
    // `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`: the inode follows the device's two
    // numbers.
    let inode = data.ino().to_string();
    let is_ours = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.any(|word| word == "FLOCK") && words.any(|word| word.rsplit(':').next() == Some(&*inode))
    };
    locks.lines().any(is_ours)
}

/// Bound in bytes of the RAM overlay that holds an index made from a volume without one.
const MADE_MAX: u64 = 1 << 40;
