//! A request's body on its way from the socket to its consumer.

use crate::message::{BodyError, RequestBody, StreamBody};
use crate::server::body_pipe::{BodyDemand, BodySink, pipe};
use crate::server::client_io::ClientIo;
use crate::server::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::server::socket::{BufferedConnection, ClientGone};
use crate::transport::Deadline;
use bytes::Bytes;
use http::HeaderMap;
use shoal_wire::{BodyDecoder, BodyFraming, Decoded, RequestHead, RequestRefusal};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Where the body of the request being answered stands.
pub(super) struct RequestBodyReader {
    decoder: BodyDecoder,
    /// The consumer, until the body has ended, failed or is no longer wanted.
    sink: Option<BodySink>,
    /// The client waits for `100 Continue`.
    continue_owed: bool,
    /// The reply has begun: an interim response would stand within it.
    replying: bool,
    /// The framing failed, or the client paused for too long.
    failed: bool,
    /// When to give up a client that pauses; made at its first pause.
    stall: Option<Deadline>,
    /// How fast it sends.
    pace: ClientProgress,
}

/// Why a body failed.
#[derive(Debug)]
pub(super) enum RequestBodyFailure {
    /// The client has gone.
    Gone,
    /// It sent what makes no sense, or stalled.
    Refused(RequestRefusal),
}

impl RequestBodyReader {
    /// The body of a request with this head, for both ends. `None` when it has none.
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
        };
        Some((incoming, Some(StreamBody::new(body))))
    }

    /// Whether somebody still waits for more of it.
    pub fn is_active(&self) -> bool {
        self.sink.is_some()
    }

    /// Whether the connection can be used further once the reply is sent, as far as it can be told
    /// before.
    pub fn may_keep(&self) -> bool {
        let wanted = self.sink.as_ref().is_some_and(|sink| !sink.is_abandoned());
        let soon_over = wanted || self.decoder.remaining().is_none_or(|rest| rest <= DRAIN_BYTES_MAX);
        // A client that was not told to continue may send its body or the next request: it cannot
        // be told apart.
        !self.failed && !self.continue_owed && soon_over
    }

    /// An interim 100 that the handler passed on stands for ours.
    pub fn continue_sent(&mut self) {
        self.continue_owed = false;
    }

    /// The reply is about to be written. A body that is wanted by now is asked for before; a client
    /// that is not asked then has its final status instead of a word, and sends the body or leaves
    /// it.
    pub fn reply_begins<T>(&mut self, socket: &mut BufferedConnection<T>) {
        if self.sink.as_ref().is_some_and(BodySink::is_wanted) {
            self.ask(socket);
        }
        self.replying = true;
    }

    fn ask<T>(&mut self, socket: &mut BufferedConnection<T>) {
        if self.continue_owed && !self.replying {
            self.continue_owed = false;
            // Content that has begun to arrive needs no word (RFC 9110 section 10.1.1).
            if socket.input.is_empty() {
                socket.output.head.extend_from_slice(CONTINUE);
            }
        }
    }

    /// Moves what the consumer wants and the client has sent. Ready only when the body fails; its
    /// end is no event.
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
                Ok(Decoded::Data(data)) => {
                    if self.pace.moved(data.len(), patience) == Err(TooSlow) {
                        return Poll::Ready(self.fail(BodyError::Timeout));
                    }
                    self.pass_on(data);
                }
                Ok(Decoded::End(trailers)) => self.end(trailers),
                Ok(Decoded::NeedMore) => match socket.poll_fill(context, BODY_ROOM) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
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
        // The last byte of a known length is the end: whoever has it need not ask for another
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

    /// Reads and drops what is left of the body after the reply, so that the connection can be used
    /// further. False when that is not worth it.
    pub async fn discard<T: ClientIo>(mut self, socket: &mut BufferedConnection<T>) -> bool {
        self.sink = None;
        let mut dropped = 0;
        let discarding = async {
            loop {
                match self.decoder.decode(&mut socket.input) {
                    Ok(Decoded::End(_)) => return true,
                    Ok(Decoded::Data(data)) => dropped += data.len() as u64,
                    Ok(Decoded::NeedMore) => {
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

    /// Whether all of it was read.
    pub fn is_ended(&self) -> bool {
        self.decoder.is_ended()
    }
}

impl From<ClientGone> for RequestBodyFailure {
    fn from(_: ClientGone) -> Self {
        Self::Gone
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Room made for each read of a body; the largest frame handed on.
const BODY_ROOM: usize = 16 * 1024;

/// Bytes of an unwanted body that are read to save the connection.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(5);

const _: () = assert!(BODY_ROOM as u64 <= DRAIN_BYTES_MAX);
