//! Index file: made, mapped, set aside.

use super::{Index, IndexGeometry, MappedWords};
use crate::fs::private;
use crate::sys::Map;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Maps the index of a store. Returns `None` if there is none.
pub(crate) fn open(directory: &Path) -> io::Result<Option<MappedWords>> {
    let file = match private::existing(&directory.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Left by a process that was killed while it made an index.
    let _ = fs::remove_file(directory.join(UNFINISHED));
    // The header will tell whether the size is right; an empty file cannot even be mapped.
    let words = usize::try_from(file.metadata()?.len() / 8).map_err(|_| io::ErrorKind::InvalidData)?;
    if words == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Map::new(&file, words).map(MappedWords).map(Some)
}

/// Makes an empty index and maps it. The file gets its name only once it is whole.
pub(crate) fn make(directory: &Path, geometry: &IndexGeometry) -> io::Result<MappedWords> {
    let unfinished = directory.join(UNFINISHED);
    let file = private::emptied(&unfinished)?;
    if let Err(error) = allot(&file, geometry.words() as u64 * 8) {
        // Some file systems keep the blocks that they allotted before they were full.
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    let mapped = MappedWords(Map::new(&file, geometry.words())?);
    Index::format(&mapped, geometry);
    fs::rename(&unfinished, directory.join(NAME))?;
    Ok(mapped)
}

/// Renames an unusable index, replacing one set aside before.
pub(crate) fn set_aside(directory: &Path) -> io::Result<()> {
    fs::rename(directory.join(NAME), directory.join(DAMAGED))
}

/// Returns the bytes of an index set aside earlier. Removes one above `most` bytes.
pub(crate) fn aside_bytes(directory: &Path, most: u64) -> u64 {
    let path = directory.join(DAMAGED);
    let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    if length <= most || fs::remove_file(&path).is_err() { length } else { 0 }
}

/// Gives the file its size and its blocks. A store to a mapped page without room on the disk would
/// end the process. A size that does not fit is refused before it would fill the disk.
fn allot(file: &File, bytes: u64) -> io::Result<()> {
    let stat = fstatvfs(file)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if bytes > free {
        let why = format!("the index takes {bytes} bytes, and the disk has {free} left");
        return Err(io::Error::new(io::ErrorKind::StorageFull, why));
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        result => return Ok(result?),
    }
    let mut file = file;
    let zeros = [0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(zeros.len() as u64);
        file.write_all(&zeros[..part as usize])?;
        left -= part;
    }
    Ok(())
}

const NAME: &str = "index";
const UNFINISHED: &str = "index.unfinished";
/// Name of an index set aside, which an operator may look at or delete.
pub(crate) const DAMAGED: &str = "index.damaged";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_index_is_refused_before_filling_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = private::file(&path).expect("made");
        let error = allot(&file, 1 << 43).expect_err("eight tebibytes");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.metadata().expect("there").len(), 0);
        allot(&file, 1 << 16).expect("room for that");
    }
}
