//! The client's half of a stream, for whoever reads the request's body.

use super::state::{SharedState, StreamClosed};
use bytes::Bytes;
use http::HeaderMap;
use std::task::{Context, Poll};

/// Reads one stream. Dropped before the end, it has the rest thrown away.
pub(super) struct StreamReceiver {
    link: SharedState,
    id: u32,
    /// The stream has ended with its head.
    bodiless: bool,
    /// There was no body, or its end was read.
    ended: bool,
}

impl StreamReceiver {
    /// Of the stream `id` that was just opened, and has `ended` with its head or not.
    pub fn new(link: SharedState, id: u32, ended: bool) -> Self {
        Self { link, id, bodiless: ended, ended }
    }

    /// Whether the client has ended the stream with the request's head.
    pub fn ended_with_head(&self) -> bool {
        self.bodiless
    }

    /// Whether nothing more comes.
    pub fn is_ended(&self) -> bool {
        self.ended || self.link.lock().stream(self.id).is_ok_and(|stream| stream.receive.is_read())
    }

    /// The next bytes; `None` at the end of the body. What was taken is to be
    /// [`release`](Self::release)d.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, StreamClosed>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut state = self.link.lock();
        let Ok(stream) = state.stream(self.id) else { return Poll::Ready(Some(Err(StreamClosed))) };
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

    /// Whether the client may send, as far as it can know: other streams may hold what it may send
    /// in all.
    pub fn may_come(&self) -> bool {
        self.link.lock().may_send(self.id)
    }

    /// Bytes that have come of what is not yet there whole.
    pub fn arriving(&self) -> usize {
        self.link.lock().stream(self.id).map_or(0, |stream| stream.receive.arriving)
    }

    /// The trailers, once the end was read.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        let (trailers, _held) = self.link.lock().stream(self.id).ok()?.receive.trailers.take()?;
        Some(trailers)
    }

    /// Lets the client send so many bytes more.
    pub fn release(&mut self, bytes: usize) {
        self.link.lock().release(self.id, bytes);
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        self.link.lock().drop_receiving(self.id);
    }
}
