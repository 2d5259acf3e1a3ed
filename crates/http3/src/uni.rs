//! Streams that a client opens in one direction (RFC 9114 section 6.2): its control stream, and the
//! two of QPACK.
//!
//! ```text
//!   control   SETTINGS, then frames that ask nothing of this side
//!   encoder   may set a table of no size          decoder   may cancel streams
//! ```

use crate::ErrorCode;
use crate::frame::{FRAME_HEAD_BYTES_MAX, FrameHead, FrameKind, STREAM_CONTROL};
use crate::varint;

/// Kinds of streams that a client has opened, each once.
#[derive(Debug, Default)]
pub struct UniStreams {
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
}

/// Reader of one stream.
#[derive(Debug, Default)]
pub struct UniReader {
    kind: Option<UniKind>,
    /// Bytes that are no whole element yet.
    gathered: Vec<u8>,
    /// Bytes still to be skipped.
    skipped: u64,
    has_settings: bool,
    max_push: Option<u64>,
    goaway: Option<u64>,
    /// Bytes after the settings.
    further: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UniKind {
    Control,
    Encoder,
    Decoder,
    /// A kind that this side does not know: "Recipients of unknown stream types MUST either abort
    /// reading of the stream or discard incoming data without further processing".
    Unknown,
}

impl UniReader {
    /// Reads the next bytes. Returns `false` if the stream is of no interest.
    pub fn take(&mut self, bytes: &[u8], streams: &mut UniStreams) -> Result<bool, ErrorCode> {
        self.gathered.extend_from_slice(bytes);
        let kind = match self.kind {
            Some(kind) => kind,
            None => {
                let Some((number, length)) = varint::read(&self.gathered) else { return Ok(true) };
                self.gathered.drain(..length);
                *self.kind.insert(streams.open(number)?)
            }
        };
        match kind {
            UniKind::Control => self.control()?,
            UniKind::Encoder => self.encoder()?,
            UniKind::Decoder => self.decoder()?,
            UniKind::Unknown => return Ok(false),
        }
        debug_assert!(self.gathered.len() <= SETTINGS_BYTES_MAX + FRAME_HEAD_BYTES_MAX);
        Ok(true)
    }

    /// Ends the stream. Section 6.2.1: "If either control stream is closed at any point, this MUST
    /// be treated as a connection error of type H3_CLOSED_CRITICAL_STREAM"; so it is for those of
    /// QPACK (RFC 9204 section 4.2).
    pub fn end(&self) -> Result<(), ErrorCode> {
        match self.kind {
            None | Some(UniKind::Unknown) => Ok(()),
            Some(_) => Err(ErrorCode::CLOSED_CRITICAL_STREAM),
        }
    }

    fn control(&mut self) -> Result<(), ErrorCode> {
        loop {
            let ahead = self.gathered.len().min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.gathered.drain(..ahead);
            self.skipped -= ahead as u64;
            if self.skipped > 0 {
                return Ok(());
            }
            let Some((head, bytes)) = FrameHead::read(&self.gathered) else { return Ok(()) };
            if !self.has_settings && head.kind != FrameKind::Settings {
                return Err(ErrorCode::MISSING_SETTINGS);
            }
            match head.kind {
                FrameKind::Unknown => {
                    self.spend(head.length.saturating_add(bytes as u64))?;
                    self.gathered.drain(..bytes);
                    self.skipped = head.length;
                    continue;
                }
                FrameKind::Data | FrameKind::Headers | FrameKind::Forbidden => {
                    return Err(ErrorCode::FRAME_UNEXPECTED);
                }
                FrameKind::Settings if self.has_settings => return Err(ErrorCode::FRAME_UNEXPECTED),
                FrameKind::Settings => {}
                FrameKind::GoAway | FrameKind::MaxPushId | FrameKind::CancelPush => {
                    if head.length > varint::BYTES_MAX as u64 {
                        return Err(ErrorCode::FRAME_ERROR);
                    }
                }
            }
            let length = usize::try_from(head.length).unwrap_or(usize::MAX);
            if length > SETTINGS_BYTES_MAX {
                return Err(ErrorCode::EXCESSIVE_LOAD);
            }
            let Some(payload) = self.gathered.get(bytes..bytes + length) else { return Ok(()) };
            let payload = payload.to_vec();
            self.gathered.drain(..bytes + length);
            self.frame(head.kind, &payload)?;
        }
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), ErrorCode> {
        if kind == FrameKind::Settings {
            self.has_settings = true;
            return check_settings(payload);
        }
        self.spend(payload.len() as u64 + 2)?;
        let whole = |(number, length): (u64, usize)| (length == payload.len()).then_some(number);
        let number = varint::read(payload).and_then(whole).ok_or(ErrorCode::FRAME_ERROR)?;
        match kind {
            // "A MAX_PUSH_ID frame cannot reduce the maximum push ID" (section 7.2.7).
            FrameKind::MaxPushId if self.max_push.is_some_and(|before| number < before) => {
                Err(ErrorCode::ID_ERROR)
            }
            FrameKind::MaxPushId => {
                self.max_push = Some(number);
                Ok(())
            }
            // Numbers fall, if there are several (section 5.2).
            FrameKind::GoAway if self.goaway.is_some_and(|before| number > before) => {
                Err(ErrorCode::ID_ERROR)
            }
            FrameKind::GoAway => {
                self.goaway = Some(number);
                Ok(())
            }
            // There never was a push to cancel.
            _ => Err(ErrorCode::ID_ERROR),
        }
    }

    /// Section 3.2.3 of RFC 9204: with a table of no size, the client "MUST NOT send any encoder
    /// instructions" but one that sets the size to 0.
    fn encoder(&mut self) -> Result<(), ErrorCode> {
        self.spend(self.gathered.len() as u64)?;
        match self.gathered.iter().all(|byte| *byte == 0x20) {
            true => self.gathered.clear(),
            false => return Err(ErrorCode::ENCODER_STREAM_ERROR),
        }
        Ok(())
    }

    /// This side inserts nothing, so nothing can be acknowledged. The cancellation of a stream is
    /// allowed (RFC 9204 section 4.4.2) and means nothing.
    fn decoder(&mut self) -> Result<(), ErrorCode> {
        self.spend(self.gathered.len() as u64)?;
        let mut done = 0;
        while let Some(&first) = self.gathered.get(done) {
            if first & 0xc0 != 0x40 {
                return Err(ErrorCode::DECODER_STREAM_ERROR);
            }
            let rest = &self.gathered[done + 1..];
            let length = if first & 0x3f < 0x3f {
                0
            } else {
                match rest.iter().position(|byte| byte & 0x80 == 0) {
                    Some(last) => last + 1,
                    None if rest.len() < INTEGER_BYTES_MAX => break,
                    None => return Err(ErrorCode::DECODER_STREAM_ERROR),
                }
            };
            done += 1 + length;
        }
        self.gathered.drain(..done);
        Ok(())
    }

    /// Counts bytes that bring nothing.
    fn spend(&mut self, bytes: u64) -> Result<(), ErrorCode> {
        self.further = self.further.saturating_add(bytes);
        match self.further <= FURTHER_BYTES_MAX {
            true => Ok(()),
            false => Err(ErrorCode::EXCESSIVE_LOAD),
        }
    }
}

impl UniStreams {
    /// Returns the kind of a stream that begins with `number`.
    fn open(&mut self, number: u64) -> Result<UniKind, ErrorCode> {
        const CONTROL: u64 = STREAM_CONTROL as u64;
        let (opened, kind) = match number {
            CONTROL => (&mut self.has_control, UniKind::Control),
            // Only servers push.
            0x1 => return Err(ErrorCode::STREAM_CREATION_ERROR),
            0x2 => (&mut self.has_encoder, UniKind::Encoder),
            0x3 => (&mut self.has_decoder, UniKind::Decoder),
            _ => return Ok(UniKind::Unknown),
        };
        match std::mem::replace(opened, true) {
            false => Ok(kind),
            true => Err(ErrorCode::STREAM_CREATION_ERROR),
        }
    }
}

/// Checks settings (section 7.2.4): each once, and none of HTTP/2. Their values ask nothing of this
/// side: it uses no table, and sends small heads.
fn check_settings(payload: &[u8]) -> Result<(), ErrorCode> {
    let (mut rest, mut seen) = (payload, Vec::new());
    while !rest.is_empty() {
        let (number, first) = varint::read(rest).ok_or(ErrorCode::FRAME_ERROR)?;
        let (value, second) = varint::read(&rest[first..]).ok_or(ErrorCode::FRAME_ERROR)?;
        rest = &rest[first + second..];
        // Extended CONNECT and datagrams are switches (RFC 9220 section 3, RFC 9297 section 2.1.1).
        let is_bad_switch = matches!(number, 0x8 | 0x33) && value > 1;
        if matches!(number, 0x0 | 0x2..=0x5) || seen.contains(&number) || is_bad_switch {
            return Err(ErrorCode::SETTINGS_ERROR);
        }
        seen.push(number);
        if seen.len() > SETTINGS_MAX {
            return Err(ErrorCode::EXCESSIVE_LOAD);
        }
    }
    Ok(())
}

/// Most bytes of a SETTINGS frame.
const SETTINGS_BYTES_MAX: usize = 1024;

/// Most settings in it.
const SETTINGS_MAX: usize = 64;

/// Most bytes of a connection's other frames and instructions: priorities of 2,000 requests.
const FURTHER_BYTES_MAX: u64 = 64 * 1024;

/// Most bytes of an integer after its prefix.
const INTEGER_BYTES_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8]) -> Result<bool, ErrorCode> {
        let whole = UniReader::default().take(stream, &mut UniStreams::default());
        let (mut reader, mut streams) = (UniReader::default(), UniStreams::default());
        let bytes = stream.chunks(1).try_fold(true, |_, byte| reader.take(byte, &mut streams));
        assert_eq!(whole, bytes, "{stream:?}");
        whole
    }

    #[test]
    fn control_streams_are_read() {
        for (what, stream, expected) in [
            ("empty settings", &b"\0\x04\0"[..], Ok(true)),
            (
                "settings, grease, a priority",
                b"\0\x04\x05\x01\x40\x64\x07\x08\x21\x01x\x80\x0f\x07\0\x02\0u",
                Ok(true),
            ),
            ("GOAWAY", b"\0\x04\0\x07\x01\x08\x07\x01\x04", Ok(true)),
            ("a rising GOAWAY", b"\0\x04\0\x07\x01\x04\x07\x01\x08", Err(ErrorCode::ID_ERROR)),
            ("pushes", b"\0\x04\0\x0d\x01\x04\x0d\x01\x08", Ok(true)),
            ("fewer pushes", b"\0\x04\0\x0d\x01\x08\x0d\x01\x04", Err(ErrorCode::ID_ERROR)),
            ("the end of a push that was none", b"\0\x04\0\x03\x01\0", Err(ErrorCode::ID_ERROR)),
            ("a number with bytes behind it", b"\0\x04\0\x07\x02\0\0", Err(ErrorCode::FRAME_ERROR)),
            ("an endless number", b"\0\x04\0\x07\x09", Err(ErrorCode::FRAME_ERROR)),
            ("no settings", b"\0\x21\0", Err(ErrorCode::MISSING_SETTINGS)),
            ("settings twice", b"\0\x04\0\x04\0", Err(ErrorCode::FRAME_UNEXPECTED)),
            ("a request", b"\0\x04\0\x01\0", Err(ErrorCode::FRAME_UNEXPECTED)),
            ("a setting of HTTP/2", b"\0\x04\x02\x03\x01", Err(ErrorCode::SETTINGS_ERROR)),
            ("a setting twice", b"\0\x04\x04\x06\x01\x06\x01", Err(ErrorCode::SETTINGS_ERROR)),
            ("a switch of 2", b"\0\x04\x02\x08\x02", Err(ErrorCode::SETTINGS_ERROR)),
            ("half a setting", b"\0\x04\x01\x06", Err(ErrorCode::FRAME_ERROR)),
            ("large settings", b"\0\x04\x44\x01", Err(ErrorCode::EXCESSIVE_LOAD)),
            ("a large unknown frame", b"\0\x04\0\x21\x80\x01\0\x01", Err(ErrorCode::EXCESSIVE_LOAD)),
        ] {
            assert_eq!(read(stream), expected, "{what}");
        }
    }

    #[test]
    fn streams_of_qpack_may_do_nothing() {
        for (what, stream, expected) in [
            ("no table", &b"\x02\x20"[..], Ok(true)),
            ("a table", b"\x02\x3f\xe1\x1f", Err(ErrorCode::ENCODER_STREAM_ERROR)),
            ("an entry", b"\x02\xc0\x01x", Err(ErrorCode::ENCODER_STREAM_ERROR)),
            ("a stream cancelled", b"\x03\x44\x7f\x80\x01\x44", Ok(true)),
            ("an acknowledgement", b"\x03\x84", Err(ErrorCode::DECODER_STREAM_ERROR)),
            (
                "an endless number",
                b"\x03\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                Err(ErrorCode::DECODER_STREAM_ERROR),
            ),
            ("a push", b"\x01", Err(ErrorCode::STREAM_CREATION_ERROR)),
            ("an unknown stream", b"\x21abc", Ok(false)),
        ] {
            assert_eq!(read(stream), expected, "{what}");
        }
    }

    #[test]
    fn critical_streams_stay_open_and_single() {
        for number in [0, 2, 3] {
            let mut streams = UniStreams::default();
            let mut first = UniReader::default();
            assert_eq!(first.take(&[number], &mut streams), Ok(true));
            assert_eq!(first.end(), Err(ErrorCode::CLOSED_CRITICAL_STREAM));
            let second = UniReader::default().take(&[number], &mut streams);
            assert_eq!(second, Err(ErrorCode::STREAM_CREATION_ERROR));
        }
        assert_eq!(UniReader::default().end(), Ok(()));
    }
}
