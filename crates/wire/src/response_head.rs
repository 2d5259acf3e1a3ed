//! Parser of response heads from origins: from bytes to a head, an error, or a request for more
//! bytes.
//!
//! The parser is more tolerant than for requests, as RFC 9112 allows or demands of a proxy.
//! Whitespace before a colon is removed (5.1), folded lines are joined (5.2), a bare LF ends a line
//! (2.2). The caller judges the framing, since it depends on the request. The fields stay in the
//! read buffer: nothing is copied, and no field map is made ([`FieldLines`]).
//!
//! Cost: one pass over the head ([`crate::lines`]), and one over its names.

use crate::lines::{BadLine, Lines, SectionProgress, Strictness, holds_end};
use bytes::BytesMut;
use http::{HeaderValue, StatusCode, Version};
use shoal_core::{FieldLine, FieldLines, Fields};

/// Response head as received: interim or final.
#[derive(Debug)]
pub struct ResponseHead {
    /// Status, from 100 to 999.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub fields: FieldLines,
}

/// Error for bytes that are no response head. The connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// The bytes are invalid.
    Malformed(&'static str),
    /// The head has too many bytes, or more than [`RESPONSE_FIELDS_MAX`] fields.
    TooLarge,
}

/// Parser of the response heads of one connection.
#[derive(Debug, Default)]
pub struct ResponseHeadParser {
    /// Size of the buffer from which the head is tokenized again, so that a head that trickles in
    /// costs linear time.
    attempt_at: usize,
    /// Bytes of the buffer that are known to hold no end of a head.
    searched: usize,
}

impl ResponseHeadParser {
    /// Takes one head off the front of `buffer`; `None` while the head is incomplete. Call it again
    /// with more bytes appended.
    pub fn parse(
        &mut self,
        buffer: &mut BytesMut,
        head_bytes_max: usize,
    ) -> Result<Option<ResponseHead>, BadHead> {
        if buffer.is_empty() {
            return Ok(None);
        }
        debug_assert!(self.searched <= buffer.len(), "a buffer that became shorter");
        let is_due = buffer.len() >= self.attempt_at || holds_end(&buffer[self.searched..]);
        if is_due {
            if let Some(lines) = tokenize(buffer, head_bytes_max)? {
                *self = Self::default();
                debug_assert!(lines.head_bytes <= head_bytes_max);
                let head = buffer.split_to(lines.head_bytes);
                return build(lines, head).map(Some);
            }
            self.attempt_at = buffer.len() * 2;
        }
        self.searched = buffer.len().saturating_sub(2);
        if buffer.len() >= head_bytes_max { Err(BadHead::TooLarge) } else { Ok(None) }
    }
}

struct ResponseTokens {
    status: u16,
    version: Version,
    head_bytes: usize,
    fields: Vec<FieldLine>,
    /// `true` if a value continues over several lines.
    is_folded: bool,
}

/// Finds the parts of the head at the front of `buffer`. `None` when the head is incomplete.
fn tokenize(buffer: &[u8], head_bytes_max: usize) -> Result<Option<ResponseTokens>, BadHead> {
    let mut lines = Lines::new(buffer, Strictness::Lenient);
    let line = loop {
        match lines.line().map_err(|_| INVALID_STATUS)? {
            // Some origins send a needless empty line after a body.
            Some([]) => {}
            Some(line) => break line,
            None if may_begin_a_head(lines.ahead()) => return Ok(None),
            None => return Err(NO_VERSION),
        }
    };
    let (version, status) = status_line(line)?;
    let mut fields = Vec::with_capacity(FIELDS_EXPECTED);
    match lines.fields(RESPONSE_FIELDS_MAX, &mut fields).map_err(bad_field_line)? {
        SectionProgress::Whole { end, is_folded } if end <= head_bytes_max => {
            Ok(Some(ResponseTokens { status, version, head_bytes: end, fields, is_folded }))
        }
        SectionProgress::Whole { .. } | SectionProgress::TooMany => Err(BadHead::TooLarge),
        SectionProgress::Partial => Ok(None),
    }
}

/// Returns `true` if the beginning of a line may become an empty line or a status line.
fn may_begin_a_head(begun: &[u8]) -> bool {
    begun == b"\r" || begun.iter().zip(b"HTTP/1.").all(|(byte, expected)| byte == expected)
}

/// Reads the status line. RFC 9112 section 4: `status-line = HTTP-version SP status-code SP [
/// reason-phrase ]`; the second blank may be missing.
fn status_line(line: &[u8]) -> Result<(Version, u16), BadHead> {
    let (version, rest) = match line.split_first_chunk() {
        Some((b"HTTP/1.1", rest)) => (Version::HTTP_11, rest),
        Some((b"HTTP/1.0", rest)) => (Version::HTTP_10, rest),
        _ => return Err(NO_VERSION),
    };
    let (code, behind) = rest.split_first_chunk::<4>().ok_or(INVALID_STATUS)?;
    match (code, behind) {
        ([b' ', code @ ..], [] | [b' ', ..]) if code.iter().all(u8::is_ascii_digit) => {
            Ok((version, code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'))))
        }
        _ => Err(INVALID_STATUS),
    }
}

fn build(lines: ResponseTokens, head: BytesMut) -> Result<ResponseHead, BadHead> {
    let status = StatusCode::from_u16(lines.status).map_err(|_| BadHead::Malformed("invalid status"))?;
    let mut fields = FieldLines::of_text(head, lines.fields);
    if lines.is_folded {
        fields = fields.lines().map(|(name, value)| (name, unfold(value))).collect();
        if fields.lines().any(|(_, value)| HeaderValue::from_bytes(value).is_err()) {
            return Err(BadHead::Malformed("invalid field value"));
        }
    }
    Ok(ResponseHead { status, version: lines.version, fields })
}

/// Returns a field's value with its folds joined. RFC 9112, 5.2: a proxy "MUST either discard the
/// message […] or replace each received obs-fold with one or more SP octets".
fn unfold(value: &[u8]) -> Vec<u8> {
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(&b' ')
}

fn bad_field_line(bad: BadLine) -> BadHead {
    BadHead::Malformed(match bad {
        BadLine::Name => "invalid field name",
        BadLine::Control | BadLine::BareLf => "invalid field value",
    })
}

const NO_VERSION: BadHead = BadHead::Malformed("no version of HTTP/1");
const INVALID_STATUS: BadHead = BadHead::Malformed("invalid status");

/// Number of fields that suffices for most responses.
const FIELDS_EXPECTED: usize = 16;

/// Largest number of fields of a response.
pub const RESPONSE_FIELDS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<ResponseHead>, BadHead> {
        ResponseHeadParser::default().parse(&mut BytesMut::from(text), 4096)
    }

    #[test]
    fn a_head_is_taken_off_the_buffer() {
        let mut buffer = BytesMut::from("HTTP/1.1 200 OK\r\nA: 1\r\nb:\r\nA: 2\r\n\r\nbody");
        let head = ResponseHeadParser::default().parse(&mut buffer, 4096).expect("sound").expect("whole");
        assert_eq!(
            (head.status, head.version, &buffer[..]),
            (StatusCode::OK, Version::HTTP_11, &b"body"[..])
        );
        let fields = head.fields.to_map();
        assert_eq!(fields.get_all("a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields["b"], "");
    }

    #[test]
    fn obsolete_forms_are_mended() {
        let head = parse("HTTP/1.0 404\nx : a\nfold: a\r\n\t b\r\n  c\n\n").expect("sound").expect("whole");
        assert_eq!((head.status.as_u16(), head.version), (404, Version::HTTP_10));
        let fields = head.fields.to_map();
        assert_eq!((&fields["x"], &fields["fold"]), (&"a".parse().unwrap(), &"a b c".parse().unwrap()));
    }

    #[test]
    fn invalid_head_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "<html>",
            "HTTP/2",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
            "HTTP/1.1 200 OK\r\n fold: first\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
        ] {
            assert!(matches!(parse(text), Err(BadHead::Malformed(_))), "{text:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(RESPONSE_FIELDS_MAX + 1));
        assert!(matches!(parse(&many), Err(BadHead::TooLarge)));
        let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(5000));
        assert!(matches!(parse(&long), Err(BadHead::TooLarge)));
        assert!(matches!(parse(&long[..4500]), Err(BadHead::TooLarge)));
    }

    proptest! {
        /// Any division into pieces gives the same head.
        #[test]
        fn pieces_make_the_same_head(cuts in prop::collection::vec(1usize..9, 0..40)) {
            let text = b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\n b\r\n\r\nhello";
            let (mut parser, mut buffer, mut rest) = (ResponseHeadParser::default(), BytesMut::new(), &text[..]);
            let mut cuts = cuts.into_iter();
            let head = loop {
                if let Some(head) = parser.parse(&mut buffer, 4096).expect("sound") {
                    break head;
                }
                let (piece, left) = rest.split_at(cuts.next().unwrap_or(100).min(rest.len()));
                buffer.extend_from_slice(piece);
                rest = left;
            };
            let fields = head.fields.to_map();
            prop_assert_eq!(fields.len(), 2);
            prop_assert_eq!(&fields["x"], "a b");
            prop_assert!(b"hello".starts_with(&buffer[..]));
        }

        /// Accepted heads can be sent on: names are tokens in lower case, values hold no line end.
        #[test]
        fn no_bytes_panic_and_lines_are_sound(
            bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => prop::sample::select(&b"aB:\r\n\t "[..])], 0..200),
        ) {
            let mut buffer = BytesMut::from(&[b"HTTP/1.1 200 OK\r\nX", &bytes[..], b"\r\n\r\n"].concat()[..]);
            if let Ok(Some(head)) = ResponseHeadParser::default().parse(&mut buffer, 4096) {
                for (name, value) in head.fields.lines() {
                    let sound = http::HeaderName::from_bytes(name).is_ok_and(|held| held.as_str().as_bytes() == name);
                    prop_assert!(sound && HeaderValue::from_bytes(value).is_ok(), "{name:?}: {value:?}");
                }
            }
        }
    }
}
