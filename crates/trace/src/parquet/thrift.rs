//! Thrift's compact protocol, the encoding of Parquet's heads and footer.
//!
//! A field is its value after a byte of (step from the last field's number, type). Numbers are
//! zigzag varints. A zero byte ends a struct.

use super::column::varint;

/// Writer of one struct and the structs within it.
#[derive(Default)]
pub(super) struct Compact {
    bytes: Vec<u8>,
    last: i16,
    /// Last field numbers of the enclosing structs.
    around: Vec<i16>,
}

impl Compact {
    pub(super) fn i32(&mut self, field: i16, number: i32) {
        self.field(field, I32);
        self.zigzag(number.into());
    }

    pub(super) fn i64(&mut self, field: i16, number: i64) {
        self.field(field, I64);
        self.zigzag(number);
    }

    pub(super) fn string(&mut self, field: i16, text: &str) {
        self.field(field, BINARY);
        self.text(text);
    }

    pub(super) fn list_of_i32(&mut self, field: i16, numbers: &[i32]) {
        self.list(field, I32, numbers.len());
        numbers.iter().for_each(|number| self.zigzag((*number).into()));
    }

    pub(super) fn list_of_strings(&mut self, field: i16, texts: &[&str]) {
        self.list(field, BINARY, texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    /// Writes the head of a list. Each element follows between [`Compact::begin_element`] and
    /// [`Compact::end_struct`].
    pub(super) fn list_of_structs(&mut self, field: i16, length: usize) {
        self.list(field, STRUCT, length);
    }

    pub(super) fn begin_struct(&mut self, field: i16) {
        self.field(field, STRUCT);
        self.begin_element();
    }

    pub(super) fn begin_element(&mut self) {
        self.around.push(std::mem::take(&mut self.last));
    }

    pub(super) fn end_struct(&mut self) {
        self.bytes.push(0);
        self.last = self.around.pop().unwrap_or_default();
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn field(&mut self, field: i16, kind: u8) {
        let step = field - self.last;
        debug_assert!((1..=15).contains(&step), "fields are written in order");
        self.bytes.push((step as u8) << 4 | kind);
        self.last = field;
    }

    fn list(&mut self, field: i16, kind: u8, length: usize) {
        self.field(field, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xF0 | kind);
            self.bytes.extend(varint(length as u64));
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend(varint(text.len() as u64));
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn zigzag(&mut self, number: i64) {
        self.bytes.extend(varint((number << 1 ^ number >> 63) as u64));
    }
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;
