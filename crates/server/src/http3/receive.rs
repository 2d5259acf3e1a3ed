//! Receiving half of a request stream.

use crate::http2::held_heads::{HeldHead, HeldHeads};
use crate::message::BodyError;
use bytes::Bytes;
use quinn::{ReadError, RecvStream, VarInt};
use shoal_http3::{ErrorCode, Part, RequestReader, StreamFault};
use shoal_wire::HeadLimits;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

/// Reads one stream. When dropped before the end, the client is told that the rest is not needed.
pub(super) struct RequestStream {
    stream: RecvStream,
    reader: RequestReader,
    /// Limits on the heads of the connection.
    heads: HeldHeads,
    /// Share of a field section that has not arrived whole.
    gathering: Option<HeldHead>,
    /// Bytes that have arrived and were not read yet.
    chunk: Bytes,
    /// Field section of the head, once it has arrived.
    head: Option<Bytes>,
    /// Part behind the head that was read to see if there is one.
    next: Option<Part>,
    /// The client has ended the stream, and everything was read.
    is_ended: bool,
    /// Reason for reading no more. It stays: the reader has lost its place.
    failed: Option<ReceiveError>,
}

/// Reason for reading no more of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// The bytes are no valid request.
    Fault(StreamFault),
    /// The client reset the stream.
    Reset,
    /// The connection has ended.
    Gone,
}

impl RequestStream {
    /// Creates the half of a new stream.
    pub fn new(stream: RecvStream, limits: &HeadLimits, heads: &HeldHeads) -> Self {
        Self {
            stream,
            reader: RequestReader::new(limits.head_bytes_max),
            heads: heads.clone(),
            gathering: None,
            chunk: Bytes::new(),
            head: None,
            next: None,
            is_ended: false,
            failed: None,
        }
    }

    /// Reads the bytes that are there. Returns `true` if they are a whole request without a body.
    pub async fn arrived(&mut self) -> bool {
        poll_fn(|context| {
            let has_head = matches!(self.poll_head(context), Poll::Ready(Ok(())));
            let has_more = has_head && matches!(self.poll_body_or_end(context), Poll::Ready(Ok(())));
            Poll::Ready(has_more && self.is_ended)
        })
        .await
    }

    /// Returns the field section of the head, if it has arrived.
    pub fn head(&self) -> Option<&Bytes> {
        self.head.as_ref()
    }

    /// Frees the field section of the head, which keeps all of the packets that it came in.
    pub fn forget_head(&mut self) {
        self.head = None;
    }

    /// Returns `true` if no more bytes will come.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Waits for the field section of the head.
    pub fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
        if self.head.is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.poll_part(context))? {
            Some(Part::Head(section)) => {
                self.head = Some(section);
                Poll::Ready(Ok(()))
            }
            part => unreachable!("the reader begins with the head, not {part:?}"),
        }
    }

    /// Waits until the stream has ended or a part behind the head has arrived. Unknown frames are
    /// no part: clients send some behind a head, so that servers learn to skip them.
    pub fn poll_body_or_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
        debug_assert!(self.head.is_some(), "the head comes first");
        if self.next.is_none() && !self.is_ended {
            self.next = ready!(self.poll_part(context))?;
            debug_assert!(self.next.is_some() || self.is_ended);
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the next part; `None` at the end.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Part>, ReceiveError>> {
        if let Some(part) = self.next.take() {
            return Poll::Ready(Ok(Some(part)));
        }
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        let part = ready!(self.poll_next(context));
        self.failed = part.as_ref().err().copied();
        Poll::Ready(part)
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Part>, ReceiveError>> {
        loop {
            if self.is_ended {
                return Poll::Ready(Ok(None));
            }
            if let Some(part) = self.reader.take(&mut self.chunk).map_err(ReceiveError::Fault)? {
                self.gathering = None;
                return Poll::Ready(Ok(Some(part)));
            }
            debug_assert!(self.chunk.is_empty());
            self.hold_section()?;
            if !ready!(self.poll_chunk(context))? {
                self.reader.end().map_err(ReceiveError::Fault)?;
                self.is_ended = true;
            }
        }
    }

    /// Takes the share of a field section that arrives in parts.
    fn hold_section(&mut self) -> Result<(), ReceiveError> {
        if self.gathering.is_none()
            && let Some(bytes) = self.reader.awaited_section()
        {
            self.gathering = self.heads.hold(bytes);
            if self.gathering.is_none() {
                return Err(ReceiveError::Fault(StreamFault::FieldsTooLarge));
            }
        }
        Ok(())
    }

    /// Reads the next bytes into the chunk. Returns `false` at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, ReceiveError>> {
        debug_assert!(self.chunk.is_empty() && !self.is_ended);
        let read = pin!(self.stream.read_chunk(CHUNK_BYTES_MAX, true)).poll(context);
        Poll::Ready(match ready!(read) {
            Ok(Some(chunk)) => {
                self.chunk = chunk.bytes;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(ReadError::Reset(_)) => Err(ReceiveError::Reset),
            Err(_) => Err(ReceiveError::Gone),
        })
    }

    /// Tells the client that the rest is not needed.
    pub fn stop(&mut self, code: ErrorCode) {
        // Fails if the stream has ended, which is as good.
        let _ = self.stream.stop(VarInt::from_u32(code.0));
        self.is_ended = true;
    }
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        if !self.is_ended {
            // RFC 9114 section 4.1: a server that needs no more of a request "MAY request that the
            // client abort transmission … without error", with H3_NO_ERROR.
            self.stop(ErrorCode::NO_ERROR);
        }
    }
}

impl From<ReceiveError> for BodyError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Fault(_) => Self::Malformed("invalid frames"),
            ReceiveError::Reset => Self::Cut("stream reset".into()),
            ReceiveError::Gone => Self::Cut("connection lost".into()),
        }
    }
}

/// Most bytes read at once.
const CHUNK_BYTES_MAX: usize = 64 * 1024;
