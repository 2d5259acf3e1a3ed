//! Request body on an HTTP/3 stream.

use super::Http3Context;
use super::receive::{ReceiveError, RequestStream};
use super::unread_bodies::{Room, UnreadBody};
use crate::message::{BodyError, Handler, InterimSink};
use crate::slow_clients::{ClientProgress, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use shoal_http2::hpack::FieldList;
use shoal_http3::{ErrorCode, Part, StreamFault, qpack};
use shoal_wire::chunk::may_trail;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Reads data and trailers. QUIC opens the stream's window only for the bytes taken.
pub(super) struct H3Body<H: Handler> {
    stream: RequestStream,
    context: Arc<Http3Context<H>>,
    /// Sink for `100 Continue` once the body is wanted, if the client waits for it.
    continue_to: Option<InterimSink>,
    /// Bytes still to come, if the client announced the length.
    remaining: Option<u64>,
    stall: Option<Deadline>,
    pace: ClientProgress,
    begun: Instant,
    /// Time at which the client last sent something.
    heard: Instant,
    /// The bytes that this body may hold of the connection's window.
    unread: UnreadBody,
    is_over: bool,
}

type BodyFrame = Option<Result<Frame<Bytes>, BodyError>>;

impl<H: Handler> H3Body<H> {
    /// Creates the body of a stream after its head.
    pub fn new(
        stream: RequestStream,
        context: Arc<Http3Context<H>>,
        continue_to: Option<InterimSink>,
        length: Option<u64>,
    ) -> Self {
        let (stall, pace, is_over) = (None, ClientProgress::default(), false);
        let (begun, unread) = (Instant::now(), context.unread.open());
        let heard = begun;
        Self { stream, context, continue_to, remaining: length, stall, pace, begun, heard, unread, is_over }
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<BodyFrame> {
        let Poll::Ready(part) = self.stream.poll_part(context) else {
            self.unread.is_read(Instant::now);
            let TooSlow = ready!(self.poll_stalled(context));
            return self.fail(ErrorCode::REQUEST_CANCELLED, BodyError::Timeout);
        };
        let patience = &self.context.live.patience;
        let now = Instant::now();
        if self.unread.is_waiting() && self.blamed_from() > now {
            // The client may have waited for room, not the server for the client.
            self.pace = ClientProgress::default();
        }
        self.heard = now;
        self.unread.is_unread();
        if let Some(stall) = &mut self.stall {
            stall.lift();
        }
        match part {
            Ok(Some(Part::Data(data))) => {
                if self.pace.moved(data.len(), patience) == Err(TooSlow) {
                    return self.fail(ErrorCode::REQUEST_CANCELLED, BodyError::Timeout);
                }
                if let Some(remaining) = &mut self.remaining {
                    match remaining.checked_sub(data.len() as u64) {
                        Some(rest) => *remaining = rest,
                        None => return self.lie(),
                    }
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Ok(Some(Part::Trailers(section))) => self.trailers(&section),
            Ok(Some(Part::Head(_))) => unreachable!("the head was read"),
            Ok(None) if self.remaining.is_some_and(|remaining| remaining > 0) => self.lie(),
            Ok(None) => {
                self.end();
                Poll::Ready(None)
            }
            Err(error) => {
                match error {
                    ReceiveError::Fault(StreamFault::Connection(code)) => self.context.give_up(code),
                    ReceiveError::Fault(_) => self.context.note_error(),
                    ReceiveError::Reset => self.context.note_reset(),
                    ReceiveError::Gone => {}
                }
                self.fail(ErrorCode::MESSAGE_ERROR, error.into())
            }
        }
    }

    /// Waits for the client. Returns ready once it could send and has not for too long.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<TooSlow> {
        loop {
            let now = Instant::now();
            let patience = &self.context.live.patience;
            let due = self.blamed_from();
            let stall = self.stall.get_or_insert_with(|| Deadline::after(patience.pause));
            if due <= now {
                return self.pace.poll_stalled(stall, context, patience);
            }
            // Other bodies hold the connection's window, or have held it. The client is not at
            // fault, and its time starts again.
            self.pace = ClientProgress::default();
            stall.set_if_lifted(patience.pause);
            ready!(stall.poll_passed(context));
            stall.set(due);
        }
    }

    /// Returns the time from which a silent client is at fault, as far as is known now. Other
    /// bodies that may hold the connection's window put it off, but not for ever: the server does
    /// not see if they have any bytes.
    fn blamed_from(&self) -> Instant {
        let pause = self.context.live.patience.pause;
        let latest = self.heard + pause * PAUSES_WITHOUT_ROOM;
        match self.context.unread.room() {
            Room::Since(Some(since)) => latest.min(since + pause),
            Room::Since(None) => self.begun,
            Room::MayBeHeld => latest,
        }
    }

    /// RFC 9114 section 4.1.2: a request "is malformed if the value of the Content-Length
    /// header field does not equal the sum of the DATA frame lengths received."
    fn lie(&mut self) -> Poll<BodyFrame> {
        self.context.note_error();
        self.fail(ErrorCode::MESSAGE_ERROR, BodyError::Malformed("body differs from its Content-Length"))
    }

    fn trailers(&mut self, section: &[u8]) -> Poll<BodyFrame> {
        if self.remaining.is_some_and(|remaining| remaining > 0) {
            return self.lie();
        }
        let mut fields = FieldList::default();
        if qpack::decode(section, &mut fields, self.context.live.limits.head_bytes_max).is_err() {
            self.context.give_up(ErrorCode::DECOMPRESSION_FAILED);
            return self.fail(ErrorCode::MESSAGE_ERROR, BodyError::Malformed("invalid trailers"));
        }
        let read = shoal_http2::trailers(&fields).ok().filter(|_| !fields.is_too_large());
        let Some(trailers) = read else {
            self.context.note_error();
            return self.fail(ErrorCode::MESSAGE_ERROR, BodyError::Malformed("invalid trailers"));
        };
        let kept: HeaderMap = trailers
            .iter()
            .filter(|(name, _)| may_trail(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Poll::Ready(Some(Ok(Frame::trailers(kept))))
    }

    fn end(&mut self) {
        self.is_over = true;
        self.unread.is_read(Instant::now);
    }

    fn fail(&mut self, code: ErrorCode, error: BodyError) -> Poll<BodyFrame> {
        self.end();
        self.stream.stop(code);
        Poll::Ready(Some(Err(error)))
    }
}

/// Longest silence of a client that may have no room, in pauses that others may make.
const PAUSES_WITHOUT_ROOM: u32 = 4;

impl<H: Handler> Body for H3Body<H> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BodyFrame> {
        if let Some(sink) = self.continue_to.take() {
            // A full channel means that the client has got other interim responses and does not
            // wait.
            let _ = sink.try_send((StatusCode::CONTINUE, HeaderMap::new()));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        self.poll_data(context)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.stream.is_ended() && self.remaining.is_none_or(|remaining| remaining == 0)
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
