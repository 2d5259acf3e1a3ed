//! Request body on its way to an origin, and its progress.
//!
//! The HTTP codec owns the body while it sends. The attempt that waits for the response keeps
//! another handle. The handle tells it the end of the request (the first-byte timeout starts
//! there), a failure of the body, and whether a retry is possible. A body with `Expect:
//! 100-continue` is held back until the origin asks for it.

use super::CONTINUE_WAIT;
use super::error::Cause;
use crate::message::{BodyError, RequestBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Codec's handle to the body.
pub(super) struct UploadStream(Arc<Upload>);

/// Attempt's handle to the body.
pub(super) struct Upload(Mutex<RequestStreamState>);

struct RequestStreamState {
    body: RequestBody,
    /// `true` once the codec may have the body. Until then its waker is kept.
    released: bool,
    waiting: Option<Waker>,
    touched: bool,
    finished: bool,
    failure: Option<String>,
    /// Time of the last frame or interim response.
    progress: Instant,
}

impl Upload {
    /// Creates a body to send, starting at `now`. `hold` keeps it back until [`Self::release`].
    pub fn new(body: RequestBody, hold: bool, now: Instant) -> Arc<Self> {
        let finished = body.as_ref().is_none_or(Body::is_end_stream);
        Arc::new(Self(Mutex::new(RequestStreamState {
            body,
            released: !hold || finished,
            waiting: None,
            touched: false,
            finished,
            failure: None,
            progress: now,
        })))
    }

    /// Returns the codec's handle.
    pub fn outgoing(self: &Arc<Self>) -> UploadStream {
        UploadStream(Arc::clone(self))
    }

    /// Releases a body that was held back.
    pub fn release(&self) {
        let mut state = self.0.lock();
        state.released = true;
        state.progress = Instant::now();
        if let Some(waker) = state.waiting.take() {
            drop(state);
            waker.wake();
        }
    }

    /// Records progress by the origin.
    pub fn progressed(&self) {
        self.0.lock().progress = Instant::now();
    }

    /// Returns the time of the last frame or interim response.
    pub fn progress(&self) -> Instant {
        self.0.lock().progress
    }

    /// Returns `true` if the request has no body, not even an empty one.
    pub fn is_absent(&self) -> bool {
        self.0.lock().body.is_none()
    }

    /// Returns `true` if the whole body was sent.
    pub fn is_finished(&self) -> bool {
        self.0.lock().finished
    }

    /// Returns the reason if the body failed.
    pub fn failure(&self) -> Option<String> {
        self.0.lock().failure.clone()
    }

    /// Takes the body back for another connection if no byte was taken, else returns `None`.
    pub fn take_untouched(&self) -> Option<RequestBody> {
        let mut state = self.0.lock();
        (!state.touched).then(|| state.body.take())
    }

    /// Returns the time at which the origin is overdue: `timeout` after the last progress. For a
    /// body held back, returns the time of its release.
    pub fn due(&self, timeout: Duration) -> Instant {
        let state = self.0.lock();
        state.progress + if state.released { timeout } else { CONTINUE_WAIT }
    }

    /// Handles this time: returns the cause of the timeout, or releases a held body and returns
    /// `None`.
    pub fn fell_due(&self) -> Option<Cause> {
        let (released, finished) = {
            let state = self.0.lock();
            (state.released, state.finished)
        };
        if !released {
            self.release();
            return None;
        }
        Some(if finished { Cause::ResponseTimeout } else { Cause::WriteTimeout })
    }

    /// Waits until the origin is overdue.
    pub async fn overdue(&self, timeout: Duration) -> Cause {
        loop {
            let due = self.due(timeout);
            tokio::time::sleep_until(due).await;
            if due == self.due(timeout)
                && let Some(cause) = self.fell_due()
            {
                return cause;
            }
        }
    }
}

impl Body for UploadStream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let state = &mut *self.0.0.lock();
        if !state.released {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let Some(body) = &mut state.body else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(&mut *body).poll_frame(cx));
        state.progress = Instant::now();
        match &frame {
            Some(Ok(_)) => {
                state.touched = true;
                state.finished = body.is_end_stream();
            }
            Some(Err(error)) => {
                state.touched = true;
                state.failure = Some(error.to_string());
            }
            None => state.finished = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.0.lock().body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.0.lock().body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
