//! Output of a connection that leaves in as few calls as the kernel allows.

use bytes::Bytes;
use shoal_memory::LENT_MIN;
use shoal_message::StreamBody;
use shoal_wire::chunk;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Output in progress: a head (or interim responses, or a chunk's size line), data, and a tail. All
/// three leave in one system call if the kernel accepts them.
#[derive(Debug, Default)]
pub struct MessageOutput {
    /// Bytes written first.
    pub head: Vec<u8>,
    /// Bytes written after the head.
    pub data: Bytes,
    /// Bytes written last.
    pub tail: Vec<u8>,
    /// Bytes written of the three together.
    written: usize,
    /// Rest of a hit in RAM behind `data`, if `data` does not hold all of it.
    pub rest: Option<Box<Rest>>,
}

/// Rest of a body that arrives in pieces.
#[derive(Debug)]
pub struct Rest {
    /// Pieces of the body.
    pub frames: StreamBody,
    /// Number of body bytes sent before.
    pub sent: u64,
}

impl MessageOutput {
    /// Returns `true` if there is nothing to write.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.data.is_empty() && self.tail.is_empty()
    }

    /// Returns the number of written bytes of `data`.
    #[inline]
    pub fn data_written(&self) -> usize {
        self.written.saturating_sub(self.head.len()).min(self.data.len())
    }

    /// Sets the data to write after the head, as a chunk if `chunked`.
    #[inline]
    pub fn set_data(&mut self, data: Bytes, chunked: bool) {
        if chunked {
            chunk::size_line(&mut self.head, data.len());
            self.tail.extend_from_slice(chunk::CRLF);
        }
        self.data = data;
    }

    /// Takes over a reply of which `written` bytes have been sent. The output must be empty.
    pub fn resume(&mut self, head: &[u8], data: Bytes, written: usize) {
        debug_assert!(self.is_empty(), "one reply at a time");
        self.head.extend_from_slice(head);
        (self.data, self.written) = (data, written);
    }

    /// Returns the length of all three parts, written or not.
    #[inline]
    pub fn length(&self) -> usize {
        self.head.len() + self.data.len() + self.tail.len()
    }

    /// Returns `true` if the kernel gets the output in more than one call.
    #[inline]
    pub fn leaves_in_pieces(&self) -> bool {
        self.data.len() > SENT_AT_ONCE
    }

    /// Returns `true` if everything was written.
    #[inline]
    pub fn is_written(&self) -> bool {
        self.written == self.length()
    }

    /// Empties the output and keeps its allocations, unless a response made them unusually large.
    #[inline]
    pub fn clear(&mut self) {
        self.head.clear();
        self.head.shrink_to(HEAD_BYTES_KEPT);
        self.tail.clear();
        self.data = Bytes::new();
        self.written = 0;
    }

    /// Sends a part by `lend`, which gets the rest of the head and of large data. A tail would need
    /// a call of its own. It costs more than the copy of data that would leave with it.
    #[inline]
    pub fn poll_lend(
        &mut self,
        lend: impl FnOnce(&[u8], &[u8]) -> Option<Poll<io::Result<usize>>>,
    ) -> Option<Poll<io::Result<usize>>> {
        let least = if self.tail.is_empty() { LENT_MIN } else { SENT_AT_ONCE + 1 };
        if self.data.len() < least || self.data.len() - self.data_written() < LENT_MIN {
            return None;
        }
        let head = &self.head[self.written.min(self.head.len())..];
        let polled = lend(head, &self.data[self.data_written()..])?;
        if let Poll::Ready(Ok(sent)) = &polled {
            self.written += sent;
        }
        Some(polled)
    }

    /// Writes a part.
    #[inline]
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

/// Bytes of a body that the kernel takes in one call: 16 pages. No partial segment of such a body
/// stays behind for an acknowledgement to send.
pub const SENT_AT_ONCE: usize = 64 << 10;

/// Maximum head capacity that a connection keeps between responses.
const HEAD_BYTES_KEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::narrow::ThrottledStream;
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

    #[test]
    fn tail_leaves_with_data_that_one_call_takes() {
        let is_lent = |data: usize, tail: &str| {
            let tail = tail.as_bytes().to_vec();
            let mut output = MessageOutput { data: vec![7; data].into(), tail, ..MessageOutput::default() };
            output.poll_lend(|_, data| Some(Poll::Ready(Ok(data.len())))).is_some()
        };
        assert_eq!([LENT_MIN - 1, LENT_MIN, SENT_AT_ONCE].map(|data| is_lent(data, "")), [false, true, true]);
        assert_eq!(
            [LENT_MIN, SENT_AT_ONCE, SENT_AT_ONCE + 1].map(|data| is_lent(data, "0")),
            [false, false, true]
        );
    }
}
