//! A connection of which some bytes were read too early; these bytes are read again first.

use bytes::{Buf, Bytes};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads `prefix`, then from the connection. Writes go straight through.
#[derive(Debug)]
pub struct Rewind<T> {
    prefix: Bytes,
    io: T,
}

impl<T> Rewind<T> {
    /// Puts these bytes back in front of `io`.
    pub fn new(prefix: Bytes, io: T) -> Self {
        Self { prefix, io }
    }

    /// Returns the connection itself.
    pub fn inner(&self) -> &T {
        &self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewind<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let count = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(&self.prefix[..count]);
        self.prefix.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Rewind<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_prefix_comes_first_and_only_once() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"world").await.expect("room");
        drop(far);
        let mut rewound = Rewind::new(Bytes::from_static(b"hello "), near);
        let mut text = String::new();
        let mut two = [0; 2];
        rewound.read_exact(&mut two).await.expect("prefix");
        rewound.read_to_string(&mut text).await.expect("rest");
        assert_eq!((&two, text.as_str()), (b"he", "llo world"));
    }
}
