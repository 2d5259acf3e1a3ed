//! Cleaning: dirty pages and blocks reach the disk every 30 seconds, or when their memory is
//! needed.
//!
//! Dirty pages adjacent both in the file and on the disk are written in one transfer, up to a
//! cluster. The periodic cleaning queues all its transfers at once, and the disk serves them in its
//! own order. A call that needs the disk meanwhile waits among them: cleaning "can delay read and
//! write system calls" (Maltzahn 1999, 3.3).

use super::{FileId, Kernel, nanos, traffic};
use crate::cache::PageKey;
use crate::disk::Transfer;
use crate::machine::FRAGMENT_BYTES;
use crate::report::BlockKind;

impl Kernel {
    /// Cleans if it is time.
    pub(super) fn clean_when_due(&mut self) {
        while self.next_cleaning <= self.now {
            self.next_cleaning += nanos(self.machine.transfers.cleaning_interval).max(1);
            if self.next_cleaning > self.now {
                self.clean();
            }
        }
    }

    /// Starts writing everything that is dirty.
    pub(super) fn clean(&mut self) {
        self.clean_inodes();
        self.write_logs();
        let mut from = PageKey { file: FileId { disk: 0, inode: 0 }, page: 0 };
        while let Some(page) = self.pages.dirty_from(from) {
            let count = self.write_cluster(page, false);
            from = PageKey { page: page.page + count, ..page };
        }
        self.clean_blocks();
    }

    /// Writes everything that is dirty, and waits for the end.
    pub(in super::super) fn sync(&mut self) {
        self.enter();
        self.clean();
        for disk in 0..self.disks.len() {
            let done = self.disks[disk].finish_all();
            self.wait_until(done);
        }
    }

    /// Starts writing a file's dirty pages.
    pub(super) fn clean_file(&mut self, file: FileId) {
        while let Some(page) = self.pages.dirty_of(file) {
            self.write_cluster(page, false);
        }
    }

    /// Starts writing the dirty pages among these.
    pub(super) fn clean_range(&mut self, first: PageKey, count: u32) {
        let end = PageKey { page: first.page + count, ..first };
        while let Some(page) = self.pages.dirty_from(first).filter(|page| *page < end) {
            self.write_cluster(page, false);
        }
    }

    /// Makes room for one page. "If the target page of a page fault is dirty it needs to be cleaned
    /// before it can be handed to the pager" (3.1).
    pub(super) fn make_page_room(&mut self) {
        while let Some(victim) = self.pages.victim() {
            if self.pages.is_dirty(victim) {
                self.counts.dirty_victims += 1;
                let first = self.cluster_start(victim);
                self.write_cluster(first, true);
            }
            self.pages.remove(victim);
        }
    }

    /// Returns the first page of the transfer that cleans this page along with adjacent ones before
    /// it.
    fn cluster_start(&self, page: PageKey) -> PageKey {
        let inode = self.inode(page.file);
        let limit = self.machine.transfers.cluster_blocks.max(1);
        let joins = |first: &u32| {
            let before = PageKey { page: *first, ..page };
            self.pages.is_dirty(before)
                && inode.adjacent(*first, 2, self.machine.transfers.cluster_tails) == 2
        };
        let before = (page.page.saturating_sub(limit - 1)..page.page).rev().take_while(joins).count() as u32;
        PageKey { page: page.page - before, ..page }
    }

    /// Writes a dirty page together with the adjacent dirty pages behind it. Returns their number.
    fn write_cluster(&mut self, first: PageKey, waits: bool) -> u32 {
        let transfers = self.machine.transfers;
        let inode = self.inode(first.file);
        let adjacent = inode.adjacent(first.page, transfers.cluster_blocks, transfers.cluster_tails).max(1);
        let at = |step: u32| PageKey { page: first.page + step, ..first };
        let count = (0..adjacent).take_while(|step| self.pages.is_dirty(at(*step))).count().max(1) as u32;
        let extents = (0..count).filter_map(|step| inode.extent(first.page + step));
        let bytes = extents.map(|extent| extent.fragments * FRAGMENT_BYTES).sum();
        let traffic = traffic(true, inode.is_mapped, BlockKind::Data);
        let fragment = inode.extent(first.page).map_or(0, |extent| extent.address);
        (0..count).for_each(|step| self.pages.mark_clean(at(step)));
        let transfer = Transfer { traffic, fragment, bytes };
        match waits {
            true => self.transfer(first.file.disk, transfer),
            false => drop(self.start(first.file.disk, transfer)),
        }
        count
    }
}
