//! Sending replies on an HTTP/2 stream, within what flow control allows.

use crate::message::{Hit, ReplyHead, StreamBody};
use crate::server::dates::with_date;
use crate::server::patience::{Pace, Patience, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header::{AGE, CONTENT_LENGTH, DATE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use shoal_wire::chunk::may_trail;
use shoal_wire::response::{belongs_to_connection, push_decimal};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Sends one body.
pub(super) struct BodySender<'p> {
    stream: SendStream<Bytes>,
    patience: &'p Patience,
    stall: Deadline,
    pace: Pace,
    /// Bytes handed to the connection so far.
    pub sent: u64,
}

/// Why a body was not sent whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The client reset the stream or closed the connection.
    ByClient,
    /// The client opened no window for too long, or too little in all.
    Stalled,
    /// The body failed, or was not as long as announced.
    Body,
}

impl<'p> BodySender<'p> {
    /// Sends on `stream`, to a client that must not be too slow to take it.
    pub fn new(stream: SendStream<Bytes>, patience: &'p Patience) -> Self {
        let mut stall = Deadline::after(patience.pause);
        stall.lift();
        Self { stream, patience, stall, pace: Pace::default(), sent: 0 }
    }

    /// Sends `bytes`, and the end after them when `last`.
    pub async fn bytes(&mut self, mut bytes: Bytes, last: bool) -> Result<(), Stopped> {
        while !bytes.is_empty() {
            self.stream.reserve_capacity(bytes.len());
            let room = poll_fn(|context| self.poll_room(context)).await?;
            let piece = bytes.split_to(room.min(bytes.len()));
            self.pace.moved(piece.len(), self.patience)?;
            self.sent += piece.len() as u64;
            let end = last && bytes.is_empty();
            self.stream.send_data(piece, end).map_err(|_| Stopped::ByClient)?;
        }
        Ok(())
    }

    /// Sends a body that arrives in frames; `length` when it was announced.
    pub async fn frames(&mut self, mut frames: StreamBody, length: Option<u64>) -> Result<(), Stopped> {
        let mut due = length;
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.frame() => frame,
                () = self.reset() => return Err(Stopped::ByClient),
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    tracing::debug!(%error, "reply cut");
                    return Err(Stopped::Body);
                }
                None => return self.end(due, None),
            };
            match frame.into_data() {
                Ok(data) => {
                    if let Some(due) = &mut due {
                        *due = due.checked_sub(data.len() as u64).ok_or(Stopped::Body)?;
                    }
                    self.bytes(data, false).await?;
                }
                Err(frame) => return self.end(due, frame.into_trailers().ok()),
            }
        }
    }

    /// Ends the stream in order, unless bytes are missing.
    fn end(&mut self, due: Option<u64>, trailers: Option<HeaderMap>) -> Result<(), Stopped> {
        if due.is_some_and(|due| due > 0) {
            return Err(Stopped::Body);
        }
        let mut trailers = trailers.unwrap_or_default();
        remove(&mut trailers, |name| !may_trail(name));
        let sent = match trailers.is_empty() {
            true => self.stream.send_data(Bytes::new(), true),
            false => self.stream.send_trailers(trailers),
        };
        sent.map_err(|_| Stopped::ByClient)
    }

    /// Tells the client why nothing more comes.
    pub fn stop(&mut self, why: &Stopped) {
        match why {
            Stopped::ByClient => {}
            Stopped::Stalled => self.stream.send_reset(Reason::CANCEL),
            Stopped::Body => self.stream.send_reset(Reason::INTERNAL_ERROR),
        }
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, Stopped>> {
        loop {
            let room = self.stream.capacity();
            if room > 0 {
                self.stall.lift();
                return Poll::Ready(Ok(room));
            }
            match self.stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(Err(Stopped::ByClient)),
                Poll::Pending => {
                    let TooSlow = ready!(self.pace.poll_stalled(&mut self.stall, context, self.patience));
                    return Poll::Ready(Err(Stopped::Stalled));
                }
            }
        }
    }

    async fn reset(&mut self) {
        // An error means that the connection has ended, which is as good as a reset.
        let _ = poll_fn(|context| self.stream.poll_reset(context)).await;
    }
}

impl From<TooSlow> for Stopped {
    fn from(_: TooSlow) -> Self {
        Self::Stalled
    }
}

/// The head of a reply with `length` as its Content-Length, if any.
pub(super) fn head(reply: ReplyHead, length: Option<u64>, now: Instant) -> Response<()> {
    let (status, mut fields) = match reply {
        ReplyHead::Built(status, fields) => (status, fields),
        ReplyHead::Relayed(head) => (head.status, head.lines.to_map()),
        ReplyHead::Stored { stored, age_seconds, cache_status, proxy_status } => {
            let mut fields = stored.fields();
            fields.insert(AGE, HeaderValue::from(age_seconds));
            if let Ok(value) = HeaderValue::from_maybe_shared(cache_status) {
                fields.append(CACHE_STATUS, value);
            }
            fields.append(PROXY_STATUS, proxy_status);
            (stored.status(), fields)
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
    respond(status, fields)
}

/// The head of a hit in RAM, as [`head`] makes it of the same reply.
pub(super) fn hit(hit: &Hit<'_>, now: Instant) -> Response<()> {
    let mut fields = hit.stored.fields();
    fields.insert(AGE, HeaderValue::from(hit.age_seconds));
    let mut cache_status = hit.own.cache_status_value().to_vec();
    push_decimal(&mut cache_status, hit.ttl_seconds);
    if let Ok(value) = HeaderValue::try_from(cache_status) {
        fields.append(CACHE_STATUS, value);
    }
    fields.append(PROXY_STATUS, hit.own.proxy_status_value.clone());
    fields.insert(CONTENT_LENGTH, HeaderValue::from(hit.body.len()));
    if !hit.stored.is_dated()
        && let Ok(date) = with_date(now, HeaderValue::from_bytes)
    {
        fields.insert(DATE, date);
    }
    respond(hit.stored.status(), fields)
}

/// Bytes of a head's names and values. What HPACK makes of them depends on what the connection carried before, and the
/// codec does not tell.
pub(super) fn head_bytes(head: &Response<()>) -> u64 {
    let fields = head.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    (":status".len() + head.status().as_str().len() + fields.sum::<usize>()) as u64
}

/// An interim response.
pub(super) fn interim(status: StatusCode, mut fields: HeaderMap) -> Response<()> {
    strip(&mut fields);
    respond(status, fields)
}

/// RFC 9113 section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing connection-specific header
/// fields."
fn strip(fields: &mut HeaderMap) {
    remove(fields, belongs_to_connection);
}

fn remove(fields: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = fields.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in names {
        fields.remove(name);
    }
}

fn respond(status: StatusCode, fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
