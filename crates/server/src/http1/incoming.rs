//! Reads a request's body from the socket and passes it to its consumer.

use crate::body_pipe::{BodyDemand, BodySink, pipe};
use crate::client_io::ClientIo;
use crate::message::{BodyError, RequestBody, StreamBody};
use crate::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::socket::{BufferedConnection, LostClient};
use crate::transport::Deadline;
use crate::transport::spare::BODY_BYTES;
use bytes::Bytes;
use http::HeaderMap;
use shoal_wire::{BodyDecoder, BodyEvent, BodyFraming, RequestHead, RequestRefusal};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// State of the body of the current request.
pub(super) struct RequestBodyReader {
    decoder: BodyDecoder,
    /// Pipe to the consumer, until the body has ended, failed or is no longer wanted.
    sink: Option<BodySink>,
    /// The client waits for `100 Continue`.
    continue_owed: bool,
    /// The reply has begun: an interim response would stand within the reply.
    replying: bool,
    /// The framing failed, or the client paused for too long.
    failed: bool,
    /// Deadline of the current pause; created at the client's first pause.
    stall: Option<Deadline>,
    /// Speed at which the client sends.
    pace: ClientProgress,
    /// Bytes to reserve for the next read: more for a client that filled the last one.
    room: usize,
}

/// Reason for a body's failure.
#[derive(Debug)]
pub(super) enum RequestBodyFailure {
    /// The client has gone.
    Gone,
    /// The client sent invalid framing, or stalled.
    Refused(RequestRefusal),
}

impl RequestBodyReader {
    /// Creates both ends of the body of a request with this head. Returns `None` if the request has
    /// no body.
    pub fn of(head: &RequestHead) -> Option<(Self, RequestBody)> {
        let length = match head.body {
            BodyFraming::None => return None,
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked => None,
        };
        let (sink, body) = pipe(length);
        let incoming = Self {
            decoder: BodyDecoder::new(head.body),
            sink: Some(sink),
            continue_owed: head.expects_continue,
            replying: false,
            failed: false,
            stall: None,
            pace: ClientProgress::default(),
            room: BODY_ROOM,
        };
        Some((incoming, Some(StreamBody::new(body))))
    }

    /// Returns `true` if a consumer waits for more of the body.
    pub fn is_active(&self) -> bool {
        self.sink.is_some()
    }

    /// Returns `true` if the connection can be reused after the reply, as far as known in advance.
    pub fn may_keep(&self) -> bool {
        let wanted = self.sink.as_ref().is_some_and(|sink| !sink.is_abandoned());
        let soon_over = wanted || self.decoder.remaining().is_none_or(|rest| rest <= DRAIN_BYTES_MAX);
        // A client without `100 Continue` may send its body or the next request. The server cannot
        // tell the two apart.
        !self.failed && !self.continue_owed && soon_over
    }

    /// Records that the handler passed on a 100 response, which replaces ours.
    pub fn continue_sent(&mut self) {
        self.continue_owed = false;
    }

    /// Prepares for the reply's start. If the consumer wants the body now, `100 Continue` is sent
    /// first. Otherwise the client gets only the final status, and decides whether to send the
    /// body.
    pub fn reply_begins<T>(&mut self, socket: &mut BufferedConnection<T>) {
        if self.sink.as_ref().is_some_and(BodySink::is_wanted) {
            self.ask(socket);
        }
        self.replying = true;
    }

    fn ask<T>(&mut self, socket: &mut BufferedConnection<T>) {
        if self.continue_owed && !self.replying {
            self.continue_owed = false;
            // RFC 9110 section 10.1.1: a server may omit 100 once content has begun to arrive.
            if socket.input.is_empty() {
                socket.output.head.extend_from_slice(CONTINUE);
            }
        }
    }

    /// Passes received bytes to the consumer on demand. Returns ready only if the body fails; its
    /// end is not reported.
    pub fn poll<T: ClientIo>(
        &mut self,
        socket: &mut BufferedConnection<T>,
        context: &mut Context<'_>,
        patience: &SlowClientPolicy,
    ) -> Poll<RequestBodyFailure> {
        while let Some(sink) = &mut self.sink {
            match sink.poll_wanted(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(BodyDemand::Nothing) => {
                    self.sink = None;
                    return Poll::Pending;
                }
                Poll::Ready(BodyDemand::Frame) => {}
            }
            self.ask(socket);
            match self.decoder.decode(&mut socket.input) {
                Ok(BodyEvent::Data(data)) => {
                    if self.pace.moved(data.len(), patience) == Err(TooSlow) {
                        return Poll::Ready(self.fail(BodyError::Timeout));
                    }
                    self.pass_on(data);
                }
                Ok(BodyEvent::End(trailers)) => self.end(trailers),
                Ok(BodyEvent::NeedMore) => match socket.poll_fill(context, self.room) {
                    Poll::Ready(Ok(count)) if count > 0 => {
                        self.room = if count < BODY_ROOM { BODY_ROOM } else { BODY_BYTES };
                    }
                    Poll::Ready(_) => return Poll::Ready(self.fail_gone()),
                    Poll::Pending => return self.poll_stalled(context, patience),
                },
                Err(malformed) => return Poll::Ready(self.fail(BodyError::Malformed(malformed.0))),
            }
        }
        Poll::Pending
    }

    fn pass_on(&mut self, data: Bytes) {
        if let Some(stall) = &mut self.stall {
            stall.lift();
        }
        if let Some(sink) = &mut self.sink {
            sink.send(data);
        }
        // The last byte of a known length ends the body, so the consumer need not ask for another
        // frame.
        if self.decoder.is_ended() {
            self.end(None);
        }
    }

    fn end(&mut self, trailers: Option<HeaderMap>) {
        if let Some(sink) = self.sink.take() {
            sink.end(trailers);
        }
    }

    fn poll_stalled(
        &mut self,
        context: &mut Context<'_>,
        patience: &SlowClientPolicy,
    ) -> Poll<RequestBodyFailure> {
        let stall = self.stall.get_or_insert_with(|| Deadline::after(patience.pause));
        ready!(self.pace.poll_stalled(stall, context, patience));
        Poll::Ready(self.fail(BodyError::Timeout))
    }

    fn fail_gone(&mut self) -> RequestBodyFailure {
        self.failed = true;
        self.sink = None;
        RequestBodyFailure::Gone
    }

    fn fail(&mut self, error: BodyError) -> RequestBodyFailure {
        self.failed = true;
        let refusal = match error {
            BodyError::Malformed(reason) => RequestRefusal::bad_request(reason),
            _ => super::REQUEST_TIMEOUT,
        };
        if let Some(sink) = self.sink.take() {
            sink.fail(error);
        }
        RequestBodyFailure::Refused(refusal)
    }

    /// Reads and drops the rest of the body after the reply, so that the connection can be reused.
    /// Returns `false` if the rest is too long or too late.
    pub async fn discard<T: ClientIo>(mut self, socket: &mut BufferedConnection<T>) -> bool {
        self.sink = None;
        let mut dropped = 0;
        let discarding = async {
            loop {
                match self.decoder.decode(&mut socket.input) {
                    Ok(BodyEvent::End(_)) => return true,
                    Ok(BodyEvent::Data(data)) => dropped += data.len() as u64,
                    Ok(BodyEvent::NeedMore) => {
                        let filled = poll_fn(|context| socket.poll_fill(context, BODY_ROOM)).await;
                        if !filled.is_ok_and(|count| count > 0) {
                            return false;
                        }
                    }
                    Err(_) => return false,
                }
                if dropped > DRAIN_BYTES_MAX {
                    return false;
                }
            }
        };
        let may = !self.failed && !self.continue_owed;
        may && tokio::time::timeout(DRAIN_TIME, discarding).await.unwrap_or(false)
    }

    /// Returns `true` if the whole body was read.
    pub fn is_ended(&self) -> bool {
        self.decoder.is_ended()
    }
}

impl From<LostClient> for RequestBodyFailure {
    fn from(_: LostClient) -> Self {
        Self::Gone
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes reserved for a read of a body from a slow client. Up to [`BODY_BYTES`] are reserved
/// for others.
const BODY_ROOM: usize = 16 * 1024;

/// Maximum bytes of an unwanted body read in order to keep the connection.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// Maximum time for reading them.
const DRAIN_TIME: Duration = Duration::from_secs(5);

const _: () = assert!(BODY_ROOM <= BODY_BYTES && BODY_ROOM as u64 <= DRAIN_BYTES_MAX);
