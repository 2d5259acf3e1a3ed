//! Receiving half of a stream, for the reader of the request's body.

use super::state::{ClosedStream, SharedState};
use bytes::Bytes;
use http::HeaderMap;
use std::task::{Context, Poll};

/// Reads one stream. When dropped before the end, the rest is discarded.
pub(super) struct StreamReceiver {
    link: SharedState,
    id: u32,
    /// The stream ended with its head.
    bodiless: bool,
    /// The body is empty, or its end was read.
    ended: bool,
}

impl StreamReceiver {
    /// Creates the half of the newly opened stream `id`. `ended` means that the client ended it
    /// with the head.
    pub fn new(link: SharedState, id: u32, ended: bool) -> Self {
        Self { link, id, bodiless: ended, ended }
    }

    /// Returns `true` if the client ended the stream with the request's head.
    pub fn ended_with_head(&self) -> bool {
        self.bodiless
    }

    /// Returns `true` if no more bytes will come.
    pub fn is_ended(&self) -> bool {
        self.ended || self.link.lock().stream(self.id).is_ok_and(|stream| stream.receive.is_read())
    }

    /// Polls for the next bytes; `None` is the end of the body. The caller must
    /// [`release`](Self::release) the bytes.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClosedStream>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut state = self.link.lock();
        let Ok(stream) = state.stream(self.id) else { return Poll::Ready(Some(Err(ClosedStream))) };
        match stream.receive.queue.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(data.freeze()))),
            None if stream.receive.ended => {
                self.ended = true;
                Poll::Ready(None)
            }
            None => {
                stream.receive.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns `true` if the windows known to the client let it send. Other streams may hold the
    /// connection's window.
    pub fn may_come(&self) -> bool {
        self.link.lock().may_send(self.id)
    }

    /// Returns the number of bytes that have arrived of an unfinished frame.
    pub fn arriving(&self) -> usize {
        self.link.lock().stream(self.id).map_or(0, |stream| stream.receive.arriving)
    }

    /// Returns the trailers, once the end was read.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        let (trailers, _held) = self.link.lock().stream(self.id).ok()?.receive.trailers.take()?;
        Some(trailers)
    }

    /// Lets the client send `bytes` more.
    pub fn release(&mut self, bytes: usize) {
        self.link.lock().release(self.id, bytes);
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        self.link.lock().drop_receiving(self.id);
    }
}
