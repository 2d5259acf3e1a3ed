//! One column of a group of rows, in memory.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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
    /// True or false.
    Truth,
}

impl Kind {
    /// `Type`.
    pub(super) fn physical(self) -> i32 {
        match self {
            Self::Truth => 0,
            Self::Int32 => 1,
            Self::Time | Self::Int64 => 2,
            Self::Double => 5,
            Self::Text => 6,
        }
    }

    /// `ConvertedType`: UTF8 and TIMESTAMP_MILLIS.
    pub(super) fn converted(self) -> Option<i32> {
        match self {
            Self::Text => Some(0),
            Self::Time => Some(9),
            _ => None,
        }
    }
}

/// Values gathered. A value of another kind than the column's counts as none, and a required column
/// that took none has an empty one.
pub struct Column {
    kind: Kind,
    required: bool,
    /// A bit a row, whether it has a value, lowest bit first.
    present: Bits,
    values: Vec<u8>,
    truths: Bits,
}

impl Column {
    pub(super) fn new(kind: Kind, required: bool) -> Self {
        Self { kind, required, present: Bits::default(), values: Vec::new(), truths: Bits::default() }
    }

    /// The next row's number, clipped to what the column holds.
    pub fn number(&mut self, number: Option<u64>) {
        let number = number.filter(|_| matches!(self.kind, Kind::Time | Kind::Int32 | Kind::Int64));
        self.mark(number.is_some());
        match (number, self.kind) {
            (Some(number), Kind::Int32) => {
                let number = number.min(i32::MAX as u64) as u32;
                self.values.extend_from_slice(&number.to_le_bytes());
            }
            (Some(number), _) => self.values.extend_from_slice(&number.min(i64::MAX as u64).to_le_bytes()),
            (None, _) => {}
        }
    }

    /// The next row's floating point number.
    pub fn double(&mut self, number: Option<f64>) {
        let number = number.filter(|_| self.kind == Kind::Double);
        self.mark(number.is_some());
        if let Some(number) = number {
            self.values.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// The next row's text.
    pub fn text(&mut self, text: Option<&str>) {
        let text = text.filter(|_| self.kind == Kind::Text);
        self.mark(text.is_some());
        if let Some(text) = text {
            self.values.extend_from_slice(&(text.len() as u32).to_le_bytes());
            self.values.extend_from_slice(text.as_bytes());
        }
    }

    /// Whether the next row is true.
    pub fn truth(&mut self, truth: Option<bool>) {
        let truth = truth.filter(|_| self.kind == Kind::Truth);
        self.mark(truth.is_some());
        if let Some(truth) = truth {
            self.truths.push(truth);
        }
    }

    /// Notes whether the next row has a value; a required column without one waits for
    /// [`Column::fill`].
    fn mark(&mut self, present: bool) {
        if present || !self.required {
            self.present.push(present);
        }
    }

    /// Rows that took no value, up to so many, have none; in a required column they have an empty
    /// one.
    pub(super) fn fill(&mut self, rows: usize) {
        while self.present.count < rows {
            match (self.required, self.kind) {
                (false, _) => self.present.push(false),
                (true, Kind::Text) => self.text(Some("")),
                (true, Kind::Truth) => self.truth(Some(false)),
                (true, Kind::Double) => self.double(Some(0.0)),
                (true, _) => self.number(Some(0)),
            }
        }
    }

    /// Whether a page would become larger than readers like.
    pub(super) fn is_full(&self) -> bool {
        self.values.len() > PAGE_BYTES
    }

    /// The page of what was gathered, not compressed; the column is empty then.
    pub(super) fn take_page(&mut self) -> Vec<u8> {
        let mut page = Vec::new();
        let present = std::mem::take(&mut self.present);
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

/// A number, seven bits a byte, lowest first.
pub(super) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7F {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Values of a column's page.
const PAGE_BYTES: usize = 32 << 20;
