//! The one place with unsafe code: a file mapped into memory, seen as 64-bit words or asked which
//! pages are there, pages of it that the disk does not deliver ([`faults`]), a word with the
//! allocator, one about large pages, pages lent to the kernel, bodies that are filled while they
//! are read ([`room`]), whole pages for large ones ([`tract`]), and memory that small ones share
//! ([`span`]).
//!
//! Words are atomics, so that threads may share them without locks and the compiler neither splits
//! nor reorders stores: after a `kill -9` the page cache holds every store executed so far, in
//! program order.

#![allow(unsafe_code)]

pub(crate) mod faults;
pub(crate) mod fill;
pub(crate) mod page_arena;
pub(crate) mod span;

use crate::fs::LoadedWords;
use faults::Guard;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

/// A whole file as words, shared with it.
pub(crate) struct Map {
    // Before the map, and so dropped before it.
    guard: Guard,
    map: MmapRaw,
    words: usize,
}

impl Map {
    /// Maps the first `words` words of a file that is at least so long and that nobody shortens
    /// while it is mapped: the store's lock file keeps other processes of ours out. Should somebody
    /// shorten it nevertheless, or should the disk fail to deliver a page, zeros take its place:
    /// see [`faults`].
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let map = MmapOptions::new().len(bytes).map_raw(file)?;
        Ok(Self { guard: Guard::over(map.as_ptr(), bytes)?, map, words })
    }

    /// Pages that the disk did not deliver.
    pub(crate) fn lost_pages(&self) -> u64 {
        self.guard.lost()
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words * 8` bytes long, readable and writable, and
        // lives as long as `self`, which the slice borrows. All access in this process goes through
        // this slice, as atomics.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// Returns when the words from `at` on, `count` of them, are on disk.
    pub(crate) fn flush(&self, at: usize, count: usize) -> io::Result<()> {
        self.map.flush_range(at * WORD_BYTES, count * WORD_BYTES)
    }
}

/// A stretch of a file as words that belong to this process alone: pages are read in when they are
/// touched, and what is changed is never written to the file by the system.
pub(crate) struct Private {
    // Before the map, and so dropped before it.
    guard: Guard,
    map: MmapRaw,
}

impl Private {
    /// From `at`, a whole page, so many bytes, a multiple of eight, of a file that is at least so
    /// long and stays so: see [`Map::new`].
    pub(crate) fn new(file: &OwnedFd, at: u64, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        if length % WORD_BYTES != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the mapping is private, so that nobody sees what is written here. Who changes the
        // file behind our back changes pages that were never touched; words may have any value, and
        // whoever reads them expects that.
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
        // Where the system does not take the advice, pages are read when they are touched.
        #[cfg(unix)]
        let _ = self.map.advise(Advice::WillNeed);
    }
}

/// Bytes of a page of memory. Asked of the C library: rustix reads it from what the kernel tells a
/// process at its start, which under valgrind, where hits are counted, leads to memory that is not
/// there.
pub(crate) fn page_bytes() -> Option<usize> {
    // SAFETY: sysconf(3) takes any name and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Tells which pages of a file are in memory, without reading any of them in.
///
/// The pages are mapped and never touched. A read that refuses to wait (`RWF_NOWAIT`) would not do
/// instead: it starts reading what is not there, so that the question makes its own answer.
pub(crate) struct Residency {
    map: MmapRaw,
    page_bytes: usize,
}

impl Residency {
    /// For the first `bytes` bytes of a file that this user may write to: of others the kernel does
    /// not tell.
    pub(crate) fn of(file: &OwnedFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let map = MmapOptions::new().len(bytes).map_raw_read_only(file)?;
        Ok(Self { map, page_bytes: rustix::param::page_size() })
    }

    /// Whether the page at `offset` is in memory. False where the kernel does not say.
    pub(crate) fn is_resident(&self, offset: u64) -> bool {
        let inside = usize::try_from(offset).ok().filter(|offset| *offset < self.map.len());
        let Some(offset) = inside else { return false };
        let page = offset / self.page_bytes * self.page_bytes;
        let mut state = 0_u8;
        // SAFETY: `page` lies in the mapping, which starts at a page boundary and lives as long as
        // `self`, so the address is aligned and of one mapped page; for one page the kernel writes
        // one byte, which `state` is.
        let asked = unsafe { libc::mincore(self.map.as_mut_ptr().add(page).cast(), 1, &raw mut state) };
        asked == 0 && state & 1 == 1
    }
}

/// Asks the system to have these bytes, which begin at a page, in large pages where it can. Nothing
/// else about them changes.
pub(crate) fn wish_for_large_pages(bytes: &mut [u8]) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is memory of this process that the caller alone has, and the advice changes
    // neither its contents nor what may be done with it. Where the system does not know it, or the
    // address is no page's, it refuses and does nothing.
    unsafe {
        libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// Gives the pages of these bytes to a pipe, as many as it takes, without copying them. The caller
/// sees to it that they are not written to any more, be it under another name: who reads the pipe
/// would see it.
pub(crate) fn splice_to_pipe(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: the slice is readable memory for the time of the call, in which the kernel takes hold
    // of the pages by itself; it only ever reads them. Nothing is given away for good (`GIFT`), so
    // nothing is asked of how they are aligned.
    let lent = unsafe {
        use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};
        vmsplice(pipe, &[IoSliceRaw::from_slice(bytes)], SpliceFlags::NONBLOCK)
    };
    #[cfg(not(target_os = "linux"))]
    let lent = {
        let _ = (pipe, bytes);
        Err(rustix::io::Errno::NOSYS)
    };
    Ok(lent?)
}

const WORD_BYTES: usize = size_of::<AtomicU64>();
const _: () = assert!(WORD_BYTES == 8 && align_of::<AtomicU64>() <= 4096);

/// Has the system's allocator return what it can to the kernel when it is freed, so that a burst
/// leaves no RAM behind.
///
/// By itself glibc learns from the first large block that is freed to keep such blocks, up to 32
/// MiB each, and then its heaps stay as large and as full of holes as the largest burst made them.
/// Here, what does not fit into a heap as it is and is larger than half a block of a body gets
/// pages of its own, up to a number of them that leaves the kernel's limit of mappings alone. And
/// there is one heap for all threads: with one for each, what some threads free is of no use to
/// others, and holes add up to a fifth of all. Other allocators are left as they are.
pub(crate) fn return_freed_bytes() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // SAFETY: this is the declaration of mallopt(3) in glibc's malloc.h.
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        const M_TRIM_THRESHOLD: c_int = -1;
        const M_MMAP_THRESHOLD: c_int = -3;
        const M_MMAP_MAX: c_int = -4;
        const M_ARENA_MAX: c_int = -8;
        for (parameter, value) in [
            (M_MMAP_THRESHOLD, 32 << 10),
            (M_MMAP_MAX, 16_384),
            (M_TRIM_THRESHOLD, 256 << 10),
            (M_ARENA_MAX, 1),
        ] {
            // SAFETY: mallopt takes the allocator's lock, and these parameters may be set at any
            // time. A refusal changes nothing.
            unsafe { mallopt(parameter, value) };
        }
    }
}

/// Has the system's allocator give whole free pages between blocks back to the kernel. What follows
/// the last block it gives back by itself.
///
/// Takes a millisecond with a heap of gigabytes, in which others wait for the allocator: it looks
/// at free blocks of a page or more only, and gives nothing back twice that nobody has used since.
pub(crate) fn return_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // SAFETY: this is the declaration of malloc_trim(3) in glibc's malloc.h.
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
        }
        // SAFETY: it takes the allocator's lock, and only touches memory that nobody has.
        unsafe { malloc_trim(0) };
    }
}
