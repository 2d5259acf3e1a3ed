//! The one place with unsafe code: a file mapped into memory, seen as 64-bit words.
//!
//! Words are atomics, so that threads may share them without locks and the compiler neither splits nor
//! reorders stores: after a `kill -9` the page cache holds every store executed so far, in program order.

#![allow(unsafe_code)]

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

/// A whole file as words, shared with it.
pub(crate) struct Map {
    map: MmapRaw,
    words: usize,
}

impl Map {
    /// Maps the first `words` words of a file that is at least so long and that nobody shortens while it is
    /// mapped: the store's lock file keeps other processes of ours out. Should somebody shorten it nevertheless,
    /// or should the disk fail to deliver a page, the kernel ends the process with SIGBUS.
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { map: MmapOptions::new().len(bytes).map_raw(file)?, words })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words * 8` bytes long, readable and writable, and lives as long
        // as `self`, which the slice borrows. All access in this process goes through this slice, as atomics.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// Returns when the words from `at` on, `count` of them, are on disk.
    pub(crate) fn flush(&self, at: usize, count: usize) -> io::Result<()> {
        self.map.flush_range(at * WORD_BYTES, count * WORD_BYTES)
    }
}

const WORD_BYTES: usize = size_of::<AtomicU64>();
const _: () = assert!(WORD_BYTES == 8 && align_of::<AtomicU64>() <= 4096);
