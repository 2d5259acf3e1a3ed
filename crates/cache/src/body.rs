//! The body of a reply, made of segments: bytes in memory, slices of stored bodies, arriving
//! bodies.
//!
//! One type serves whole responses, single ranges, multipart ranges and bodies combined from stored
//! parts. A body holds at most one block in memory.

use super::hybrid_cache::HybridCache;
use super::shared_body::{BodyEnd, BodyReader, ReadStep};
use crate::io_pool::{JobKind, QueueFull};
use crate::message::{BodyError, StreamBody};
use bytes::Bytes;
use http_body::{Body, Frame};
use shoal_store::StoredBody;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A stretch of a reply's body.
pub enum BodySegment {
    /// Bytes in memory.
    Memory(Bytes),
    /// `length` bytes of a stored body from `offset`.
    Stored {
        /// The body.
        body: Arc<dyn StoredBody>,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// An arriving body from the reader's position, `length` bytes or to its end.
    Growing {
        /// Reader, attached at its position.
        reader: BodyReader,
        /// Number of bytes to send; `None` means to the end, trailers included.
        length: Option<u64>,
    },
}

/// Segments, sent in order.
pub struct SegmentedBody {
    segments: VecDeque<BodySegment>,
    objects: Arc<HybridCache>,
    reading: Option<Reading>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, BodyError>> + Send>>;

impl SegmentedBody {
    /// Creates a body of these segments; stored bodies are read on the cache's pool.
    pub fn new(segments: impl IntoIterator<Item = BodySegment>, objects: Arc<HybridCache>) -> Self {
        Self { segments: segments.into_iter().collect(), objects, reading: None }
    }

    /// Boxes the body for a reply.
    pub fn boxed(self) -> StreamBody {
        StreamBody::new(self)
    }

    /// Begins to read one block of a stored body.
    fn start_reading(&mut self, body: &Arc<dyn StoredBody>, offset: u64, limit: u64) {
        let (objects, body) = (Arc::clone(&self.objects), Arc::clone(body));
        self.reading = Some(Box::pin(read_stored(objects, body, offset, limit)));
    }

    /// Returns the block being read once the read is done.
    fn poll_reading(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, BodyError>> {
        let reading = self.reading.as_mut().expect("the caller started a read");
        let block = ready!(reading.as_mut().poll(context));
        self.reading = None;
        Poll::Ready(match block {
            Ok(bytes) if bytes.is_empty() => {
                Err(BodyError::Cut("stored body is shorter than its record".into()))
            }
            other => other,
        })
    }

    /// Returns the next frame of the first segment; `Ready(None)` if the segment is done.
    fn poll_segment(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(mut segment) = self.segments.pop_front() else { return Poll::Ready(None) };
        let polled = match &mut segment {
            BodySegment::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            BodySegment::Stored { length: 0, .. } | BodySegment::Growing { length: Some(0), .. } => {
                Poll::Ready(None)
            }
            BodySegment::Stored { body, offset, length } => {
                if self.reading.is_none() {
                    self.start_reading(body, *offset, *length);
                }
                self.poll_reading(context).map(|block| {
                    Some(block.map(|bytes| {
                        *offset += bytes.len() as u64;
                        *length -= bytes.len() as u64;
                        Frame::data(bytes)
                    }))
                })
            }
            BodySegment::Growing { reader, length } => self.poll_growing(reader, length, context),
        };
        if !matches!(polled, Poll::Ready(None)) {
            self.segments.push_front(segment);
        }
        polled
    }

    fn poll_growing(
        &mut self,
        reader: &mut BodyReader,
        length: &mut Option<u64>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let wanted = length.unwrap_or(u64::MAX);
        let mut block = None;
        if self.reading.is_none() {
            match ready!(reader.poll_next(wanted.min(BLOCK), context)) {
                Ok(ReadStep::Bytes(bytes)) => block = Some(Ok(bytes)),
                Ok(ReadStep::Spilled(body)) => self.start_reading(&body, reader.offset(), wanted),
                Ok(ReadStep::End(BodyEnd::Complete(trailers))) if length.is_none() => {
                    *length = Some(0);
                    return Poll::Ready(trailers.map(|fields| Ok(Frame::trailers(fields))));
                }
                Ok(ReadStep::End(BodyEnd::Complete(_))) => {
                    block = Some(Err(BodyError::Cut("body ended before the range did".into())));
                }
                Ok(ReadStep::End(BodyEnd::Cut(why))) => block = Some(Err(BodyError::Cut(why))),
                Err(error) => block = Some(Err(error)),
            }
        }
        let block = match block {
            Some(block) => block,
            None => ready!(self.poll_reading(context)),
        };
        Poll::Ready(Some(block.map(|bytes| {
            reader.advance(bytes.len() as u64);
            if let Some(length) = length {
                *length -= bytes.len() as u64;
            }
            Frame::data(bytes)
        })))
    }
}

impl Body for SegmentedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.segments.is_empty() {
            if let Some(frame) = ready!(self.poll_segment(context)) {
                return Poll::Ready(Some(frame));
            }
        }
        Poll::Ready(None)
    }
}

/// Reads at most `limit` bytes on the pool. A full queue delays a body in transmission instead of
/// cutting it.
async fn read_stored(
    objects: Arc<HybridCache>,
    body: Arc<dyn StoredBody>,
    offset: u64,
    limit: u64,
) -> Result<Bytes, BodyError> {
    // The body already holds these bytes while it is sent.
    if let Some(bytes) = body.read_at_once(offset, limit.min(BLOCK) as usize) {
        return Ok(bytes);
    }
    loop {
        let (source, allowance) = (Arc::clone(&body), objects.blocks().allow());
        let limit = allowance.bytes(offset).min(limit) as usize;
        // The last read has often brought the next block too.
        if let Some(bytes) = body.read_near(offset, limit) {
            return Ok(allowance.charge_bytes(bytes));
        }
        let read = move || source.read(offset, limit).map(|bytes| allowance.charge_bytes(bytes));
        match objects
            .disk_queue(body.disk_index())
            .pool()
            .submit(JobKind::Read { at: body.position(offset) }, read)
        {
            Ok(answer) => {
                let read = answer.await.map_err(|_| BodyError::Cut("the disk pool is closed".into()))?;
                return read.map_err(BodyError::Store);
            }
            Err(QueueFull) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Bytes of an arriving body passed on at a time.
const BLOCK: u64 = 64 * 1024;

/// Pause before a read is offered again to a full queue.
const RETRY: Duration = Duration::from_millis(5);
