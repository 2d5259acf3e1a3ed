//! A connection of which some bytes were read too early; these bytes are read again first.
//!
//! TLS reads records in pieces of 4 KiB, a system call each. A connection that reads ahead takes
//! all that has arrived in one call, and TLS gets its pieces from memory. The memory is that of
//! [`spare`], and is held only while bytes wait in it.

use crate::spare::{self, BODY_BYTES};
use bytes::{Buf, Bytes, BytesMut};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Reads `prefix`, then from the connection. Writes go straight through.
#[derive(Debug)]
pub struct Rewind<T> {
    prefix: Bytes,
    io: T,
    reads_ahead: bool,
}

impl<T> Rewind<T> {
    /// Puts these bytes back in front of `io`.
    pub fn new(prefix: Bytes, io: T) -> Self {
        Self { prefix, io, reads_ahead: false }
    }

    /// Reads ahead from now on, up to [`BODY_BYTES`].
    pub fn read_ahead(&mut self) {
        self.reads_ahead = true;
    }

    /// Returns the connection itself.
    pub fn inner(&self) -> &T {
        &self.io
    }
}

impl<T: AsyncRead + Unpin> Rewind<T> {
    /// Reads all that has arrived into `prefix`. It stays empty at the end of the connection.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        debug_assert!(self.prefix.is_empty(), "earlier bytes go first");
        let mut ahead = BytesMut::new();
        spare::renew(&mut ahead, BODY_BYTES);
        let filled = pin!(self.io.read_buf(&mut ahead)).poll(context);
        if filled.is_ready() {
            self.prefix = ahead.split().freeze();
        }
        spare::retire(ahead);
        filled.map_ok(drop)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewind<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            if !self.reads_ahead || buffer.remaining() >= BODY_BYTES {
                return Pin::new(&mut self.io).poll_read(context, buffer);
            }
            ready!(self.poll_ahead(context))?;
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

    /// Counts the reads of a connection.
    struct ReadCount<T>(T, usize);

    impl<T: AsyncRead + Unpin> AsyncRead for ReadCount<T> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.1 += 1;
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    #[tokio::test]
    async fn small_reads_share_a_read_ahead() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let sent: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
        far.write_all(&sent).await.expect("room");
        let mut reader = Rewind::new(Bytes::from_static(b"prefix"), ReadCount(near, 0));
        reader.read_ahead();
        let (mut taken, mut piece) = (Vec::new(), [0; 4096]);
        while taken.len() < 6 + sent.len() {
            let count = reader.read(&mut piece).await.expect("bytes");
            taken.extend_from_slice(&piece[..count]);
        }
        assert_eq!((&taken[..6], taken[6..] == sent[..]), (&b"prefix"[..], true));
        assert_eq!((reader.inner().1, reader.prefix.len()), (1, 0), "one read for all pieces");
        drop(far);
        assert_eq!(reader.read(&mut piece).await.expect("an end"), 0);
    }
}
