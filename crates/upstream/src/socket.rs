//! Stream to an origin, plain or TLS.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Stream to an origin.
pub(super) enum OriginStream {
    /// Without TLS.
    Plain(TcpStream),
    /// TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Event on a connection that is to be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// The origin sent bytes that answer no request.
    Surplus,
    /// The connection has ended, or may have.
    Ended,
}

impl OriginStream {
    /// Returns the event that the kernel knows of, reported to the runtime or not. Bytes under TLS
    /// may be a session ticket, so they count as a possible end.
    pub fn arrived(&self) -> Option<Disturbance> {
        let (socket, is_plain) = match self {
            Self::Plain(stream) => (stream, true),
            Self::Tls(stream) => (stream.get_ref().0, false),
        };
        match recv(socket, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 1..)) if is_plain => Some(Disturbance::Surplus),
            Err(Errno::WOULDBLOCK | Errno::INTR) => None,
            _ => Some(Disturbance::Ended),
        }
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
