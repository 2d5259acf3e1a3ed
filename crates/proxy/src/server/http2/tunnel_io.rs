//! A CONNECT stream of HTTP/2 (RFC 9113 section 8.5) as something to read from and write to.

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both directions of one stream.
pub(super) struct StreamIo {
    receive: RecvStream,
    send: SendStream<Bytes>,
    /// Received and not yet read.
    held: Bytes,
}

impl StreamIo {
    /// The stream's two halves.
    pub fn new(receive: RecvStream, send: SendStream<Bytes>) -> Self {
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
                Some(Ok(data)) => self.held = data,
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.held.len().min(buffer.remaining());
        buffer.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.receive.flow_control().release_capacity(count).map_err(broken)?;
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
        self.send.reserve_capacity(bytes.len());
        while self.send.capacity() == 0 {
            match ready!(self.send.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let count = self.send.capacity().min(bytes.len());
        self.send.send_data(Bytes::copy_from_slice(&bytes[..count]), false).map_err(broken)?;
        Poll::Ready(Ok(count))
    }

    /// The connection writes by itself.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// RFC 9113 section 8.5: "A proxy that receives a TCP segment with the FIN bit set sends a DATA frame with the
    /// END_STREAM flag set."
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.send.send_data(Bytes::new(), true).map_err(broken))
    }
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}
