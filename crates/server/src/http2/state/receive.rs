//! Receiving halves of streams: unread bytes, and windows for more.

use super::super::held_heads::HeldHead;
use super::{CONNECTION_WINDOW, STREAM_WINDOW, State, Stream};
use bytes::BytesMut;
use http::HeaderMap;
use shoal_http2::{self as http2, ErrorCode, FrameError};
use std::collections::VecDeque;
use std::task::Waker;

/// Receiving half of a stream.
#[derive(Default)]
pub(in super::super) struct ReceiveHalf {
    /// Bytes that the client may send.
    window: i64,
    /// Bytes read but not yet credited by WINDOW_UPDATE.
    due: u32,
    /// Bytes that have arrived of an unfinished DATA frame.
    pub arriving: usize,
    /// Unread bytes in pieces. Only the last piece may be small.
    pub queue: VecDeque<BytesMut>,
    /// Bytes still to come, if the client announced the length.
    remaining: Option<u64>,
    pub trailers: Option<(HeaderMap, HeldHead)>,
    pub ended: bool,
    /// The reader has dropped the half.
    pub unread: bool,
    pub waker: Option<Waker>,
}

impl State {
    /// Handles the drop of a stream's receiving half.
    pub fn drop_receiving(&mut self, id: u32) {
        let Ok(stream) = self.stream(id) else { return };
        let receive = &mut stream.receive;
        receive.unread = true;
        let left: usize = std::mem::take(&mut receive.queue).iter().map(BytesMut::len).sum();
        self.remove_if_done(id);
        self.give_back(left);
    }

    /// Credits `bytes` of a stream as read, so that the client may send more.
    pub fn release(&mut self, id: u32, bytes: usize) {
        self.give_back(bytes);
        self.give_back_to(id, bytes);
    }

    /// Credits `bytes` to the stream's receive window. Sends WINDOW_UPDATE when half the window is
    /// due.
    fn give_back_to(&mut self, id: u32, bytes: usize) {
        let Ok(Stream { receive, .. }) = self.stream(id) else { return };
        receive.due += bytes as u32;
        debug_assert!(receive.due <= STREAM_WINDOW, "more was read than may be on the way");
        if receive.due >= STREAM_WINDOW / 2 && !receive.ended {
            let due = std::mem::take(&mut receive.due);
            receive.window += i64::from(due);
            debug_assert!(receive.window <= i64::from(STREAM_WINDOW));
            http2::write_window_update(&mut self.control, id, due);
            self.wake();
        }
    }

    /// Returns `true` if the windows known to the client let it send on the stream.
    pub fn may_send(&mut self, id: u32) -> bool {
        self.receive_window > 0 && self.stream(id).is_ok_and(|stream| stream.receive.window > 0)
    }

    /// Records that `bytes` of an unfinished DATA frame have arrived.
    pub fn arrives(&mut self, id: u32, bytes: usize) {
        if let Ok(Stream { receive, .. }) = self.stream(id) {
            receive.arriving = bytes;
        }
    }

    /// Handles a DATA frame with `payload` bytes including padding.
    pub fn received(&mut self, id: u32, data: &[u8], payload: usize, end: bool) -> Result<(), FrameError> {
        if payload as i64 > self.receive_window {
            return Err(FrameError::connection(ErrorCode::FLOW_CONTROL_ERROR));
        }
        self.receive_window -= payload as i64;
        let Ok(Stream { receive, .. }) = self.stream(id) else {
            // The stream is closed here; the client does not know yet.
            self.give_back(payload);
            return Ok(());
        };
        receive.window -= payload as i64;
        receive.arriving = 0;
        let remaining = receive.remaining.map(|remaining| remaining.checked_sub(data.len() as u64));
        let fault = match remaining {
            _ if receive.ended => Some(STREAM_CLOSED),
            _ if receive.window < 0 => Some(ErrorCode::FLOW_CONTROL_ERROR),
            // Section 8.1.1: "… if the value of a Content-Length header field does not equal the
            // sum of the DATA frame payload lengths".
            Some(None) => Some(ErrorCode::PROTOCOL_ERROR),
            Some(Some(1..)) if end => Some(ErrorCode::PROTOCOL_ERROR),
            _ => None,
        };
        if let Some(code) = fault {
            self.give_back(payload);
            return Err(FrameError::stream(id, code));
        }
        debug_assert!(receive.window >= 0);
        debug_assert!(data.len() <= payload, "padding takes nothing away");
        receive.remaining = remaining.flatten();
        let kept = if receive.unread { 0 } else { data.len() };
        if kept > 0 {
            receive.keep(data);
        }
        self.give_back(payload - kept);
        if end {
            self.end_received(id, None);
        } else {
            // Padding is credited as soon as it arrives.
            self.give_back_to(id, payload - data.len());
            self.wake_receiver(id);
        }
        Ok(())
    }

    /// Handles trailers, which end the client's half.
    pub fn received_trailers(&mut self, id: u32, trailers: (HeaderMap, HeldHead)) -> Result<(), FrameError> {
        let Ok(Stream { receive, .. }) = self.stream(id) else { return Ok(()) };
        match receive.remaining {
            _ if receive.ended => Err(FrameError::stream(id, STREAM_CLOSED)),
            Some(1..) => Err(FrameError::stream(id, ErrorCode::PROTOCOL_ERROR)),
            _ => {
                self.end_received(id, Some(trailers));
                Ok(())
            }
        }
    }

    fn end_received(&mut self, id: u32, trailers: Option<(HeaderMap, HeldHead)>) {
        if let Ok(Stream { receive, .. }) = self.stream(id) {
            receive.ended = true;
            receive.trailers = trailers;
        }
        self.wake_receiver(id);
        self.remove_if_done(id);
    }

    fn wake_receiver(&mut self, id: u32) {
        if let Some(waker) = self.open.get_mut(&id).and_then(|stream| stream.receive.waker.take()) {
            waker.wake();
        }
    }

    /// Credits `bytes` to the connection's window. Sends WINDOW_UPDATE when half the window is due.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.receive_due += bytes as u32;
        if self.receive_due >= CONNECTION_WINDOW / 2 {
            let due = std::mem::take(&mut self.receive_due);
            self.receive_window += i64::from(due);
            debug_assert!(self.receive_window <= i64::from(CONNECTION_WINDOW));
            http2::write_window_update(&mut self.control, 0, due);
            self.wake();
        }
    }
}

impl ReceiveHalf {
    /// Creates the half of a new stream.
    pub fn new(ended: bool, remaining: Option<u64>) -> Self {
        Self { window: i64::from(STREAM_WINDOW), remaining, ended, ..Self::default() }
    }

    /// Appends bytes to the unread ones. Small pieces are merged: pieces of one byte each would
    /// take many times their size.
    fn keep(&mut self, data: &[u8]) {
        match self.queue.back_mut() {
            Some(last) if last.len() + data.len() <= PIECE_BYTES => last.extend_from_slice(data),
            _ => self.queue.push_back(BytesMut::from(data)),
        }
    }

    /// Bytes that were not read.
    pub(super) fn kept_bytes(&self) -> usize {
        self.queue.iter().map(BytesMut::len).sum()
    }

    /// Checks all that is said of the fields.
    pub(super) fn invariants(&self) {
        let credit = self.window + i64::from(self.due) + self.kept_bytes() as i64;
        assert!(credit <= i64::from(STREAM_WINDOW), "room that was given back twice");
        assert!(!self.unread || self.queue.is_empty(), "bytes that nobody reads");
        assert!(self.queue.iter().all(|piece| !piece.is_empty()));
        assert!(self.trailers.is_none() || self.ended, "trailers before the end");
    }

    /// Returns `true` if everything was read.
    pub fn is_read(&self) -> bool {
        self.ended && self.queue.is_empty() && self.trailers.is_none()
    }
}

/// Section 7: a frame arrived for a stream that had ended.
const STREAM_CLOSED: ErrorCode = ErrorCode(5);

/// Maximum bytes merged into one piece.
const PIECE_BYTES: usize = 16 * 1024;

const _: () = {
    assert!(PIECE_BYTES <= STREAM_WINDOW as usize);
    // Half a window is more than a frame: a client that waits for room has always been told.
    assert!(STREAM_WINDOW as usize / 2 > http2::FRAME_BYTES_MAX);
};

#[cfg(test)]
mod tests {
    use super::super::super::tunnel_io::StreamIo;
    use super::super::SharedState;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn unread_tunnel_bytes_return_to_the_window() {
        let link = SharedState::new();
        let (sending, receiving) = link.open(1, false, None);
        link.lock().received(1, &[0; 1000], 1000, false).expect("within the window");
        let mut io = StreamIo::new(receiving, sending);
        assert_eq!(io.read(&mut [0; 10]).await.expect("bytes"), 10);
        drop(io);
        assert_eq!(link.lock().receive_due, 1000);
    }

    #[test]
    fn padding_alone_closes_no_window() {
        let link = SharedState::new();
        let (_sending, _receiving) = link.open(1, false, None);
        let mut state = link.lock();
        for _ in 0..10_000 {
            state.received(1, b"", 256, false).expect("within the window");
        }
        drop(state);
    }

    #[test]
    fn bytes_that_come_one_by_one_are_gathered() {
        let link = SharedState::new();
        let (_sending, _receiving) = link.open(1, false, None);
        let mut state = link.lock();
        for _ in 0..100_000 {
            state.received(1, b"x", 1, false).expect("within the window");
        }
        let queue = &state.stream(1).expect("open").receive.queue;
        let (bytes, held): (usize, usize) =
            queue.iter().fold((0, 0), |sum, piece| (sum.0 + piece.len(), sum.1 + piece.capacity()));
        assert_eq!((queue.len(), bytes), (7, 100_000));
        assert!(held <= 250_000, "{held} bytes are held");
        // Dropping the halves takes the lock.
        drop(state);
    }
}
