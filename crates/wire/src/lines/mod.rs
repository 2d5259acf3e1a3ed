//! The lines of a head: where each one ends, and the parts of a field's.
//!
//! Control characters and colons are found 64 bytes at a time ([`marks`]); all else is to look at
//! those few places, at names, and at the ends of values. HTAB is no mark, since it may stand
//! wherever a blank may. Nothing is copied.

mod marks;
mod name;

#[cfg(test)]
mod tests;

use marks::{BLOCK, marks};
use name::is_name;
use shoal_core::FieldLine;

/// What is taken beside what the grammar allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Nothing. RFC 9112 section 2.2 lets a recipient take a bare LF for a line's end; a neighbour
    /// that does not would then see another message in the same bytes.
    Strict,
    /// What RFC 9112 lets a recipient of responses mend: a bare LF (2.2), whitespace before a colon
    /// (5.1), folded lines (5.2).
    Lenient,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// It ends in LF alone.
    BareLf,
    /// It has no name, or one that is no token.
    Name,
    /// It holds a control character, or CR alone.
    Control,
}

/// How far a field section could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionProgress {
    /// To its empty line.
    Whole {
        /// Where the bytes behind that begin.
        end: usize,
        /// Whether a value goes on over several lines, and holds their ends.
        is_folded: bool,
    },
    /// To the end of the bytes.
    Partial,
    /// To one field more than are wanted.
    TooMany,
}

/// The way through the lines of a head.
pub(crate) struct Lines<'b> {
    bytes: &'b [u8],
    manner: Strictness,
    /// Where the next line begins.
    start: usize,
    /// Where the block begins whose marks these are.
    block: usize,
    /// The marks of the block that lie ahead.
    marks: u64,
}

impl<'b> Lines<'b> {
    /// From the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'b [u8], manner: Strictness) -> Self {
        Self { bytes, manner, start: 0, block: 0, marks: marks(bytes, 0) }
    }

    /// The next line without its end; `None` while that has not come.
    #[inline]
    pub fn line(&mut self) -> Result<Option<&'b [u8]>, BadLine> {
        let start = self.start;
        Ok(self.end_of_line()?.map(|end| &self.bytes[start..end]))
    }

    /// The bytes from the next line on.
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

    /// Where the name ends that a colon follows at `colon`.
    #[inline]
    fn end_of_name(&self, start: usize, colon: usize) -> usize {
        match self.manner {
            Strictness::Strict => colon,
            Strictness::Lenient => start + self.bytes[start..colon].trim_ascii_end().len(),
        }
    }

    /// Goes to the next line and says where this one's text ends; `None` when that lies beyond the
    /// bytes.
    #[inline(always)]
    fn end_of_line(&mut self) -> Result<Option<usize>, BadLine> {
        loop {
            let Some((at, byte)) = self.next_mark() else { return Ok(None) };
            if byte != b':' {
                return Ok(self.end_at(at, byte)?.then_some(at));
            }
        }
    }

    /// Goes to the line behind the end at `at`, the mark that was come by last; false when its LF
    /// has not come.
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

    /// Goes by the next mark: its place, and which byte it is. `None` when there is none in the
    /// bytes.
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

/// The place from `start` to `end` without the whitespace at its ends; that of a folded value holds
/// ends of lines.
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

/// Whether the bytes hold an LF followed by an empty line, as every head does at its end.
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
