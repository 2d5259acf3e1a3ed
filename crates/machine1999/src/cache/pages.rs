//! Memory for the content of files: one pool of 8 KB pages for file data and mapped files. In
//! Digital UNIX, "loaded virtual memory pages and buffer cache buffers can refer to the same
//! physical memory location" (Maltzahn 1999, 3.1). LRU or SEQ chooses the page to evict.

use super::Lru;
use super::sequences::Sequences;
use crate::kernel::FileId;
use crate::machine::{MemorySizes, PageReplacement};
use std::collections::BTreeSet;

/// Page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct PageKey {
    pub(in super::super) file: FileId,
    pub(in super::super) page: u32,
}

/// Pages in memory.
#[derive(Debug)]
pub(in super::super) struct Pages {
    resident: Lru<PageKey, ()>,
    /// Pages that differ from the disk, in order of files and positions.
    dirty: BTreeSet<PageKey>,
    limit: usize,
    sequences: Option<Sequences>,
}

impl Pages {
    pub(in super::super) fn new(sizes: &MemorySizes) -> Self {
        let sequences = match sizes.replacement {
            PageReplacement::Lru => None,
            PageReplacement::Seq(limits) => Some(Sequences::new(limits)),
        };
        Self { resident: Lru::new(), dirty: BTreeSet::new(), limit: sizes.shared_pages(), sequences }
    }

    /// Returns `true` if the page is in memory; counts as a use.
    pub(in super::super) fn touch(&mut self, page: PageKey) -> bool {
        self.resident.touch(page).is_some()
    }

    pub(in super::super) fn is_resident(&self, page: PageKey) -> bool {
        self.resident.contains(page)
    }

    /// Returns the page to evict before another can come; `None` while there is room.
    pub(in super::super) fn victim(&self) -> Option<PageKey> {
        if self.resident.len() < self.limit {
            return None;
        }
        let sequential =
            self.sequences.as_ref().and_then(|seq| seq.victim(|page| self.resident.contains(page)));
        sequential.or_else(|| self.resident.oldest())
    }

    /// Notes a page fault, for policies that use faults.
    pub(in super::super) fn fault(&mut self, page: PageKey) {
        if let Some(sequences) = &mut self.sequences {
            sequences.fault(page);
        }
    }

    /// Inserts a page; the caller has made room.
    pub(in super::super) fn insert(&mut self, page: PageKey) {
        if !self.touch(page) {
            self.resident.insert(page, ());
            debug_assert!(self.resident.len() <= self.limit, "more than {} pages", self.limit);
        }
    }

    pub(in super::super) fn mark_dirty(&mut self, page: PageKey) {
        debug_assert!(self.resident.contains(page), "{page:?} is written and not in memory");
        self.dirty.insert(page);
    }

    pub(in super::super) fn mark_clean(&mut self, page: PageKey) {
        self.dirty.remove(&page);
    }

    pub(in super::super) fn is_dirty(&self, page: PageKey) -> bool {
        self.dirty.contains(&page)
    }

    /// Removes a page, dirty or not.
    pub(in super::super) fn remove(&mut self, page: PageKey) {
        self.resident.remove(page);
        self.dirty.remove(&page);
    }

    /// Returns the first dirty page from a position on.
    pub(in super::super) fn dirty_from(&self, from: PageKey) -> Option<PageKey> {
        self.dirty.range(from..).next().copied()
    }

    /// Returns the first dirty page of a file.
    pub(in super::super) fn dirty_of(&self, file: FileId) -> Option<PageKey> {
        self.dirty_from(PageKey { file, page: 0 }).filter(|page| page.file == file)
    }
}
