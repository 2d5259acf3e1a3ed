//! Request heads: bytes in; a head, a refusal, or the wish for more bytes out.
//!
//! httparse tokenizes; our strictness sits on top of it. Field values and the target are slices of the read
//! buffer and are not copied. Whoever keeps one beyond the request keeps that whole buffer: copy what is stored.
//!
//! Cost: one pass of the tokenizer over the head and one over each value, one allocation for the field map and one
//! for each field name that is not well known. A head that trickles in is tokenized again only when its end is in
//! sight or it has doubled, so that the whole cost stays linear.

mod authority;
mod framing;
mod plain;
mod target;

pub use authority::Authority;
pub use framing::BodyFraming;
pub use plain::PlainGet;

use crate::Refusal;
use crate::field_line::{BARE_LF, holds_end, locate, offset_in};
use bytes::{Buf, Bytes, BytesMut};
use framing::Framing;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, request};
use httparse::{Error, Header, Status};
use shoal_core::FieldLine;
use std::mem::MaybeUninit;
use std::ops::Range;

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole head, its empty line included.
    pub head_bytes_max: usize,
    /// Number of fields.
    pub fields_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
}

/// What became of the bytes so far.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "made and taken apart once a request; a box would cost an allocation"
)]
pub enum Parsed {
    /// The head is not whole yet.
    Incomplete,
    /// The head, which has been taken off the buffer.
    Head(RequestHead),
    /// It will not be taken. The connection cannot be used further: where the next request starts is unknown.
    Refused(Refusal),
}

/// A request head that stood up to every check.
#[derive(Debug)]
pub struct RequestHead {
    /// Method, target, version and all fields as received.
    pub parts: request::Parts,
    /// How its body is delimited.
    pub body: BodyFraming,
    /// Whether the client wants the connection kept for further requests.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Whether the client takes trailers (`TE: trailers`).
    pub accepts_trailers: bool,
    /// Whether the client asks for another protocol on this connection.
    pub upgrade: bool,
    /// Bytes that the head took.
    pub head_bytes: usize,
}

/// Reads the request heads of one connection.
#[derive(Debug)]
pub struct HeadParser {
    /// Fields of the head being read; kept for its allocation.
    fields: Vec<FieldLine>,
    /// Bytes of the buffer that are known to hold no end of a head.
    searched: usize,
    /// Tokenize again once the buffer holds so many bytes, even if no end is in sight.
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
    /// A parser for a new connection.
    pub fn new() -> Self {
        Self { fields: Vec::new(), searched: 0, attempt_at: 0, empty_lines: 0 }
    }

    /// Reads one head from the front of `buffer`. Call it again with more bytes appended when it was
    /// incomplete; the caller must not touch the bytes in between.
    pub fn parse(&mut self, buffer: &mut BytesMut, limits: &Limits) -> Parsed {
        match self.read(buffer, limits) {
            Ok(Some(head)) => {
                (self.searched, self.attempt_at, self.empty_lines) = (0, 0, 0);
                Parsed::Head(head)
            }
            Ok(None) => Parsed::Incomplete,
            Err(refusal) => Parsed::Refused(refusal),
        }
    }

    fn read(&mut self, buffer: &mut BytesMut, limits: &Limits) -> Result<Option<RequestHead>, Refusal> {
        self.skip_empty_lines(buffer)?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let first = self.attempt_at == 0;
        if first || buffer.len() >= self.attempt_at || holds_end(&buffer[self.searched..]) {
            if let Some(lines) = tokenize(buffer, &mut self.fields, limits)? {
                let head = buffer.split_to(lines.head_bytes).freeze();
                return build(&lines, &self.fields, head).map(Some);
            }
            self.attempt_at = buffer.len() * 2;
        }
        // The end may begin in the last bytes seen so far.
        self.searched = buffer.len().saturating_sub(2);
        still_small(buffer, limits).map(|()| None)
    }

    /// RFC 9112 section 2.2: "a server that is expecting to receive and parse a request-line SHOULD ignore at
    /// least one empty line (CRLF) received prior to the request-line".
    fn skip_empty_lines(&mut self, buffer: &mut BytesMut) -> Result<(), Refusal> {
        while buffer.starts_with(b"\r\n") {
            self.empty_lines += 1;
            if self.empty_lines > EMPTY_LINES_MAX {
                return Err(Refusal::bad_request("empty lines before the request"));
            }
            buffer.advance(2);
        }
        if buffer.first() == Some(&b'\n') { Err(BARE_LF) } else { Ok(()) }
    }
}

/// Where the parts of a request line stand in the head.
struct Lines {
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
    head_bytes: usize,
}

/// Runs httparse over the buffer and notes where each part stands. `None` when the head is not whole.
fn tokenize(buffer: &[u8], fields: &mut Vec<FieldLine>, limits: &Limits) -> Result<Option<Lines>, Refusal> {
    if limits.fields_max <= FIELDS_ON_STACK {
        let mut slots = [const { MaybeUninit::uninit() }; FIELDS_ON_STACK];
        tokenize_into(buffer, &mut slots[..limits.fields_max], fields, limits)
    } else {
        let mut slots = vec![MaybeUninit::uninit(); limits.fields_max];
        tokenize_into(buffer, &mut slots, fields, limits)
    }
}

fn tokenize_into<'b>(
    buffer: &'b [u8],
    slots: &mut [MaybeUninit<Header<'b>>],
    fields: &mut Vec<FieldLine>,
    limits: &Limits,
) -> Result<Option<Lines>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    let head_bytes = match request.parse_with_uninit_headers(buffer, slots) {
        Ok(Status::Complete(head_bytes)) => head_bytes,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(refusal_of(error, buffer)),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Refusal::bad_request("invalid request line"));
    };
    if target.len() > limits.target_bytes_max {
        return Err(Refusal::target_too_long());
    }
    if head_bytes > limits.head_bytes_max {
        return Err(HEAD_TOO_LARGE);
    }
    let method = range_in(buffer, method);
    let target = range_in(buffer, target);
    let head = &buffer[..head_bytes];
    let line_end = target.end + " HTTP/1.1".len();
    if head.get(line_end) != Some(&b'\r') || !head.ends_with(b"\r\n") {
        return Err(BARE_LF);
    }
    fields.clear();
    for field in request.headers.iter() {
        fields.push(locate(head, field)?);
    }
    let version = if version == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    Ok(Some(Lines { method, target, version, head_bytes }))
}

/// Makes the head out of its located parts.
fn build(lines: &Lines, fields: &[FieldLine], head: Bytes) -> Result<RequestHead, Refusal> {
    let version = lines.version;
    let method = read_method(&head[lines.method.clone()])?;
    let mut framing = Framing::default();
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = &head[field.name()];
        framing.note(name, &head[field.value()])?;
        let name = HeaderName::from_bytes(name).map_err(|_| INVALID_FIELD)?;
        let value = HeaderValue::from_maybe_shared(head.slice(field.value())).map_err(|_| INVALID_FIELD)?;
        map.try_append(name, value).map_err(|_| Refusal::fields_too_large("too many fields"))?;
    }
    let uri = target::read(head.slice(lines.target.clone()), &method, version, framing.host)?;
    let body = framing.body(&method, version)?;
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = method;
    parts.uri = uri;
    parts.version = version;
    parts.headers = map;
    Ok(RequestHead {
        parts,
        body,
        keep_alive: framing.keeps_alive(version),
        // RFC 9110 section 10.1.1: "A server that receives a 100-continue expectation in an HTTP/1.0 request
        // MUST ignore that expectation."
        expects_continue: framing.expects_continue
            && version != Version::HTTP_10
            && body != BodyFraming::None,
        accepts_trailers: framing.accepts_trailers && version != Version::HTTP_10,
        upgrade: framing.upgrades(version),
        head_bytes: lines.head_bytes,
    })
}

fn read_method(token: &[u8]) -> Result<Method, Refusal> {
    if token.len() > METHOD_BYTES_MAX {
        return Err(Refusal::not_implemented("method too long"));
    }
    Method::from_bytes(token).map_err(|_| Refusal::bad_request("invalid method"))
}

/// Refuses what is already too large to become an acceptable head.
fn still_small(buffer: &[u8], limits: &Limits) -> Result<(), Refusal> {
    let line_bytes_max = limits.target_bytes_max + METHOD_BYTES_MAX + "  HTTP/1.1".len();
    if buffer.len() > line_bytes_max && !buffer[..=line_bytes_max].contains(&b'\n') {
        return Err(Refusal::target_too_long());
    }
    if buffer.len() >= limits.head_bytes_max { Err(HEAD_TOO_LARGE) } else { Ok(()) }
}

fn refusal_of(error: Error, buffer: &[u8]) -> Refusal {
    match error {
        Error::TooManyHeaders => Refusal::fields_too_large("too many fields"),
        Error::HeaderName => Refusal::bad_request("invalid field name"),
        Error::HeaderValue => INVALID_FIELD,
        Error::Version if names_other_version(buffer) => Refusal::version_not_supported(),
        Error::NewLine => BARE_LF,
        _ => Refusal::bad_request("invalid request line"),
    }
}

/// Whether the request line has three parts, the last of them a version; httparse has found it not to be one
/// that we speak.
fn names_other_version(buffer: &[u8]) -> bool {
    let line = buffer.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let mut parts = line.split(|&byte| byte == b' ').skip(2);
    match (parts.next(), parts.next()) {
        (Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]), None) => {
            let digits = major.is_ascii_digit() && minor.is_ascii_digit();
            digits && !(*major == b'1' && matches!(minor, b'0' | b'1'))
        }
        _ => false,
    }
}

fn range_in(whole: &[u8], part: &str) -> Range<usize> {
    let start = offset_in(whole, part.as_bytes());
    start..start + part.len()
}

const HEAD_TOO_LARGE: Refusal = Refusal::fields_too_large("request head too large");
const INVALID_FIELD: Refusal = Refusal::bad_request("invalid field value");

/// Heads with at most so many fields are read without allocating slots for them.
const FIELDS_ON_STACK: usize = 128;

/// Registered methods have at most 17 bytes.
const METHOD_BYTES_MAX: usize = 64;

/// Some old clients send one CRLF too many after a body.
const EMPTY_LINES_MAX: usize = 2;

#[cfg(test)]
mod tests;
