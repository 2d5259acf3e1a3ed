//! A request's body on its way to an origin, and what is known of it meanwhile.
//!
//! The HTTP codec owns the body while it sends; the attempt that waits for the response keeps the
//! other handle, and learns from it when the request ended (the first-byte timeout counts from
//! there), whether the body failed, and whether it may be sent again. A body whose request says
//! `Expect: 100-continue` is held back until the origin asks for it.

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

/// The body as the codec sees it.
pub(super) struct UploadStream(Arc<Upload>);

/// The body as the attempt sees it.
pub(super) struct Upload(Mutex<State>);

struct State {
    body: RequestBody,
    /// Whether the codec may have it; until then its waker is kept.
    released: bool,
    waiting: Option<Waker>,
    touched: bool,
    finished: bool,
    failure: Option<String>,
    /// When a frame last passed, or an interim response came.
    progress: Instant,
}

impl Upload {
    /// A body to send from `now` on; `hold` keeps it back until [`Self::release`].
    pub fn new(body: RequestBody, hold: bool, now: Instant) -> Arc<Self> {
        let finished = body.as_ref().is_none_or(Body::is_end_stream);
        Arc::new(Self(Mutex::new(State {
            body,
            released: !hold || finished,
            waiting: None,
            touched: false,
            finished,
            failure: None,
            progress: now,
        })))
    }

    /// The handle for the codec.
    pub fn outgoing(self: &Arc<Self>) -> UploadStream {
        UploadStream(Arc::clone(self))
    }

    /// Lets a body go that was held back.
    pub fn release(&self) {
        let mut state = self.0.lock();
        state.released = true;
        state.progress = Instant::now();
        if let Some(waker) = state.waiting.take() {
            drop(state);
            waker.wake();
        }
    }

    /// Takes note of a sign of life from the origin.
    pub fn progressed(&self) {
        self.0.lock().progress = Instant::now();
    }

    /// When a frame last went out, or an interim response came.
    pub fn progress(&self) -> Instant {
        self.0.lock().progress
    }

    /// Whether the request has no body, not even one without bytes.
    pub fn is_absent(&self) -> bool {
        self.0.lock().body.is_none()
    }

    /// Whether the whole body went out.
    pub fn is_finished(&self) -> bool {
        self.0.lock().finished
    }

    /// Why the body failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.0.lock().failure.clone()
    }

    /// The body, if no byte of it was taken, to be sent on another connection; `None` when it is
    /// lost.
    pub fn take_untouched(&self) -> Option<RequestBody> {
        let mut state = self.0.lock();
        (!state.touched).then(|| state.body.take())
    }

    /// When the origin is overdue, `timeout` after the last progress; or when a body goes that was
    /// held back until then.
    pub fn due(&self, timeout: Duration) -> Instant {
        let state = self.0.lock();
        state.progress + if state.released { timeout } else { CONTINUE_WAIT }
    }

    /// What it means that this time has come; `None` when a body was let go.
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
