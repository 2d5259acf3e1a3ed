//! One column of a group of rows, in memory.

/// Type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Milliseconds since 1970.
    Time,
    /// UTF-8.
    Text,
    /// Whole numbers of 32 bits.
    Int32,
    /// Whole numbers of 64 bits.
    Int64,
    /// Floating point of 64 bits.
    Double,
    /// Boolean.
    Truth,
}

impl ColumnKind {
    /// Returns the number of Parquet's `Type`.
    pub(super) fn physical(self) -> i32 {
        match self {
            Self::Truth => 0,
            Self::Int32 => 1,
            Self::Time | Self::Int64 => 2,
            Self::Double => 5,
            Self::Text => 6,
        }
    }

    /// Returns the number of Parquet's `ConvertedType`: UTF8 and TIMESTAMP_MILLIS.
    pub(super) fn converted(self) -> Option<i32> {
        match self {
            Self::Text => Some(0),
            Self::Time => Some(9),
            _ => None,
        }
    }
}

/// Gathered values. A value of another kind than the column's counts as none. A required column
/// gets an empty value for a row without one.
pub struct Column {
    kind: ColumnKind,
    required: bool,
    /// One bit a row, lowest bit first: set if the row has a value.
    present: Bits,
    values: Vec<u8>,
    truths: Bits,
}

impl Column {
    pub(super) fn new(kind: ColumnKind, required: bool) -> Self {
        Self { kind, required, present: Bits::default(), values: Vec::new(), truths: Bits::default() }
    }

    /// Sets the next row's number, clipped to the column's range.
    pub fn number(&mut self, number: Option<u64>) {
        let number =
            number.filter(|_| matches!(self.kind, ColumnKind::Time | ColumnKind::Int32 | ColumnKind::Int64));
        self.mark(number.is_some());
        match (number, self.kind) {
            (Some(number), ColumnKind::Int32) => {
                let number = number.min(i32::MAX as u64) as u32;
                self.values.extend_from_slice(&number.to_le_bytes());
            }
            (Some(number), _) => self.values.extend_from_slice(&number.min(i64::MAX as u64).to_le_bytes()),
            (None, _) => {}
        }
    }

    /// Sets the next row's floating point number.
    pub fn double(&mut self, number: Option<f64>) {
        let number = number.filter(|_| self.kind == ColumnKind::Double);
        self.mark(number.is_some());
        if let Some(number) = number {
            self.values.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Sets the next row's text.
    pub fn text(&mut self, text: Option<&str>) {
        let text = text.filter(|_| self.kind == ColumnKind::Text);
        self.mark(text.is_some());
        if let Some(text) = text {
            self.values.extend_from_slice(&(text.len() as u32).to_le_bytes());
            self.values.extend_from_slice(text.as_bytes());
        }
    }

    /// Sets the next row's boolean.
    pub fn truth(&mut self, truth: Option<bool>) {
        let truth = truth.filter(|_| self.kind == ColumnKind::Truth);
        self.mark(truth.is_some());
        if let Some(truth) = truth {
            self.truths.push(truth);
        }
    }

    /// Records whether the next row has a value. A required column without a value waits for
    /// [`Column::fill`].
    fn mark(&mut self, present: bool) {
        if present || !self.required {
            self.present.push(present);
        }
    }

    /// Fills the column up to `rows` rows. The new rows have no value, or an empty one in a
    /// required column.
    pub(super) fn fill(&mut self, rows: usize) {
        while self.present.count < rows {
            match (self.required, self.kind) {
                (false, _) => self.present.push(false),
                (true, ColumnKind::Text) => self.text(Some("")),
                (true, ColumnKind::Truth) => self.truth(Some(false)),
                (true, ColumnKind::Double) => self.double(Some(0.0)),
                (true, _) => self.number(Some(0)),
            }
        }
        debug_assert!(!self.required || self.present.all_set(), "a required column has all values");
    }

    /// Returns `true` if the values exceed a page of the size that readers expect.
    pub(super) fn is_full(&self) -> bool {
        self.values.len() > PAGE_BYTES
    }

    /// Returns the page of the gathered values, uncompressed, and empties the column.
    pub(super) fn take_page(&mut self) -> Vec<u8> {
        let mut page = Vec::new();
        let present = std::mem::take(&mut self.present);
        assert_eq!(present.bytes.len(), present.count.div_ceil(8), "a bit for each row");
        if !self.required {
            // One bit-packed run of groups of eight.
            let mut levels = varint((present.bytes.len() as u64) << 1 | 1);
            levels.extend_from_slice(&present.bytes);
            page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            page.extend_from_slice(&levels);
        }
        page.append(&mut self.values);
        page.append(&mut std::mem::take(&mut self.truths).bytes);
        page
    }
}

/// Bits, lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    /// Returns `true` if each bit is set.
    fn all_set(&self) -> bool {
        let set: u32 = self.bytes.iter().map(|byte| byte.count_ones()).sum();
        set as usize == self.count
    }

    fn push(&mut self, bit: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.count % 8);
        }
        self.count += 1;
    }
}

/// Encodes a number with seven bits a byte, lowest first.
pub(super) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7F {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Bytes of values in a column's page.
const PAGE_BYTES: usize = 32 << 20;
