//! The fields of one block, decoded.

use std::ops::Range;

/// Names and values one behind the other in one text, in their order; kept from block to block, so
/// that reading one more allocates nothing.
#[derive(Debug, Default)]
pub struct FieldList {
    text: Vec<u8>,
    fields: Vec<Span>,
    /// Bytes as RFC 9113 section 6.5.2 counts them: names, values, and 32 for each field.
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
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.spans().map(|(name, value)| (&self.text[name], &self.text[value]))
    }

    /// Where they stand in [`text`](Self::text).
    pub fn spans(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        self.fields.iter().map(|field| {
            (field.name as usize..field.value as usize, field.value as usize..field.end as usize)
        })
    }

    /// All names and values.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether the block held more than was allowed. The rest of it was not kept.
    pub fn is_too_large(&self) -> bool {
        self.size > self.size_max
    }

    /// Whether it held so much more that it cannot be what a client means. Each field that is read
    /// costs its length, of which a byte of the block may stand for thousands.
    pub(super) fn is_absurd(&self) -> bool {
        self.size > self.size_max.max(ABSURD_SIZE_MIN).saturating_mul(ABSURD_SHARE)
    }

    /// Gives back what an unusually large block made of it.
    pub fn shrink(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.text.shrink_to(TEXT_BYTES_KEPT);
        self.fields.shrink_to(FIELDS_KEPT);
    }

    pub(super) fn begin(&mut self, size_max: usize) {
        self.text.clear();
        self.fields.clear();
        (self.size, self.size_max) = (0, size_max);
    }

    pub(super) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Takes the text from `name` on as a field whose value begins at `value`.
    pub(super) fn push(&mut self, name: usize, value: usize) {
        debug_assert!(name <= value && value <= self.text.len());
        debug_assert!(self.fields.last().is_none_or(|last| last.end as usize <= name), "fields overlap");
        self.size += self.text.len() - name + FIELD_OVERHEAD;
        if self.size > self.size_max {
            self.text.truncate(name);
        } else {
            // The text has no more bytes than `size_max`, and one field's more.
            let end = self.text.len() as u32;
            self.fields.push(Span { name: name as u32, value: value as u32, end });
            debug_assert!(self.text.len() + self.fields.len() * FIELD_OVERHEAD <= self.size_max);
        }
    }
}

/// RFC 7541 section 4.1, and RFC 9113 section 6.5.2 alike.
pub(super) const FIELD_OVERHEAD: usize = 32;

/// Blocks of so many times what is allowed end the connection; smaller ones that are too large end
/// their stream.
const ABSURD_SHARE: usize = 8;
const ABSURD_SIZE_MIN: usize = 8192;

const TEXT_BYTES_KEPT: usize = 8192;

const FIELDS_KEPT: usize = 64;

const _: () = assert!(FIELD_OVERHEAD == 32 && ABSURD_SHARE > 1);
