//! Operations of client connections beyond reading and writing.

use crate::transport::Rewind;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Client connection, plain or TLS.
pub(super) trait ClientIo: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// `true` if the connection can wait for requests without a task ([`super::idle`]).
    const CAN_WAIT: bool = false;

    /// `true` if the connection can send bodies without copying them.
    const CAN_LEND: bool = false;

    /// Makes the next close a reset, or orderly again. A reset tells the client that a body is
    /// incomplete if the client would take an orderly end as the body's end.
    fn reset_on_close(&self, reset: bool);

    /// Receives the bytes that have arrived, at most `room.len()`. Returns 0 at the end.
    fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(self).poll_read(context, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    }

    /// Sends some of `bytes`, as [`AsyncWrite::poll_write`] does.
    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(context, bytes)
    }

    /// Makes the kernel hold back partial segments, or stops that.
    fn cork(&self, _corked: bool) {}

    /// Sends part of a head and the following body without copying the body. Returns `None` if that
    /// is impossible; no bytes were sent then.
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
        // A closed socket needs no reset.
        let _ = socket2::SockRef::from(self).set_linger(reset.then_some(Duration::ZERO));
    }

    // Both methods avoid the C library's calls, which handle thread cancellation with two locked
    // instructions each.

    fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_read_ready(context))?;
            let mut count = 0;
            let receive = || {
                (_, count) = rustix::net::recv(&*self, &mut *room, RecvFlags::empty())?;
                // A short read means that no bytes are left. Returning `WouldBlock` saves a system
                // call that would find none.
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
        // Without the cork the kernel sends more segments.
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
