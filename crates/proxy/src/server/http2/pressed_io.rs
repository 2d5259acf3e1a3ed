//! A connection that knows whether its client keeps it waiting with bytes to write, and how many move.
//!
//! The `h2` crate does not tell whether it still holds frames. But what it holds it tries to write: so while the last write or
//! flush had to wait, there is something that the client has yet to take.

use crate::server::client_io::ClientIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection, watched.
pub(super) struct PressedIo<T> {
    io: T,
    pressed: Pressed,
}

/// What is known of the client by what the connection does. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Pressed(Arc<Seen>);

#[derive(Default)]
struct Seen {
    /// The last write or flush had to wait.
    waits: AtomicBool,
    read_bytes: AtomicU64,
    /// Written after a wait: for these the client has taken others.
    taken_bytes: AtomicU64,
}

impl Pressed {
    /// Whether bytes wait to be taken.
    pub fn is_pressed(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }

    /// Whether the client has shown in the `time` since the last look that it is there: by taking what it let wait, or by sending
    /// something as long as streams are open, which have their own patience. `before` is what had been read and taken at
    /// the last look.
    pub fn lives(&self, before: &mut (u64, u64), open_streams: usize, rate_min: u64, time: Duration) -> bool {
        let now = (self.0.read_bytes.load(Ordering::Relaxed), self.0.taken_bytes.load(Ordering::Relaxed));
        let (read, taken) = (now.0 - before.0, now.1 - before.1);
        *before = now;
        let takes = taken > 0 && taken as f64 >= time.as_secs_f64() * rate_min as f64;
        takes || open_streams > 0 && read > 0
    }

    fn note<R>(&self, outcome: Poll<R>) -> Poll<R> {
        self.0.waits.store(outcome.is_pending(), Ordering::Relaxed);
        outcome
    }

    fn written(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &outcome
            && self.is_pressed()
        {
            self.0.taken_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        self.note(outcome)
    }
}

impl<T> PressedIo<T> {
    /// `io`, and what tells of it.
    pub fn new(io: T) -> (Self, Pressed) {
        let pressed = Pressed::default();
        (Self { io, pressed: pressed.clone() }, pressed)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PressedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        self.pressed.0.read_bytes.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PressedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.pressed.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.pressed.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.pressed.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<T: ClientIo> ClientIo for PressedIo<T> {
    fn reset_on_close(&self, reset: bool) {
        self.io.reset_on_close(reset);
    }
}
