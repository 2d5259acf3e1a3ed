//! A client connection with its read buffer, its output and its deadline: what the HTTP/1 loop polls.

use super::client_io::ClientIo;
use super::deadline::Deadline;
use super::patience::{Pace, Patience, TooSlow};
use bytes::{Bytes, BytesMut};
use shoal_wire::chunk;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// One connection and its buffers.
pub(super) struct Socket<T> {
    /// The connection.
    pub io: T,
    /// Bytes read and not yet used.
    pub input: BytesMut,
    /// Bytes on their way out.
    pub output: Output,
    /// When to give up waiting.
    pub deadline: Deadline,
    /// How fast the client takes what is sent.
    pace: Pace,
    /// The client has ended its sending; when to take it for gone, unless it takes bytes.
    ended: Option<Deadline>,
    /// The read buffer was made larger than an idle connection should hold.
    enlarged: bool,
}

/// What is being written: a head (or interim responses, or a chunk's size line), data, and what follows it. All
/// three go out in one system call when the kernel takes them.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// First.
    pub head: Vec<u8>,
    /// Then.
    pub data: Bytes,
    /// Last.
    pub tail: Vec<u8>,
    /// Bytes of the three together that were written.
    written: usize,
}

/// The client can no longer be reached.
#[derive(Debug)]
pub(super) struct Gone;

impl<T: ClientIo> Socket<T> {
    /// A connection that must say something within `first`.
    pub fn new(io: T, first: Duration) -> Self {
        Self {
            io,
            input: BytesMut::new(),
            output: Output::default(),
            deadline: Deadline::after(first),
            pace: Pace::default(),
            ended: None,
            enlarged: false,
        }
    }

    /// Reads what has arrived into `input`; `Ok(0)` is the end.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if self.input.capacity() == 0 {
            self.input = spare::take();
        }
        if self.input.capacity() - self.input.len() < ROOM_MIN {
            self.enlarged |= room > INPUT_BYTES || self.input.len() >= INPUT_BYTES - ROOM_MIN;
            self.input.reserve(room);
        }
        let filled = pin!(self.io.read_buf(&mut self.input)).poll(context);
        if filled.is_pending() && self.input.is_empty() && !self.enlarged {
            spare::give(std::mem::take(&mut self.input));
        }
        filled
    }

    /// Gives back what a large head or body made of the read buffer, before the connection goes idle.
    pub fn shrink(&mut self) {
        if self.enlarged && self.input.is_empty() {
            self.input = BytesMut::new();
            self.enlarged = false;
        }
    }

    /// Ready once the client has gone. What it sends meanwhile stays in `input`; when that is full, nothing more is read
    /// and nothing noticed.
    ///
    /// A client that ends its sending may have left, or wait for its answer: on the wire the two look the same until
    /// something is sent to it. So it is given [`ENDED_TIME`] without a byte before it counts as gone.
    pub fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Gone> {
        if let Some(ended) = &mut self.ended {
            ended.set_if_lifted(ENDED_TIME);
            return ended.poll_passed(context).map(|()| Gone);
        }
        while self.input.len() < READ_AHEAD_MAX {
            match ready!(self.poll_fill(context, INPUT_BYTES)) {
                Ok(0) => {
                    self.ended = Some(Deadline::after(ENDED_TIME));
                    return self.poll_gone(context);
                }
                Err(_) => return Poll::Ready(Gone),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    /// Writes all output, to a client that must not be too slow to take it.
    pub fn poll_send(&mut self, context: &mut Context<'_>, patience: &Patience) -> Poll<Result<(), Gone>> {
        while !self.output.is_written() {
            match self.output.poll_write(&mut self.io, context) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(Gone)),
                Poll::Ready(Ok(bytes)) => {
                    self.deadline.lift();
                    self.pace.moved(bytes, patience)?;
                    if let Some(ended) = &mut self.ended {
                        ended.lift();
                    }
                }
                Poll::Pending => return self.poll_stalled(context, patience),
            }
        }
        match Pin::new(&mut self.io).poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.output.clear();
                self.deadline.lift();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Gone)),
            Poll::Pending => self.poll_stalled(context, patience),
        }
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>, patience: &Patience) -> Poll<Result<(), Gone>> {
        self.pace.poll_stalled(&mut self.deadline, context, patience).map(|TooSlow| Err(Gone))
    }

    /// Writes all output and waits until it is written.
    pub async fn send(&mut self, patience: &Patience) -> Result<(), Gone> {
        poll_fn(|context| self.poll_send(context, patience)).await
    }

    /// Closes in order.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(LINGER_TIME, self.io.shutdown()).await;
    }

    /// Closes while the client may still be sending. RFC 9112 section 9.6: "If a server performs an immediate
    /// close of a TCP connection, there is a significant risk that the client will not be able to read the last
    /// HTTP response"; so the write side is closed first, and what still comes is read and dropped for a while.
    pub async fn linger(mut self) {
        let lingering = async {
            self.io.shutdown().await?;
            let mut dropped = 0;
            while dropped < LINGER_BYTES_MAX {
                self.input.clear();
                match poll_fn(|context| self.poll_fill(context, INPUT_BYTES)).await? {
                    0 => break,
                    count => dropped += count,
                }
            }
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER_TIME, lingering).await;
    }
}

impl From<TooSlow> for Gone {
    fn from(_: TooSlow) -> Self {
        Self
    }
}

impl Output {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.data.is_empty() && self.tail.is_empty()
    }

    /// Bytes of `data` that were written.
    pub fn data_written(&self) -> usize {
        self.written.saturating_sub(self.head.len()).min(self.data.len())
    }

    /// Takes data to write after the head, as a chunk when `chunked`.
    pub fn set_data(&mut self, data: Bytes, chunked: bool) {
        if chunked {
            chunk::size_line(&mut self.head, data.len());
            self.tail.extend_from_slice(chunk::CRLF);
        }
        self.data = data;
    }

    /// Takes over a reply of which `written` bytes have been sent. Nothing else is under way.
    pub fn resume(&mut self, head: &[u8], data: Bytes, written: usize) {
        debug_assert!(self.is_empty(), "one reply at a time");
        self.head.extend_from_slice(head);
        (self.data, self.written) = (data, written);
    }

    fn length(&self) -> usize {
        self.head.len() + self.data.len() + self.tail.len()
    }

    fn is_written(&self) -> bool {
        self.written == self.length()
    }

    /// Empties it and keeps its allocations, unless a response made them unusually large.
    fn clear(&mut self) {
        self.head.clear();
        self.head.shrink_to(HEAD_BYTES_KEPT);
        self.tail.clear();
        self.data = Bytes::new();
        self.written = 0;
    }

    fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        io: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut skip = self.written;
        let mut slices = [IoSlice::new(&[]); 3];
        let mut count = 0;
        for part in [&self.head[..], &self.data[..], &self.tail[..]] {
            let rest = &part[skip.min(part.len())..];
            skip = skip.saturating_sub(part.len());
            if !rest.is_empty() {
                slices[count] = IoSlice::new(rest);
                count += 1;
            }
        }
        let io = Pin::new(io);
        let written = ready!(match count {
            1 => io.poll_write(context, &slices[0]),
            _ => io.poll_write_vectored(context, &slices[..count]),
        })?;
        self.written += written;
        Poll::Ready(Ok(written))
    }
}

/// Room in the read buffer: more than most request heads take.
pub(super) const INPUT_BYTES: usize = 4096;

/// Below so much room the buffer is made larger, or its used part reclaimed.
const ROOM_MIN: usize = 1024;

/// Pipelined bytes read while an earlier request is being answered.
const READ_AHEAD_MAX: usize = 16 * 1024;

/// How long a client that has ended its sending is waited for without taking a byte.
const ENDED_TIME: Duration = Duration::from_secs(2);

/// Capacity for heads that a connection keeps between responses.
const HEAD_BYTES_KEPT: usize = 4096;

/// Bytes read and dropped from a client that goes on sending after its last response.
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// How long that may take, and how long an orderly close may.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Read buffers of connections that wait, kept by their thread: an idle connection holds none, and the next one that
/// becomes readable reads into memory that is still in the core's cache.
mod spare {
    use super::{BytesMut, INPUT_BYTES};
    use std::cell::RefCell;

    /// A buffer of [`INPUT_BYTES`], or what is left of one that earlier requests were cut from.
    pub fn take() -> BytesMut {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        spare.unwrap_or_else(|| BytesMut::with_capacity(INPUT_BYTES))
    }

    /// Keeps an empty buffer for the next taker.
    pub fn give(buffer: BytesMut) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(buffer);
            }
        });
    }

    /// More than one is needed only while connections hold parts of requests.
    const SPARE_MAX: usize = 64;

    thread_local! {
        static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes at most `step` bytes a write.
    struct Narrow {
        taken: Vec<u8>,
        step: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.step);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            self.poll_write(context, &joined)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        #[test]
        fn partial_writes_lose_nothing(
            head in prop::collection::vec(any::<u8>(), 0..20),
            data in prop::collection::vec(any::<u8>(), 0..20),
            tail in prop::collection::vec(any::<u8>(), 0..20),
            step in 1usize..25,
        ) {
            let expected = [&head[..], &data, &tail].concat();
            let mut output = Output { head, data: Bytes::from(data.clone()), tail, written: 0 };
            let mut narrow = Narrow { taken: Vec::new(), step };
            let mut context = Context::from_waker(std::task::Waker::noop());
            while !output.is_written() {
                prop_assert!(output.poll_write(&mut narrow, &mut context).is_ready());
                let in_data = narrow.taken.len().saturating_sub(output.head.len()).min(data.len());
                prop_assert_eq!(output.data_written(), in_data);
            }
            prop_assert_eq!(narrow.taken, expected);
        }
    }
}
