//! Our half of a stream, for the task that answers it.

use super::state::{SharedState, StreamClosed};
use bytes::Bytes;
use shoal_wire::http2::ErrorCode;
use std::task::{Context, Poll};

/// Sends on one stream. Dropped before the end, it resets the stream.
pub(super) struct StreamSender {
    link: SharedState,
    id: u32,
}

impl StreamSender {
    /// Of the stream `id` that was just opened.
    pub fn new(link: SharedState, id: u32) -> Self {
        Self { link, id }
    }

    /// Hands over the final head as a field block; the stream ends with it when `end`.
    pub fn head(&mut self, block: Vec<u8>, end: bool) -> Result<(), StreamClosed> {
        self.link.lock().send_fields(self.id, block, end, true)
    }

    /// Hands over an interim response.
    pub fn interim(&mut self, block: Vec<u8>) -> Result<(), StreamClosed> {
        self.link.lock().send_fields(self.id, block, false, false)
    }

    /// Hands over trailers, with which the stream ends.
    pub fn trailers(&mut self, block: Vec<u8>) -> Result<(), StreamClosed> {
        self.link.lock().send_fields(self.id, block, true, true)
    }

    /// Waits until bytes may be handed over, and says how many.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, StreamClosed>> {
        match self.link.lock().room(self.id, context) {
            Ok(0) => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    /// Hands over bytes, no more than there is room for; the stream ends with them when `end`.
    pub fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamClosed> {
        self.link.lock().send_data(self.id, data, end)
    }

    /// Ends the stream at once.
    pub fn reset(&mut self, code: ErrorCode) {
        self.link.lock().reset(self.id, code);
    }

    /// What a far side needs to notice the stream's end.
    pub fn link(&self) -> (SharedState, u32) {
        (self.link.clone(), self.id)
    }

    /// Ready once the stream is over by the client's doing.
    pub fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.lock().poll_gone(self.id, context)
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        self.link.lock().drop_sending(self.id);
    }
}
