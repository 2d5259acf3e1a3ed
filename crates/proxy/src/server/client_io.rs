//! What the transports ask of a client connection beyond reading and writing.

use crate::transport::Rewind;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client connection, plain or TLS.
pub(super) trait ClientIo: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the coming close a reset, or an orderly one again: for a client that would take an orderly end for the end of the
    /// body, while the body has not ended.
    fn reset_on_close(&self, reset: bool);

    /// Sends some of a head and of the body after it without copying the body. `None` where that cannot be; nothing was sent then.
    fn poll_lend(
        &self,
        _context: &mut Context<'_>,
        _head: &[u8],
        _body: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }
}

impl ClientIo for TcpStream {
    fn reset_on_close(&self, reset: bool) {
        // A socket that is gone already needs no reset.
        let _ = socket2::SockRef::from(self).set_linger(reset.then_some(Duration::ZERO));
    }

    fn poll_lend(
        &self,
        context: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        crate::transport::poll_lend(self, context, head, body)
    }
}

impl<T: ClientIo> ClientIo for Rewind<T> {
    fn reset_on_close(&self, reset: bool) {
        self.inner().reset_on_close(reset);
    }
}

impl<T: ClientIo> ClientIo for Box<T> {
    fn reset_on_close(&self, reset: bool) {
        self.as_ref().reset_on_close(reset);
    }
}

impl<T: ClientIo> ClientIo for TlsStream<T> {
    fn reset_on_close(&self, reset: bool) {
        self.get_ref().0.reset_on_close(reset);
    }
}
