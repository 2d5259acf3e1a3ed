//! The log of a file system that writes its changes of metadata there first, as AdvFS does and UFS
//! does not.
//!
//! Changes gather in a page of memory, which is written when it is full and when memory is cleaned;
//! nobody waits for it. The log is a ring at the beginning of the disk. Its room is not taken from
//! the file system: it is there for the arm's ways alone.

use super::{Kernel, traffic};
use crate::fs::ufs1999::disk::Transfer;
use crate::fs::ufs1999::machine::{FRAGMENT_BYTES, FRAGMENTS, PAGE_BYTES};
use crate::fs::ufs1999::report::Kind;

/// One disk's log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Bytes of changes that the disk has not seen.
    waiting: u32,
    /// The page of the ring that is written next.
    next: u32,
}

impl Kernel {
    /// Notes a change of so many bytes.
    pub(super) fn log(&mut self, disk: u8, change_bytes: u32) {
        let log = &mut self.logs[usize::from(disk)];
        log.waiting += change_bytes;
        if log.waiting >= PAGE_BYTES as u32 {
            log.waiting -= PAGE_BYTES as u32;
            self.write_log(disk, PAGE_BYTES as u32);
        }
    }

    /// Starts writing what waits in the logs.
    pub(super) fn write_logs(&mut self) {
        for disk in 0..self.logs.len() as u8 {
            let waiting = std::mem::take(&mut self.logs[usize::from(disk)].waiting);
            if waiting > 0 {
                self.write_log(disk, waiting.next_multiple_of(FRAGMENT_BYTES));
            }
        }
    }

    fn write_log(&mut self, disk: u8, bytes: u32) {
        let log = &mut self.logs[usize::from(disk)];
        let fragment = log.next * FRAGMENTS;
        log.next = (log.next + 1) % RING_PAGES;
        self.start(disk, Transfer { traffic: traffic(true, false, Kind::Log), fragment, bytes });
    }
}

/// Pages of the ring: 4 MB, AdvFS's default of 512.
const RING_PAGES: u32 = 512;
