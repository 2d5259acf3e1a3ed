//! Output of a connection that leaves in as few calls as the kernel allows.

use crate::message::StreamBody;
use bytes::Bytes;
use shoal_store::memory::LENT_MIN;
use shoal_wire::chunk;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// What is being written: a head (or interim responses, or a chunk's size line), data, and what
/// follows it. All three go out in one system call when the kernel takes them.
#[derive(Debug, Default)]
pub(crate) struct MessageOutput {
    /// First.
    pub head: Vec<u8>,
    /// Then.
    pub data: Bytes,
    /// Last.
    pub tail: Vec<u8>,
    /// Bytes of the three together that were written.
    written: usize,
    /// What comes after that of a hit in RAM, if not all of it is in `data`.
    pub rest: Option<Box<Rest>>,
}

/// What is left of a body that comes piece by piece.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The pieces.
    pub frames: StreamBody,
    /// Bytes of the body that were sent before.
    pub sent: u64,
}

impl MessageOutput {
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

    /// Bytes of it, written or not.
    pub fn length(&self) -> usize {
        self.head.len() + self.data.len() + self.tail.len()
    }

    /// Whether all of it was written.
    pub fn is_written(&self) -> bool {
        self.written == self.length()
    }

    /// Empties it and keeps its allocations, unless a response made them unusually large.
    pub fn clear(&mut self) {
        self.head.clear();
        self.head.shrink_to(HEAD_BYTES_KEPT);
        self.tail.clear();
        self.data = Bytes::new();
        self.written = 0;
    }

    /// Has `lend` send some of it, which is given what is left of the head and of large data.
    pub fn poll_lend(
        &mut self,
        lend: impl FnOnce(&[u8], &[u8]) -> Option<Poll<io::Result<usize>>>,
    ) -> Option<Poll<io::Result<usize>>> {
        if self.data.len() - self.data_written() < LENT_MIN {
            return None;
        }
        let head = &self.head[self.written.min(self.head.len())..];
        let polled = lend(head, &self.data[self.data_written()..])?;
        if let Poll::Ready(Ok(sent)) = &polled {
            self.written += sent;
        }
        Some(polled)
    }

    /// Writes some of it.
    pub fn poll_write<T: AsyncWrite + Unpin>(
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

/// Capacity for heads that a connection keeps between responses.
const HEAD_BYTES_KEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::narrow::ThrottledStream;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn partial_writes_lose_nothing(
            head in prop::collection::vec(any::<u8>(), 0..20),
            data in prop::collection::vec(any::<u8>(), 0..20),
            tail in prop::collection::vec(any::<u8>(), 0..20),
            step in 1usize..25,
        ) {
            let expected = [&head[..], &data, &tail].concat();
            let mut output = MessageOutput { head, data: Bytes::from(data.clone()), tail, ..MessageOutput::default() };
            let mut narrow = ThrottledStream { taken: Vec::new(), step };
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
