//! Reading and writing files: pages in memory, and the transfers that fill them.

use super::buffers::Block;
use super::{FileId, Kernel, traffic};
use crate::cache::PageKey;
use crate::disk::Transfer;
use crate::ffs::DIRECT;
use crate::machine::{FRAGMENT_BYTES, PAGE_BYTES};
use crate::report::BlockKind;
use rustix::io::Errno;

impl Kernel {
    /// Reads a file from an offset, up to its end.
    pub(in super::super) fn read(&mut self, file: FileId, buffer: &mut [u8], offset: u64) -> usize {
        self.enter();
        self.hold_inode(file);
        let available = self.inode(file).size.saturating_sub(offset);
        let length = available.min(buffer.len() as u64) as usize;
        if length == 0 {
            return 0;
        }
        for page in pages(offset, length) {
            self.load_page(PageKey { file, page }, false);
        }
        self.inode(file).contents.read(&mut buffer[..length], offset);
        self.spend_copy(length);
        if self.machine.file_system.access_times {
            self.change_inode(file);
        }
        length
    }

    /// Writes into a file, with a delay. Writes less than everything only if the disk is full.
    pub(in super::super) fn write(
        &mut self,
        file: FileId,
        bytes: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.enter();
        self.hold_inode(file);
        let end =
            offset.checked_add(bytes.len() as u64).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::FBIG)?;
        let mut done = 0;
        while offset + (done as u64) < end {
            let at = offset + done as u64;
            let until = end.min((at / PAGE_BYTES as u64 + 1) * PAGE_BYTES as u64);
            let part = &bytes[done..done + (until - at) as usize];
            match self.write_page(file, at, part) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => done += part.len(),
            }
        }
        self.spend_copy(done);
        self.change_inode(file);
        Ok(done)
    }

    /// Sets a file's length; a longer file gets no blocks for the new part.
    pub(in super::super) fn set_length(&mut self, file: FileId, bytes: u64) -> Result<(), Errno> {
        self.enter();
        self.hold_inode(file);
        if bytes > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let before = self.inode(file).size;
        self.inode_mut(file).size = bytes;
        if bytes >= before {
            self.change_inode(file);
            return Ok(());
        }
        self.write_inode(file);
        self.drop_pages(file, bytes.div_ceil(PAGE_BYTES as u64) as u32);
        let indirect = self.inode(file).indirect_blocks();
        self.volume(file.disk).truncate_blocks(file.inode, bytes);
        let kept = self.inode(file).indirect_blocks();
        for fragment in indirect.into_iter().filter(|fragment| !kept.contains(fragment)) {
            self.forget_block(file.disk, fragment);
        }
        self.inode_mut(file).contents.truncate(bytes);
        self.charge_effects(file.disk, self.inode(file).is_mapped);
        Ok(())
    }

    /// Brings a page into memory, by a page fault or for a call.
    pub(super) fn load_page(&mut self, page: PageKey, is_fault: bool) {
        let is_hit = self.pages.touch(page);
        let counts = &mut self.counts;
        let lookups = if is_fault { &mut counts.mapped_pages } else { &mut counts.pages };
        lookups.count(is_hit);
        if is_hit && is_fault {
            return;
        }
        let window = self.window(page, is_fault, is_hit);
        if is_hit {
            return;
        }
        self.spend(self.machine.processor.page);
        if is_fault {
            self.pages.fault(page);
        }
        let inode = self.inode(page.file);
        let is_unwritten =
            inode.is_mapped && self.machine.transfers.zero_fill && page.page >= inode.written_pages;
        if inode.extent(page.page).is_none() || is_unwritten {
            self.hold_page(page);
        } else {
            self.read_pages(page, window);
        }
    }

    /// Reads a page, and absent pages adjacent to it on the disk, at most `window` pages together.
    fn read_pages(&mut self, first: PageKey, window: u32) {
        self.read_way(first);
        let inode = self.inode(first.file);
        let adjacent = inode.adjacent(first.page, window, self.machine.transfers.cluster_tails);
        let at = |step: u32| PageKey { page: first.page + step, ..first };
        let absent = (1..adjacent).take_while(|step| !self.pages.is_resident(at(*step))).count() as u32;
        let (mut fragments, address) = (0, inode.extent(first.page).map_or(0, |extent| extent.address));
        for step in 0..=absent {
            fragments += inode.extent(first.page + step).map_or(0, |extent| extent.fragments);
        }
        let traffic = traffic(false, inode.is_mapped, BlockKind::Data);
        (0..=absent).for_each(|step| self.hold_page(at(step)));
        // Replacement by sequences may have chosen the page itself for a page behind it.
        if !self.pages.is_resident(first) {
            self.hold_page(first);
        }
        debug_assert!(self.pages.is_resident(first), "{first:?} is in memory for its use");
        let bytes = fragments * FRAGMENT_BYTES;
        self.transfer(first.file.disk, Transfer { traffic, fragment: address, bytes });
    }

    /// Reads the indirect blocks on the way to a page.
    fn read_way(&mut self, page: PageKey) {
        if page.page < DIRECT {
            return;
        }
        let inode = self.inode(page.file);
        let is_mapped = inode.is_mapped;
        for fragment in inode.way_to(page.page) {
            self.read_block(Block::whole(page.file.disk, fragment, BlockKind::Indirect, is_mapped));
        }
    }

    /// Gives a page memory, without reading its content.
    pub(super) fn hold_page(&mut self, page: PageKey) {
        if !self.pages.is_resident(page) {
            self.make_page_room();
        }
        self.pages.insert(page);
        let inode = self.inode_mut(page.file);
        inode.pages_seen = inode.pages_seen.max(page.page + 1);
    }

    /// Returns the number of pages to read at once: 1, doubled with each read that begins at the
    /// end of the last one. As in 4.4BSD's `cluster_read`.
    fn window(&mut self, page: PageKey, is_fault: bool, is_hit: bool) -> u32 {
        let transfers = self.machine.transfers;
        let (is_on, limit) = match is_fault {
            true => (transfers.fault_ahead, transfers.cluster_blocks.max(1)),
            false => (transfers.read_ahead, transfers.cluster_blocks.max(1)),
        };
        let inode = self.inode_mut(page.file);
        let ahead = if is_fault { &mut inode.fault_ahead } else { &mut inode.ahead };
        // A fault within a window that was read ahead does not happen, so the next fault may be
        // that much further on.
        let is_next = if is_fault {
            (ahead.next..ahead.next + ahead.window.max(1)).contains(&page.page)
        } else {
            ahead.next == page.page
        };
        if !is_next {
            ahead.window = 0;
        }
        if !is_hit {
            ahead.window = if is_on { (ahead.window * 2).clamp(1, limit) } else { 1 };
        }
        ahead.next = page.page + 1;
        ahead.window.max(1)
    }

    /// Writes a part of one page.
    fn write_page(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let page = PageKey { file, page: (offset / PAGE_BYTES as u64) as u32 };
        let until = (offset % PAGE_BYTES as u64) as usize + bytes.len();
        let was_there = self.inode(file).extent(page.page).is_some();
        self.grow(page, until as u32)?;
        if was_there && bytes.len() < PAGE_BYTES && !self.overwrites_all(page, bytes, until) {
            self.load_page(page, false);
        } else {
            self.hold_page(page);
        }
        self.pages.mark_dirty(page);
        let inode = self.inode_mut(file);
        inode.contents.write(bytes, offset);
        inode.size = inode.size.max(offset + bytes.len() as u64);
        inode.written_pages = inode.written_pages.max(page.page + 1);
        if until == PAGE_BYTES {
            self.count_run(page);
        }
        Ok(())
    }

    /// Returns `true` if a write replaces all bytes that the file has of a page.
    fn overwrites_all(&self, page: PageKey, bytes: &[u8], until: usize) -> bool {
        let end = u64::from(page.page) * PAGE_BYTES as u64 + until as u64;
        bytes.len() == until && end >= self.inode(page.file).size
    }

    /// Allocates space for the first `bytes` bytes of a page.
    pub(super) fn grow(&mut self, page: PageKey, bytes: u32) -> Result<(), Errno> {
        let file = page.file;
        // A tail that may have to move, if the file continues behind it, comes into memory first.
        let tail = self.inode(file).short_tail();
        let tail =
            tail.filter(|tail| tail.page < page.page || (tail.page == page.page && tail.bytes < bytes));
        let before = tail.and_then(|tail| self.inode(file).extent(tail.page));
        if let Some(tail) = tail {
            self.load_page(PageKey { page: tail.page, ..page }, false);
        }
        let is_new = self.inode(file).extent(page.page).is_none();
        let grown = self.volume(file.disk).grow(file.inode, page.page, bytes);
        let is_mapped = self.inode(file).is_mapped;
        self.charge_effects(file.disk, is_mapped);
        grown.map_err(|_| Errno::NOSPC)?;
        if let Some(tail) = tail
            && self.inode(file).extent(tail.page) != before
        {
            self.pages.mark_dirty(PageKey { page: tail.page, ..page });
        }
        if is_new && page.page >= DIRECT {
            for fragment in self.inode(file).way_to(page.page) {
                let block = Block::whole(file.disk, fragment, BlockKind::Indirect, is_mapped);
                self.read_block(block);
                self.change_block(block);
            }
        }
        Ok(())
    }

    /// Starts writing a cluster when it is full. Blocks written one after the other do not wait for
    /// the cleaning (`cluster_write`).
    fn count_run(&mut self, page: PageKey) {
        let limit = self.machine.transfers.cluster_blocks.max(1);
        let run = &mut self.inode_mut(page.file).run;
        run.length = if run.start + run.length == page.page { run.length + 1 } else { 1 };
        run.start = page.page + 1 - run.length;
        if run.length == limit {
            *run = Default::default();
            run.start = page.page + 1;
            self.clean_range(PageKey { page: page.page + 1 - limit, ..page }, limit);
        }
    }
}

/// Returns the pages of a range, which is not empty.
pub(super) fn pages(offset: u64, length: usize) -> std::ops::RangeInclusive<u32> {
    let last = offset + length as u64 - 1;
    (offset / PAGE_BYTES as u64) as u32..=(last / PAGE_BYTES as u64) as u32
}

/// Longest file in bytes: the reach of a double indirect block's addresses, in round numbers, 32
/// GB.
pub(super) const FILE_BYTES_MAX: u64 = 32 << 30;
