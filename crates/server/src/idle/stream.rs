//! Non-blocking socket of an idle connection.

use crate::transport::try_send_zero_copy;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use shoal_memory::LENT_MIN;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Socket in non-blocking mode.
pub(crate) struct IdleStream(TcpStream);

impl IdleStream {
    /// Wraps `stream`, which must be non-blocking.
    pub fn new(stream: TcpStream) -> Self {
        Self(stream)
    }

    /// Registers the socket with this thread's runtime.
    pub fn into_active(self) -> io::Result<tokio::net::TcpStream> {
        tokio::net::TcpStream::from_std(self.0)
    }

    /// Reads the bytes that have arrived. Returns 0 at the end of the stream.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&self.0, &mut *bytes, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                received => return Ok(received.map(|(_, count)| count)?),
            }
        }
    }

    /// Writes as many bytes as the kernel takes at once, and returns their number. An error counts
    /// as 0 bytes: sending the rest reports the error again.
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
