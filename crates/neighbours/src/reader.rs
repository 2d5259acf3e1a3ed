//! Reading of numbers and counted strings in network order.

/// Reader over the bytes of one message. Each step returns `None` beyond the end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Takes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    /// Takes a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Takes a string after its length of two bytes (HTCP's COUNTSTR).
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.u16()?;
        self.take(usize::from(count))
    }

    /// Returns `true` at the end.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
