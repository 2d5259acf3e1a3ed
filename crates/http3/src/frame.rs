//! Frames (RFC 9114 section 7): a type, a length, and the payload.

use crate::varint;

/// Type of a frame, as far as this side tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A part of a body.
    Data,
    /// A field section.
    Headers,
    /// Settings of the connection.
    Settings,
    /// A push is not wanted.
    CancelPush,
    /// The client takes no more pushes.
    GoAway,
    /// Pushes that the client takes.
    MaxPushId,
    /// A frame of servers alone, or with a number that HTTP/2 uses otherwise: "These frame types
    /// MUST NOT be sent, and their receipt MUST be treated as a connection error of type
    /// H3_FRAME_UNEXPECTED" (section 7.2.8).
    Forbidden,
    /// An unknown frame, which is skipped: "Implementations MUST ignore unknown or unsupported
    /// values in all extensible protocol elements" (section 9).
    Unknown,
}

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub kind: FrameKind,
    /// Bytes of the payload.
    pub length: u64,
}

impl FrameHead {
    /// Reads the head at the front of `bytes`. Returns the head and its length; `None` if bytes are
    /// missing.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (kind, first) = varint::read(bytes)?;
        let (length, second) = varint::read(&bytes[first..])?;
        Some((Self { kind: FrameKind::of(kind), length }, first + second))
    }
}

impl FrameKind {
    fn of(number: u64) -> Self {
        match number {
            0x0 => Self::Data,
            0x1 => Self::Headers,
            0x3 => Self::CancelPush,
            0x4 => Self::Settings,
            0x7 => Self::GoAway,
            0xd => Self::MaxPushId,
            0x2 | 0x5 | 0x6 | 0x8 | 0x9 => Self::Forbidden,
            _ => Self::Unknown,
        }
    }
}

/// Appends the head of a DATA frame with a payload of `length` bytes.
pub fn data_head(out: &mut Vec<u8>, length: u64) {
    varint::write(out, 0x0);
    varint::write(out, length);
}

/// Puts a HEADERS frame's head in front of a field section: the first [`FRAME_HEAD_BYTES_MAX`]
/// bytes of `block` are room for it. Returns the offset at which the frame begins.
pub fn headers(block: &mut [u8]) -> usize {
    debug_assert!(block.len() >= FRAME_HEAD_BYTES_MAX, "room in front of the section");
    let mut head = Vec::with_capacity(FRAME_HEAD_BYTES_MAX);
    varint::write(&mut head, 0x1);
    varint::write(&mut head, (block.len() - FRAME_HEAD_BYTES_MAX) as u64);
    let start = FRAME_HEAD_BYTES_MAX - head.len();
    block[start..FRAME_HEAD_BYTES_MAX].copy_from_slice(&head);
    start
}

/// Returns the first bytes of this side's control stream: its type, and the settings. QPACK's
/// defaults are no table and no waiting streams; extended CONNECT and datagrams are off.
pub fn control_stream(field_bytes_max: usize) -> Vec<u8> {
    let mut settings = Vec::new();
    varint::write(&mut settings, SETTING_FIELD_SECTION_MAX);
    varint::write(&mut settings, field_bytes_max as u64);
    let mut out = vec![STREAM_CONTROL];
    varint::write(&mut out, 0x4);
    varint::write(&mut out, settings.len() as u64);
    out.extend_from_slice(&settings);
    out
}

/// Returns a GOAWAY frame: requests on streams from `stream` on are not processed.
pub fn goaway(stream: u64) -> Vec<u8> {
    let mut id = Vec::new();
    varint::write(&mut id, stream);
    let mut out = Vec::new();
    varint::write(&mut out, 0x7);
    varint::write(&mut out, id.len() as u64);
    out.extend_from_slice(&id);
    out
}

/// Most bytes of a head: two integers.
pub const FRAME_HEAD_BYTES_MAX: usize = 2 * varint::BYTES_MAX;

/// Type of a control stream.
pub(crate) const STREAM_CONTROL: u8 = 0x0;

/// Number of the setting that limits field sections.
const SETTING_FIELD_SECTION_MAX: u64 = 0x6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_written() {
        let mut data = Vec::new();
        data_head(&mut data, 8192);
        assert_eq!(data, b"\0\x60\0");
        assert_eq!(FrameHead::read(&data), Some((FrameHead { kind: FrameKind::Data, length: 8192 }, 3)));
        assert_eq!(FrameHead::read(&data[..2]), None);
        let mut block = vec![0; FRAME_HEAD_BYTES_MAX];
        block.extend_from_slice(&[7; 100]);
        let start = headers(&mut block);
        assert_eq!(
            FrameHead::read(&block[start..]),
            Some((FrameHead { kind: FrameKind::Headers, length: 100 }, 3))
        );
        assert_eq!(block[start + 3..], [7; 100]);
        assert_eq!(goaway(8), b"\x07\x01\x08");
        assert_eq!(control_stream(65_536), b"\0\x04\x05\x06\x80\x01\0\0");
    }

    #[test]
    fn types_of_http2_and_of_servers_are_forbidden() {
        for (number, kind) in [
            (0x2, FrameKind::Forbidden),
            (0x5, FrameKind::Forbidden),
            (0x6, FrameKind::Forbidden),
            (0x8, FrameKind::Forbidden),
            (0x9, FrameKind::Forbidden),
            (0x21, FrameKind::Unknown),
            (0xf0700, FrameKind::Unknown),
        ] {
            assert_eq!(FrameKind::of(number), kind, "{number:#x}");
        }
    }
}
