//! Page-aligned memory, as transfers past the page cache need it.

use crate::fs::PAGE_BYTES;
use crate::sys::{give_back_pages, wish_for_large_pages};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Whole pages of bytes.
pub(super) struct AlignedPages {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    /// Pool that takes the memory back when these pages are dropped.
    home: Option<Arc<PagePool>>,
}

impl AlignedPages {
    /// Returns at least `length` bytes, all zero.
    pub(super) fn zeroed(length: usize) -> Self {
        Self::aligned(length.next_multiple_of(PAGE_BYTES), PAGE_BYTES)
    }

    /// Returns zeroed pages for long use and large transfers, physically contiguous if the kernel
    /// can provide that. A device limits the number of pieces of a transfer, often to 128. A
    /// megabyte in scattered pages of four kilobytes is thus two transfers, and in one piece is
    /// one.
    pub(super) fn in_one_piece(length: usize) -> Self {
        let length = length.next_multiple_of(PAGE_BYTES);
        if length <= SCATTERED_MAX {
            return Self::zeroed(length);
        }
        let mut pages = Self::aligned(length.next_multiple_of(LARGE_PAGE_BYTES), LARGE_PAGE_BYTES);
        // The advice must precede the first access.
        wish_for_large_pages(pages.as_mut());
        // The first access brings in a large page. The part of it that is not asked for would stay
        // in memory for nothing.
        let (wanted, rest) = pages.as_mut().split_at_mut(length);
        wanted[(length - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES] = 0;
        give_back_pages(wanted, rest);
        pages.length = length;
        pages
    }

    fn aligned(length: usize, alignment: usize) -> Self {
        let bytes = vec![0; length + alignment];
        let start = bytes.as_ptr().align_offset(alignment);
        assert!(start + length <= bytes.len());
        Self { bytes, start, length, home: None }
    }
}

/// Pool of memory that is reused for pages. An allocator returns such large pieces to the kernel.
/// For each new piece the kernel clears every page at its first use, although the disk overwrites
/// the page.
#[derive(Default)]
pub(super) struct PagePool {
    state: Mutex<UsedState>,
}

#[derive(Default)]
struct UsedState {
    /// Oldest first.
    free: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl PagePool {
    /// Returns at least `length` bytes with arbitrary contents.
    pub(super) fn pages(self: &Arc<Self>, length: usize) -> AlignedPages {
        let length = length.next_multiple_of(PAGE_BYTES);
        let mut pages = match self.take(length + PAGE_BYTES) {
            Some(bytes) => {
                let start = bytes.as_ptr().align_offset(PAGE_BYTES);
                assert!(start + length <= bytes.len());
                AlignedPages { bytes, start, length, home: None }
            }
            None => AlignedPages::zeroed(length),
        };
        pages.home = Some(Arc::clone(self));
        pages
    }

    /// Takes memory of at least this length, and not much more.
    fn take(&self, length: usize) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let fits = |bytes: &&Vec<u8>| (length..=length + length / SPARE_SHARE).contains(&bytes.len());
        let fitting = state.free.iter().enumerate().filter(|(_, bytes)| fits(bytes));
        let (at, _) = fitting.min_by_key(|(_, bytes)| bytes.len())?;
        let taken = state.free.remove(at)?;
        state.bytes -= taken.len();
        state.invariants();
        Some(taken)
    }

    fn put(&self, bytes: Vec<u8>) {
        if bytes.len() > EACH_MAX {
            return;
        }
        let mut state = self.state.lock();
        state.bytes += bytes.len();
        state.free.push_back(bytes);
        // Lengths that are no longer requested must not keep out the requested ones.
        while state.bytes > USED_MAX {
            let Some(oldest) = state.free.pop_front() else { break };
            state.bytes -= oldest.len();
        }
        state.invariants();
    }
}

impl UsedState {
    /// Checks all that is said of the fields.
    fn invariants(&self) {
        debug_assert!(self.bytes <= USED_MAX);
        debug_assert_eq!(self.bytes, self.free.iter().map(Vec::len).sum::<usize>());
    }
}

impl Drop for AlignedPages {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.put(std::mem::take(&mut self.bytes));
        }
    }
}

impl AsRef<[u8]> for AlignedPages {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl AsMut<[u8]> for AlignedPages {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Size of a physically contiguous piece of memory, on most machines.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Size that is one transfer even if scattered.
const SCATTERED_MAX: usize = 512 << 10;
/// Limit of bytes in the pool.
const USED_MAX: usize = 1 << 20;
/// Longest piece in the pool; longer reads are rare.
const EACH_MAX: usize = 256 << 10;
/// A piece may exceed the requested length by at most one part in this many.
const SPARE_SHARE: usize = 4;

const _: () = {
    assert!(PAGE_BYTES.is_power_of_two() && LARGE_PAGE_BYTES.is_power_of_two());
    assert!(LARGE_PAGE_BYTES.is_multiple_of(PAGE_BYTES));
    // Memory that is put back never drops all other memory.
    assert!(EACH_MAX <= USED_MAX);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_at_a_page_and_are_whole() {
        for length in [1, 4096, 5000, 1 << 20] {
            let mut pages = AlignedPages::zeroed(length);
            assert!(pages.as_ref().as_ptr().addr().is_multiple_of(PAGE_BYTES));
            assert_eq!(pages.as_mut().len(), length.next_multiple_of(PAGE_BYTES));
        }
    }

    #[test]
    fn large_ones_may_be_of_one_piece() {
        for length in [4096, 256 << 10, 1 << 20, 5 << 20] {
            let mut pages = AlignedPages::in_one_piece(length);
            assert!(pages.as_ref().len() == length && pages.as_ref().iter().all(|byte| *byte == 0));
            pages.as_mut().fill(7);
            assert!(pages.as_ref().iter().all(|byte| *byte == 7));
            let alignment = if length > SCATTERED_MAX { LARGE_PAGE_BYTES } else { PAGE_BYTES };
            assert!(pages.as_ref().as_ptr().addr().is_multiple_of(alignment));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn rest_of_a_large_page_is_given_back() {
        let mut pages = AlignedPages::in_one_piece(1 << 20);
        pages.as_mut().fill(7);
        let address = pages.as_ref().as_ptr().addr();
        let resident = |address: usize| {
            let map = std::fs::File::open("/proc/self/pagemap").expect("of this process");
            let mut words = vec![0; (1 << 20) / PAGE_BYTES * 8];
            let at = (address / PAGE_BYTES * 8) as u64;
            std::os::unix::fs::FileExt::read_exact_at(&map, &mut words, at).expect("mapped");
            words.as_chunks::<8>().0.iter().filter(|word| u64::from_ne_bytes(**word) >> 63 == 1).count()
        };
        if rustix::param::page_size() == PAGE_BYTES {
            assert_eq!((resident(address), resident(address + (1 << 20))), (256, 0));
        }
    }

    #[test]
    fn pages_are_reused_within_limit() {
        let used = Arc::new(PagePool::default());
        let first = used.pages(5000);
        let at = first.as_ref().as_ptr();
        drop(first);
        assert_ne!(used.pages(20_000).as_ref().as_ptr(), at);
        assert_eq!(used.pages(8192).as_ref().as_ptr(), at, "as many pages");
        let many: Vec<AlignedPages> = (0..100).map(|_| used.pages(56 << 10)).collect();
        drop(many);
        let larger = used.pages(200 << 10);
        assert_eq!(used.pages(48 << 10).as_ref().len(), 48 << 10, "of memory for a little more");
        drop(larger);
        let state = used.state.lock();
        let bytes: usize = state.free.iter().map(Vec::len).sum();
        assert!(bytes == state.bytes && bytes <= USED_MAX, "{bytes}");
        let lengths: Vec<usize> = state.free.iter().map(Vec::len).collect();
        assert!(lengths.iter().all(|length| [60 << 10, 204 << 10].contains(length)), "{lengths:?}");
        assert!(lengths.contains(&(204 << 10)), "the latest have won");
    }
}
