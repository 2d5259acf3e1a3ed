//! Wraps a CONNECT stream of HTTP/2 (RFC 9113 section 8.5) for reading and writing.

use super::receiving::StreamReceiver;
use super::sending::StreamSender;
use super::state::{ClosedStream, SharedState};
use bytes::{Buf, Bytes};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions of one stream.
pub(super) struct StreamIo {
    receive: StreamReceiver,
    send: StreamSender,
    /// Bytes received but not yet read.
    held: Bytes,
}

impl StreamIo {
    /// Joins the stream's two halves.
    pub fn new(receive: StreamReceiver, send: StreamSender) -> Self {
        Self { receive, send, held: Bytes::new() }
    }
}

/// Far side of a stream's tunnel. Polls the stream too: while the far side takes no bytes, the
/// stream is not read and a reset would go unnoticed.
pub(super) struct TunnelPeer<T> {
    io: T,
    stream: (SharedState, u32),
}

impl<T> TunnelPeer<T> {
    /// Wraps `io`, the far side of `near`.
    pub fn new(io: T, near: &StreamIo) -> Self {
        Self { io, stream: near.send.link() }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TunnelPeer<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TunnelPeer<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        let (link, id) = &self.stream;
        if written.is_pending() && link.lock().poll_gone(*id, context).is_ready() {
            return Poll::Ready(Err(ClosedStream.into()));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
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
        debug_assert!(count <= self.held.len());
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

    /// Does nothing: the connection flushes by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// RFC 9113 section 8.5: "A proxy that receives a TCP segment with the FIN bit set sends a DATA
    /// frame with the END_STREAM flag set."
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(self.send.data(Bytes::new(), true)?))
    }
}

/// Returns unread bytes to the connection's window.
impl Drop for StreamIo {
    fn drop(&mut self) {
        self.receive.release(self.held.len());
    }
}

impl From<ClosedStream> for io::Error {
    fn from(_: ClosedStream) -> Self {
        io::ErrorKind::BrokenPipe.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel;
    use std::time::Duration;

    #[tokio::test]
    async fn reset_ends_a_tunnel_with_a_stuck_far_side() {
        let link = SharedState::new();
        let (sending, receiving) = link.open(1, false, None);
        let (far, _taking_nothing) = tokio::io::duplex(64);
        let near = StreamIo::new(receiving, sending);
        let far = TunnelPeer::new(far, &near);
        let tunnel = tokio::spawn(tunnel::run(near, Bytes::new(), far, Duration::from_secs(600)));
        link.lock().received(1, &[0; 16_384], 16_384, false).expect("within the window");
        link.lock().received(1, &[0; 16_384], 16_384, false).expect("within the window");
        tokio::time::sleep(Duration::from_millis(20)).await;
        link.lock().reset_by_client(1);
        let ended = tokio::time::timeout(Duration::from_secs(2), tunnel).await;
        assert!(ended.expect("the tunnel ends").expect("no panic").from_client > 0);
    }
}
