//! What the transports ask of a client connection beyond reading and writing.

use crate::transport::Rewind;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client connection, plain or TLS.
pub(super) trait ClientIo: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the coming close a reset, for a client that would take an orderly end for the end of the body.
    fn reset_on_close(&self);
}

impl ClientIo for TcpStream {
    fn reset_on_close(&self) {
        // A socket that is gone already needs no reset.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl<T: ClientIo> ClientIo for Rewind<T> {
    fn reset_on_close(&self) {
        self.inner().reset_on_close();
    }
}

impl<T: ClientIo> ClientIo for Box<T> {
    fn reset_on_close(&self) {
        self.as_ref().reset_on_close();
    }
}

impl<T: ClientIo> ClientIo for TlsStream<T> {
    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }
}
