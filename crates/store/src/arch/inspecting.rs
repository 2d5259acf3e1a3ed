//! Finding a store to look at: which architecture made it, and whether a process has it open.

use super::signature::Signature;
use super::volume;
use crate::Error;
use crate::door::{Real, Untouched};
use crate::inspect::Inspect;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Looks at the store in a folder. Takes no lock and writes nothing.
///
/// # Errors
/// [`Error::Unusable`] when there is no store, or one that cannot be looked at.
pub fn inspect(directory: &Path) -> Result<Box<dyn Inspect>, Error> {
    let unusable = |why: String| Error::Unusable(format!("{}: {why}", directory.display()));
    let files = Real::open(directory).map_err(|error| unusable(error.to_string()))?;
    let signature = Signature::read(&files).map_err(|error| unusable(error.to_string()))?;
    let is_live = is_locked(&directory.join("lock"));
    match signature {
        None => Err(unusable("there is no store of Shoal here that says which architecture made it".into())),
        Some(signature) if signature.architecture == volume::NAME => {
            let view = volume::look_at(Arc::new(Untouched::new(Arc::new(files), MADE_MAX)), is_live);
            view.map_err(|error| unusable(error.to_string()))
        }
        Some(signature) => Err(unusable(format!(
            "the store is one of {}, whose objects are files: look at them by name (docs/FORMATS.md); the running node \
             tells of it with `shoal status`",
            signature.architecture
        ))),
    }
}

/// Whether some process holds a lock on this file, as far as the kernel tells: without trying, since that would keep a node
/// from starting for an instant.
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
