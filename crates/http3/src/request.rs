//! The client's half of a request stream (RFC 9114 section 4.1): a head, data, perhaps trailers.
//!
//! ```text
//!   HEADERS  DATA*  HEADERS?      unknown frames in between are skipped
//! ```

use crate::ErrorCode;
use crate::frame::{FRAME_HEAD_BYTES_MAX, FrameHead, FrameKind};
use bytes::{Buf, Bytes};

/// Part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Field section of the head.
    Head(Bytes),
    /// Bytes of the body.
    Data(Bytes),
    /// Field section of the trailers.
    Trailers(Bytes),
}

/// Reason for reading no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The connection ends with this code.
    Connection(ErrorCode),
    /// The stream ends with this code.
    Stream(ErrorCode),
    /// A field section is larger than any that would be accepted.
    FieldsTooLarge,
}

/// Reader of one stream.
#[derive(Debug)]
pub struct RequestReader {
    /// Most bytes of an encoded field section.
    section_bytes_max: usize,
    expects: Expectation,
    place: Place,
    /// Beginning of a frame head or field section, until the rest arrives.
    gathered: Vec<u8>,
    /// Bytes of skipped frames, and a share for each frame that carries nothing.
    useless: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    Head,
    /// Data or trailers.
    Body,
    /// Unknown frames alone.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Within or before the head of a frame.
    FrameHead,
    /// Before the rest of a field section with this length.
    Section(usize),
    /// Before this many bytes of data.
    Data(u64),
    /// Before this many bytes to be skipped.
    Skipped(u64),
}

impl RequestReader {
    /// Creates the reader of a new stream. A head has at most `head_bytes_max` bytes. Its encoded
    /// form may be as large, and a larger one is not gathered.
    pub fn new(head_bytes_max: usize) -> Self {
        Self {
            section_bytes_max: head_bytes_max.saturating_mul(2),
            expects: Expectation::Head,
            place: Place::FrameHead,
            gathered: Vec::new(),
            useless: 0,
        }
    }

    /// Takes the next part off the front of `chunk`. Returns `None`, with the chunk used up, if the
    /// part has not arrived yet.
    pub fn take(&mut self, chunk: &mut Bytes) -> Result<Option<Part>, StreamFault> {
        loop {
            match self.place {
                Place::FrameHead => {
                    if !self.take_frame_head(chunk)? {
                        debug_assert!(chunk.is_empty());
                        return Ok(None);
                    }
                }
                Place::Section(length) => return Ok(self.take_section(length, chunk)),
                Place::Data(rest) => {
                    if chunk.is_empty() {
                        return Ok(None);
                    }
                    let data = split(chunk, rest);
                    self.go_on(rest - data.len() as u64, Place::Data);
                    return Ok(Some(Part::Data(data)));
                }
                Place::Skipped(rest) => {
                    if chunk.is_empty() {
                        return Ok(None);
                    }
                    let skipped = split(chunk, rest).len() as u64;
                    self.spend(skipped)?;
                    self.go_on(rest - skipped, Place::Skipped);
                }
            }
        }
    }

    /// Returns the length of the field section that has not arrived whole, if there is one.
    pub fn awaited_section(&self) -> Option<usize> {
        match self.place {
            Place::Section(length) => Some(length),
            _ => None,
        }
    }

    /// Ends the stream. RFC 9114 section 7.1: "When a stream terminates cleanly, if the last frame
    /// on the stream was truncated, this MUST be treated as a connection error of type
    /// H3_FRAME_ERROR"; section 4.1: a server that gets no whole request ends the stream with
    /// H3_REQUEST_INCOMPLETE.
    pub fn end(&self) -> Result<(), StreamFault> {
        if self.place != Place::FrameHead || !self.gathered.is_empty() {
            return Err(StreamFault::Connection(ErrorCode::FRAME_ERROR));
        }
        match self.expects {
            Expectation::Head => Err(StreamFault::Stream(ErrorCode::REQUEST_INCOMPLETE)),
            Expectation::Body | Expectation::Nothing => Ok(()),
        }
    }

    /// Reads a frame's head. Returns `false` if bytes of it are missing.
    fn take_frame_head(&mut self, chunk: &mut Bytes) -> Result<bool, StreamFault> {
        let head = if self.gathered.is_empty() {
            match FrameHead::read(chunk) {
                Some((head, bytes)) => {
                    chunk.advance(bytes);
                    Some(head)
                }
                None => None,
            }
        } else {
            None
        };
        let head = match head {
            Some(head) => head,
            None => {
                let before = self.gathered.len();
                let more = chunk.len().min(FRAME_HEAD_BYTES_MAX - before);
                self.gathered.extend_from_slice(&chunk[..more]);
                let Some((head, bytes)) = FrameHead::read(&self.gathered) else {
                    debug_assert!(self.gathered.len() < FRAME_HEAD_BYTES_MAX, "a head fits");
                    chunk.advance(more);
                    return Ok(false);
                };
                debug_assert!(bytes > before, "the head ends in this chunk");
                chunk.advance(bytes - before);
                self.gathered.clear();
                head
            }
        };
        self.begin(head)?;
        Ok(true)
    }

    fn begin(&mut self, head: FrameHead) -> Result<(), StreamFault> {
        const UNEXPECTED: StreamFault = StreamFault::Connection(ErrorCode::FRAME_UNEXPECTED);
        debug_assert!(self.gathered.is_empty() && self.place == Place::FrameHead);
        match (head.kind, self.expects) {
            (FrameKind::Headers, Expectation::Head | Expectation::Body) => {
                let length = usize::try_from(head.length).ok();
                let fits = length.filter(|length| *length <= self.section_bytes_max);
                self.place = Place::Section(fits.ok_or(StreamFault::FieldsTooLarge)?);
            }
            (FrameKind::Data, Expectation::Body) => {
                if head.length == 0 {
                    self.spend(EMPTY_FRAME_SHARE)?;
                }
                self.go_on(head.length, Place::Data);
            }
            (FrameKind::Unknown, _) => {
                self.spend(EMPTY_FRAME_SHARE)?;
                self.go_on(head.length, Place::Skipped);
            }
            _ => return Err(UNEXPECTED),
        }
        Ok(())
    }

    fn take_section(&mut self, length: usize, chunk: &mut Bytes) -> Option<Part> {
        let section = if self.gathered.is_empty() && chunk.len() >= length {
            chunk.split_to(length)
        } else {
            debug_assert!(self.gathered.len() <= length);
            let more = chunk.len().min(length - self.gathered.len());
            self.gathered.extend_from_slice(&chunk[..more]);
            chunk.advance(more);
            if self.gathered.len() < length {
                return None;
            }
            Bytes::from(std::mem::take(&mut self.gathered))
        };
        self.place = Place::FrameHead;
        if self.expects == Expectation::Head {
            self.expects = Expectation::Body;
            return Some(Part::Head(section));
        }
        self.expects = Expectation::Nothing;
        Some(Part::Trailers(section))
    }

    fn go_on(&mut self, rest: u64, place: impl FnOnce(u64) -> Place) {
        self.place = if rest == 0 { Place::FrameHead } else { place(rest) };
    }

    /// Counts bytes that bring nothing.
    fn spend(&mut self, bytes: u64) -> Result<(), StreamFault> {
        self.useless = self.useless.saturating_add(bytes);
        match self.useless <= USELESS_MAX {
            true => Ok(()),
            false => Err(StreamFault::Connection(ErrorCode::EXCESSIVE_LOAD)),
        }
    }
}

/// Splits at most `bytes` off the front of `chunk`.
fn split(chunk: &mut Bytes, bytes: u64) -> Bytes {
    let length = chunk.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
    chunk.split_to(length)
}

/// Most useless bytes of one stream.
const USELESS_MAX: u64 = 64 * 1024;

/// Useless bytes that a frame without a payload counts as.
const EMPTY_FRAME_SHARE: u64 = 64;

const _: () = assert!(EMPTY_FRAME_SHARE < USELESS_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;
    use proptest::prelude::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(&mut out, kind);
        varint::write(&mut out, payload.len() as u64);
        out.extend_from_slice(payload);
        out
    }

    /// Reads a stream that arrives in pieces of this size. Data is joined.
    fn read(stream: &[u8], piece: usize) -> (Vec<Part>, Result<(), StreamFault>) {
        let (mut reader, mut parts) = (RequestReader::new(50), Vec::new());
        for piece in stream.chunks(piece) {
            let mut chunk = Bytes::copy_from_slice(piece);
            loop {
                match (reader.take(&mut chunk), parts.last_mut()) {
                    (Ok(Some(Part::Data(more))), Some(Part::Data(data))) => {
                        *data = [&data[..], &more].concat().into();
                    }
                    (Ok(Some(part)), _) => parts.push(part),
                    (Ok(None), _) => break,
                    (Err(fault), _) => return (parts, Err(fault)),
                }
            }
            assert!(chunk.is_empty(), "all of the chunk is used");
        }
        (parts, reader.end())
    }

    #[test]
    fn parts_arrive_in_any_pieces() {
        let stream = [
            frame(0x21, b"grease"),
            frame(1, b"head"),
            frame(0, b"ab"),
            frame(0, b""),
            frame(0xf07, b"x"),
            frame(0, b"c"),
            frame(1, b"t"),
        ]
        .concat();
        let parts = vec![Part::Head("head".into()), Part::Data("abc".into()), Part::Trailers("t".into())];
        for piece in 1..=stream.len() {
            assert_eq!(read(&stream, piece), (parts.clone(), Ok(())), "pieces of {piece}");
        }
    }

    #[test]
    fn frames_out_of_place_end_the_connection() {
        let unexpected = Err(StreamFault::Connection(ErrorCode::FRAME_UNEXPECTED));
        let head = frame(1, b"h");
        for (what, stream) in [
            ("data before the head", frame(0, b"x")),
            ("settings", [&head[..], &frame(4, b"")].concat()),
            ("GOAWAY", [&head[..], &frame(7, b"\0")].concat()),
            ("a push", [&head[..], &frame(5, b"\0")].concat()),
            ("MAX_PUSH_ID", frame(0xd, b"\0")),
            ("PING of HTTP/2", frame(6, b"12345678")),
            ("a third section", [&head[..], &head, &head].concat()),
            ("data after trailers", [&head[..], &head, &frame(0, b"x")].concat()),
        ] {
            assert_eq!(read(&stream, 9).1, unexpected, "{what}");
        }
    }

    #[test]
    fn early_ends_are_faults() {
        let cut = Err(StreamFault::Connection(ErrorCode::FRAME_ERROR));
        let head = frame(1, b"head");
        let data = [&head[..], &frame(0, b"data")].concat();
        for (what, stream, expected) in [
            ("nothing", &b""[..], Err(StreamFault::Stream(ErrorCode::REQUEST_INCOMPLETE))),
            ("half a frame head", b"\x01", cut),
            ("half a section", &head[..4], cut),
            ("half of the data", &data[..data.len() - 1], cut),
            ("a whole request", &data, Ok(())),
        ] {
            assert_eq!(read(stream, 1).1, expected, "{what}");
        }
    }

    #[test]
    fn useless_and_huge_frames_have_limits() {
        let (head, load) = (frame(1, b"h"), Err(StreamFault::Connection(ErrorCode::EXCESSIVE_LOAD)));
        for (what, useless) in [
            ("empty data", frame(0, b"").repeat(1025)),
            ("unknown frames", frame(0x21, b"").repeat(1025)),
            ("a long unknown frame", frame(0x21, &[0; 66_000])),
        ] {
            assert_eq!(read(&[&head[..], &useless].concat(), 1000).1, load, "{what}");
        }
        assert_eq!(read(&frame(1, &[0; 101]), 50).1, Err(StreamFault::FieldsTooLarge));
        assert_eq!(read(&frame(1, &[0; 100]), 50).1, Ok(()));
    }

    proptest! {
        /// Pieces make no difference to any stream.
        #[test]
        fn any_stream_reads_the_same_in_pieces(stream in prop::collection::vec(0u8..8, 0..60), piece in 1usize..9) {
            let (whole, end) = read(&stream, usize::MAX);
            let (pieces, end_of_pieces) = read(&stream, piece);
            prop_assert_eq!(end, end_of_pieces);
            if end.is_ok() {
                prop_assert_eq!(whole, pieces);
            }
        }
    }
}
