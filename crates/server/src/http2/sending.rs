//! Sending half of a stream, for the task that answers the stream.

use super::state::{ClosedStream, SharedState};
use bytes::Bytes;
use shoal_http2::ErrorCode;
use std::task::{Context, Poll};

/// Sends on one stream. When dropped before the end, the stream is reset.
pub(super) struct StreamSender {
    link: SharedState,
    id: u32,
}

impl StreamSender {
    /// Creates the half of the newly opened stream `id`.
    pub fn new(link: SharedState, id: u32) -> Self {
        Self { link, id }
    }

    /// Queues the final head as a field block. Ends the stream if `end` is set.
    pub fn head(&mut self, block: Vec<u8>, end: bool) -> Result<(), ClosedStream> {
        self.link.lock().send_fields(self.id, block, end, true)
    }

    /// Queues an interim response.
    pub fn interim(&mut self, block: Vec<u8>) -> Result<(), ClosedStream> {
        self.link.lock().send_fields(self.id, block, false, false)
    }

    /// Queues trailers and ends the stream.
    pub fn trailers(&mut self, block: Vec<u8>) -> Result<(), ClosedStream> {
        self.link.lock().send_fields(self.id, block, true, true)
    }

    /// Waits until bytes may be queued, and returns their maximum number.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, ClosedStream>> {
        match self.link.lock().room(self.id, context) {
            Ok(0) => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    /// Queues bytes, at most the number that [`Self::poll_room`] returned. Ends the stream if `end`
    /// is set.
    pub fn data(&mut self, data: Bytes, end: bool) -> Result<(), ClosedStream> {
        self.link.lock().send_data(self.id, data, end)
    }

    /// Resets the stream at once.
    pub fn reset(&mut self, code: ErrorCode) {
        self.link.lock().reset(self.id, code);
    }

    /// Returns the state and number of the stream, with which a tunnel's far side notices the
    /// stream's end.
    pub fn link(&self) -> (SharedState, u32) {
        (self.link.clone(), self.id)
    }

    /// Returns ready once the client has ended the stream.
    pub fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.lock().poll_gone(self.id, context)
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        self.link.lock().drop_sending(self.id);
    }
}
