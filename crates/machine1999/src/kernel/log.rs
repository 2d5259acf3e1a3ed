//! Log of a file system that writes its changes of metadata there first, as AdvFS does and UFS does
//! not.
//!
//! Changes gather in a page of memory. The page is written when it is full and at each cleaning; no
//! call waits for it. The log is a ring at the beginning of the disk. Its space is not taken from
//! the file system: the log exists only for the movements of the arm.

use super::{Kernel, traffic};
use crate::disk::Transfer;
use crate::machine::{FRAGMENT_BYTES, FRAGMENTS, PAGE_BYTES};
use crate::report::BlockKind;

/// Log of one disk.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Bytes of changes that the disk has not seen.
    waiting: u32,
    /// Page of the ring to be written next.
    next: u32,
}

impl Kernel {
    /// Notes a change of `change_bytes` bytes.
    pub(super) fn log(&mut self, disk: u8, change_bytes: u32) {
        let log = &mut self.logs[usize::from(disk)];
        log.waiting += change_bytes;
        if log.waiting >= PAGE_BYTES as u32 {
            log.waiting -= PAGE_BYTES as u32;
            self.write_log(disk, PAGE_BYTES as u32);
        }
    }

    /// Starts writing the waiting changes of all logs.
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
        self.start(disk, Transfer { traffic: traffic(true, false, BlockKind::Log), fragment, bytes });
    }
}

/// Pages of the ring: 4 MB, AdvFS's default of 512.
const RING_PAGES: u32 = 512;
