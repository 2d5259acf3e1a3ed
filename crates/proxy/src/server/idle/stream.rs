//! The socket of a connection that waits without a task. It never blocks.

use crate::transport::try_send_zero_copy;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use shoal_store::memory::LENT_MIN;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// A socket in non-blocking mode.
pub(in crate::server) struct IdleStream(TcpStream);

impl IdleStream {
    /// Wraps `stream`, which is non-blocking.
    pub fn new(stream: TcpStream) -> Self {
        Self(stream)
    }

    /// Gives the socket to the runtime of this thread.
    pub fn into_active(self) -> io::Result<tokio::net::TcpStream> {
        tokio::net::TcpStream::from_std(self.0)
    }

    /// Reads the bytes that have arrived; 0 at the end.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&self.0, &mut *bytes, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                received => return Ok(received.map(|(_, count)| count)?),
            }
        }
    }

    /// Writes as much as the kernel takes at once, and returns how many bytes that is. A failure
    /// comes again when the rest is sent.
    pub fn send(&self, slices: &[IoSlice<'_>]) -> usize {
        let copied = || match slices {
            [whole] => send(&self.0, whole, SendFlags::NOSIGNAL),
            parts => sendmsg(&self.0, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
        };
        let lent = match slices {
            [head, body] if body.len() >= LENT_MIN => try_send_zero_copy(self.0.as_fd(), head, body),
            _ => None,
        };
        lent.map_or_else(|| copied().unwrap_or(0), |lent| lent.unwrap_or(0))
    }
}

impl AsFd for IdleStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
