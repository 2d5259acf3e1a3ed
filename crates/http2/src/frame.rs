//! Frames (RFC 9113 sections 4.1 and 6).
//!
//! ```text
//!   length (24) │ type (8) │ flags (8) │ R (1), stream (31) │ payload
//! ```

use super::code::{ErrorCode, FrameError};

/// First bytes of a connection (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame before its payload.
pub const FRAME_HEAD_BYTES: usize = 9;

/// Largest payload of a frame in bytes, unless its receiver has allowed more. This side allows no
/// more (SETTINGS_MAX_FRAME_SIZE).
pub const FRAME_BYTES_MAX: usize = 16_384;

/// Initial size of a window in bytes, before any setting.
pub const WINDOW_INITIAL: u32 = 65_535;

/// Largest window: "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets" (section
/// 6.9.1).
pub const WINDOW_MAX: i64 = 0x7fff_ffff;

/// Flag of DATA and HEADERS: the last frame of its stream.
pub const END_STREAM: u8 = 0x1;

/// Flag of HEADERS and CONTINUATION: the field block ends here.
pub const END_HEADERS: u8 = 0x4;

/// Flag of SETTINGS and PING: the frame is an answer.
pub const ACK: u8 = 0x1;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// First nine bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of payload.
    pub length: usize,
    /// Number of the frame's type.
    pub kind: u8,
    /// Flags of the frame.
    pub flags: u8,
    /// Stream; 0 for the connection.
    pub stream: u32,
}

/// Types of the frames that this side writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// DATA.
    Data = 0,
    /// HEADERS.
    Headers = 1,
    /// RST_STREAM.
    Reset = 3,
    /// SETTINGS.
    Settings = 4,
    /// PING.
    Ping = 6,
    /// GOAWAY.
    GoAway = 7,
    /// WINDOW_UPDATE.
    WindowUpdate = 8,
    /// CONTINUATION.
    Continuation = 9,
}

impl FrameHead {
    /// Reads the head at the front of `bytes`, if all of it has arrived.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let &[l2, l1, l0, kind, flags, s3, s2, s1, s0] = bytes.first_chunk::<FRAME_HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, l2, l1, l0]) as usize;
        let stream = u32::from_be_bytes([s3, s2, s1, s0]) & 0x7fff_ffff;
        debug_assert!(length < 1 << 24);
        debug_assert!(i64::from(stream) <= WINDOW_MAX);
        Some(Self { length, kind, flags, stream })
    }

    /// Makes the head of a frame to be written.
    pub fn of(kind: FrameKind, flags: u8, stream: u32, length: usize) -> Self {
        Self { length, kind: kind as u8, flags, stream }
    }

    /// Returns the head as bytes.
    pub fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        debug_assert!(self.length < 1 << 24, "a length of 24 bits");
        let [_, l2, l1, l0] = (self.length as u32).to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'b> {
    /// Piece of a body.
    Data {
        /// Stream of the piece.
        stream: u32,
        /// Bytes without padding.
        data: &'b [u8],
        /// `true` if this is the last frame of the stream.
        end: bool,
    },
    /// Field block, or its beginning.
    Headers {
        /// Stream of the block.
        stream: u32,
        /// Field block.
        block: &'b [u8],
        /// `true` if the stream ends with this frame.
        end_stream: bool,
        /// `true` if the block ends with this frame.
        end_headers: bool,
    },
    /// Further part of a field block.
    Continuation {
        /// Stream of the block.
        stream: u32,
        /// Part of the block.
        block: &'b [u8],
        /// `true` if the block ends with this frame.
        end_headers: bool,
    },
    /// End of a stream.
    Reset {
        /// The stream.
        stream: u32,
    },
    /// Settings, for [`PeerSettings::read`].
    Settings(&'b [u8]),
    /// The client applies this side's settings from here on.
    SettingsAck,
    /// Ping, to be answered with the same bytes.
    Ping([u8; 8]),
    /// Answer to this side's ping.
    Pong([u8; 8]),
    /// Room for more bytes in a window.
    WindowUpdate {
        /// Stream; 0 for the connection.
        stream: u32,
        /// Number of bytes added to the window.
        increment: u32,
    },
    /// GOAWAY, PRIORITY and unknown types: "Implementations MUST ignore and discard frames of
    /// unknown types" (section 5.5).
    Ignored,
}

impl<'b> Frame<'b> {
    /// Reads a frame. Its `payload` has the length that the head gives.
    pub fn read(head: FrameHead, payload: &'b [u8]) -> Result<Self, FrameError> {
        debug_assert_eq!(payload.len(), head.length, "a payload of another frame");
        let FrameHead { stream, .. } = head;
        let on_stream = |expected: bool| match (stream != 0) == expected {
            true => Ok(()),
            false => Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)),
        };
        let ack = head.has(ACK);
        match head.kind {
            0 => {
                on_stream(true)?;
                Ok(Self::Data { stream, data: unpadded(head, payload)?, end: head.has(END_STREAM) })
            }
            1 => {
                on_stream(true)?;
                let mut block = unpadded(head, payload)?;
                if head.has(PRIORITY) {
                    block = block.get(5..).ok_or(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR))?;
                }
                let (end_stream, end_headers) = (head.has(END_STREAM), head.has(END_HEADERS));
                Ok(Self::Headers { stream, block, end_stream, end_headers })
            }
            2 => {
                on_stream(true)?;
                match payload.len() {
                    5 => Ok(Self::Ignored),
                    _ => Err(FrameError::stream(stream, ErrorCode::FRAME_SIZE_ERROR)),
                }
            }
            3 => {
                on_stream(true)?;
                sized::<4>(payload)?;
                Ok(Self::Reset { stream })
            }
            4 => {
                on_stream(false)?;
                match (ack, payload.len()) {
                    (true, 0) => Ok(Self::SettingsAck),
                    (false, length) if length % SETTING_BYTES == 0 => Ok(Self::Settings(payload)),
                    _ => Err(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR)),
                }
            }
            // "A client cannot push" (section 8.4).
            5 => Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)),
            6 => {
                on_stream(false)?;
                let bytes = sized::<8>(payload)?;
                Ok(if ack { Self::Pong(bytes) } else { Self::Ping(bytes) })
            }
            7 => {
                on_stream(false)?;
                Ok(Self::Ignored)
            }
            8 => match (u32::from_be_bytes(sized::<4>(payload)?) & 0x7fff_ffff, stream) {
                (0, 0) => Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)),
                (0, stream) => Err(FrameError::stream(stream, ErrorCode::PROTOCOL_ERROR)),
                (increment, stream) => Ok(Self::WindowUpdate { stream, increment }),
            },
            9 => {
                on_stream(true)?;
                Ok(Self::Continuation { stream, block: payload, end_headers: head.has(END_HEADERS) })
            }
            _ => Ok(Self::Ignored),
        }
    }
}

fn sized<const N: usize>(payload: &[u8]) -> Result<[u8; N], FrameError> {
    payload.try_into().map_err(|_| FrameError::connection(ErrorCode::FRAME_SIZE_ERROR))
}

/// Returns the payload without padding. "Padding that exceeds the size remaining for the field
/// block fragment MUST be treated as a PROTOCOL_ERROR", of the connection (sections 6.1 and 6.2).
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], FrameError> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) =
        payload.split_first().ok_or(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR))?;
    let length = rest.len().checked_sub(usize::from(padding));
    length.map(|length| &rest[..length]).ok_or(FrameError::connection(ErrorCode::PROTOCOL_ERROR))
}

/// Client's settings that matter to a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// Initial window of a stream, if set.
    pub initial_window: Option<u32>,
    /// Largest payload that the client accepts, if set.
    pub frame_bytes_max: Option<usize>,
}

impl PeerSettings {
    /// Reads a SETTINGS payload; the last value of a setting counts. Values of other settings are
    /// checked and ignored.
    pub fn read(payload: &[u8]) -> Result<Self, FrameError> {
        let mut settings = Self::default();
        for setting in payload.chunks_exact(SETTING_BYTES) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match (id, value) {
                (4, 0x8000_0000..) => return Err(FrameError::connection(ErrorCode::FLOW_CONTROL_ERROR)),
                (4, window) => settings.initial_window = Some(window),
                (5, 16_384..=16_777_215) => settings.frame_bytes_max = Some(value as usize),
                (2, 2..) | (5, _) => return Err(FrameError::connection(ErrorCode::PROTOCOL_ERROR)),
                _ => {}
            }
        }
        debug_assert!(settings.initial_window.is_none_or(|window| i64::from(window) <= WINDOW_MAX));
        debug_assert!(settings.frame_bytes_max.is_none_or(|bytes| bytes >= FRAME_BYTES_MAX));
        Ok(settings)
    }
}

const SETTING_BYTES: usize = 6;

/// Settings that this side announces to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Setting {
    /// Streams that the client may have open at once.
    StreamsMax = 3,
    /// Initial window of the client's streams.
    InitialWindow = 4,
    /// Bytes of a request's fields, each counted with 32 bytes more.
    FieldBytesMax = 6,
}

/// Appends SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(Setting, u32)]) {
    let length = settings.len() * SETTING_BYTES;
    assert!(length <= FRAME_BYTES_MAX);
    let before = out.len();
    out.extend_from_slice(&FrameHead::of(FrameKind::Settings, 0, 0, length).to_bytes());
    for (setting, value) in settings {
        out.extend_from_slice(&(*setting as u16).to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    debug_assert_eq!(out.len() - before, FRAME_HEAD_BYTES + length);
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHead::of(FrameKind::Settings, ACK, 0, 0).to_bytes());
}

/// Appends PING, or the answer to one.
pub fn write_ping(out: &mut Vec<u8>, bytes: [u8; 8], is_answer: bool) {
    let flags = if is_answer { ACK } else { 0 };
    out.extend_from_slice(&FrameHead::of(FrameKind::Ping, flags, 0, 8).to_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends GOAWAY: streams beyond `last` were not processed.
pub fn write_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    out.extend_from_slice(&FrameHead::of(FrameKind::GoAway, 0, 0, 8).to_bytes());
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    out.extend_from_slice(&FrameHead::of(FrameKind::Reset, 0, stream, 4).to_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE for a stream, or with 0 for the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    out.extend_from_slice(&FrameHead::of(FrameKind::WindowUpdate, 0, stream, 4).to_bytes());
    out.extend_from_slice(&increment.to_be_bytes());
}

const _: () = {
    assert!(FRAME_HEAD_BYTES == 3 + 1 + 1 + 4);
    assert!(PREFACE.len() == 24);
    assert!(SETTING_BYTES == 2 + 4);
    assert!(WINDOW_MAX == i32::MAX as i64);
    assert!((WINDOW_INITIAL as i64) <= WINDOW_MAX);
    assert!(FRAME_BYTES_MAX < 1 << 24);
    // Flags of one frame are told apart.
    assert!(END_STREAM & END_HEADERS == 0 && (END_STREAM | END_HEADERS) & (PADDED | PRIORITY) == 0);
    assert!(PADDED & PRIORITY == 0);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
        let head = FrameHead::read(bytes).expect("nine bytes");
        assert_eq!((head.length, head.to_bytes().as_slice()), (bytes.len() - 9, &bytes[..9]));
        Frame::read(head, &bytes[9..])
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let head = FrameHead { length: payload.len(), kind, flags, stream };
        [&head.to_bytes()[..], payload].concat()
    }

    #[test]
    fn frames_are_read() {
        let data = |data, end| Ok(Frame::Data { stream: 3, data, end });
        assert_eq!(read(&frame(0, 0, 3, b"abc")), data(b"abc", false));
        assert_eq!(read(&frame(0, END_STREAM | PADDED, 3, b"\x02abc..")), data(b"abc", true));
        assert_eq!(read(&frame(0, PADDED, 3, b"\x00")), data(b"", false));
        let padded = frame(1, END_HEADERS | PADDED | PRIORITY, 3, b"\x01\0\0\0\0\x10block.");
        let block = &b"block"[..];
        let headers = Frame::Headers { stream: 3, block, end_stream: false, end_headers: true };
        assert_eq!(read(&padded), Ok(headers));
        assert_eq!(read(&frame(2, 0, 3, b"\0\0\0\0\0")), Ok(Frame::Ignored));
        assert_eq!(read(&frame(3, 0, 3, b"\0\0\0\x08")), Ok(Frame::Reset { stream: 3 }));
        assert_eq!(
            read(&frame(9, 0, 3, block)),
            Ok(Frame::Continuation { stream: 3, block, end_headers: false })
        );
        assert_eq!(
            read(&frame(8, 0, 0, b"\x80\0\0\x05")),
            Ok(Frame::WindowUpdate { stream: 0, increment: 5 })
        );
        assert_eq!(read(&frame(200, 255, 3, b"any")), Ok(Frame::Ignored));
    }

    #[test]
    fn faults_are_found() {
        let (protocol, size) = (ErrorCode::PROTOCOL_ERROR, ErrorCode::FRAME_SIZE_ERROR);
        let of_connection: [(u8, u8, u32, &[u8], ErrorCode); 16] = [
            (0, 0, 0, b"x", protocol),
            (0, PADDED, 1, b"", size),
            (0, PADDED, 1, b"\x03ab", protocol),
            (1, 0, 0, b"x", protocol),
            (1, PRIORITY, 1, b"\0\0\0\0", size),
            (3, 0, 0, b"\0\0\0\0", protocol),
            (3, 0, 1, b"\0\0\0", size),
            (4, 0, 1, b"", protocol),
            (4, 0, 0, b"\0", size),
            (4, ACK, 0, b"\0\0\0\0\0\0", size),
            (5, 0, 1, b"\0\0\0\x02", protocol),
            (6, 0, 1, b"12345678", protocol),
            (6, 0, 0, b"1234567", size),
            (8, 0, 1, b"\0\0\0", size),
            (8, 0, 0, b"\0\0\0\0", protocol),
            (9, 0, 0, b"", protocol),
        ];
        for (kind, flags, stream, payload, code) in of_connection {
            let read = read(&frame(kind, flags, stream, payload)).map(|_| ());
            assert_eq!(read, Err(FrameError::connection(code)), "{kind} {flags} {stream} {payload:?}");
        }
        assert_eq!(read(&frame(2, 0, 1, b"\0")).map(|_| ()), Err(FrameError::stream(1, size)));
        assert_eq!(read(&frame(8, 0, 1, b"\0\0\0\0")).map(|_| ()), Err(FrameError::stream(1, protocol)));
    }

    #[test]
    fn written_frames_read_back() {
        let mut out = Vec::new();
        write_ping(&mut out, *b"pingpong", false);
        assert_eq!(read(&out), Ok(Frame::Ping(*b"pingpong")));
        out.clear();
        write_ping(&mut out, *b"pingpong", true);
        assert_eq!(read(&out), Ok(Frame::Pong(*b"pingpong")));
        out.clear();
        write_settings_ack(&mut out);
        assert_eq!(read(&out), Ok(Frame::SettingsAck));
        out.clear();
        write_window_update(&mut out, 7, 9);
        assert_eq!(read(&out), Ok(Frame::WindowUpdate { stream: 7, increment: 9 }));
        out.clear();
        write_reset(&mut out, 7, ErrorCode::CANCEL);
        assert_eq!(read(&out), Ok(Frame::Reset { stream: 7 }));
        out.clear();
        write_goaway(&mut out, 7, ErrorCode::NO_ERROR);
        assert_eq!(read(&out), Ok(Frame::Ignored));
        out.clear();
        write_settings(&mut out, &[(Setting::StreamsMax, 100), (Setting::InitialWindow, 70_000)]);
        let Ok(Frame::Settings(payload)) = read(&out) else { panic!("{out:?}") };
        let expected = PeerSettings { initial_window: Some(70_000), frame_bytes_max: None };
        assert_eq!(PeerSettings::read(payload), Ok(expected));
    }

    #[test]
    fn settings_out_of_bounds_are_faults() {
        let read = |id: u16, value: u32| {
            let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
            PeerSettings::read(&payload)
        };
        let fault = |code| Err(FrameError::connection(code));
        assert_eq!(read(2, 2), fault(ErrorCode::PROTOCOL_ERROR));
        assert_eq!(read(4, 1 << 31), fault(ErrorCode::FLOW_CONTROL_ERROR));
        assert_eq!(read(5, 16_383), fault(ErrorCode::PROTOCOL_ERROR));
        assert_eq!(read(5, 1 << 24), fault(ErrorCode::PROTOCOL_ERROR));
        assert_eq!(read(5, 1 << 20).map(|settings| settings.frame_bytes_max), Ok(Some(1 << 20)));
        for (id, value) in [(1, 0), (2, 1), (99, 7)] {
            assert_eq!(read(id, value), Ok(PeerSettings::default()));
        }
    }
}
