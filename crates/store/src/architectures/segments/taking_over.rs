//! The mapped file of an earlier version, whose records are not sealed: each is sealed in its
//! place, and then the file gets its new name.
//!
//! After a loss of power the index may lead to what is no record. Then nothing can be told by its
//! looks, and the file goes: its objects are misses.

use super::super::seal::Seal;
use super::file::SegmentFile;
use super::{PATH, SegmentLocation};
use crate::fs::{FileSystem, Mapping, write_full};
use crate::index::{Index, NumberState};
use crate::object::{HEADER_CHECK, read_head};
use std::io;
use std::sync::Arc;
use tracing::info;

/// Takes over the mapped file of an earlier version, if there is one. It is on disk when this
/// returns; after a kill on the way it is taken over again.
pub(super) fn take_over(files: &dyn FileSystem, index: &Index, is_sound: bool, seal: Seal) -> io::Result<()> {
    let bytes = match files.length(UNSEALED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        length => length?,
    };
    // Where there are both, an earlier version has made this one since, and the index leads to
    // either.
    let was_here = files.length(PATH).is_ok();
    if !is_sound || was_here || bytes == 0 {
        info!(
            "the small objects of an earlier version cannot be told from what only looks like them: they are misses"
        );
        return files.unlink(UNSEALED);
    }
    info!(bytes, "the small objects of an earlier version are sealed, which takes as long as to read them");
    let mapping: Arc<dyn Mapping> = files.map(UNSEALED, bytes)?.into();
    for number in 0..index.geometry().max_objects {
        if let NumberState::Stored(found, key) = index.examine(number)
            && let Some(place) = SegmentLocation::of_side(found.side).filter(|place| place.end() <= bytes)
        {
            let plain = SegmentFile::new(Arc::clone(&mapping), place, None);
            match read_head(&plain, number, place.bytes(), None) {
                Ok(head) if head.header.key == key => {
                    let sealed = SegmentFile::new(Arc::clone(&mapping), place, Some(seal));
                    write_full(&sealed, &head.lead[HEADER_CHECK], HEADER_CHECK.start as u64)?;
                }
                // Sealed before a kill, or damaged.
                _ => {}
            }
        }
    }
    drop(mapping);
    files.sync()?;
    files.rename(UNSEALED, PATH)?;
    files.sync()
}

/// The mapped file's name in earlier versions.
pub(super) const UNSEALED: &str = "segments";
