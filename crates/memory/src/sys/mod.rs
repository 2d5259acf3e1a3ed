//! Unsafe code of the crate, all in this module.
//!
//! - Advice to the allocator; pages lent to the kernel; pages of the program ([`program`]).
//! - Bodies that are filled while they are read ([`fill`]).
//! - Whole pages for large bodies ([`page_arena`]), and memory that small bodies share ([`span`]).

#![allow(unsafe_code)]

pub(crate) mod fill;
pub(crate) mod page_arena;
#[cfg(target_os = "linux")]
pub(crate) mod program;
pub(crate) mod span;

use std::io;
use std::os::fd::BorrowedFd;

/// Returns the bytes of a page of memory, as the C library says. rustix reads them from the
/// kernel's auxiliary vector; under valgrind, with which hits are counted, that leads to memory
/// that is not there.
pub(crate) fn page_bytes() -> Option<usize> {
    // SAFETY: sysconf(3) takes any name and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Gives the pages of these bytes to a pipe, as many as it takes, without copying them. The caller
/// must not let the bytes change any more, not even under another address: the pipe's reader would
/// see the change.
pub(crate) fn splice_to_pipe(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: the slice is readable memory for the time of the call, in which the kernel takes its
    // own references to the pages. The kernel only ever reads them. Nothing is given away for good
    // (`GIFT`), so the bytes need no alignment.
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

/// Has the system's allocator return freed memory to the kernel, so that a burst leaves no RAM
/// behind.
///
/// By itself, glibc keeps blocks as large as the first large block freed, up to 32 MiB each. Its
/// heaps then stay as large and as full of holes as the largest burst made them.
///
/// With these settings, a block above 32 KiB (half a block of a body) gets its own pages unless a
/// gap of the heap fits. Their number is limited, to stay clear of the kernel's limit of mappings.
/// All threads share one heap: with a heap for each, memory that one thread frees is of no use to
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

/// Has the system's allocator return whole free pages between blocks to the kernel. It returns
/// pages after the last block without being asked.
///
/// Takes a millisecond with a heap of gigabytes, in which others wait for the allocator. The call
/// looks only at free blocks of a page or more, and returns no page twice that was not used since.
pub(crate) fn return_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;
        // SAFETY: this is the declaration of malloc_trim(3) in glibc's malloc.h.
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
        }
        // SAFETY: malloc_trim takes the allocator's lock, and only touches free memory.
        unsafe { malloc_trim(0) };
    }
}
