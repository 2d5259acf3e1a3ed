//! Input bytes of a script.

/// Bytes read from the start; reads past the end return nothing.
pub struct Input {
    data: Vec<u8>,
    at: usize,
}

impl Input {
    /// Starts at the first of these bytes.
    pub fn new(data: &[u8]) -> Self {
        Self { data: data.to_vec(), at: 0 }
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = self.data.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// Returns the next two bytes as a number.
    pub fn number(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes([self.byte()?, self.byte()?])))
    }

    /// Returns the next bytes; the first byte gives their number.
    pub fn some(&mut self) -> Vec<u8> {
        let count = self.byte().map_or(0, usize::from);
        let end = self.data.len().min(self.at + count);
        let some = self.data.get(self.at..end).unwrap_or_default().to_vec();
        self.at += count;
        some
    }
}
