//! Parser of request heads: from bytes to a head, a refusal, or a request for more bytes.
//!
//! Fields and the target are slices of the read buffer and are not copied. A slice kept beyond the
//! request keeps that whole buffer: copy the parts that are stored.
//!
//! Cost: one pass over the head ([`crate::lines`]) and one allocation. This holds also after a look
//! at the head as a [`FastPathRequest`], which compares it with a section of [`section_cache`] or
//! makes that pass. A head that trickles in is tokenized again only when its end has arrived or its
//! size has doubled. The whole cost therefore stays linear.

mod authority;
mod framing;
mod plain;
mod section_cache;
mod target;

pub use authority::Authority;
pub use framing::BodyFraming;
pub use plain::{Conditions, FastPathRequest};

use crate::RequestRefusal;
use crate::lines::{BadLine, Lines, SectionProgress, Strictness, holds_end};
use bytes::{Buf, BytesMut};
use framing::Framing;
use http::{Method, Uri, Version};
use shoal_core::{FieldLine, FieldLines, Fields};
use std::ops::Range;

/// Limits on the size of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, including its empty line.
    pub head_bytes_max: usize,
    /// Number of fields.
    pub fields_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
}

/// Result of parsing the bytes so far.
#[derive(Debug)]
pub enum ParseOutcome {
    /// The head is incomplete.
    Incomplete,
    /// The head, which has been taken off the buffer.
    Head(RequestHead),
    /// The request is refused. The connection cannot be used further: the start of the next request
    /// is unknown.
    Refused(RequestRefusal),
}

/// Parts of a request from any version of HTTP.
#[derive(Debug)]
pub struct RequestParts {
    /// Method of the request.
    pub method: Method,
    /// Target of the request.
    pub uri: Uri,
    /// HTTP version of the client.
    pub version: Version,
    /// All fields as received.
    pub fields: FieldLines,
}

impl From<http::request::Parts> for RequestParts {
    fn from(parts: http::request::Parts) -> Self {
        let http::request::Parts { method, uri, version, headers, .. } = parts;
        Self { method, uri, version, fields: headers.lines().collect() }
    }
}

/// Request head that passed every check.
#[derive(Debug)]
pub struct RequestHead {
    /// Method, target, version and all fields as received.
    pub parts: RequestParts,
    /// Framing of the body.
    pub body: BodyFraming,
    /// `true` if the client wants the connection kept for further requests.
    pub keep_alive: bool,
    /// `true` if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// `true` if the client accepts trailers (`TE: trailers`).
    pub accepts_trailers: bool,
    /// `true` if the client requests another protocol on this connection.
    pub upgrade: bool,
    /// Bytes of the head.
    pub head_bytes: usize,
}

/// Parser of the request heads of one connection.
#[derive(Debug)]
pub struct HeadParser {
    /// Whole head at the front of the buffer, found but not yet taken.
    seen: Option<RequestTokens>,
    /// Fields of the head being read; kept for its allocation.
    fields: Vec<FieldLine>,
    /// Bytes of the buffer that are known to hold no end of a head.
    searched: usize,
    /// Size of the buffer from which the head is tokenized again, even without an end in the
    /// buffer.
    attempt_at: usize,
    /// Empty lines skipped before this request.
    empty_lines: usize,
}

impl Default for HeadParser {
    fn default() -> Self {
        Self::new()
    }
}

impl HeadParser {
    /// Makes a parser for a new connection.
    pub fn new() -> Self {
        Self { seen: None, fields: Vec::new(), searched: 0, attempt_at: 0, empty_lines: 0 }
    }

    /// Reads one head from the front of `buffer`: [`Self::find_head`] and [`Self::take_head`] in
    /// one.
    pub fn parse(&mut self, buffer: &mut BytesMut, limits: &HeadLimits) -> ParseOutcome {
        match self.find_head(buffer, limits) {
            Ok(true) => self.take_head(buffer).map_or_else(ParseOutcome::Refused, ParseOutcome::Head),
            Ok(false) => ParseOutcome::Incomplete,
            Err(refusal) => ParseOutcome::Refused(refusal),
        }
    }

    /// Returns `true` if a whole head is at the front of `buffer`, for [`Self::take_head`] to take
    /// off. After `false`, call it again with more bytes appended; the caller must not change the
    /// bytes in between.
    pub fn find_head(&mut self, buffer: &mut BytesMut, limits: &HeadLimits) -> Result<bool, RequestRefusal> {
        if self.seen.is_some() {
            return Ok(true);
        }
        self.skip_empty_lines(buffer)?;
        if buffer.is_empty() {
            return Ok(false);
        }
        let first = self.attempt_at == 0;
        if first || buffer.len() >= self.attempt_at || holds_end(&buffer[self.searched..]) {
            if let Some(seen) = tokenize(buffer, &mut self.fields, limits)? {
                self.seen = Some(seen);
                return Ok(true);
            }
            self.attempt_at = buffer.len() * 2;
        }
        // The end may begin in the last bytes searched so far.
        self.searched = buffer.len().saturating_sub(2);
        still_small(buffer, limits).map(|()| false)
    }

    /// Takes the whole head that [`Self::find_head`] found off the buffer.
    pub fn take_head(&mut self, buffer: &mut BytesMut) -> Result<RequestHead, RequestRefusal> {
        let lines = self.seen.take().expect("the caller has looked");
        (self.searched, self.attempt_at, self.empty_lines) = (0, 0, 0);
        build(&lines, &self.fields, buffer.split_to(lines.head_bytes))
    }

    /// Skips empty lines. RFC 9112 section 2.2: "a server that is expecting to receive and parse a
    /// request-line SHOULD ignore at least one empty line (CRLF) received prior to the
    /// request-line".
    fn skip_empty_lines(&mut self, buffer: &mut BytesMut) -> Result<(), RequestRefusal> {
        while buffer.starts_with(b"\r\n") {
            self.empty_lines += 1;
            if self.empty_lines > EMPTY_LINES_MAX {
                return Err(RequestRefusal::bad_request("empty lines before the request"));
            }
            buffer.advance(2);
        }
        if buffer.first() == Some(&b'\n') { Err(BARE_LF) } else { Ok(()) }
    }
}

/// Places of a whole head's parts, without its fields.
#[derive(Debug)]
struct RequestTokens {
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
    head_bytes: usize,
}

/// Finds the parts of the head at the front of `buffer`. `None` when the head is incomplete.
fn tokenize(
    buffer: &[u8],
    fields: &mut Vec<FieldLine>,
    limits: &HeadLimits,
) -> Result<Option<RequestTokens>, RequestRefusal> {
    let mut lines = Lines::new(buffer, Strictness::Strict);
    match RequestLine::read(&mut lines)? {
        Some(line) => tokenize_section(&line, &mut lines, fields, limits),
        None => Ok(None),
    }
}

/// Finds the fields in the lines after the request line.
#[inline]
fn tokenize_section(
    line: &RequestLine<'_>,
    lines: &mut Lines<'_>,
    fields: &mut Vec<FieldLine>,
    limits: &HeadLimits,
) -> Result<Option<RequestTokens>, RequestRefusal> {
    fields.clear();
    let head_bytes = match lines.fields(limits.fields_max, fields).map_err(bad_field_line)? {
        SectionProgress::Whole { end, .. } => end,
        SectionProgress::Partial => return Ok(None),
        SectionProgress::TooMany => return Err(RequestRefusal::fields_too_large("too many fields")),
    };
    check_sizes(line.target, head_bytes, limits)?;
    if fields.iter().any(|field| field.name().len() > NAME_BYTES_MAX) {
        return Err(INVALID_FIELD);
    }
    let target = line.method_bytes + 1..line.method_bytes + 1 + line.target.len();
    Ok(Some(RequestTokens { method: 0..line.method_bytes, target, version: line.version, head_bytes }))
}

/// Request line (RFC 9112 section 3): `request-line = method SP request-target SP HTTP-version`.
struct RequestLine<'b> {
    method_bytes: usize,
    target: &'b str,
    version: Version,
}

impl<'b> RequestLine<'b> {
    /// Reads the first of `lines`; `None` until its end has arrived.
    #[inline]
    fn read(lines: &mut Lines<'b>) -> Result<Option<Self>, RequestRefusal> {
        lines.line().map_err(bad_request_line)?.map(Self::of).transpose()
    }

    fn of(line: &'b [u8]) -> Result<Self, RequestRefusal> {
        const INVALID: RequestRefusal = RequestRefusal::bad_request("invalid request line");
        let method_bytes = line.iter().position(|byte| *byte == b' ').ok_or(INVALID)?;
        let (rest, version) = line[method_bytes + 1..].split_last_chunk::<9>().ok_or(INVALID)?;
        let version = match version {
            b" HTTP/1.1" => Version::HTTP_11,
            b" HTTP/1.0" => Version::HTTP_10,
            [b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(RequestRefusal::version_not_supported());
            }
            _ => return Err(INVALID),
        };
        // Control characters already ended the line or made it invalid.
        let is_sound =
            !rest.is_empty() && rest.iter().fold(true, |sound, byte| sound & !matches!(byte, b' ' | b'\t'));
        let target = std::str::from_utf8(rest).ok().filter(|_| is_sound).ok_or(INVALID)?;
        Ok(Self { method_bytes, target, version })
    }
}

/// Checks that the target and the whole head of `head_bytes` are within `limits`.
#[inline]
fn check_sizes(
    target: impl AsRef<[u8]>,
    head_bytes: usize,
    limits: &HeadLimits,
) -> Result<(), RequestRefusal> {
    if target.as_ref().len() > limits.target_bytes_max {
        return Err(RequestRefusal::target_too_long());
    }
    if head_bytes > limits.head_bytes_max { Err(HEAD_TOO_LARGE) } else { Ok(()) }
}

/// Makes the head from its located parts.
fn build(lines: &RequestTokens, fields: &[FieldLine], head: BytesMut) -> Result<RequestHead, RequestRefusal> {
    let version = lines.version;
    let method = read_method(&head[lines.method.clone()])?;
    let fields = FieldLines::of_text(head, fields.to_vec());
    let mut framing = Framing::default();
    for (name, value) in fields.lines() {
        framing.note(name, value)?;
    }
    let uri = target::read(fields.slice(lines.target.clone()), &method, version, framing.host)?;
    let body = framing.body(&method, version)?;
    Ok(RequestHead {
        body,
        keep_alive: framing.keeps_alive(version),
        // RFC 9110 section 10.1.1: "A server that receives a 100-continue expectation in an
        // HTTP/1.0 request MUST ignore that expectation."
        expects_continue: framing.expects_continue
            && version != Version::HTTP_10
            && body != BodyFraming::None,
        accepts_trailers: framing.accepts_trailers && version != Version::HTTP_10,
        upgrade: framing.upgrades(version),
        head_bytes: lines.head_bytes,
        parts: RequestParts { method, uri, version, fields },
    })
}

fn read_method(token: &[u8]) -> Result<Method, RequestRefusal> {
    if token.len() > METHOD_BYTES_MAX {
        return Err(RequestRefusal::not_implemented("method too long"));
    }
    Method::from_bytes(token).map_err(|_| RequestRefusal::bad_request("invalid method"))
}

/// Refuses a head that is already too large to become acceptable.
fn still_small(buffer: &[u8], limits: &HeadLimits) -> Result<(), RequestRefusal> {
    let line_bytes_max = limits.target_bytes_max + METHOD_BYTES_MAX + "  HTTP/1.1".len();
    if buffer.len() > line_bytes_max && !buffer[..=line_bytes_max].contains(&b'\n') {
        return Err(RequestRefusal::target_too_long());
    }
    if buffer.len() >= limits.head_bytes_max { Err(HEAD_TOO_LARGE) } else { Ok(()) }
}

fn bad_request_line(bad: BadLine) -> RequestRefusal {
    match bad {
        BadLine::BareLf => BARE_LF,
        BadLine::Name | BadLine::Control => RequestRefusal::bad_request("invalid request line"),
    }
}

fn bad_field_line(bad: BadLine) -> RequestRefusal {
    match bad {
        BadLine::BareLf => BARE_LF,
        BadLine::Name => RequestRefusal::bad_request("invalid field name"),
        BadLine::Control => INVALID_FIELD,
    }
}

const BARE_LF: RequestRefusal = RequestRefusal::bad_request("line not ended by CRLF");
const HEAD_TOO_LARGE: RequestRefusal = RequestRefusal::fields_too_large("request head too large");
const INVALID_FIELD: RequestRefusal = RequestRefusal::bad_request("invalid field value");

/// Length of the longest name that a field map accepts.
const NAME_BYTES_MAX: usize = u16::MAX as usize;

/// Largest length of a method. Registered methods have at most 17 bytes.
const METHOD_BYTES_MAX: usize = 64;

/// Largest number of empty lines before a request. Some old clients send a needless CRLF after a
/// body.
const EMPTY_LINES_MAX: usize = 2;

#[cfg(test)]
mod tests;
