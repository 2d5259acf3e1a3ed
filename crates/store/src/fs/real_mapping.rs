//! Mapped file of the operating system, reached through the page cache.
//!
//! Linux has one cache for mapped pages and for reads and writes of the same file. `pread` and
//! `pwrite` on a file of fixed length therefore do the very I/O that loads and stores through
//! `mmap` would:
//!
//! - Resident pages cost no I/O, and others are read in by page.
//! - A write to part of a page that is not resident reads it first; a write to the whole page does
//!   not.
//! - The kernel chooses when dirty pages are cleaned.
//!
//! Two things are better than with pointers into a map. A page that the disk does not deliver is an
//! error, and not a SIGBUS that ends the process. A copy that races another thread's is defined.
//! The price is a system call for an access to a resident page. A map is made nevertheless, and
//! never touched: through it the kernel tells which pages are resident.

use super::real::RealFile;
use super::{Mapping, read_full, write_full};
use crate::sys::Residency;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::io;

/// Open file of fixed length.
pub(super) struct RealMapping {
    file: RealFile,
    bytes: u64,
    /// `None` if the file cannot be mapped: no page counts as resident then.
    residency: Option<Residency>,
}

impl RealMapping {
    /// Takes a file opened for reading and writing. A new file gets its length and its blocks here,
    /// so that no later write finds the disk full.
    pub(super) fn new(file: RealFile, bytes: u64) -> io::Result<Self> {
        match rustix::fs::fstat(&file.0)?.st_size as u64 {
            length if length == bytes => {}
            0 => allot(&file, bytes)?,
            _ => return Err(Errno::INVAL.into()),
        }
        let residency = Residency::of(&file.0, bytes).ok();
        Ok(Self { file, bytes, residency })
    }

    fn check(&self, offset: u64, length: usize) -> io::Result<()> {
        match offset.checked_add(length as u64) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Errno::INVAL.into()),
        }
    }
}

impl Mapping for RealMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(offset, buffer.len())?;
        match read_full(&self.file, buffer, offset)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        write_full(&self.file, bytes, offset)
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.residency.as_ref().is_some_and(|residency| residency.is_resident(offset))
    }
}

/// Gives a new file its length and its blocks.
fn allot(file: &RealFile, bytes: u64) -> io::Result<()> {
    match fallocate(&file.0, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        result => return Ok(result?),
    }
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(ZEROS_BYTES as u64) as usize;
        write_full(file, &zeros[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// Zeros written at once if the file system does not allot.
const ZEROS_BYTES: usize = 1 << 20;
