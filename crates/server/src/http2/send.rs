//! Sends replies on an HTTP/2 stream within the limits of flow control.

use super::sending::StreamSender;
use super::state::ClosedStream;
use crate::message::{BodyError, StreamBody};
use crate::reply_fields::{self, Hpack};
use crate::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use shoal_http2::ErrorCode;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

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
        let sent = match trailers.and_then(reply_fields::trailers::<Hpack>) {
            None => self.stream.data(Bytes::new(), true),
            Some(block) => self.stream.trailers(block),
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
