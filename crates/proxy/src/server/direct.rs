//! A client connection that the process writes plain bytes to, in the clear or encrypted by the
//! kernel ([`shoal_ktls`]); and the same while it waits without a task.

use super::client_io::ClientIo;
use crate::transport::try_send_zero_copy;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use shoal_ktls::Seal;
use shoal_store::memory::LENT_MIN;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// One that a task serves.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: TcpStream,
    /// What encrypts, if anything does.
    seal: Option<Seal>,
}

/// One that waits, and never blocks.
pub(super) struct IdleStream {
    stream: std::net::TcpStream,
    seal: Option<Seal>,
}

impl ClientStream {
    /// One in the clear.
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream, seal: None }
    }

    /// One that the kernel encrypts.
    pub fn sealed(stream: TcpStream, seal: Seal) -> Self {
        Self { stream, seal: Some(seal) }
    }

    /// Whether the kernel encrypts.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// The same without a task.
    pub fn into_idle(self) -> io::Result<IdleStream> {
        Ok(IdleStream { stream: self.stream.into_std()?, seal: self.seal })
    }

    /// What became of a read; `None` when another is to be made.
    fn heed<T>(&mut self, read: io::Result<T>, count: impl Fn(&T) -> usize) -> Option<io::Result<usize>> {
        let Some(seal) = &mut self.seal else { return Some(read.map(|read| count(&read))) };
        match read.map(|read| count(&read)) {
            Ok(0) => Some(seal.end()),
            Ok(count) => Some(Ok(count)),
            Err(error) => seal.heed(self.stream.as_fd(), error).transpose(),
        }
    }

    /// Takes note of what was sent.
    fn sent(&mut self, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(seal), Poll::Ready(Ok(bytes))) = (&mut self.seal, &sent) {
            seal.sent(*bytes);
        }
        sent
    }

    fn check(&self) -> io::Result<()> {
        self.seal.as_ref().map_or(Ok(()), Seal::check)
    }
}

impl ClientIo for ClientStream {
    const CAN_WAIT: bool = true;
    const CAN_LEND: bool = true;

    fn reset_on_close(&self, reset: bool) {
        self.stream.reset_on_close(reset);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let read = ready!(self.stream.poll_receive(context, room));
            if let Some(heeded) = self.heed(read, |&count| count) {
                return Poll::Ready(heeded);
            }
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let sent = self.stream.poll_send(context, bytes);
        self.sent(sent)
    }

    fn cork(&self, corked: bool) {
        self.stream.cork(corked);
    }

    fn poll_lend(
        &mut self,
        context: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if let Err(error) = self.check() {
            return Some(Poll::Ready(Err(error)));
        }
        let lent = self.stream.poll_lend(context, head, body)?;
        Some(self.sent(lent))
    }

    fn is_worn(&self) -> bool {
        self.seal.as_ref().is_some_and(Seal::is_worn)
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        loop {
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
            if self.seal.is_none() || buffer.remaining() == 0 {
                return Poll::Ready(read);
            }
            if let Some(heeded) = self.heed(read, |()| buffer.filled().len() - before) {
                return Poll::Ready(heeded.map(drop));
            }
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, seal } = &mut *self;
        if let Some(seal) = seal {
            loop {
                ready!(stream.poll_write_ready(context))?;
                match stream.try_io(Interest::WRITABLE, || seal.close(stream.as_fd())) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    closed => break closed?,
                }
            }
        }
        Pin::new(stream).poll_shutdown(context)
    }
}

impl IdleStream {
    /// One in the clear.
    pub fn plain(stream: std::net::TcpStream) -> Self {
        Self { stream, seal: None }
    }

    /// The same for a task.
    pub fn into_active(self) -> io::Result<ClientStream> {
        Ok(ClientStream { stream: TcpStream::from_std(self.stream)?, seal: self.seal })
    }

    /// Reads what is there; 0 at the end.
    pub fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let error = match (recv(&self.stream, &mut *bytes, RecvFlags::empty()), &self.seal) {
                (Ok((_, 0)), Some(seal)) => return seal.end(),
                (Ok((_, count)), _) => return Ok(count),
                (Err(Errno::INTR), _) => continue,
                (Err(error), _) => error.into(),
            };
            let Some(seal) = &mut self.seal else { return Err(error) };
            if error.kind() == io::ErrorKind::WouldBlock {
                return Err(error);
            }
            if let Some(count) = seal.heed(self.stream.as_fd(), error)? {
                return Ok(count);
            }
        }
    }

    /// Writes as much as the kernel takes at once, and says how much that is. A failure comes again
    /// when the rest is sent.
    pub fn send(&mut self, slices: &[IoSlice<'_>]) -> usize {
        if self.seal.as_ref().is_some_and(|seal| seal.check().is_err()) {
            return 0;
        }
        let copied = || match slices {
            [whole] => send(&self.stream, whole, SendFlags::NOSIGNAL),
            parts => sendmsg(&self.stream, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
        };
        let lent = match slices {
            [head, body] if body.len() >= LENT_MIN => try_send_zero_copy(self.stream.as_fd(), head, body),
            _ => None,
        };
        let sent = lent.map_or_else(|| copied().unwrap_or(0), |lent| lent.unwrap_or(0));
        if let Some(seal) = &mut self.seal {
            seal.sent(sent);
        }
        sent
    }

    /// Whether no more requests should be taken.
    pub fn is_worn(&self) -> bool {
        self.seal.as_ref().is_some_and(Seal::is_worn)
    }

    /// Ends in order, before it is dropped.
    pub fn close(mut self) {
        if let Some(seal) = &mut self.seal {
            // A client that has gone, or takes nothing, needs no more.
            let _ = seal.close(self.stream.as_fd());
        }
    }
}

impl AsFd for IdleStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
