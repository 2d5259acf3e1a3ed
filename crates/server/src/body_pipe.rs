//! Passes a request's body from the connection to the body's consumer, one frame at a time.
//!
//! The connection reads from the socket only while the consumer waits for a frame. A slow consumer
//! therefore slows the client down, and at most one frame is in memory. The consumer may live in
//! another task or thread.

use crate::message::BodyError;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Creates a pipe for a body of `length` bytes, or of unknown length.
pub(super) fn pipe(length: Option<u64>) -> (BodySink, PipedBody) {
    let state = PipeState { remaining: length, ..PipeState::default() };
    let shared = Arc::new(Mutex::new(state));
    (BodySink { shared: Arc::clone(&shared) }, PipedBody { shared })
}

/// End of the pipe held by the connection.
pub(super) struct BodySink {
    shared: Arc<Mutex<PipeState>>,
}

/// Demand of the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyDemand {
    /// The consumer waits for a frame.
    Frame,
    /// The consumer has dropped the body.
    Nothing,
}

/// End of the pipe held by the consumer.
pub(super) struct PipedBody {
    shared: Arc<Mutex<PipeState>>,
}

#[derive(Default)]
struct PipeState {
    frame: Option<Frame<Bytes>>,
    failure: Option<BodyError>,
    /// No frame follows the one held.
    ended: bool,
    /// The consumer waits for a frame.
    wanted: bool,
    /// The consumer has dropped its end.
    abandoned: bool,
    /// Bytes not yet taken by the consumer, if the length is known.
    remaining: Option<u64>,
    consumer: Option<Waker>,
    connection: Option<Waker>,
}

impl BodySink {
    /// Returns ready once the consumer waits for a frame or has dropped the body.
    pub fn poll_wanted(&mut self, context: &mut Context<'_>) -> Poll<BodyDemand> {
        let mut state = self.shared.lock();
        if state.abandoned {
            return Poll::Ready(BodyDemand::Nothing);
        }
        if state.wanted && state.frame.is_none() {
            return Poll::Ready(BodyDemand::Frame);
        }
        remember(&mut state.connection, context);
        Poll::Pending
    }

    /// Returns `true` if the consumer waits for a frame.
    pub fn is_wanted(&self) -> bool {
        let state = self.shared.lock();
        state.wanted && state.frame.is_none() && !state.abandoned
    }

    /// Returns `true` if the consumer has dropped its end.
    pub fn is_abandoned(&self) -> bool {
        self.shared.lock().abandoned
    }

    /// Passes data to the consumer, which must be waiting for a frame.
    pub fn send(&mut self, data: Bytes) {
        let mut state = self.shared.lock();
        debug_assert!(state.frame.is_none(), "one frame at a time");
        state.frame = Some(Frame::data(data));
        state.wanted = false;
        wake(&mut state.consumer);
    }

    /// Ends the body in order. With trailers, the consumer must be waiting for a frame.
    pub fn end(self, trailers: Option<HeaderMap>) {
        let mut state = self.shared.lock();
        debug_assert!(trailers.is_none() || state.frame.is_none(), "one frame at a time");
        state.frame = trailers.map(Frame::trailers).or(state.frame.take());
        state.ended = true;
        wake(&mut state.consumer);
    }

    /// Ends the body with an error.
    pub fn fail(self, error: BodyError) {
        let mut state = self.shared.lock();
        state.failure = Some(error);
        state.ended = true;
        wake(&mut state.consumer);
    }
}

impl Drop for BodySink {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !state.ended {
            state.failure = Some(BodyError::Cut("the client's connection ended".into()));
            state.ended = true;
            wake(&mut state.consumer);
        }
    }
}

impl Body for PipedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.shared.lock();
        if let Some(frame) = state.frame.take() {
            if let (Some(remaining), Some(data)) = (&mut state.remaining, frame.data_ref()) {
                *remaining = remaining.saturating_sub(data.len() as u64);
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(failure) = state.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.wanted = true;
        remember(&mut state.consumer, context);
        wake(&mut state.connection);
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let state = self.shared.lock();
        state.ended && state.frame.is_none() && state.failure.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.shared.lock().remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for PipedBody {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.abandoned = true;
        wake(&mut state.connection);
    }
}

fn remember(slot: &mut Option<Waker>, context: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(context.waker()),
        None => *slot = Some(context.waker().clone()),
    }
}

fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::future::poll_fn;

    #[tokio::test]
    async fn frames_pass_when_wanted() {
        let (mut sink, mut body) = pipe(Some(6));
        let consumer = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(frame) = body.frame().await {
                seen.push(frame.expect("no failure").into_data().expect("data"));
            }
            (seen, body.size_hint().exact())
        });
        for piece in ["abc", "def"] {
            assert_eq!(poll_fn(|context| sink.poll_wanted(context)).await, BodyDemand::Frame);
            sink.send(Bytes::from_static(piece.as_bytes()));
        }
        poll_fn(|context| sink.poll_wanted(context)).await;
        sink.end(None);
        let (seen, remaining) = consumer.await.expect("no panic");
        assert_eq!((seen.concat(), remaining), (b"abcdef".to_vec(), Some(0)));
    }

    #[tokio::test]
    async fn a_lost_connection_is_no_end() {
        let (sink, mut body) = pipe(None);
        drop(sink);
        assert!(matches!(body.frame().await, Some(Err(BodyError::Cut(_)))));
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_consumer_that_leaves_is_noticed() {
        let (mut sink, body) = pipe(None);
        let waiting = tokio::spawn(async move { poll_fn(|context| sink.poll_wanted(context)).await });
        tokio::task::yield_now().await;
        drop(body);
        assert_eq!(waiting.await.expect("no panic"), BodyDemand::Nothing);
    }
}
