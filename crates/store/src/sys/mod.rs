//! Unsafe code of the crate, all in this module.
//!
//! - Files mapped into memory: their 64-bit words, and the question which pages are resident.
//! - Pages of mapped files that the disk does not deliver ([`faults`]).
//! - Advice about large pages, and parts of them that go back to the system.
//!
//! Words are atomics, so that threads may share them without locks, and the compiler neither splits
//! nor reorders stores. After a `kill -9` the page cache therefore holds every store executed so
//! far, in program order.

#![allow(unsafe_code)]

pub(crate) mod faults;

use crate::fs::LoadedWords;
use faults::Guard;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

/// Whole file as words, shared with the file.
pub(crate) struct Map {
    // Declared before the map, and so dropped before it.
    guard: Guard,
    map: MmapRaw,
    words: usize,
}

impl Map {
    /// Maps the first `words` words of a file. The file must be at least as long, and stay so while
    /// mapped; the store's lock file keeps our other processes out. Zeros replace pages that are
    /// cut off nevertheless, or that the disk fails to deliver: see [`faults`].
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let map = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(Self { guard: Guard::over(map.as_ptr(), bytes)?, map, words })
    }

    /// Returns the number of pages that the disk did not deliver.
    pub(crate) fn lost_pages(&self) -> u64 {
        self.guard.lost()
    }

    /// Advises the system that accesses are random: a page fault then reads its own page alone.
    pub(crate) fn expect_random_access(&self) -> io::Result<()> {
        #[cfg(unix)]
        self.map.advise(Advice::Random)?;
        Ok(())
    }

    /// Returns the words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words * 8` bytes long, readable and writable, and
        // lives as long as `self`, which the slice borrows. All access in this process goes through
        // this slice, as atomics.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// Writes `count` words from index `at`; returns when they are on disk.
    pub(crate) fn flush(&self, at: usize, count: usize) -> io::Result<()> {
        self.map.flush_range(at * WORD_BYTES, count * WORD_BYTES)
    }
}

/// Stretch of a file as words private to this process. Pages are read in when they are touched, and
/// the system never writes changes to the file.
pub(crate) struct Private {
    // Declared before the map, and so dropped before it.
    guard: Guard,
    map: MmapRaw,
}

impl Private {
    /// Maps `bytes` bytes, a multiple of eight, from `at`, a page boundary. The file must be at
    /// least as long and stay so: see [`Map::new`].
    pub(crate) fn new(file: &OwnedFd, at: u64, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        if length % WORD_BYTES != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the mapping is private, so that no other process sees writes to it. Another
        // process that changes the file changes only pages that were never touched. Words may have
        // any value, and every reader expects that.
        let map: MmapRaw = unsafe { MmapOptions::new().offset(at).len(length).map_copy(file) }?.into();
        Ok(Self { guard: Guard::over(map.as_ptr(), length)?, map })
    }
}

impl LoadedWords for Private {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, a multiple of eight bytes long, readable and
        // writable, and lives as long as `self`, which the slice borrows. All access in this
        // process goes through this slice, as atomics.
        unsafe {
            std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.map.len() / WORD_BYTES)
        }
    }

    fn lost_pages(&self) -> u64 {
        self.guard.lost()
    }

    fn read_ahead(&self) {
        // A system that does not take the advice reads pages when they are touched.
        #[cfg(unix)]
        let _ = self.map.advise(Advice::WillNeed);
    }
}

/// Reader of the pages of a file that are in memory. Reads none of them in.
///
/// The pages are mapped and never touched. A read that refuses to wait (`RWF_NOWAIT`) would not do:
/// it starts reading absent pages, so that the question makes its own answer.
pub(crate) struct Residency {
    map: MmapRaw,
    page_bytes: usize,
}

impl Residency {
    /// Maps the first `bytes` bytes of a file. This user must be allowed to write to the file; the
    /// kernel does not tell about others.
    pub(crate) fn of(file: &OwnedFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = MmapOptions::new().len(bytes).map_raw_read_only(file)?;
        Ok(Self { map, page_bytes: rustix::param::page_size() })
    }

    /// Returns `true` if the page at `offset` is in memory, `false` also if the kernel does not
    /// say.
    pub(crate) fn is_resident(&self, offset: u64) -> bool {
        let inside = usize::try_from(offset).ok().filter(|offset| *offset < self.map.len());
        let Some(offset) = inside else { return false };
        let page = offset / self.page_bytes * self.page_bytes;
        let mut state = 0_u8;
        // SAFETY: `page` lies in the mapping, which starts at a page boundary and lives as long as
        // `self`. So the address is aligned and of one mapped page. For one page the kernel writes
        // one byte, `state`.
        let asked = unsafe { libc::mincore(self.map.as_mut_ptr().add(page).cast(), 1, &raw mut state) };
        asked == 0 && state & 1 == 1
    }
}

/// Asks the system to put these bytes into large pages if it can. They begin at a page, and change
/// in no other way.
pub(crate) fn wish_for_large_pages(bytes: &mut [u8]) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is memory of this process that the caller alone has. The advice changes
    // neither its contents nor the rights to it. A system that does not know the advice, or an
    // address inside a page, makes the call fail without effect.
    unsafe {
        libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// Gives the pages of `rest`, which are zero afterwards, back to the system. A large page that
/// holds the end of `kept` and the beginning of `rest` is split for that. The kernel splits a large
/// page if only a part of it is said to be cold; the parts stay beside each other.
pub(crate) fn give_back_pages(kept: &mut [u8], rest: &mut [u8]) {
    assert_eq!(kept.as_ptr_range().end, rest.as_ptr(), "the rest begins where the kept bytes end");
    #[cfg(target_os = "linux")]
    if let Some(last) = kept.len().checked_sub(4096).filter(|_| !rest.is_empty()) {
        // SAFETY: both ranges are memory of this process that the caller alone has. To be cold
        // changes no byte. The memory of `rest` is private and anonymous, so that its pages are
        // zero when they are touched again, which `u8` may be. An address inside a page makes a
        // call fail without effect.
        unsafe {
            libc::madvise(kept.as_mut_ptr().add(last).cast(), 4096, libc::MADV_COLD);
            let rest = (rest.as_mut_ptr().cast(), rest.len());
            // Both parts must not become one large page again.
            libc::madvise(rest.0, rest.1, libc::MADV_NOHUGEPAGE);
            libc::madvise(rest.0, rest.1, libc::MADV_DONTNEED);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (kept, rest);
}

const WORD_BYTES: usize = size_of::<AtomicU64>();
const _: () = assert!(WORD_BYTES == 8 && align_of::<AtomicU64>() <= 4096);
