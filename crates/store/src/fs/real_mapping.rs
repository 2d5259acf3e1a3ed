//! Mapped file of the operating system, reached by `pread` and `pwrite` through the page cache.
//!
//! Linux has one cache for mapped pages and for reads and writes of the same file, and it chooses
//! when dirty pages are cleaned. Resident pages cost no I/O either way. For absent pages `pread`
//! and `pwrite` do *less* I/O than loads and stores through `mmap` ([`super::memory_mapping`]):
//!
//! - A random read brings in its own pages. A page fault reads pages around it, 128 KiB by default,
//!   unless the map has the advice that accesses are random.
//! - A write to part of an absent page reads it first either way. A write to a whole page reads
//!   nothing here, and a page fault reads the page.
//!
//! `docs/experiments/read_paths.md` has both measured. The price is a system call for an access to
//! a resident page. A map is made nevertheless, and never touched: through it the kernel tells
//! which pages are resident.

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
        make_length(&file, bytes)?;
        let residency = Residency::of(&file.0, bytes).ok();
        Ok(Self { file, bytes, residency })
    }
}

impl Mapping for RealMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_range(offset, buffer.len(), self.bytes)?;
        match read_full(&self.file, buffer, offset)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_range(offset, bytes.len(), self.bytes)?;
        write_full(&self.file, bytes, offset)
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.residency.as_ref().is_some_and(|residency| residency.is_resident(offset))
    }
}

/// Returns an error unless the range lies within the first `bytes` bytes.
pub(super) fn check_range(offset: u64, length: usize, bytes: u64) -> io::Result<()> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(Errno::INVAL.into()),
    }
}

/// Gives a new file its length and its blocks, and refuses a file of another length.
pub(super) fn make_length(file: &RealFile, bytes: u64) -> io::Result<()> {
    match rustix::fs::fstat(&file.0)?.st_size as u64 {
        length if length == bytes => Ok(()),
        0 => allot(file, bytes),
        _ => Err(Errno::INVAL.into()),
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
