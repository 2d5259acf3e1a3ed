//! A CONNECT stream of HTTP/2 (RFC 9113 section 8.5) as something to read from and write to.

use super::receiving::Receiving;
use super::sending::Sending;
use super::state::Gone;
use bytes::{Buf, Bytes};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions of one stream.
pub(super) struct StreamIo {
    receive: Receiving,
    send: Sending,
    /// Received and not yet read.
    held: Bytes,
}

impl StreamIo {
    /// The stream's two halves.
    pub fn new(receive: Receiving, send: Sending) -> Self {
        Self { receive, send, held: Bytes::new() }
    }
}

impl AsyncRead for StreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.held.is_empty() {
            match ready!(self.receive.poll_data(context)) {
                Some(data) => self.held = data?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.held.len().min(buffer.remaining());
        buffer.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.receive.release(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let count = ready!(self.send.poll_room(context))?.min(bytes.len());
        self.send.data(Bytes::copy_from_slice(&bytes[..count]), false)?;
        Poll::Ready(Ok(count))
    }

    /// The connection writes by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// RFC 9113 section 8.5: "A proxy that receives a TCP segment with the FIN bit set sends a DATA frame with the
    /// END_STREAM flag set."
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(self.send.data(Bytes::new(), true)?))
    }
}

/// What was not read holds the connection's window no longer.
impl Drop for StreamIo {
    fn drop(&mut self) {
        self.receive.release(self.held.len());
    }
}

impl From<Gone> for io::Error {
    fn from(_: Gone) -> Self {
        io::ErrorKind::BrokenPipe.into()
    }
}
