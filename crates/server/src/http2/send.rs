//! Sends replies on an HTTP/2 stream within the limits of flow control.

use super::sending::StreamSender;
use super::state::ClosedStream;
use crate::dates::with_date;
use crate::message::{BodyError, RamHit, ReplyHead, StreamBody, VARY_OF_CODINGS};
use crate::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderName, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use shoal_http2::ErrorCode;
use shoal_http2::hpack::encode;
use shoal_wire::Decimal;
use shoal_wire::chunk::may_trail;
use shoal_wire::response::belongs_to_connection;
use std::future::poll_fn;
use std::io::Write;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// State of sending one body.
pub(super) struct BodySender<'p> {
    stream: StreamSender,
    patience: &'p SlowClientPolicy,
    stall: Deadline,
    pace: ClientProgress,
    /// Bytes passed to the connection so far.
    pub sent: u64,
}

/// Reason for not sending a whole body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The client reset the stream or closed the connection.
    ByClient,
    /// The client opened no window for too long, or was too slow overall.
    Stalled,
    /// The body failed, or differed from its announced length. The client gets this code.
    Body(ErrorCode),
}

impl<'p> BodySender<'p> {
    /// Creates a sender on `stream`. `patience` sets the minimum speed of the client.
    pub fn new(stream: StreamSender, patience: &'p SlowClientPolicy) -> Self {
        let mut stall = Deadline::after(patience.pause);
        stall.lift();
        Self { stream, patience, stall, pace: ClientProgress::default(), sent: 0 }
    }

    /// Sends `bytes`, and ends the stream after them if `last` is set.
    pub async fn bytes(&mut self, mut bytes: Bytes, last: bool) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let room = poll_fn(|context| self.poll_room(context)).await?;
            debug_assert!(room > 0, "no room is waited for");
            let piece = bytes.split_to(room.min(bytes.len()));
            self.pace.moved(piece.len(), self.patience)?;
            self.sent += piece.len() as u64;
            let end = last && bytes.is_empty();
            self.stream.data(piece, end)?;
        }
        Ok(())
    }

    /// Sends a body that arrives in frames. `length` is its announced length.
    pub async fn frames(&mut self, mut frames: StreamBody, length: Option<u64>) -> Result<(), SendError> {
        let mut due = length;
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.frame() => frame,
                () = self.reset() => return Err(SendError::ByClient),
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    tracing::debug!(%error, "reply cut");
                    return Err(SendError::Body(code_for(&error)));
                }
                None => return self.end(due, None),
            };
            match frame.into_data() {
                Ok(data) => {
                    if let Some(due) = &mut due {
                        *due = due
                            .checked_sub(data.len() as u64)
                            .ok_or(SendError::Body(ErrorCode::INTERNAL_ERROR))?;
                    }
                    self.bytes(data, false).await?;
                }
                Err(frame) => return self.end(due, frame.into_trailers().ok()),
            }
        }
    }

    /// Ends the stream in order. Fails if announced bytes are missing.
    fn end(&mut self, due: Option<u64>, trailers: Option<HeaderMap>) -> Result<(), SendError> {
        if due.is_some_and(|due| due > 0) {
            return Err(SendError::Body(ErrorCode::INTERNAL_ERROR));
        }
        let mut trailers = trailers.unwrap_or_default();
        remove(&mut trailers, |name| !may_trail(name));
        let sent = match trailers.is_empty() {
            true => self.stream.data(Bytes::new(), true),
            false => self.stream.trailers(fields_block(&trailers)),
        };
        Ok(sent?)
    }

    /// Resets the stream with a code for the reason, unless the client ended it.
    pub fn stop(&mut self, why: &SendError) {
        match why {
            SendError::ByClient => {}
            SendError::Stalled => self.stream.reset(ErrorCode::CANCEL),
            SendError::Body(code) => self.stream.reset(*code),
        }
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        if let Poll::Ready(room) = self.stream.poll_room(context) {
            self.stall.lift();
            return Poll::Ready(Ok(room?));
        }
        let TooSlow = ready!(self.pace.poll_stalled(&mut self.stall, context, self.patience));
        Poll::Ready(Err(SendError::Stalled))
    }

    async fn reset(&mut self) {
        poll_fn(|context| self.stream.poll_reset(context)).await;
    }
}

impl From<ClosedStream> for SendError {
    fn from(_: ClosedStream) -> Self {
        Self::ByClient
    }
}

impl From<TooSlow> for SendError {
    fn from(_: TooSlow) -> Self {
        Self::Stalled
    }
}

/// Returns the head of a reply, with `length` as its Content-Length if given.
pub(super) fn head(reply: ReplyHead, length: Option<u64>, now: Instant) -> (StatusCode, HeaderMap) {
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
    if !fields.contains_key(DATE)
        && let Ok(date) = with_date(now, HeaderValue::from_bytes)
    {
        fields.insert(DATE, date);
    }
    (status, fields)
}

/// Appends the head of a hit in RAM, equal to that of [`head`] for the same reply. Returns the
/// bytes of its names and values.
pub(super) fn hit(block: &mut Vec<u8>, hit: &RamHit<'_>, now: Instant) -> u64 {
    encode::status(block, hit.status().as_u16());
    let mut bytes = STATUS_BYTES + encode::lines(block, hit.lines());
    let mut field = |name: &[u8], first: &[u8], second: &[u8]| {
        encode::field_of_two(block, name, first, second);
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
    if !hit.stored.is_dated() {
        with_date(now, |date| field(b"date", date, b""));
    }
    bytes as u64
}

/// Encodes a head as a field block.
pub(super) fn block(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    encode::status(&mut block, status.as_u16());
    put(&mut block, fields);
    block
}

fn fields_block(fields: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::new();
    put(&mut block, fields);
    block
}

fn put(block: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        encode::field(block, name.as_str().as_bytes(), value.as_bytes());
    }
}

/// Returns the bytes of a head's names and values. Its encoded size depends on the connection.
pub(super) fn head_bytes(fields: &HeaderMap) -> u64 {
    let fields = fields.iter().map(|(name, value)| name.as_str().len() + value.len());
    (STATUS_BYTES + fields.sum::<usize>()) as u64
}

/// Encodes an interim response as a field block.
pub(super) fn interim(status: StatusCode, mut fields: HeaderMap) -> Vec<u8> {
    strip(&mut fields);
    block(status, &fields)
}

/// Bytes of `:status` and its value.
const STATUS_BYTES: usize = ":status200".len();

/// Maximum bytes of a Content-Range value: three numbers of 20 digits.
const CONTENT_RANGE_BYTES_MAX: usize = "bytes -/".len() + 3 * 20;

/// Initial capacity, enough for most heads.
const BLOCK_BYTES: usize = 512;

/// Returns the error code for a failed body. A cancellation or overload at the origin matters to
/// clients: gRPC has separate statuses for the two. Other reasons concern the origin's connection.
/// REFUSED_STREAM would make the client repeat a request that was answered.
fn code_for(error: &BodyError) -> ErrorCode {
    match error {
        BodyError::Reset(code)
            if [ErrorCode::CANCEL, ErrorCode::ENHANCE_YOUR_CALM].contains(&ErrorCode(*code)) =>
        {
            ErrorCode(*code)
        }
        _ => ErrorCode::INTERNAL_ERROR,
    }
}

/// RFC 9113 section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing
/// connection-specific header fields."
fn strip(fields: &mut HeaderMap) {
    remove(fields, belongs_to_connection);
}

fn remove(fields: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = fields.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in names {
        fields.remove(name);
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

const _: () = {
    assert!(STATUS_BYTES == 10);
    assert!(CONTENT_RANGE_BYTES_MAX == 68);
};
