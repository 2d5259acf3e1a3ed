//! Integers, strings and lines that HPACK and QPACK write and read alike (RFC 7541 section 5,
//! RFC 9204 section 4.1).

use super::huffman;

/// Appends an integer (RFC 7541 section 5.1) behind the bits of `first`.
#[inline]
pub fn push_integer(out: &mut Vec<u8>, prefix_bits: u32, first: u8, value: usize) {
    debug_assert!((1..=7).contains(&prefix_bits));
    let mask = (1 << prefix_bits) - 1;
    debug_assert_eq!(usize::from(first) & mask, 0, "the prefix is free");
    if value < mask {
        return out.push(first | value as u8);
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Calls `field` with name and value of each line in the form of HTTP/1 (`name: value CRLF`…).
/// Returns the number of bytes of names and values.
#[inline]
pub fn each_line<'l>(lines: &'l [u8], mut field: impl FnMut(&'l [u8], &'l [u8])) -> usize {
    let mut bytes = 0;
    let mut rest = lines;
    // No name holds a colon, and no value a line feed.
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(colon) = memchr::memchr(b':', line)
            && let Some(value) = line.get(colon + 2..end - 1)
        {
            field(&line[..colon], value);
            bytes += colon + value.len();
        }
    }
    bytes
}

/// Reader of a field block or section.
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next byte without reading it; `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads an integer (RFC 7541 section 5.1) after a prefix of `prefix_bits` bits. `None` for a
    /// number beyond any that a field section needs here.
    #[inline]
    pub fn integer(&mut self, prefix_bits: u32) -> Option<usize> {
        debug_assert!((1..=8).contains(&prefix_bits));
        let mask = (1 << prefix_bits) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Some(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = usize::from(self.byte()?);
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a string with a length of `prefix_bits` bits; the bit before them says that it is
    /// Huffman-coded (RFC 7541 section 5.2, RFC 9204 section 4.1.2).
    #[inline]
    pub fn string(&mut self, prefix_bits: u32, out: &mut Vec<u8>) -> Option<()> {
        let is_coded = self.peek()? & (1 << prefix_bits) != 0;
        let length = self.integer(prefix_bits)?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        if is_coded {
            return huffman::decode(text, out);
        }
        out.extend_from_slice(text);
        Some(())
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7541 appendix C.1.
    #[test]
    fn integers_of_the_rfc_are_written() {
        for (prefix_bits, value, expected) in
            [(5, 10, &b"\x0a"[..]), (5, 1337, b"\x1f\x9a\x0a"), (7, 127, b"\x7f\x00")]
        {
            let mut written = Vec::new();
            push_integer(&mut written, prefix_bits, 0, value);
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn string_with_any_prefix_is_read() {
        for (bytes, prefix_bits) in [(&b"\x03abc"[..], 7), (b"\x23abc", 3)] {
            let (mut reader, mut text) = (Reader::new(bytes), Vec::new());
            assert_eq!(reader.string(prefix_bits, &mut text), Some(()));
            assert_eq!((&text[..], reader.peek()), (&b"abc"[..], None));
        }
        assert_eq!(Reader::new(b"\x04abc").string(7, &mut Vec::new()), None);
    }

    #[test]
    fn malformed_lines_are_left_out() {
        let mut found = Vec::new();
        let bytes = each_line(b"a: b\r\nno colon\r\nc:\r\nd: \r\n", |name, value| found.push((name, value)));
        assert_eq!((found, bytes), (vec![(&b"a"[..], &b"b"[..]), (b"d", b"")], 3));
    }

    proptest! {
        #[test]
        fn integers_read_back(prefix_bits in 1_u32..=7, value in 0_usize..1 << 27) {
            let mut written = Vec::new();
            push_integer(&mut written, prefix_bits, 0, value);
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.integer(prefix_bits), Some(value));
            prop_assert_eq!(reader.peek(), None);
        }
    }
}
