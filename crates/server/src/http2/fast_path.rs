//! Fast path of a stream: a hit in RAM is framed as soon as its request is parsed.
//!
//! The ordinary path opens a stream and starts a task with a channel for interim responses. A hit
//! needs neither if the client's windows take the whole body: head and body go into the
//! connection's output at once. Otherwise a stream is opened, and a task sends the body at the
//! client's pace.

use super::StreamContext;
use super::output::{COPIED_MAX, FrameOutput};
use super::send::BodySender;
use super::sending::StreamSender;
use crate::message::{AccessRecord, FastPathOutcome, Handler, Hold, RamHit, ReplyBody, SendProgress};
use crate::reply_fields::{self, Hpack};
use crate::reply_guard::ReplyGuard;
use http::HeaderValue;
use shoal_wire::FastPathRequest;
use std::sync::Arc;
use std::time::Instant;

/// Answers a plain request that is fresh in RAM. `None` means that no bytes were sent and nothing
/// has changed.
pub(super) fn answer<H: Handler>(
    streams: &Arc<StreamContext<H>>,
    id: u32,
    plain: &FastPathRequest<'_>,
    received: Instant,
    output: &mut FrameOutput,
) -> Option<()> {
    let mut rest = None;
    let handler = &streams.shared.handler;
    let alt_svc = streams.shared.alt_svc(&streams.client);
    let glance = handler.try_fast_path(plain, &streams.client, received, |hit| {
        // A copied body needs no memory charge.
        let is_copied = hit.content.len() <= COPIED_MAX;
        let hold = if is_copied { None } else { hit.keeper.hold(hit.content.len()) };
        if is_copied || hold.is_some() {
            let mut state = streams.link.lock();
            let frame_bytes_max = state.frame_bytes_max();
            if state.take_room(hit.content.len()) {
                drop(state);
                return frame(output, (id, frame_bytes_max), (hit, hold), (alt_svc.as_ref(), received));
            }
        }
        let (sending, _) = streams.link.open(id, true, None);
        let mut block = Vec::new();
        let head_bytes = reply_fields::hit::<Hpack>(&mut block, hit, alt_svc.as_ref(), received);
        rest = Some(RemainingReply { sending, block, body: hit.keep(0), head_bytes });
        SendProgress::Partly
    });
    match glance {
        FastPathOutcome::NotTaken => return None,
        FastPathOutcome::Sent => streams.link.lock().note_end(received),
        FastPathOutcome::Sending(record) => {
            tokio::spawn(finish(Arc::clone(streams), rest, record, received));
        }
    }
    streams.shared.metrics.requests.increment();
    Some(())
}

/// Puts the whole reply to a hit into the output.
fn frame(
    output: &mut FrameOutput,
    (id, frame_bytes_max): (u32, usize),
    (hit, hold): (&RamHit<'_>, Option<Hold>),
    (alt_svc, received): (Option<&HeaderValue>, Instant),
) -> SendProgress {
    debug_assert!(hold.is_some() || hit.content.len() <= COPIED_MAX, "a body that is sent and not held");
    let mut head_bytes = 0;
    let is_empty = hit.content.is_empty();
    output.fields(id, is_empty, frame_bytes_max, |block| {
        head_bytes = reply_fields::hit::<Hpack>(block, hit, alt_svc, received);
    });
    if !is_empty {
        output.body(id, (hit.body, hit.content_place(), hold), frame_bytes_max);
    }
    SendProgress::Whole { head_bytes }
}

/// Reply still to be sent.
struct RemainingReply {
    sending: StreamSender,
    block: Vec<u8>,
    body: ReplyBody,
    head_bytes: u64,
}

/// Sends a reply and completes its record.
async fn finish<H: Handler>(
    streams: Arc<StreamContext<H>>,
    rest: Option<RemainingReply>,
    record: Option<Box<AccessRecord>>,
    received: Instant,
) {
    let mut account = ReplyGuard::open(&streams.shared, record, received);
    let Some(RemainingReply { mut sending, block, body, head_bytes }) = rest else { return };
    if sending.head(block, false).is_err() {
        return;
    }
    let mut sender = BodySender::new(sending, &streams.live.patience);
    let sent = match body {
        ReplyBody::Memory(bytes) => sender.bytes(bytes, true).await,
        ReplyBody::Stream { frames, length } => sender.frames(frames, length).await,
        ReplyBody::Empty | ReplyBody::Tunnel(_) => Ok(()),
    };
    (account.head_bytes, account.body_bytes) = (head_bytes, sender.sent);
    let now = Instant::now();
    match sent {
        Ok(()) => account.complete(now),
        Err(why) => sender.stop(&why),
    }
    streams.link.lock().note_end(now);
}
