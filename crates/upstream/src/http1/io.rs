//! Stream of an HTTP/1 connection to an origin, with the bytes read but not yet used.

use crate::driver::OpenGauge;
use crate::socket::{Disturbance, OriginStream};
use crate::transport::spare::{self, BufferClass};
use crate::transport::{Deadline, Rewind};
use bytes::BytesMut;
use shoal_wire::ResponseHeadParser;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, ReadBuf};

/// Connected stream and its buffers.
pub(super) struct Io {
    pub stream: OriginStream,
    /// Bytes read but not yet used.
    pub input: BytesMut,
    pub parser: ResponseHeadParser,
    /// Deadline for a head; created when the first head must be waited for.
    deadline: Option<Deadline>,
    gauge: OpenGauge,
}

impl Io {
    pub fn new(stream: OriginStream, gauge: OpenGauge) -> Self {
        Self { stream, input: BytesMut::new(), parser: ResponseHeadParser::default(), deadline: None, gauge }
    }

    /// Reads arrived bytes of a body. Returns `Ok(0)` at the end. `room` is the size of a buffer
    /// that grows. An empty buffer is one that earlier bodies were read into.
    pub fn poll_fill_body(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if self.input.is_empty() && self.input.capacity() < FRESH_ROOM_MIN {
            spare::renew(&mut self.input, spare::BODY_BYTES);
        }
        self.poll_fill(context, room)
    }

    /// Reads arrived bytes. Returns `Ok(0)` at the end. `room` is the size of a new buffer.
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
            // The next connection with a response then reads into memory that is still in the
            // core's cache.
            self.rest();
        }
        filled
    }

    /// Returns ready once the origin has sent unrequested bytes or ended the connection.
    pub fn poll_disturbed(&mut self, context: &mut Context<'_>) -> Poll<Disturbance> {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        let read = tokio::io::AsyncRead::poll_read(Pin::new(&mut self.stream), context, &mut byte);
        read.map(|outcome| match outcome {
            Ok(()) if !byte.filled().is_empty() => Disturbance::Surplus,
            _ => Disturbance::Ended,
        })
    }

    /// Returns ready when `due` has passed.
    pub fn poll_overdue(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let deadline = self.deadline.get_or_insert_with(|| Deadline::after(Duration::ZERO));
        deadline.set(due);
        deadline.poll_passed(context)
    }

    /// Returns the buffer to the pool.
    pub fn rest(&mut self) {
        let input = std::mem::take(&mut self.input);
        match input.capacity() > BufferClass::Origin.bytes() {
            true => spare::retire(input),
            false => spare::give(BufferClass::Origin, input),
        }
    }

    /// Drops the timer, since another thread takes over. A timer belongs to the runtime of its
    /// creation.
    pub fn forget_timer(&mut self) {
        self.deadline = None;
    }

    /// Closes the connection in order.
    pub fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.stream).poll_shutdown(context).map(drop)
    }

    /// Returns the stream, with early bytes put back, and its gauge.
    pub fn into_stream(self) -> (Rewind<OriginStream>, OpenGauge) {
        (Rewind::new(self.input.freeze(), self.stream), self.gauge)
    }
}

/// Minimum free bytes within a message, and before one. Below, the buffer grows or its used part is
/// reclaimed. A small message should arrive in one read.
const ROOM_MIN: usize = 2048;
const FRESH_ROOM_MIN: usize = 12 * 1024;

const _: () = assert!(ROOM_MIN <= FRESH_ROOM_MIN);
