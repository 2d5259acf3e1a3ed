//! Migration of the mapped file of an earlier version, which has no seals: each record is sealed in
//! its place, then the file gets its new name.
//!
//! After a power loss the index may lead to bytes that are no record. The content cannot tell the
//! two apart then, so the file is removed: its objects become misses.

use super::super::seal::Seal;
use super::file::SegmentFile;
use super::{PATH, SegmentLocation};
use crate::fs::{FileSystem, Mapping, write_full};
use crate::index::{Index, NumberState};
use crate::object::{HEADER_CHECK, read_head};
use std::io;
use std::sync::Arc;
use tracing::info;

/// Migrates the mapped file of an earlier version, if there is one. The file is on disk when this
/// returns. After a kill on the way, the next opening migrates it again.
pub(super) fn take_over(files: &dyn FileSystem, index: &Index, is_sound: bool, seal: Seal) -> io::Result<()> {
    let bytes = match files.length(UNSEALED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        length => length?,
    };
    // With both files, an earlier version has made this one later, and the index leads to either.
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

/// Name of the mapped file in earlier versions.
pub(super) const UNSEALED: &str = "segments";
