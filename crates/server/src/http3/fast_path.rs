//! Fast path of a stream: a hit in RAM is passed to QUIC as soon as its request is read.
//!
//! Head, frame head and a small body are one buffer. A larger body is a reference to its bytes in
//! the RAM tier, charged to it until the client has acknowledged them. A task sends the
//! bytes that QUIC does not take at once.

use super::Http3Context;
use super::receive::RequestStream;
use super::send::{Http3Reply, QuicSender};
use crate::message::{AccessRecord, FastPathOutcome, Handler, Hold, RamHit, ReplyBody, SendProgress};
use crate::reply_fields::{self, FieldEncoding, Qpack};
use crate::reply_guard::ReplyGuard;
use bytes::Bytes;
use http::Version;
use shoal_http2::Http2Head;
use shoal_http2::hpack::FieldList;
use shoal_http3::{FRAME_HEAD_BYTES_MAX, data_head, qpack};
use shoal_wire::FastPathRequest;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// Answers a plain request, which has arrived whole, if it is fresh in RAM. Returns the sender
/// otherwise: no bytes were sent and nothing has changed.
pub(super) fn answer<H: Handler>(
    context: &Arc<Http3Context<H>>,
    request: &RequestStream,
    mut sender: QuicSender,
    received: Instant,
) -> Result<(), QuicSender> {
    let (outcome, rest) = match glance(context, request, &mut sender, received) {
        None | Some((FastPathOutcome::NotTaken, _)) => return Err(sender),
        Some(glance) => glance,
    };
    if let FastPathOutcome::Sending(record) = outcome {
        let task = context.begin_task();
        tokio::spawn(async move { finish(&task.0, sender, rest, record, received).await });
    } else {
        context.note_end(received);
    }
    context.shared.metrics.requests.increment();
    context.shared.metrics.h3_requests.increment();
    Ok(())
}

/// Shows the request to the handler. Also returns the rest of the reply, if there is one.
fn glance<H: Handler>(
    context: &Http3Context<H>,
    request: &RequestStream,
    sender: &mut QuicSender,
    received: Instant,
) -> Option<(FastPathOutcome, Option<QueuedReply>)> {
    let section = request.head().filter(|_| request.is_ended())?;
    let (limits, client) = (&context.live.limits, context.client());
    FIELDS.with_borrow_mut(|fields| {
        qpack::decode(section, fields, limits.head_bytes_max).ok()?;
        if fields.is_too_large() {
            fields.shrink();
            return None;
        }
        let head = Http2Head::read(fields).ok()?;
        let mut plain = FastPathRequest::of_http2(&head, limits)?;
        plain.version = Version::HTTP_3;
        let mut rest = None;
        let outcome = context.shared.handler.try_fast_path(&plain, &client, received, |hit| {
            let (progress, left) = QueuedReply::of(hit, received).send_now(sender);
            rest = left;
            progress
        });
        Some((outcome, rest))
    })
}

/// Reply to a hit, as buffers for QUIC: the head, and a body that is not copied behind it.
struct QueuedReply {
    buffers: [Bytes; 2],
    /// Body that is not in memory as a whole.
    body: ReplyBody,
    head_bytes: u64,
    /// Bytes of the body in the buffers, and of the whole body.
    queued: usize,
    length: usize,
}

impl QueuedReply {
    fn of(hit: &RamHit<'_>, received: Instant) -> Self {
        let length = hit.content.len();
        let is_copied = length <= COPIED_MAX;
        let mut block = Vec::with_capacity(HEAD_BYTES + if is_copied { length } else { 0 });
        Qpack::begin(&mut block);
        let head_bytes = reply_fields::hit::<Qpack>(&mut block, hit, None, received);
        let start = shoal_http3::headers(&mut block);
        debug_assert!(start < FRAME_HEAD_BYTES_MAX);
        if length > 0 {
            data_head(&mut block, length as u64);
        }
        let (mut held, mut body) = (Bytes::new(), ReplyBody::Empty);
        if is_copied {
            block.extend_from_slice(hit.content);
        } else if let Some(hold) = hit.keeper.hold(length) {
            held = Bytes::from_owner(HeldBody {
                bytes: hit.body.bytes().slice(hit.content_place()),
                _hold: hold,
            });
        } else {
            body = hit.keep(0);
        }
        let queued = if matches!(body, ReplyBody::Empty) { length } else { 0 };
        Self { buffers: [Bytes::from(block).slice(start..), held], body, head_bytes, queued, length }
    }

    /// Passes the reply to QUIC, and ends the stream. Returns the rest if there is one.
    fn send_now(mut self, sender: &mut QuicSender) -> (SendProgress, Option<Self>) {
        let is_written = sender.write_now(&mut self.buffers) == Ok(true);
        if is_written && matches!(self.body, ReplyBody::Empty) && sender.finish().is_ok() {
            debug_assert_eq!(self.queued, self.length, "a reply without its body");
            return (SendProgress::Whole { head_bytes: self.head_bytes }, None);
        }
        (SendProgress::Partly, Some(self))
    }
}

/// Part of a body in the RAM tier, charged to the tier while a reply has it.
struct HeldBody {
    bytes: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends the rest of a reply and completes its record.
async fn finish<H: Handler>(
    context: &Http3Context<H>,
    sender: QuicSender,
    rest: Option<QueuedReply>,
    record: Option<Box<AccessRecord>>,
    received: Instant,
) {
    let mut account = ReplyGuard::open(&context.shared, record, received);
    let Some(QueuedReply { mut buffers, body, head_bytes, queued, length }) = rest else { return };
    account.head_bytes = head_bytes;
    let mut sender = Http3Reply::new(sender, &context.live.patience);
    let mut sent = sender.write(&mut buffers).await;
    // The body is behind the head.
    let left = buffers.iter().map(Bytes::len).sum::<usize>();
    sender.sent = queued.saturating_sub(left) as u64;
    if sent.is_ok() {
        sent = match body {
            ReplyBody::Memory(bytes) => sender.data(bytes).await,
            ReplyBody::Stream { frames, .. } => sender.frames_within(frames, Some(length as u64)).await,
            ReplyBody::Empty | ReplyBody::Tunnel(_) => Ok(()),
        };
    }
    account.body_bytes = sender.sent;
    match sent.and_then(|()| sender.stream.finish()) {
        Ok(()) => account.complete(Instant::now()),
        Err(why) => sender.stop(why),
    }
    context.note_end(Instant::now());
}

/// Largest body that is copied behind its head: as for HTTP/1, one buffer is less work than two.
const COPIED_MAX: usize = 4096;

/// Expected maximum bytes of a hit's head.
const HEAD_BYTES: usize = 768;

thread_local! {
    /// Fields of the section being decoded.
    static FIELDS: RefCell<FieldList> = RefCell::default();
}
