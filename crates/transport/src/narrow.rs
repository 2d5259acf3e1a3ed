//! A connection that accepts few bytes at once, for tests of writers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// Accepts at most `step` bytes per write.
pub struct ThrottledStream {
    /// Bytes accepted so far.
    pub taken: Vec<u8>,
    /// Maximum number of bytes per write.
    pub step: usize,
}

impl AsyncWrite for ThrottledStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.step);
        self.taken.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(context, &joined)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
