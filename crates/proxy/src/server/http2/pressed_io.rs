//! A connection that knows whether its client keeps it waiting with bytes to write.
//!
//! The `h2` crate does not tell whether it still holds frames. But what it holds it tries to write: so while the last write or
//! flush had to wait, there is something that the client has yet to take.

use crate::server::client_io::ClientIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection, watched.
pub(super) struct PressedIo<T> {
    io: T,
    pressed: Pressed,
}

/// Whether bytes wait to be taken. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Pressed(Arc<AtomicBool>);

impl Pressed {
    /// Whether the last write or flush had to wait.
    pub fn is_pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note<R>(&self, outcome: Poll<R>) -> Poll<R> {
        self.0.store(outcome.is_pending(), Ordering::Relaxed);
        outcome
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
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PressedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.pressed.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.pressed.note(written)
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
