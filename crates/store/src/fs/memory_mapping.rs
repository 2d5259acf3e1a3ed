//! Mapped file of the operating system, reached through memory: the paper's architecture (Maltzahn
//! 1999, 2.4.2).
//!
//! An access to a resident page is no system call. An access to an absent page is a page fault. The
//! kernel then reads pages around it, or this page alone with the advice that accesses are random.
//! A page fault also reads a page that is about to be overwritten whole. [`super::real_mapping`]
//! reaches the same page cache by calls, with less I/O.
//!
//! The file's words are atomics ([`crate::sys::Map`]), so that a copy that races another thread's
//! is defined: it may mix old and new words, and the record's checksum tells. A page that the disk
//! does not deliver reads as zeros instead of ending the process; the read that meets it fails.
//! Later reads find zeros, which fail their checksum, and writes to the page do not reach the file.

use super::Mapping;
use super::real::RealFile;
use super::real_mapping::{check_range, make_length};
use crate::sys::{Map, Residency};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Open file of fixed length, in memory.
pub(super) struct MemoryMapping {
    map: Map,
    bytes: u64,
    /// `None` if the file cannot be mapped once more: no page counts as resident then.
    residency: Option<Residency>,
}

impl MemoryMapping {
    /// Takes a file opened for reading and writing; a new file gets its length and its blocks.
    /// `is_random` advises the system that accesses are random.
    pub(super) fn new(file: RealFile, bytes: u64, is_random: bool) -> io::Result<Self> {
        make_length(&file, bytes)?;
        let words = usize::try_from(bytes / WORD_BYTES as u64).map_err(|_| io::ErrorKind::InvalidInput)?;
        if !bytes.is_multiple_of(WORD_BYTES as u64) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let residency = Residency::of(&file.0, bytes).ok();
        let map = Map::new(&file.0.into(), words)?;
        if is_random {
            map.expect_random_access()?;
        }
        assert_eq!((map.words().len() * WORD_BYTES) as u64, bytes, "the whole file is mapped");
        Ok(Self { map, bytes, residency })
    }

    /// Calls `piece` for each word that the range meets: the word's index, the range's bytes in
    /// it, and their offset in the range.
    fn for_each_word(
        offset: u64,
        length: usize,
        mut piece: impl FnMut(usize, std::ops::Range<usize>, usize),
    ) {
        let mut done = 0;
        while done < length {
            let at = offset as usize + done;
            let from = at % WORD_BYTES;
            let until = WORD_BYTES.min(from + length - done);
            piece(at / WORD_BYTES, from..until, done);
            done += until - from;
        }
        debug_assert_eq!(done, length, "every byte is in a word");
    }
}

impl Mapping for MemoryMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_range(offset, buffer.len(), self.bytes)?;
        let lost = self.map.lost_pages();
        let words = self.map.words();
        Self::for_each_word(offset, buffer.len(), |word, range, at| {
            let bytes = words[word].load(Relaxed).to_ne_bytes();
            buffer[at..at + range.len()].copy_from_slice(&bytes[range]);
        });
        match self.map.lost_pages() == lost {
            true => Ok(()),
            false => Err(Errno::IO.into()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_range(offset, bytes.len(), self.bytes)?;
        let lost = self.map.lost_pages();
        let words = self.map.words();
        Self::for_each_word(offset, bytes.len(), |word, range, at| {
            let new = &bytes[at..at + range.len()];
            if let Ok(whole) = new.try_into() {
                return words[word].store(u64::from_ne_bytes(whole), Relaxed);
            }
            // A neighbour's bytes in the same word stay whole.
            let merged = |before: u64| {
                let mut after = before.to_ne_bytes();
                after[range.clone()].copy_from_slice(new);
                Some(u64::from_ne_bytes(after))
            };
            let _ = words[word].fetch_update(Relaxed, Relaxed, merged);
        });
        match self.map.lost_pages() == lost {
            true => Ok(()),
            false => Err(Errno::IO.into()),
        }
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.residency.as_ref().is_some_and(|residency| residency.is_resident(offset))
    }
}

const WORD_BYTES: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::super::{FileSystem, MappedAccess, OsFs};
    use super::*;

    fn mapped(folder: &std::path::Path, bytes: u64) -> Box<dyn Mapping> {
        OsFs::open(folder).unwrap().map_for("mapped", bytes, MappedAccess::RandomMemory).unwrap()
    }

    #[test]
    fn ranges_of_any_place_and_length_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let mapping = mapped(folder.path(), 8192);
        let mut expected = vec![0_u8; 8192];
        for step in 0..300_usize {
            let (offset, length) = (step * 7919 % 8000, step * 31 % 190);
            let bytes: Vec<u8> = (0..length).map(|at| (step + at) as u8).collect();
            mapping.write(&bytes, offset as u64).unwrap();
            expected[offset..offset + length].copy_from_slice(&bytes);
            let (from, count) = (step * 577 % 8000, step % 190);
            let mut found = vec![0; count];
            mapping.read(&mut found, from as u64).unwrap();
            assert_eq!(found, expected[from..from + count], "{step}");
        }
        drop(mapping);
        assert_eq!(std::fs::read(folder.path().join("mapped")).unwrap(), expected, "the file has it all");
    }

    #[test]
    fn lost_page_fails_one_read_and_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mapping = mapped(folder.path(), 4 * 4096);
        mapping.write(&[1; 4 * 4096], 0).unwrap();
        std::fs::File::options()
            .write(true)
            .open(folder.path().join("mapped"))
            .unwrap()
            .set_len(4096)
            .unwrap();
        let mut byte = [9];
        assert_eq!(mapping.read(&mut byte, 2 * 4096).unwrap_err().raw_os_error(), Some(libc::EIO));
        mapping.read(&mut byte, 2 * 4096).unwrap();
        assert_eq!(byte, [0], "zeros, which fail their checksum");
        assert!(mapping.write(&[1; 8], 3 * 4096).is_err());
        mapping.read(&mut byte, 0).unwrap();
        assert_eq!(byte, [1]);
    }
}
