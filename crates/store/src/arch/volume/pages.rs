//! Memory that begins at a page, as transfers past the system's memory want it.

use crate::door::PAGE_BYTES;

/// Whole pages of bytes.
pub(super) struct Pages {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Pages {
    /// At least so many bytes, all zero.
    pub(super) fn zeroed(length: usize) -> Self {
        let length = length.next_multiple_of(PAGE_BYTES);
        let bytes = vec![0; length + PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        Self { bytes, start, length }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_at_a_page_and_are_whole() {
        for length in [1, 4096, 5000, 1 << 20] {
            let mut pages = Pages::zeroed(length);
            assert!(pages.as_ref().as_ptr().addr().is_multiple_of(PAGE_BYTES));
            assert_eq!(pages.as_mut().len(), length.next_multiple_of(PAGE_BYTES));
        }
    }
}
