//! What the transports ask of a client connection beyond reading and writing.

use crate::transport::Rewind;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client connection, plain or TLS.
pub(super) trait ClientIo: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether it can wait for requests without a task ([`super::waiting`]).
    const CAN_WAIT: bool = false;

    /// Whether bodies can be lent to it.
    const CAN_LEND: bool = false;

    /// Makes the coming close a reset, or an orderly one again: for a client that would take an
    /// orderly end for the end of the body, while the body has not ended.
    fn reset_on_close(&self, reset: bool);

    /// Receives what has arrived, as far as there is room; 0 at the end.
    fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(self).poll_read(context, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }

    /// Sends some of `bytes`, as [`AsyncWrite::poll_write`] does.
    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(context, bytes)
    }

    /// Has segments that are not full wait for more bytes, until that is taken back.
    fn cork(&self, _corked: bool) {}

    /// Sends some of a head and of the body after it without copying the body. `None` where that
    /// cannot be; nothing was sent then.
    fn poll_lend(
        &mut self,
        _context: &mut Context<'_>,
        _head: &[u8],
        _body: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }
}

impl ClientIo for TcpStream {
    const CAN_WAIT: bool = true;
    const CAN_LEND: bool = true;

    fn reset_on_close(&self, reset: bool) {
        // A socket that is gone already needs no reset.
        let _ = socket2::SockRef::from(self).set_linger(reset.then_some(Duration::ZERO));
    }

    // Both without what the C library's calls do for threads that are cancelled, which is two
    // locked instructions each.

    fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_read_ready(context))?;
            let mut count = 0;
            let receive = || {
                (_, count) = rustix::net::recv(&*self, &mut *room, RecvFlags::empty())?;
                // All that was there: to say so spares the call that would find no more.
                if (1..room.len()).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            };
            match self.try_io(Interest::READABLE, receive) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) if count == 0 => {}
                _ => return Poll::Ready(Ok(count)),
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(context))?;
            let send = || Ok(rustix::net::send(&*self, bytes, SendFlags::NOSIGNAL)?);
            match self.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn cork(&self, corked: bool) {
        // Where it is refused, more segments are sent.
        let _ = rustix::net::sockopt::set_tcp_cork(self, corked);
    }

    fn poll_lend(
        &mut self,
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

    fn cork(&self, corked: bool) {
        self.inner().cork(corked);
    }
}

impl<T: ClientIo> ClientIo for Box<T> {
    fn reset_on_close(&self, reset: bool) {
        self.as_ref().reset_on_close(reset);
    }

    fn cork(&self, corked: bool) {
        self.as_ref().cork(corked);
    }
}

impl<T: ClientIo> ClientIo for TlsStream<T> {
    fn reset_on_close(&self, reset: bool) {
        self.get_ref().0.reset_on_close(reset);
    }

    fn cork(&self, corked: bool) {
        self.get_ref().0.cork(corked);
    }
}
