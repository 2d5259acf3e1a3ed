//! One column of a group of rows, in memory.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Time,
    Text,
    Status,
    Bytes,
    Truth,
    /// Text that is always there.
    Url,
}

impl Kind {
    /// `Type`.
    pub(super) fn physical(self) -> i32 {
        match self {
            Self::Truth => 0,
            Self::Status => 1,
            Self::Time | Self::Bytes => 2,
            Self::Text | Self::Url => 6,
        }
    }

    /// `ConvertedType`: UTF8 and TIMESTAMP_MILLIS.
    pub(super) fn converted(self) -> Option<i32> {
        match self {
            Self::Text | Self::Url => Some(0),
            Self::Time => Some(9),
            _ => None,
        }
    }
}

/// Values gathered.
pub(super) struct Column {
    kind: Kind,
    /// A bit a row, whether it has a value, lowest bit first.
    present: Bits,
    values: Vec<u8>,
    truths: Bits,
}

impl Column {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, present: Bits::default(), values: Vec::new(), truths: Bits::default() }
    }

    pub(super) fn number(&mut self, number: Option<u64>) {
        self.present.push(number.is_some());
        let width = if self.kind == Kind::Status { 4 } else { 8 };
        if let Some(number) = number {
            self.values.extend_from_slice(&number.to_le_bytes()[..width]);
        }
    }

    pub(super) fn text(&mut self, text: Option<&str>) {
        self.present.push(text.is_some());
        if let Some(text) = text {
            self.values.extend_from_slice(&(text.len() as u32).to_le_bytes());
            self.values.extend_from_slice(text.as_bytes());
        }
    }

    pub(super) fn truth(&mut self, truth: Option<bool>) {
        self.present.push(truth.is_some());
        if let Some(truth) = truth {
            self.truths.push(truth);
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
        if self.kind != Kind::Url {
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
