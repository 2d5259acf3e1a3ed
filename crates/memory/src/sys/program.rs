//! Pages of the program's file that were used at the start alone.
//!
//! A start runs code that a serving node never runs again: it reads options and settings, and makes
//! every part. The kernel maps sixteen pages around each access. All of these stay in the process's
//! memory until the machine is short of it.

use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Has the kernel unmap the pages of the program's code and constants. Pages that are still needed
/// are mapped again at their next access, from the page cache. Returns the bytes of the mappings.
pub(crate) fn return_program_pages() -> usize {
    let ranges = read_only_segments();
    for range in &ranges {
        // SAFETY: the range lies in segments of the program's file that this process may only read
        // or execute, and that no relocation writes to: those are in a segment for writing. Their
        // pages are the file's. The kernel drops such pages by itself if memory is short.
        unsafe {
            libc::madvise(range.start as *mut c_void, range.len(), libc::MADV_DONTNEED);
        }
    }
    ranges.iter().map(Range::len).sum()
}

/// Returns the whole pages of the program's segments without a right to write.
fn read_only_segments() -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    // SAFETY: the callback gets the pointer of this call, and runs before the call returns.
    unsafe { libc::dl_iterate_phdr(Some(note_segments), (&raw mut ranges).cast()) };
    ranges
}

/// Adds the segments of the first object, which is the program, and ends the iteration.
///
/// # Safety
///
/// `info` is valid, as `dl_iterate_phdr` promises, and `ranges` is a list of ranges.
unsafe extern "C" fn note_segments(info: *mut libc::dl_phdr_info, _: usize, ranges: *mut c_void) -> c_int {
    let Some(page) = super::page_bytes() else { return 1 };
    // SAFETY: the caller promises both. The headers lie in the program's memory.
    let (ranges, address, headers) = unsafe {
        let (info, ranges) = (&*info, &mut *ranges.cast::<Vec<Range<usize>>>());
        (ranges, info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let is_read_only = |flags: u32| flags & libc::PF_R != 0 && flags & libc::PF_W == 0;
    for header in
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD && is_read_only(header.p_flags))
    {
        let start = (address + header.p_vaddr) as usize;
        let end = start + header.p_memsz as usize;
        // A page at an edge may be shared with the segment beside it.
        let (start, end) = (start.next_multiple_of(page), end / page * page);
        if start < end {
            ranges.push(start..end);
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A constant of the program's file.
    static TEXT: [u8; 64 << 10] = [b'x'; 64 << 10];

    /// Returns the kilobytes of files' pages in this process.
    fn resident_kb() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
        let line = status.lines().find(|line| line.starts_with("RssFile")).expect("Linux tells");
        line.split_ascii_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).expect("a number")
    }

    #[test]
    fn program_goes_on_after_its_pages_have_gone() {
        let touch = || TEXT.iter().map(|byte| usize::from(*byte)).sum::<usize>();
        let sum = std::hint::black_box(touch());
        let before = resident_kb();
        assert!(return_program_pages() > TEXT.len(), "the program has segments");
        assert!(resident_kb() < before);
        assert_eq!(std::hint::black_box(touch()), sum);
    }

    #[test]
    fn segments_are_whole_pages_of_this_program() {
        let page = crate::sys::page_bytes().expect("known");
        let segments = read_only_segments();
        assert!(segments.iter().all(|range| range.start % page == 0 && range.end % page == 0));
        let holds = |address: usize| segments.iter().any(|range| range.contains(&address));
        assert!(holds(read_only_segments as *const () as usize), "this code");
        let written = Box::new(0);
        static STATE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);
        assert!(!holds((&raw const *written).addr()) && !holds((&raw const STATE).addr()));
    }
}
