//! Sending half of a request stream, and bodies that are sent on it.

use crate::message::{BodyError, StreamBody};
use crate::reply_fields::{self, Qpack};
use crate::slow_clients::{ClientProgress, SlowClientPolicy, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use quinn::{SendStream, VarInt, WriteError};
use shoal_http3::{ErrorCode, data_head, headers};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

/// Writes one stream. When dropped before the end, the client sees a reset: no part of a reply
/// looks whole.
pub(super) struct QuicSender {
    stream: SendStream,
    is_over: bool,
}

/// Reason for not sending a whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyError {
    /// The client stopped the stream or closed the connection.
    ByClient,
    /// The client took nothing for too long, or was too slow overall.
    Stalled,
    /// The body failed, or differed from its announced length. The client gets this code.
    Body(ErrorCode),
}

impl QuicSender {
    /// Creates the half of a new stream.
    pub fn new(stream: SendStream) -> Self {
        Self { stream, is_over: false }
    }

    /// Writes as much as QUIC takes at once. Returns `true` if nothing is left; written buffers are
    /// empty then.
    pub fn write_now(&mut self, buffers: &mut [Bytes]) -> Result<bool, ReplyError> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if buffers.iter().all(Bytes::is_empty) {
                return Ok(true);
            }
            match self.poll_write(buffers, &mut context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Writes some bytes. Returns their number.
    fn poll_write(
        &mut self,
        buffers: &mut [Bytes],
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, ReplyError>> {
        let first = buffers.iter().position(|buffer| !buffer.is_empty()).unwrap_or(buffers.len());
        debug_assert!(first < buffers.len(), "something is written");
        let written = pin!(self.stream.write_chunks(&mut buffers[first..])).poll(context);
        Poll::Ready(match ready!(written) {
            Ok(written) => Ok(written.bytes),
            Err(WriteError::Stopped(_) | WriteError::ConnectionLost(_) | WriteError::ClosedStream) => {
                Err(ReplyError::ByClient)
            }
            Err(WriteError::ZeroRttRejected) => Err(ReplyError::ByClient),
        })
    }

    /// Ends the stream in order.
    pub fn finish(&mut self) -> Result<(), ReplyError> {
        debug_assert!(!self.is_over, "a stream ends once");
        self.stream.finish().map_err(|_| ReplyError::ByClient)?;
        self.is_over = true;
        Ok(())
    }

    /// Ends the stream with a code.
    pub fn reset(&mut self, code: ErrorCode) {
        if !std::mem::replace(&mut self.is_over, true) {
            // Fails if the client has stopped the stream, which is as good.
            let _ = self.stream.reset(VarInt::from_u32(code.0));
        }
    }

    /// Returns a future that ends when the client has stopped the stream or closed the connection.
    /// After the end of the stream, it ends when the client has acknowledged everything.
    pub fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let stopped = self.stream.stopped();
        async move {
            let _ = stopped.await;
        }
    }
}

impl Drop for QuicSender {
    fn drop(&mut self) {
        self.reset(ErrorCode::INTERNAL_ERROR);
    }
}

/// State of sending one reply.
pub(super) struct Http3Reply<'p> {
    pub stream: QuicSender,
    patience: &'p SlowClientPolicy,
    stall: Deadline,
    pace: ClientProgress,
    /// Bytes of the body passed to QUIC so far.
    pub sent: u64,
}

impl<'p> Http3Reply<'p> {
    /// Creates a sender on `stream`. `patience` sets the minimum speed of the client.
    pub fn new(stream: QuicSender, patience: &'p SlowClientPolicy) -> Self {
        let mut stall = Deadline::after(patience.pause);
        stall.lift();
        Self { stream, patience, stall, pace: ClientProgress::default(), sent: 0 }
    }

    /// Sends a field section, made by [`reply_fields`] with room for its frame's head.
    pub async fn section(&mut self, block: Vec<u8>) -> Result<(), ReplyError> {
        self.write(&mut [frame_of(block)]).await.map(drop)
    }

    /// Sends a body in memory, with its frame.
    pub async fn bytes(&mut self, bytes: Bytes) -> Result<(), ReplyError> {
        let (mut head, length) = (Vec::new(), bytes.len() as u64);
        data_head(&mut head, length);
        let mut buffers = [head.into(), bytes];
        let written = self.write(&mut buffers).await;
        self.sent += length - buffers[1].len() as u64;
        written
    }

    /// Sends bytes of a frame after its head.
    pub async fn data(&mut self, bytes: Bytes) -> Result<(), ReplyError> {
        let before = bytes.len() as u64;
        let mut buffers = [bytes];
        let written = self.write(&mut buffers).await;
        self.sent += before - buffers[0].len() as u64;
        written
    }

    /// Sends a body that arrives in frames. `length` is its announced length. With it, the body is
    /// one frame of HTTP/3.
    pub async fn frames(&mut self, frames: StreamBody, length: Option<u64>) -> Result<(), ReplyError> {
        if let Some(length) = length.filter(|length| *length > 0) {
            let mut head = Vec::new();
            data_head(&mut head, length);
            self.write(&mut [head.into()]).await?;
        }
        self.frames_within(frames, length).await
    }

    /// Sends such a body; the head of its frame, if `due` bytes are announced, was sent.
    pub async fn frames_within(
        &mut self,
        mut frames: StreamBody,
        mut due: Option<u64>,
    ) -> Result<(), ReplyError> {
        let mut stopped = pin!(self.stream.stopped());
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.frame() => frame,
                () = &mut stopped => return Err(ReplyError::ByClient),
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    tracing::debug!(%error, "reply cut");
                    return Err(ReplyError::Body(code_for(&error)));
                }
                None => return self.end(due, None).await,
            };
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => match &mut due {
                    Some(due) => {
                        let rest = due.checked_sub(data.len() as u64);
                        *due = rest.ok_or(ReplyError::Body(ErrorCode::INTERNAL_ERROR))?;
                        self.data(data).await?;
                    }
                    None => self.bytes(data).await?,
                },
                Err(frame) => return self.end(due, frame.into_trailers().ok()).await,
            }
        }
    }

    /// Sends the trailers. Fails if announced bytes are missing.
    async fn end(&mut self, due: Option<u64>, trailers: Option<HeaderMap>) -> Result<(), ReplyError> {
        if due.is_some_and(|due| due > 0) {
            return Err(ReplyError::Body(ErrorCode::INTERNAL_ERROR));
        }
        match trailers.and_then(reply_fields::trailers::<Qpack>) {
            Some(block) => self.section(block).await,
            None => Ok(()),
        }
    }

    /// Ends the stream with a code for the reason.
    pub fn stop(&mut self, why: ReplyError) {
        match why {
            ReplyError::ByClient | ReplyError::Stalled => self.stream.reset(ErrorCode::REQUEST_CANCELLED),
            ReplyError::Body(code) => self.stream.reset(code),
        }
    }

    /// Writes all buffers, at the client's pace.
    pub async fn write(&mut self, buffers: &mut [Bytes]) -> Result<(), ReplyError> {
        while buffers.iter().any(|buffer| !buffer.is_empty()) {
            let written = poll_fn(|context| {
                if let Poll::Ready(written) = self.stream.poll_write(buffers, context) {
                    self.stall.lift();
                    return Poll::Ready(written);
                }
                let TooSlow = ready!(self.pace.poll_stalled(&mut self.stall, context, self.patience));
                Poll::Ready(Err(ReplyError::Stalled))
            });
            let written = written.await?;
            debug_assert!(written > 0, "no room is waited for");
            self.pace.moved(written, self.patience).map_err(|TooSlow| ReplyError::Stalled)?;
        }
        Ok(())
    }
}

/// Returns the HEADERS frame of a field section with room in front.
pub(super) fn frame_of(mut block: Vec<u8>) -> Bytes {
    let start = headers(&mut block);
    Bytes::from(block).slice(start..)
}

/// Returns the error code for a failed body: a cancellation or overload at the origin matters to
/// clients. The origin uses the codes of HTTP/2 (RFC 9113 section 7).
fn code_for(error: &BodyError) -> ErrorCode {
    match error {
        BodyError::Reset(8) => ErrorCode::REQUEST_CANCELLED,
        BodyError::Reset(11) => ErrorCode::EXCESSIVE_LOAD,
        _ => ErrorCode::INTERNAL_ERROR,
    }
}
