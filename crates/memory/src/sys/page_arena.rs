//! Whole pages of memory for large bodies, many of which share a tract: small pages, or large ones
//! (2 MiB) if the system has them.
//!
//! For each page that it sends, the kernel raises and lowers a counter. Small pages have one
//! counter each. The small pages of a large page share one, which the kernel raises once for all of
//! them (`docs/experiments/hits-notebook.md`, "Large bodies"). Few bodies are as long as large
//! pages, so a tract is cut from its start on, one body after the other. Large pages are then full,
//! and the system has one mapping for many bodies.
//!
//! A cut range belongs to one body, and its addresses are never used again. The body's pages return
//! to the system with the body, at once. A large page shared with other bodies is split for that:
//! the system would keep all of an unsplit one until memory is short.

use super::fill::BodyMemory;
use memmap2::{MmapMut, MmapRaw, UncheckedAdvice};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// Memory for one body: whole pages that no other body has, had or will have.
pub(crate) struct ArenaPages {
    tract: Arc<PageArena>,
    /// Offsets in the tract, at page boundaries.
    range: Range<usize>,
    /// Bytes of the body.
    length: usize,
}

impl ArenaPages {
    /// Reserves `length` bytes, which are zero, and in memory once they are touched.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        Self::of(&SMALL, length)
    }

    /// Reserves `length` bytes in large pages. The system then gives one large page at a time, or
    /// none; it may rearrange memory for that, which takes a while.
    pub(crate) fn large(length: usize) -> io::Result<Self> {
        Self::of(&LARGE, length)
    }

    fn of(tracts: &Tracts, length: usize) -> io::Result<Self> {
        #[cfg(test)]
        if REFUSED.get() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if length > TRACT_BYTES / 4 {
            // A large body has a tract of its own, of which nothing is left over.
            return PageArena::new(length, tracts.size)?
                .cut(length)
                .ok_or_else(|| io::ErrorKind::OutOfMemory.into());
        }
        let mut tract = tracts.current.lock();
        if let Some(pages) = tract.as_ref().and_then(|tract| tract.cut(length)) {
            return Ok(pages);
        }
        let newer = PageArena::new(TRACT_BYTES, tracts.size)?;
        let pages = newer.cut(length).ok_or(io::ErrorKind::OutOfMemory)?;
        let older = tract.replace(newer);
        drop(tract);
        // Drop the rest of the older tract like a body's pages: it may share a large page with the
        // last body.
        drop(older.and_then(|older| older.cut(older.left())));
        Ok(pages)
    }
}

// SAFETY: the range lies in the mapping, which is anonymous and lives as long as the tract, which
// this holds. The range was cut off once, and its bytes go only when this is dropped.
unsafe impl BodyMemory for ArenaPages {
    fn start(&self) -> *mut u8 {
        self.tract.map.as_mut_ptr().wrapping_add(self.tract.first + self.range.start)
    }

    fn bytes(&self) -> usize {
        self.length
    }

    /// Has the system give the pages in one call. Given one by one as they are touched, they take
    /// nearly twice as long. A system that cannot do this gives them later.
    fn prepare(&self, range: &Range<usize>) {
        let PageArena { map, first, page, size, .. } = &*self.tract;
        let range = range.start.next_multiple_of(*page)..range.end.next_multiple_of(*page);
        debug_assert!(range.end <= self.range.len());
        if *size == Size::Small && range.len() > *page {
            #[cfg(target_os = "linux")]
            let _ = map.advise_range(
                memmap2::Advice::PopulateWrite,
                first + self.range.start + range.start,
                range.len(),
            );
        }
    }
}

impl Drop for ArenaPages {
    fn drop(&mut self) {
        if self.range.is_empty() {
            return;
        }
        BODY_BYTES.fetch_sub(self.range.len(), Relaxed);
        self.tract.split_at_the_edges_of(&self.range);
        let PageArena { map, first, .. } = &*self.tract;
        // SAFETY: the range lies in the mapping, which is anonymous. No reference into it exists
        // any more, nor will one, as the range was cut off once. The kernel itself keeps the pages
        // that it still sends.
        let given = unsafe {
            map.unchecked_advise_range(UncheckedAdvice::DontNeed, first + self.range.start, self.range.len())
        };
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

/// Returns `true` if the system has large pages and grants them on request.
pub fn gives_large_pages() -> bool {
    static GIVES: LazyLock<bool> = LazyLock::new(|| {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        cfg!(target_os = "linux") && setting.is_ok_and(|setting| !setting.contains("[never]"))
    });
    *GIVES
}

/// Number and size of this process's tracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageArenaUsage {
    /// Tracts that exist.
    pub tracts: u64,
    /// Most tracts that may exist; further bodies get no pages of their own.
    pub tracts_max: u64,
    /// Bytes of addresses. One body keeps those of its whole tract. For each 2 MiB of them, 4 KiB
    /// of page table may be in memory.
    pub address_bytes: u64,
    /// Bytes of bodies, in whole pages: in memory as far as they have arrived.
    pub body_bytes: u64,
}

/// Returns the number and size of this process's tracts.
pub fn tracts() -> PageArenaUsage {
    PageArenaUsage {
        tracts: TRACTS.load(Relaxed) as u64,
        tracts_max: TRACTS_MAX as u64,
        address_bytes: ADDRESS_BYTES.load(Relaxed) as u64,
        body_bytes: BODY_BYTES.load(Relaxed) as u64,
    }
}

/// Size of a tract's pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Small,
    Large,
}

/// Stretch of addresses that begins at the boundary of a large page.
struct PageArena {
    map: MmapRaw,
    /// Offset of the stretch in the mapping.
    first: usize,
    bytes: usize,
    /// Bytes of a small page.
    page: usize,
    size: Size,
    /// Bytes that have been cut off.
    cut: AtomicUsize,
    /// Bytes from the start that must not be put into large pages any more.
    small: AtomicUsize,
}

impl PageArena {
    fn new(bytes: usize, size: Size) -> io::Result<Arc<Self>> {
        let page = super::page_bytes().ok_or(io::ErrorKind::Unsupported)?;
        let bytes = bytes.checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let map: MmapRaw = MmapMut::map_anon(bytes.saturating_add(LARGE_BYTES))?.into();
        let first = map.as_ptr().align_offset(LARGE_BYTES).min(LARGE_BYTES);
        let tract =
            Self { map, first, bytes, page, size, cut: AtomicUsize::new(0), small: AtomicUsize::new(0) };
        ADDRESS_BYTES.fetch_add(tract.map.len(), Relaxed);
        if TRACTS.fetch_add(1, Relaxed) >= TRACTS_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        #[cfg(target_os = "linux")]
        match size {
            Size::Large => tract.map.advise_range(memmap2::Advice::HugePage, first, bytes)?,
            // A system without large pages refuses.
            Size::Small => drop(tract.map.advise(memmap2::Advice::NoHugePage)),
        }
        Ok(Arc::new(tract))
    }

    /// Cuts off pages for the next `length` bytes, if enough are left.
    fn cut(self: &Arc<Self>, length: usize) -> Option<ArenaPages> {
        let whole = length.checked_next_multiple_of(self.page)?;
        let within = |cut: usize| cut.checked_add(whole).filter(|end| *end <= self.bytes);
        let start = self.cut.fetch_update(Relaxed, Relaxed, within).ok()?;
        BODY_BYTES.fetch_add(whole, Relaxed);
        Some(ArenaPages { tract: Arc::clone(self), range: start..start + whole, length })
    }

    fn left(&self) -> usize {
        self.bytes - self.cut.load(Relaxed)
    }

    /// Splits the large pages at the range's ends, of which others may have a part. If a call here
    /// fails, the bytes may stay in memory until the system is short of it.
    fn split_at_the_edges_of(&self, range: &Range<usize>) {
        if self.size == Size::Small {
            return;
        }
        // The rest of those pages must not become a large page again.
        let end = range.end.next_multiple_of(LARGE_BYTES).min(self.bytes);
        if self.small.fetch_max(end, Relaxed) < end {
            #[cfg(target_os = "linux")]
            let _ = self.map.advise_range(memmap2::Advice::NoHugePage, self.first, end);
        }
        for edge in [range.start, range.end] {
            if !edge.is_multiple_of(LARGE_BYTES) {
                self.split_at(if edge == range.start { edge } else { edge - self.page });
            }
        }
    }

    /// Has the system split the large page around the small page at `at`. The kernel splits a large
    /// page when only a part of it is said to be cold.
    fn split_at(&self, at: usize) {
        assert!(at < self.bytes);
        let page = self.map.as_mut_ptr().wrapping_add(self.first + at);
        #[cfg(target_os = "linux")]
        // SAFETY: the address lies in the mapping, and the advice changes neither its bytes nor the
        // rights to them.
        unsafe {
            libc::madvise(page.cast(), 1, libc::MADV_COLD);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = page;
    }
}

impl Drop for PageArena {
    fn drop(&mut self) {
        TRACTS.fetch_sub(1, Relaxed);
        ADDRESS_BYTES.fetch_sub(self.map.len(), Relaxed);
    }
}

/// Tracts of one size of pages.
struct Tracts {
    size: Size,
    /// Tract that bodies are cut from.
    current: Mutex<Option<Arc<PageArena>>>,
}

static SMALL: Tracts = Tracts { size: Size::Small, current: Mutex::new(None) };
static LARGE: Tracts = Tracts { size: Size::Large, current: Mutex::new(None) };

/// Number of tracts.
static TRACTS: AtomicUsize = AtomicUsize::new(0);
/// Bytes of their addresses.
static ADDRESS_BYTES: AtomicUsize = AtomicUsize::new(0);
static BODY_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Most tracts. The kernel allows a process 65,530 mappings by default, and a tract may take four.
/// Two are its own; one before and one behind fill up to the boundary of a large page.
const TRACTS_MAX: usize = 8_192;

/// Bytes of a tract: long enough for most bodies to share one, and short enough for the last body
/// to keep few addresses.
const TRACT_BYTES: usize = 8 * LARGE_BYTES;

/// Bytes of a large page on most machines. Other sizes do no harm, and gain nothing.
const LARGE_BYTES: usize = 2 << 20;

#[cfg(test)]
thread_local! {
    /// `true` if this thread gets no pages, as if all tracts were taken.
    pub(crate) static REFUSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::super::fill::{FillBuffer, FilledBody};
    use super::*;

    /// Returns the `pagemap` words of `pages` pages from an address on, one for each.
    #[cfg(target_os = "linux")]
    fn entries(address: usize, pages: usize) -> Vec<u64> {
        let page = crate::sys::page_bytes().expect("known");
        words("/proc/self/pagemap", address / page, pages).expect("of this process")
    }

    #[cfg(target_os = "linux")]
    fn words(file: &str, first: usize, count: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        let file = std::fs::File::open(file)?;
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, first as u64 * 8)?;
        Ok(bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
            .collect())
    }

    /// Returns the number of these pages that are in memory.
    #[cfg(target_os = "linux")]
    fn resident(address: usize, pages: usize) -> usize {
        entries(address, pages).iter().filter(|entry| **entry >> 63 == 1).count()
    }

    /// Returns `true` if a page is part of a larger one; `None` if this user is not told.
    #[cfg(target_os = "linux")]
    fn is_in_large_page(address: usize) -> Option<bool> {
        let number = entries(address, 1)[0] & ((1 << 55) - 1);
        let flags = words("/proc/kpageflags", number as usize, 1).ok().filter(|_| number != 0)?[0];
        Some(flags >> 15 & 0b11 != 0)
    }

    /// Makes a body that fills all its pages.
    fn body(pages: Option<ArenaPages>, byte: u8) -> FilledBody<ArenaPages> {
        let mut room = FillBuffer::new(pages.expect("as much is left"));
        drop(room.push(&vec![byte; room.missing()]));
        room.body()
    }

    #[test]
    fn it_is_as_long_as_it_should_be_and_nobody_elses() {
        let lengths = [
            1,
            4096,
            LARGE_BYTES / 2 - 1,
            LARGE_BYTES,
            LARGE_BYTES + 1,
            TRACT_BYTES / 4,
            TRACT_BYTES / 4 + 1,
            TRACT_BYTES + 5,
        ];
        let bodies: Vec<_> =
            (1..).zip(lengths).map(|(byte, length)| body(ArenaPages::new(length).ok(), byte)).collect();
        for ((byte, length), body) in (1..).zip(lengths).zip(&bodies) {
            assert!(body.len() == length && body.iter().all(|&found| found == byte), "{length}");
        }
        assert!(ArenaPages::new(usize::MAX).is_err());
    }

    /// Needs Linux 5.14.
    #[test]
    #[cfg(target_os = "linux")]
    fn pages_are_there_before_they_are_written() {
        let page = super::super::page_bytes().expect("known");
        let pages = ArenaPages::new(10 * page).expect("as much is left");
        let there = || resident(pages.start().addr(), 10);
        pages.prepare(&(0..page));
        assert_eq!(there(), 0, "one page comes by itself");
        pages.prepare(&(0..3 * page + 1));
        assert_eq!(there(), 4);
        pages.prepare(&(3 * page + 1..10 * page));
        assert_eq!(there(), 10);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn its_pages_go_with_it_and_those_beside_it_stay() {
        for size in [Size::Small, Size::Large] {
            let tract = PageArena::new(TRACT_BYTES, size).expect("memory");
            let mut bodies: Vec<_> =
                (0..24).map(|byte| Some(body(tract.cut(TRACT_BYTES / 25), byte))).collect();
            for number in [1, 5, 6, 7, 0, 23, 11] {
                let gone = bodies[number].take().expect("once");
                let (address, pages) = (gone.as_ptr().addr(), gone.len().div_ceil(tract.page));
                assert_eq!(resident(address, pages), pages);
                drop(gone);
                assert_eq!(resident(address, pages), 0, "{number}");
            }
            for (byte, body) in (0..).zip(bodies).filter_map(|(byte, body)| body.map(|body| (byte, body))) {
                assert!(body.iter().all(|&found| found == byte), "{byte}");
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn large_page_splits_when_its_first_body_goes() {
        let tract = PageArena::new(LARGE_BYTES, Size::Large).expect("memory");
        let [first, second, third] =
            [LARGE_BYTES / 2, LARGE_BYTES / 4, LARGE_BYTES / 4].map(|length| body(tract.cut(length), 1));
        if is_in_large_page(second.as_ptr().addr()) != Some(true) {
            eprintln!("left out: there was no large page, or only root is told");
            return;
        }
        drop(first);
        assert_eq!(is_in_large_page(second.as_ptr().addr()), Some(false));
        drop(third);
        assert!(second.iter().all(|&byte| byte == 1));
    }

    /// Other tests' tracts are counted too, and have far fewer bytes.
    #[test]
    fn tract_bytes_count_while_a_body_lives() {
        const MANY: u64 = 8 << 30;
        assert!(tracts().address_bytes < MANY / 2 && tracts().body_bytes < MANY / 2);
        let bytes = MANY as usize / 32;
        let maps: Vec<_> = (0..64).map(|_| PageArena::new(bytes, Size::Small).expect("addresses")).collect();
        assert!(tracts().tracts >= 64 && tracts().tracts <= tracts().tracts_max);
        assert!(tracts().address_bytes >= 2 * MANY && tracts().body_bytes < MANY / 2);
        let bodies: Vec<_> = maps.iter().map(|tract| tract.cut(bytes).expect("all of it")).collect();
        drop(maps);
        assert!(tracts().address_bytes >= 2 * MANY && tracts().body_bytes >= 2 * MANY);
        drop(bodies);
        assert!(tracts().address_bytes < MANY / 2 && tracts().body_bytes < MANY / 2);
    }

    #[test]
    fn a_tract_is_cut_up_to_its_end() {
        let tract = PageArena::new(LARGE_BYTES, Size::Large).expect("memory");
        let first = tract.cut(LARGE_BYTES - 8192).expect("room");
        assert!(tract.cut(12_288).is_none());
        let last = tract.cut(8191).expect("room");
        assert!(tract.left() == 0 && tract.cut(4096).is_none());
        assert_eq!(first.start().addr() + LARGE_BYTES - 8192, last.start().addr());
        assert!(first.start().addr().is_multiple_of(LARGE_BYTES));
    }
}
