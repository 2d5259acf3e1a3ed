//! Lines of a head: the end of each line, and the parts of a field line.
//!
//! Control characters and colons are found 64 bytes at a time ([`marks`]). The rest of the code
//! looks only at those few places, at names, and at the ends of values. HTAB is no mark, since it
//! may stand wherever a blank may. Nothing is copied.

mod marks;
mod name;

#[cfg(test)]
mod tests;

use marks::{BLOCK, marks};
use name::is_name;
use shoal_core::FieldLine;

/// Deviations from the grammar that a parser accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// No deviations. RFC 9112 section 2.2 lets a recipient take a bare LF for a line's end. A
    /// neighbour that does not would see another message in the same bytes.
    Strict,
    /// Deviations that RFC 9112 lets a recipient of responses repair: a bare LF (2.2), whitespace
    /// before a colon (5.1), folded lines (5.2).
    Lenient,
}

/// Error in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// The line ends in LF alone.
    BareLf,
    /// The line has no name, or a name that is no token.
    Name,
    /// The line holds a control character, or CR alone.
    Control,
}

/// Result of reading a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionProgress {
    /// The section was read to its empty line.
    Whole {
        /// Offset of the first byte behind the section.
        end: usize,
        /// `true` if a value continues over several lines and holds their ends.
        is_folded: bool,
    },
    /// The bytes end before the section does.
    Partial,
    /// The section has more fields than the limit.
    TooMany,
}

/// Cursor over the lines of a head.
pub(crate) struct Lines<'b> {
    bytes: &'b [u8],
    manner: Strictness,
    /// Offset of the next line.
    start: usize,
    /// Offset of the block that `marks` describes.
    block: usize,
    /// Marks of the block that lie ahead.
    marks: u64,
}

impl<'b> Lines<'b> {
    /// Starts at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'b [u8], manner: Strictness) -> Self {
        Self { bytes, manner, start: 0, block: 0, marks: marks(bytes, 0) }
    }

    /// Returns the next line without its end; `None` until that end has arrived.
    #[inline]
    pub fn line(&mut self) -> Result<Option<&'b [u8]>, BadLine> {
        let start = self.start;
        Ok(self.end_of_line()?.map(|end| &self.bytes[start..end]))
    }

    /// Returns the bytes from the next line on.
    #[inline]
    pub fn ahead(&self) -> &'b [u8] {
        &self.bytes[self.start..]
    }

    /// Appends the places of the fields up to the empty line, at most `count_max` of them.
    #[inline]
    pub fn fields(
        &mut self,
        count_max: usize,
        fields: &mut Vec<FieldLine>,
    ) -> Result<SectionProgress, BadLine> {
        let mut is_folded = false;
        loop {
            let start = self.start;
            if self.manner == Strictness::Lenient
                && self.bytes.get(start).is_some_and(|byte| matches!(byte, b' ' | b'\t'))
                && let Some(field) = fields.last_mut()
            {
                let Some(end) = self.end_of_line()? else { return Ok(SectionProgress::Partial) };
                is_folded = true;
                (field.value_start, field.value_end) = trimmed(self.bytes, field.value_start as usize, end);
                continue;
            }
            let Some((at, byte)) = self.next_mark() else { return Ok(SectionProgress::Partial) };
            if byte != b':' {
                if at != start {
                    return Err(BadLine::Name);
                }
                let is_whole = self.end_at(at, byte)?;
                return Ok(if is_whole {
                    SectionProgress::Whole { end: self.start, is_folded }
                } else {
                    SectionProgress::Partial
                });
            }
            let name_end = self.end_of_name(start, at);
            if !is_name(self.bytes, start, name_end) {
                return Err(BadLine::Name);
            }
            let Some(end) = self.end_of_line()? else { return Ok(SectionProgress::Partial) };
            if fields.len() == count_max {
                return Ok(SectionProgress::TooMany);
            }
            let (value_start, value_end) = trimmed(self.bytes, at + 1, end);
            fields.push(FieldLine {
                name_start: start as u32,
                name_end: name_end as u32,
                value_start,
                value_end,
            });
        }
    }

    /// Calls `taker` with the places of each field of a section that [`Self::fields`] found valid.
    /// Names are not checked again.
    #[inline]
    pub fn each_valid(&mut self, mut taker: impl FnMut(FieldLine)) {
        loop {
            let start = self.start;
            // The empty line, which is the last, has no colon.
            let Some((colon, b':')) = self.next_mark() else { return };
            let Ok(Some(end)) = self.end_of_line() else { return };
            let (value_start, value_end) = trimmed(self.bytes, colon + 1, end);
            taker(FieldLine { name_start: start as u32, name_end: colon as u32, value_start, value_end });
        }
    }

    /// Returns the end of the name before the colon at `colon`.
    #[inline]
    fn end_of_name(&self, start: usize, colon: usize) -> usize {
        match self.manner {
            Strictness::Strict => colon,
            Strictness::Lenient => start + self.bytes[start..colon].trim_ascii_end().len(),
        }
    }

    /// Moves to the next line and returns the end of this line's text; `None` when it lies beyond
    /// the bytes.
    #[inline(always)]
    fn end_of_line(&mut self) -> Result<Option<usize>, BadLine> {
        loop {
            let Some((at, byte)) = self.next_mark() else { return Ok(None) };
            if byte != b':' {
                return Ok(self.end_at(at, byte)?.then_some(at));
            }
        }
    }

    /// Moves to the line behind the line end at `at`, the latest mark. Returns `false` when the LF
    /// has not arrived.
    #[inline(always)]
    fn end_at(&mut self, at: usize, byte: u8) -> Result<bool, BadLine> {
        match (byte, self.bytes.get(at + 1)) {
            (b'\r', Some(b'\n')) => {
                self.next_mark();
                self.start = at + 2;
                Ok(true)
            }
            (b'\r', None) => Ok(false),
            (b'\n', _) if self.manner == Strictness::Lenient => {
                self.start = at + 1;
                Ok(true)
            }
            (b'\n', _) => Err(BadLine::BareLf),
            _ => Err(BadLine::Control),
        }
    }

    /// Moves past the next mark and returns its place and its byte. `None` when the bytes hold no
    /// further mark.
    #[inline(always)]
    fn next_mark(&mut self) -> Option<(usize, u8)> {
        while self.marks == 0 {
            if self.bytes.len() - self.block <= BLOCK {
                return None;
            }
            self.block += BLOCK;
            self.marks = marks(self.bytes, self.block);
        }
        let at = self.block + self.marks.trailing_zeros() as usize;
        self.marks &= self.marks - 1;
        Some((at, self.bytes[at]))
    }
}

/// Returns the place from `start` to `end` without whitespace at both ends; whitespace of a folded
/// value includes line ends.
#[inline(always)]
fn trimmed(bytes: &[u8], start: usize, end: usize) -> (u32, u32) {
    // Nearly every value has one blank before it.
    let start = start + usize::from(bytes.get(start) == Some(&b' ') && start < end);
    match bytes[start..end] {
        [] | [0x21..=0xff] | [0x21..=0xff, .., 0x21..=0xff] => (start as u32, end as u32),
        _ => trimmed_further(bytes, start, end),
    }
}

fn trimmed_further(bytes: &[u8], start: usize, end: usize) -> (u32, u32) {
    let start = start + (end - start - bytes[start..end].trim_ascii_start().len());
    (start as u32, (start + bytes[start..end].trim_ascii_end().len()) as u32)
}

/// Returns `true` if the bytes hold an LF followed by an empty line, the end of every head.
pub(crate) fn holds_end(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'\n', rest) {
        rest = &rest[at + 1..];
        if rest.starts_with(b"\r\n") || rest.starts_with(b"\n") {
            return true;
        }
    }
    false
}
