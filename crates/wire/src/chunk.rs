//! Chunked transfer coding (RFC 9112 section 7.1), read and written, strictly.
//!
//! ```text
//!   size [;extensions] CRLF  data CRLF   …   0 [;extensions] CRLF  trailers CRLF
//! ```
//!
//! Sizes are bare hexadecimal digits, and every line ends in exactly CRLF. Extensions are skipped.
//! Extensions and size lines together must stay in proportion to the data. Otherwise a peer could
//! make the node read gigabytes for a few bytes of body.

use crate::BODY_BYTES_MAX;
use crate::body::{BodyEvent, MalformedBody};
use crate::lines::{BadLine, Lines, SectionProgress, Strictness};
use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use shoal_core::FieldLine;

/// Decoder of one chunked body, piece by piece.
#[derive(Debug)]
pub struct ChunkDecoder {
    state: State,
    /// Framing bytes beyond the number that the data so far justifies.
    excess: u64,
    /// `true` if whitespace may follow a size without an extension.
    takes_padding: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the digits of a size, `digits` of them so far.
    Size { size: u64, digits: u8 },
    /// In whitespace before an extension, which must follow.
    BeforeExtension { size: u64 },
    /// In an extension.
    Extension { size: u64 },
    /// After the CR of a size line.
    SizeLineFeed { size: u64 },
    /// In the data.
    Data { remaining: u64 },
    /// After the data, before its CR.
    DataReturn,
    /// After the data's CR.
    DataLineFeed,
    /// After the last chunk.
    Trailers,
    /// After the empty line.
    End,
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkDecoder {
    /// Makes a decoder at the start of a body.
    pub fn new() -> Self {
        Self { state: START, excess: 0, takes_padding: false }
    }

    /// Makes a decoder for a response's body: some old origins pad its sizes with spaces. A request
    /// with such padding is refused.
    pub fn of_response() -> Self {
        Self { takes_padding: true, ..Self::new() }
    }

    /// Takes the next piece off `buffer`: data, or the end with its trailers. Returns
    /// [`BodyEvent::NeedMore`] until more bytes have arrived.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<BodyEvent, MalformedBody> {
        loop {
            match self.state {
                State::Data { remaining } => return Ok(self.data(remaining, buffer)),
                State::Trailers => return self.trailers(buffer),
                State::End => return Ok(BodyEvent::End(None)),
                _ if buffer.is_empty() => return Ok(BodyEvent::NeedMore),
                _ => self.state = self.framing_byte(buffer.get_u8())?,
            }
        }
    }

    /// Returns `true` if the body was read to its end.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::End)
    }

    fn data(&mut self, remaining: u64, buffer: &mut BytesMut) -> BodyEvent {
        if buffer.is_empty() {
            return BodyEvent::NeedMore;
        }
        debug_assert!(remaining > 0, "a chunk of no bytes is the last");
        let count = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
        let remaining = remaining - count as u64;
        self.excess = self.excess.saturating_sub(count as u64);
        self.state = if remaining == 0 { State::DataReturn } else { State::Data { remaining } };
        BodyEvent::Data(buffer.split_to(count).freeze())
    }

    /// Returns the state after one byte of the framing.
    fn framing_byte(&mut self, byte: u8) -> Result<State, MalformedBody> {
        self.excess += 1;
        if self.excess > EXCESS_BYTES_MAX {
            return Err(MalformedBody("chunk framing out of proportion to its data"));
        }
        match self.state {
            State::Size { size, digits } => size_byte(size, digits, byte),
            State::BeforeExtension { size } => match byte {
                b' ' | b'\t' => Ok(State::BeforeExtension { size }),
                b';' => Ok(State::Extension { size }),
                b'\r' if self.takes_padding => Ok(State::SizeLineFeed { size }),
                _ => Err(MalformedBody("invalid chunk size")),
            },
            State::Extension { size } => match byte {
                b'\r' => Ok(State::SizeLineFeed { size }),
                b'\t' | b' '..=b'~' | 0x80.. => Ok(State::Extension { size }),
                _ => Err(MalformedBody("invalid chunk extension")),
            },
            State::SizeLineFeed { size: 0 } if byte == b'\n' => Ok(State::Trailers),
            State::SizeLineFeed { size } if byte == b'\n' => Ok(State::Data { remaining: size }),
            State::DataReturn if byte == b'\r' => Ok(State::DataLineFeed),
            State::DataLineFeed if byte == b'\n' => {
                self.excess = self.excess.saturating_sub(CHUNK_ALLOWANCE);
                Ok(START)
            }
            _ => Err(MalformedBody("chunk not ended by CRLF")),
        }
    }

    /// Reads the trailer section once it is whole.
    fn trailers(&mut self, buffer: &mut BytesMut) -> Result<BodyEvent, MalformedBody> {
        if buffer.starts_with(b"\r\n") {
            buffer.advance(2);
            self.state = State::End;
            return Ok(BodyEvent::End(None));
        }
        let mut fields = Vec::new();
        match Lines::new(buffer, Strictness::Strict).fields(TRAILERS_MAX, &mut fields) {
            Ok(SectionProgress::Whole { end, .. }) if end <= TRAILER_BYTES_MAX => {
                let trailers = read_trailers(&buffer[..end], &fields)?;
                buffer.advance(end);
                self.state = State::End;
                Ok(BodyEvent::End(Some(trailers).filter(|trailers| !trailers.is_empty())))
            }
            Ok(SectionProgress::Partial) if buffer.len() < TRAILER_BYTES_MAX => Ok(BodyEvent::NeedMore),
            Ok(_) => Err(MalformedBody("trailers too large")),
            Err(BadLine::BareLf) => Err(MalformedBody("trailer line not ended by CRLF")),
            Err(BadLine::Name | BadLine::Control) => Err(INVALID_TRAILERS),
        }
    }
}

/// Reads one byte of a size line. RFC 9112 section 7.1: "recipients MUST anticipate potentially
/// large hexadecimal numerals and prevent parsing errors due to integer conversion overflows".
fn size_byte(size: u64, digits: u8, byte: u8) -> Result<State, MalformedBody> {
    debug_assert!(size <= BODY_BYTES_MAX | 0xf);
    debug_assert!(digits <= SIZE_DIGITS_MAX);
    match (byte as char).to_digit(16) {
        Some(_) if digits == SIZE_DIGITS_MAX => Err(MalformedBody("chunk size too large")),
        Some(_) if size > BODY_BYTES_MAX >> 4 => Err(MalformedBody("chunk size too large")),
        Some(digit) => Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }),
        None if digits == 0 => Err(MalformedBody("invalid chunk size")),
        None => match byte {
            b'\r' => Ok(State::SizeLineFeed { size }),
            b';' => Ok(State::Extension { size }),
            // RFC 9112 section 7.1.1: chunk-ext = *( BWS ";" BWS chunk-ext-name …
            b' ' | b'\t' => Ok(State::BeforeExtension { size }),
            _ => Err(MalformedBody("invalid chunk size")),
        },
    }
}

fn read_trailers(section: &[u8], fields: &[FieldLine]) -> Result<HeaderMap, MalformedBody> {
    let mut trailers = HeaderMap::new();
    for field in fields {
        let name = HeaderName::from_bytes(&section[field.name()]);
        let value = HeaderValue::from_bytes(&section[field.value()]);
        let (Ok(name), Ok(value)) = (name, value) else { return Err(INVALID_TRAILERS) };
        if may_trail(&name) {
            trailers.append(name, value);
        }
    }
    Ok(trailers)
}

/// Returns `true` if a field may stand in a trailer section.
///
/// RFC 9110 section 6.5.1: "Many fields cannot be processed outside the header section because
/// their evaluation is necessary prior to receiving the content, such as those that describe
/// message framing, routing, authentication, request modifiers, response controls, or content
/// format." Such trailers are dropped.
pub fn may_trail(name: &HeaderName) -> bool {
    !FORBIDDEN_TRAILERS.contains(&name.as_str())
}

/// Appends the line that opens a chunk of `length` bytes; the data and [`CRLF`] follow. `length`
/// must not be 0, which would end the body; [`last`] writes the end.
pub fn size_line(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4);
    debug_assert!(digits <= u32::from(SIZE_DIGITS_MAX), "a size that we would not read");
    for position in (0..digits).rev() {
        let nibble = (length >> (position * 4)) & 0xf;
        out.push(b"0123456789abcdef"[nibble]);
    }
    out.extend_from_slice(CRLF);
}

/// Appends the end of a chunked body: the last chunk, the permitted trailers, and an empty line.
pub fn last(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| may_trail(name)) {
        crate::response::field(out, name.as_str(), value.as_bytes());
    }
    out.extend_from_slice(CRLF);
}

/// End of a line, and of a chunk's data.
pub const CRLF: &[u8] = b"\r\n";

const START: State = State::Size { size: 0, digits: 0 };

/// Number of hexadecimal digits of 2^64 − 1.
const SIZE_DIGITS_MAX: u8 = 16;

/// Framing bytes that each chunk may use freely: a size line and the two line ends.
const CHUNK_ALLOWANCE: u64 = 24;

/// Largest number of framing bytes beyond the data and the allowance.
const EXCESS_BYTES_MAX: u64 = 16 * 1024;

const INVALID_TRAILERS: MalformedBody = MalformedBody("invalid trailers");

/// Largest size of a trailer section in bytes.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// Largest number of fields in a trailer section.
const TRAILERS_MAX: usize = 32;

const FORBIDDEN_TRAILERS: &[&str] = &[
    "accept-ranges",
    "age",
    "authorization",
    "cache-control",
    "cdn-cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "www-authenticate",
];

#[cfg(test)]
mod tests;

const _: () = {
    // The digits that may come hold each size that is taken.
    assert!(SIZE_DIGITS_MAX as u32 * 4 >= u64::BITS - BODY_BYTES_MAX.leading_zeros());
    assert!(CHUNK_ALLOWANCE < EXCESS_BYTES_MAX);
};
