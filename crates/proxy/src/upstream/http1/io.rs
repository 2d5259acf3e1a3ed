//! The stream of an HTTP/1 connection to an origin, with what has been read of it and not yet used.

use crate::transport::spare::{self, BufferClass};
use crate::transport::{Deadline, Rewind};
use crate::upstream::driver::OpenGauge;
use crate::upstream::socket::OriginStream;
use bytes::BytesMut;
use shoal_wire::ResponseHeadParser;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, ReadBuf};

/// A connected stream and its buffers.
pub(super) struct Io {
    pub stream: OriginStream,
    /// Bytes read and not yet used.
    pub input: BytesMut,
    pub parser: ResponseHeadParser,
    /// When to give up waiting for a head; made when one has to be waited for.
    deadline: Option<Deadline>,
    gauge: OpenGauge,
}

impl Io {
    pub fn new(stream: OriginStream, gauge: OpenGauge) -> Self {
        Self { stream, input: BytesMut::new(), parser: ResponseHeadParser::default(), deadline: None, gauge }
    }

    /// Reads what has arrived; `Ok(0)` is the end. `room` says for how much a new buffer is made.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if self.input.capacity() == 0 {
            self.input = spare::take(BufferClass::Origin);
        }
        let least = if self.input.is_empty() { FRESH_ROOM_MIN } else { ROOM_MIN };
        if self.input.capacity() - self.input.len() < least {
            self.input.reserve(room);
        }
        let filled = pin!(self.stream.read_buf(&mut self.input)).poll(context);
        if filled.is_pending() && self.input.is_empty() {
            // Whoever is answered first reads into memory that is still in the core's cache.
            self.rest();
        }
        filled
    }

    /// Ready once the origin has said something that nobody asked for, its end included.
    pub fn poll_disturbed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        tokio::io::AsyncRead::poll_read(Pin::new(&mut self.stream), context, &mut byte).map(drop)
    }

    /// Ready when `due` has passed.
    pub fn poll_overdue(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let deadline = self.deadline.get_or_insert_with(|| Deadline::after(Duration::ZERO));
        deadline.set(due);
        deadline.poll_passed(context)
    }

    /// Gives the buffer back.
    pub fn rest(&mut self) {
        spare::give(BufferClass::Origin, std::mem::take(&mut self.input));
    }

    /// Another thread takes over: a timer belongs to the runtime that it was made in.
    pub fn forget_timer(&mut self) {
        self.deadline = None;
    }

    /// Closes in order.
    pub fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.stream).poll_shutdown(context).map(drop)
    }

    /// The stream with the bytes put back that came too early, and what counts it as open.
    pub fn into_stream(self) -> (Rewind<OriginStream>, OpenGauge) {
        (Rewind::new(self.input.freeze(), self.stream), self.gauge)
    }
}

/// Below so much room the buffer is made larger, or its used part reclaimed: within a message, and
/// before one, which should come with one read when it is small.
const ROOM_MIN: usize = 2048;
const FRESH_ROOM_MIN: usize = 12 * 1024;

const _: () = assert!(ROOM_MIN <= FRESH_ROOM_MIN);
