//! Writer of protobuf messages: varints, lengths, and nested messages.

/// Message that is being written.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Returns the bytes written.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes an integer or an enum; the default 0 is left out.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, VARINT);
            varint(&mut self.0, value);
        }
    }

    /// Writes an integer that is 0 and yet told.
    pub(super) fn zero(&mut self, field: u32) {
        self.tag(field, VARINT);
        self.0.push(0);
    }

    /// Writes a `fixed64` or `sfixed64`, also if it is 0: members of a `oneof` are told apart by
    /// their presence.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a `fixed32`.
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes bytes or a string.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, LENGTH);
        varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Writes a nested message.
    pub(super) fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        debug_assert!(field > 0);
        varint(&mut self.0, u64::from(field << 3 | wire_type));
    }
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the encoding's documentation.
    #[test]
    fn messages_are_written_as_documented() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.nested(3, |inner| inner.number(1, 150));
        message.number(9, 0);
        message.fixed32(4, 1);
        message.fixed64(16, 2);
        let expected = [
            &[0x08, 0x96, 0x01, 0x12, 0x07][..],
            b"testing",
            &[0x1a, 0x03, 0x08, 0x96, 0x01, 0x25, 1, 0, 0, 0, 0x81, 0x01, 2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(message.into_bytes(), expected.concat());
    }
}
