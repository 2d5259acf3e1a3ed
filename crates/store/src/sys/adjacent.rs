//! Memory for a large body whose pages lie next to each other, where the system has such.
//!
//! For each page that it sends the kernel takes hold of it, and lets it go again, by a counter that belongs to the page. Counters of pages that were
//! taken one by one lie anywhere, and are seldom near; those of adjacent pages are (`docs/experiments/hits.md`, "Large bodies"). A large page,
//! of 2 MiB, is adjacent by itself. What a body does not need of one goes back at once: the page is split into its small ones first, since of a whole
//! one the system would keep everything until it is short of memory.

use super::{split_large_page, wish_for_large_pages};
use memmap2::MmapMut;
#[cfg(target_os = "linux")]
use memmap2::{Advice, RemapOptions};
use std::io;

/// So many bytes of memory of its own, which hold anything. A body that fills half of a large page or more has its pages in memory from here on; so it
/// should be there, too.
pub(crate) fn map(length: usize) -> io::Result<MmapMut> {
    // Of large pages as many as are filled by half at least.
    let large = (length + LARGE / 2) / LARGE * LARGE;
    if large == 0 || !cfg!(target_os = "linux") {
        return MmapMut::map_anon(length);
    }
    let mut pages = MmapMut::map_anon(length.next_multiple_of(LARGE))?;
    wish_for_large_pages(&mut pages[..large]);
    (0..large).step_by(LARGE).for_each(|start| pages[start] = 0);
    if large > length {
        // Of a page that is all zero the system would keep none.
        (large - LARGE..length).step_by(SMALL).for_each(|start| pages[start] = 1);
        split_large_page(&mut pages[large - LARGE..]);
    }
    shrink(&mut pages, length)?;
    // It is not to make a large page of them again, together with what is mapped beside them. A system without large pages refuses.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(Advice::NoHugePage);
    Ok(pages)
}

/// Gives back what is behind the first `length` bytes.
fn shrink(pages: &mut MmapMut, length: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: the mapping is borrowed exclusively, so that nobody refers to what goes; it does not grow, and may not move.
    unsafe {
        pages.remap(length, RemapOptions::new())?
    };
    #[cfg(not(target_os = "linux"))]
    let _ = (pages, length);
    Ok(())
}

/// Bytes of a page, and of a large one, on most machines. With others nothing is wrong, and nothing won.
const SMALL: usize = 4 << 10;
const LARGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_it_should_be_and_all_of_it_can_be_used() {
        for length in [1, 4096, LARGE / 2 - 1, LARGE / 2, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 5000] {
            let mut pages = map(length).expect("memory");
            pages.fill(7);
            assert!(pages.len() == length && pages.iter().all(|&byte| byte == 7));
        }
    }

    /// What the system counts for mappings that begin within `pages`, in bytes: all, and what is in large pages.
    #[cfg(target_os = "linux")]
    fn counted(pages: &MmapMut) -> (usize, usize) {
        let text = std::fs::read_to_string("/proc/self/smaps").expect("this process");
        let (mut counts, mut is_within) = ((0, 0), false);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let first = words.next().unwrap_or_default();
            let kilobytes = |words: &mut dyn Iterator<Item = &str>| {
                words.next().map_or(0, |word| word.parse().unwrap_or(0)) << 10
            };
            if let Some((start, _)) = first.split_once('-') {
                let start = usize::from_str_radix(start, 16).expect("an address");
                is_within = (pages.as_ptr().addr()..pages.as_ptr().addr() + pages.len()).contains(&start);
            } else if is_within && first == "Rss:" {
                counts.0 += kilobytes(&mut words);
            } else if is_within && first == "AnonHugePages:" {
                counts.1 += kilobytes(&mut words);
            }
        }
        counts
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_large_page_that_is_not_filled_is_split_and_its_rest_given_back() {
        for (length, large) in
            [(LARGE / 2, 0), (LARGE + LARGE / 2 + 1, LARGE), (2 * LARGE, 2 * LARGE), (LARGE + 9000, LARGE)]
        {
            let mut pages = map(length).expect("memory");
            pages.fill(1);
            let (resident, in_large) = counted(&pages);
            // Where the system has no large page to give, all are small.
            assert!(in_large <= large, "{length}: {in_large}");
            // Mappings that touch it may be one with it for the system.
            assert!(resident == 0 || resident >= length, "{length}: {resident}");
        }
    }
}
