//! Heads of replies over HTTP/2 and HTTP/3: the same fields, in the encoding of either.

use crate::dates::with_date;
use crate::message::{RamHit, ReplyBody, ReplyHead, VARY_OF_CODINGS};
use http::header::{AGE, ALT_SVC, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderName, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use shoal_http2::hpack;
use shoal_http3::{FRAME_HEAD_BYTES_MAX, qpack};
use shoal_wire::Decimal;
use shoal_wire::response::{belongs_to_connection, is_bodiless};
use std::io::Write;
use std::time::Instant;

/// Encoding of fields into a block.
pub(super) trait FieldEncoding {
    /// Begins an empty block.
    fn begin(block: &mut Vec<u8>);
    /// Appends `:status`.
    fn status(block: &mut Vec<u8>, status: u16);
    /// Appends a field with a value of two parts.
    fn field_of_two(block: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]);
    /// Appends lines in the form of HTTP/1. Returns the bytes of their names and values.
    fn lines(block: &mut Vec<u8>, lines: &[u8]) -> usize;
}

/// HTTP/2's encoding.
pub(super) enum Hpack {}

/// HTTP/3's encoding. A block begins with room for the head of its frame.
pub(super) enum Qpack {}

impl FieldEncoding for Hpack {
    fn begin(_: &mut Vec<u8>) {}

    #[inline]
    fn status(block: &mut Vec<u8>, status: u16) {
        hpack::encode::status(block, status);
    }

    #[inline]
    fn field_of_two(block: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]) {
        hpack::encode::field_of_two(block, name, first, second);
    }

    #[inline]
    fn lines(block: &mut Vec<u8>, lines: &[u8]) -> usize {
        hpack::encode::lines(block, lines)
    }
}

impl FieldEncoding for Qpack {
    fn begin(block: &mut Vec<u8>) {
        debug_assert!(block.is_empty());
        block.resize(FRAME_HEAD_BYTES_MAX, 0);
        block.extend_from_slice(&qpack::encode::PREFIX);
    }

    #[inline]
    fn status(block: &mut Vec<u8>, status: u16) {
        qpack::encode::status(block, status);
    }

    #[inline]
    fn field_of_two(block: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]) {
        qpack::encode::field_of_two(block, name, first, second);
    }

    #[inline]
    fn lines(block: &mut Vec<u8>, lines: &[u8]) -> usize {
        qpack::encode::lines(block, lines)
    }
}

/// Returns the head of a reply, with `length` as its Content-Length if given.
pub(super) fn head(
    reply: ReplyHead,
    length: Option<u64>,
    alt_svc: Option<&HeaderValue>,
    now: Instant,
) -> (StatusCode, HeaderMap) {
    let (status, mut fields) = match reply {
        ReplyHead::Built(status, fields) => (status, fields),
        ReplyHead::Relayed(head) => (head.status, head.lines.to_map()),
        ReplyHead::Stored { stored, form, age_seconds, cache_status, proxy_status, varies, .. } => {
            let mut fields = form.fields(&stored);
            fields.insert(AGE, HeaderValue::from(age_seconds));
            if let Ok(value) = HeaderValue::from_maybe_shared(cache_status) {
                fields.append(CACHE_STATUS, value);
            }
            fields.append(PROXY_STATUS, proxy_status);
            if varies {
                fields.append(VARY, HeaderValue::from_static(VARY_OF_CODINGS));
            }
            if let Some(content_range) = form.content_range() {
                fields.insert(CONTENT_RANGE, content_range.to_value());
            }
            (form.status(&stored), fields)
        }
    };
    strip(&mut fields);
    if let Some(length) = length {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Some(alt_svc) = alt_svc {
        fields.append(ALT_SVC, alt_svc.clone());
    }
    if !fields.contains_key(DATE)
        && let Ok(date) = with_date(now, HeaderValue::from_bytes)
    {
        fields.insert(DATE, date);
    }
    (status, fields)
}

/// Appends the head of a hit in RAM, equal to that of [`head`] for the same reply. Returns the
/// bytes of its names and values.
pub(super) fn hit<E: FieldEncoding>(
    block: &mut Vec<u8>,
    hit: &RamHit<'_>,
    alt_svc: Option<&HeaderValue>,
    now: Instant,
) -> u64 {
    E::status(block, hit.status().as_u16());
    let mut bytes = STATUS_BYTES + E::lines(block, hit.lines());
    let mut field = |name: &[u8], first: &[u8], second: &[u8]| {
        E::field_of_two(block, name, first, second);
        bytes += name.len() + first.len() + second.len();
    };
    field(b"age", Decimal::of(hit.age_seconds).as_bytes(), b"");
    field(b"cache-status", hit.own.cache_status_value(), Decimal::of(hit.ttl_seconds).as_bytes());
    field(b"proxy-status", hit.own.proxy_status_value.as_bytes(), b"");
    if hit.own.varies {
        field(b"vary", VARY_OF_CODINGS.as_bytes(), b"");
    }
    if let Some(content_range) = hit.form.content_range() {
        let mut text = [0; CONTENT_RANGE_BYTES_MAX];
        let mut rest = &mut text[..];
        write!(rest, "{content_range}").expect("there is room for every number");
        let written = CONTENT_RANGE_BYTES_MAX - rest.len();
        debug_assert!(written > 0);
        field(b"content-range", &text[..written], b"");
    }
    if let Some(length) = hit.length() {
        field(b"content-length", Decimal::of(length).as_bytes(), b"");
    }
    if let Some(alt_svc) = alt_svc {
        field(b"alt-svc", alt_svc.as_bytes(), b"");
    }
    if !hit.stored.is_dated() {
        with_date(now, |date| field(b"date", date, b""));
    }
    bytes as u64
}

/// Encodes a head as a field block.
pub(super) fn block<E: FieldEncoding>(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    E::begin(&mut block);
    E::status(&mut block, status.as_u16());
    put::<E>(&mut block, fields);
    block
}

/// Encodes trailers as a field block. Fields that cannot trail are left out; `None` if no field is
/// left.
pub(super) fn trailers<E: FieldEncoding>(mut fields: HeaderMap) -> Option<Vec<u8>> {
    remove(&mut fields, |name| !shoal_wire::chunk::may_trail(name));
    if fields.is_empty() {
        return None;
    }
    let mut block = Vec::new();
    E::begin(&mut block);
    put::<E>(&mut block, &fields);
    Some(block)
}

/// Encodes an interim response as a field block.
pub(super) fn interim<E: FieldEncoding>(status: StatusCode, mut fields: HeaderMap) -> Vec<u8> {
    strip(&mut fields);
    block::<E>(status, &fields)
}

fn put<E: FieldEncoding>(block: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        E::field_of_two(block, name.as_str().as_bytes(), value.as_bytes(), b"");
    }
}

/// Returns the bytes of a head's names and values. Its encoded size depends on the connection.
pub(super) fn head_bytes(fields: &HeaderMap) -> u64 {
    let fields = fields.iter().map(|(name, value)| name.as_str().len() + value.len());
    (STATUS_BYTES + fields.sum::<usize>()) as u64
}

/// Returns the Content-Length to send, if any. As in HTTP/1, 1xx, 204 and 2xx to CONNECT have
/// none.
pub(super) fn content_length(
    method: &Method,
    status: StatusCode,
    head: &ReplyHead,
    body: &ReplyBody,
) -> Option<u64> {
    let bodiless = method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    match body {
        _ if is_bodiless(status) && status != StatusCode::NOT_MODIFIED => None,
        ReplyBody::Empty if bodiless => head.declared_length(),
        // The end of the stream gives the length. A relayed head keeps the origin's field.
        ReplyBody::Empty if matches!(head, ReplyHead::Relayed(_)) => head.declared_length(),
        ReplyBody::Empty => Some(0),
        ReplyBody::Memory(bytes) => Some(bytes.len() as u64),
        ReplyBody::Stream { length, .. } => *length,
        ReplyBody::Tunnel(_) => None,
    }
}

/// Returns `true` if the stream ends with the head. A gRPC client takes an empty DATA frame behind
/// a head with `grpc-status` as a response without trailers.
pub(super) fn is_empty(body: &ReplyBody) -> bool {
    match body {
        ReplyBody::Empty => true,
        ReplyBody::Memory(bytes) => bytes.is_empty(),
        ReplyBody::Stream { frames, length } => {
            length.unwrap_or(0) == 0 && http_body::Body::is_end_stream(frames)
        }
        ReplyBody::Tunnel(_) => false,
    }
}

/// RFC 9113 section 8.2.2, and RFC 9114 section 4.2 likewise: "An endpoint MUST NOT generate an
/// HTTP/2 message containing connection-specific header fields."
fn strip(fields: &mut HeaderMap) {
    remove(fields, belongs_to_connection);
}

fn remove(fields: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = fields.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in names {
        fields.remove(name);
    }
}

/// Bytes of `:status` and its value.
const STATUS_BYTES: usize = ":status200".len();

/// Maximum bytes of a Content-Range value: three numbers of 20 digits.
const CONTENT_RANGE_BYTES_MAX: usize = "bytes -/".len() + 3 * 20;

/// Initial capacity, enough for most heads.
const BLOCK_BYTES: usize = 512;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

const _: () = {
    assert!(STATUS_BYTES == 10);
    assert!(CONTENT_RANGE_BYTES_MAX == 68);
};
