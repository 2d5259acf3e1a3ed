//! A connection of which a handshake reads whole records, and no byte of the next before it asks
//! for that: what comes after the handshake is then still the kernel's, which is to decrypt it.

use crate::server::client_io::ClientIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads that end where a record ends, until that is no longer wanted.
pub(in crate::server) struct Records<T> {
    io: T,
    place: Place,
}

/// Where in a record the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In its header, of which these bytes are known.
    Header([u8; HEADER_BYTES], usize),
    /// Before so many bytes that belong to it.
    Content(usize),
    /// Nobody asks.
    Unknown,
}

impl<T> Records<T> {
    /// Of a connection that begins; `apart` unless nobody needs to know.
    pub fn new(io: T, apart: bool) -> Self {
        let place = if apart { Place::START } else { Place::Unknown };
        Self { io, place }
    }

    /// Whether every byte read belongs to a record read whole.
    pub fn is_between(&self) -> bool {
        self.place == Place::START
    }

    /// From now on reads are as large as they can be.
    pub fn join(&mut self) {
        self.place = Place::Unknown;
    }

    /// The connection itself.
    pub fn inner(&self) -> &T {
        &self.io
    }

    /// The same.
    pub fn into_inner(self) -> T {
        self.io
    }
}

impl Place {
    const START: Self = Self::Header([0; HEADER_BYTES], 0);

    /// Bytes up to where it changes.
    fn room(self) -> usize {
        match self {
            Self::Header(_, known) => HEADER_BYTES - known,
            Self::Content(left) => left,
            Self::Unknown => usize::MAX,
        }
    }

    /// The place after `bytes`, which are no more than there is room for.
    fn after(self, bytes: &[u8]) -> Self {
        match self {
            Self::Header(mut header, known) => {
                header[known..known + bytes.len()].copy_from_slice(bytes);
                match (known + bytes.len(), u16::from_be_bytes([header[3], header[4]])) {
                    (HEADER_BYTES, 0) => Self::START,
                    (HEADER_BYTES, length) => Self::Content(length.into()),
                    (known, _) => Self::Header(header, known),
                }
            }
            Self::Content(left) if left == bytes.len() => Self::START,
            Self::Content(left) => Self::Content(left - bytes.len()),
            Self::Unknown => Self::Unknown,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Records<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.place == Place::Unknown {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let room = self.place.room().min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.io).poll_read(context, &mut part))?;
        let count = part.filled().len();
        self.place = self.place.after(part.filled());
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Records<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<T: ClientIo> ClientIo for Records<T> {
    fn reset_on_close(&self, reset: bool) {
        self.io.reset_on_close(reset);
    }

    fn cork(&self, corked: bool) {
        self.io.cork(corked);
    }
}

/// Type, version and length (RFC 8446 section 5.1).
const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn record(length: u16) -> Vec<u8> {
        [&[22, 3, 3][..], &length.to_be_bytes(), &vec![length as u8; length.into()]].concat()
    }

    #[tokio::test]
    async fn no_read_reaches_into_the_next_record() {
        let records = [record(3), record(0), record(300), record(1)].concat();
        let (near, mut far) = duplex(1024);
        far.write_all(&records).await.expect("room");
        let mut reading = Records::new(near, true);
        let (mut taken, mut ends) = (Vec::new(), Vec::new());
        while taken.len() < records.len() {
            reading.read_buf(&mut taken).await.expect("it is there");
            if reading.is_between() {
                ends.push(taken.len());
            }
        }
        assert_eq!((taken == records, ends), (true, vec![8, 13, 318, 324]));
        // A record that has begun.
        far.write_all(&[23, 3]).await.expect("room");
        assert_eq!(reading.read_buf(&mut taken).await.expect("it is there"), 2);
        assert!(!reading.is_between());
        reading.join();
        far.write_all(&[3, 0, 1, 9, 23]).await.expect("room");
        assert_eq!(reading.read_buf(&mut taken).await.expect("it is there"), 5);
    }
}
