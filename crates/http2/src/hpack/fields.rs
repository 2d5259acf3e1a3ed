//! Decoded fields of one block.

use std::ops::Range;

/// Names and values in one text, in their order. The list is reused for the next block, so that
/// reading it allocates nothing.
#[derive(Debug, Default)]
pub struct FieldList {
    text: Vec<u8>,
    fields: Vec<Span>,
    /// Size as RFC 9113 section 6.5.2 counts: names, values, and 32 bytes for each field.
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    name: u32,
    value: u32,
    end: u32,
}

impl FieldList {
    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.spans().map(|(name, value)| (&self.text[name], &self.text[value]))
    }

    /// Returns the places of names and values in [`text`](Self::text).
    pub fn spans(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        self.fields.iter().map(|field| {
            (field.name as usize..field.value as usize, field.value as usize..field.end as usize)
        })
    }

    /// Returns all names and values as one text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns `true` if the block held more than `size_max` bytes. The rest of it was not kept.
    pub fn is_too_large(&self) -> bool {
        self.size > self.size_max
    }

    /// Returns `true` if the block is too large to be a client's honest request. Reading a field
    /// costs its length, and one byte of the block may stand for thousands.
    pub fn is_absurd(&self) -> bool {
        self.size > self.size_max.max(ABSURD_SIZE_MIN).saturating_mul(ABSURD_SHARE)
    }

    /// Frees the memory that an unusually large block took.
    pub fn shrink(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.text.shrink_to(TEXT_BYTES_KEPT);
        self.fields.shrink_to(FIELDS_KEPT);
    }

    /// Begins a new block, of which at most `size_max` bytes are kept.
    pub fn begin(&mut self, size_max: usize) {
        self.text.clear();
        self.fields.clear();
        (self.size, self.size_max) = (0, size_max);
    }

    /// Returns the text, to which a decoder appends the next name and value.
    pub fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Adds the text from `name` on as a field; its value begins at `value`.
    pub fn push(&mut self, name: usize, value: usize) {
        debug_assert!(name <= value && value <= self.text.len());
        debug_assert!(self.fields.last().is_none_or(|last| last.end as usize <= name), "fields overlap");
        self.size += self.text.len() - name + FIELD_OVERHEAD;
        if self.size > self.size_max {
            self.text.truncate(name);
        } else {
            // The text is at most `size_max` bytes and one field long.
            let end = self.text.len() as u32;
            self.fields.push(Span { name: name as u32, value: value as u32, end });
            debug_assert!(self.text.len() + self.fields.len() * FIELD_OVERHEAD <= self.size_max);
        }
    }
}

/// Overhead of a field, the same in RFC 7541 section 4.1 and RFC 9113 section 6.5.2.
pub(super) const FIELD_OVERHEAD: usize = 32;

/// Multiple of the permitted size beyond which a block ends the connection. A smaller block that is
/// too large ends its stream.
const ABSURD_SHARE: usize = 8;
const ABSURD_SIZE_MIN: usize = 8192;

const TEXT_BYTES_KEPT: usize = 8192;

const FIELDS_KEPT: usize = 64;

const _: () = assert!(FIELD_OVERHEAD == 32 && ABSURD_SHARE > 1);
