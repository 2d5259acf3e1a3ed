//! Fast path of a connection: a hit in RAM is sent at once, and the request head never leaves the
//! buffer.
//!
//! The request and the reply use buffers of the thread. A request without a hit is copied into the
//! connection, as are reply bytes that the kernel does not take. A connection that serves only hits
//! therefore has no buffers of its own.

use super::{AfterReply, Connection, NoRequest, head};
use crate::ServerState;
use crate::client_io::ClientIo;
use crate::message::{AccessRecord, Client, FastPathOutcome, Handler, RamHit, ReplyBody, SendProgress};
use crate::reply_guard::ReplyGuard;
use crate::socket::{BufferedConnection, INPUT_BYTES, LostClient};
use crate::transport::{MessageOutput, Rest, SENT_AT_ONCE};
use bytes::{Buf, Bytes};
use http::HeaderValue;
use http_body::Body;
use shoal_memory::LENT_MIN;
use shoal_wire::FastPathRequest;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// Reply to a hit.
pub(crate) enum FastReply {
    /// Sent whole and recorded.
    Sent,
    /// Sent whole and recorded, but large. A connection with such replies keeps its task.
    SentLong,
    /// The rest is in the output.
    Sending {
        /// Record to complete after sending.
        record: Option<Box<AccessRecord>>,
        /// Bytes of the reply's head.
        head_bytes: usize,
    },
    /// Recorded; the rest is in the output.
    Settled,
}

impl FastReply {
    /// Returns `true` if the reply is short: it is sent, or will be soon.
    pub fn is_short(&self) -> bool {
        matches!(self, Self::Sent | Self::Settled)
    }

    /// Returns `true` if the reply is sent whole and was short.
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Sent)
    }
}

impl<T: ClientIo> Connection<T> {
    /// Reads the first bytes of a head, and answers the request if that can be done at once. The
    /// remaining bytes go to the input. Also returns their arrival time.
    pub(super) fn poll_first<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Option<FastReply>, Instant), NoRequest>> {
        BUFFERS.with_borrow_mut(|Buffers { arrived, reply }| {
            let count = match self.socket.io.poll_receive(context, arrived) {
                Poll::Ready(Ok(count)) if count > 0 => count,
                Poll::Ready(_) => return Poll::Ready(Err(NoRequest::Over)),
                Poll::Pending => {
                    self.socket.spare();
                    return self.poll_idle(context).map(Err);
                }
            };
            let received = Instant::now();
            let glanced = self.serve_buffered(shared, &arrived[..count], reply, received, context);
            let (glanced, taken) = glanced.map_or((None, 0), |(glanced, taken)| (Some(glanced), taken));
            self.socket.put_back(&arrived[taken..count]);
            Poll::Ready(Ok((glanced, received)))
        })
    }

    /// Answers the request at the start of the input likewise. `None` means that nothing has
    /// changed.
    pub(super) fn try_fast_path<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<FastReply> {
        let input = std::mem::take(&mut self.socket.input);
        let glanced = BUFFERS.with_borrow_mut(|Buffers { reply, .. }| {
            self.serve_buffered(shared, &input, reply, received, context)
        });
        self.socket.input = input;
        let (glanced, taken) = glanced?;
        self.socket.input.advance(taken);
        Some(glanced)
    }

    /// Answers a request at the start of `bytes` at once, with the reply built in `reply`. Also
    /// returns the number of bytes used.
    fn serve_buffered<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        bytes: &[u8],
        reply: &mut Vec<u8>,
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<(FastReply, usize)> {
        if self.drain.is_draining() || self.live.keep_alive.is_zero() {
            return None;
        }
        let of_peer = self.client.is_peer();
        if of_peer && let Some(sent) = self.serve_message(shared, bytes, reply, received, context) {
            return Some((sent, bytes.len()));
        }
        let BufferedConnection { io, output, pace, .. } = &mut self.socket;
        let plain = match of_peer {
            false => self.parser.peek_fast_path(bytes, &self.live.limits)?,
            true => self.parser.peek_ask(bytes, &self.live.limits)?,
        };
        let mut is_long = false;
        let write = |slices: &[IoSlice<'_>]| {
            is_long = slices.last().is_some_and(|body| body.len() > SENT_AT_ONCE);
            let written = match slices {
                [whole] => io.poll_send(context, whole),
                [head, body] if T::CAN_LEND && body.len() >= LENT_MIN => lend(io, context, head, body),
                parts => Pin::new(&mut *io).poll_write_vectored(context, parts),
            };
            // An error counts as 0 bytes: sending the rest reports the error again.
            let bytes = match written {
                Poll::Ready(Ok(bytes)) => bytes,
                _ => 0,
            };
            pace.took_at_once(bytes);
            WriteOutcome {
                bytes,
                is_flushed: matches!(Pin::new(io).poll_flush(context), Poll::Ready(Ok(()))),
            }
        };
        reply.clear();
        let to = (reply, output);
        let glanced = match of_peer {
            false => answer(shared, &plain, &self.client, received, to, write),
            true => answer_ask(shared, &plain, &self.client, received, to, write),
        };
        let Some(glanced) = glanced else {
            let is_whole = plain.head_bytes == bytes.len() && !of_peer;
            let ask = is_whole.then(|| shared.handler.defer_to_peer(&plain, &self.client, received));
            self.deferred = ask.flatten();
            return None;
        };
        let taken = plain.head_bytes;
        self.parser.discard_peeked();
        self.socket.deadline.lift();
        let glanced = if is_long && glanced.is_sent() { FastReply::SentLong } else { glanced };
        Some((glanced, taken))
    }

    /// Answers the message of another node that is the input.
    pub(super) fn try_gathered<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<FastReply> {
        let mut input = std::mem::take(&mut self.socket.input);
        let sent = BUFFERS.with_borrow_mut(|Buffers { reply, .. }| {
            self.serve_message(shared, &input, reply, received, context)
        });
        if sent.is_some() {
            input.clear();
        }
        self.socket.input = input;
        sent
    }

    /// Answers a message of another node at once.
    fn serve_message<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        bytes: &[u8],
        reply: &mut Vec<u8>,
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<FastReply> {
        reply.clear();
        reply.shrink_to(REPLY_BYTES_KEPT);
        if !shared.handler.try_message(bytes, &self.client, received, reply) {
            return None;
        }
        let sent = match self.socket.io.poll_send(context, reply) {
            Poll::Ready(Ok(bytes)) => bytes,
            _ => 0,
        };
        let is_flushed = matches!(Pin::new(&mut self.socket.io).poll_flush(context), Poll::Ready(Ok(())));
        self.socket.deadline.lift();
        if sent == reply.len() && is_flushed {
            return Some(FastReply::Sent);
        }
        self.socket.output.resume(reply, Bytes::new(), sent);
        Some(FastReply::Settled)
    }

    /// Completes a sent reply, or sends its rest.
    pub(super) async fn finish_glanced<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        glanced: FastReply,
        received: Instant,
    ) -> AfterReply {
        let mut due = received;
        match glanced {
            FastReply::Sent | FastReply::SentLong => {}
            FastReply::Sending { record, head_bytes } => {
                let mut account = ReplyGuard::open(shared, record, received);
                account.head_bytes = head_bytes as u64;
                let rest = self.socket.output.rest.take();
                if self.send_counted(&mut account.body_bytes).await.is_err() {
                    return AfterReply::Drop;
                }
                if let Some(rest) = rest
                    && Box::pin(self.send_rest(*rest, &mut account.body_bytes)).await.is_err()
                {
                    return AfterReply::Drop;
                }
                due = Instant::now();
                account.complete(due);
            }
            FastReply::Settled => {
                // Only a cut is still counted.
                let account = ReplyGuard::open(shared, None, received);
                if self.socket.send(&self.live.patience).await.is_err() {
                    return AfterReply::Drop;
                }
                due = Instant::now();
                account.complete(due);
            }
        }
        self.socket.deadline.set(due + self.live.keep_alive);
        self.socket.shrink();
        AfterReply::Keep
    }

    /// Sends the output, and adds the number of its data bytes sent to `sent_bytes`.
    async fn send_counted(&mut self, sent_bytes: &mut u64) -> Result<(), LostClient> {
        let length = self.socket.output.data.len();
        let sent = self.socket.send(&self.live.patience).await;
        let written = sent.as_ref().map_or_else(|LostClient| self.socket.output.data_written(), |()| length);
        *sent_bytes += written as u64;
        sent
    }

    /// Sends the rest of a body, frame by frame.
    async fn send_rest(&mut self, rest: Rest, sent_bytes: &mut u64) -> Result<(), LostClient> {
        let Rest { mut frames, sent } = rest;
        *sent_bytes += sent;
        loop {
            let next = poll_fn(|context| match Pin::new(&mut frames).poll_frame(context) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => self.socket.poll_gone(context).map(Err),
            });
            match next.await? {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.socket.output.set_data(data, false);
                    self.send_counted(sent_bytes).await?;
                }
                Some(Err(error)) => {
                    tracing::debug!(client = %self.client.address, %error, "reply cut");
                    return Err(LostClient);
                }
                None => return Ok(()),
            }
        }
    }
}

/// Answers `plain` if its response is fresh in RAM. The reply is built at the end of `reply` and
/// passed to `write`. Bytes that `write` does not take go to `output`, which must be empty.
#[inline]
pub(crate) fn answer<H: Handler>(
    shared: &ServerState<H>,
    plain: &FastPathRequest<'_>,
    client: &Client,
    received: Instant,
    (reply, output): (&mut Vec<u8>, &mut MessageOutput),
    write: impl FnOnce(&[IoSlice<'_>]) -> WriteOutcome,
) -> Option<FastReply> {
    let alt_svc = shared.alt_svc(client);
    let when = (alt_svc.as_ref(), received);
    let glance =
        shared.handler.try_fast_path(plain, client, received, |hit| send(output, hit, when, reply, write));
    let glanced = match glance {
        FastPathOutcome::NotTaken => return None,
        FastPathOutcome::Sent => FastReply::Sent,
        FastPathOutcome::Sending(record) => FastReply::Sending { record, head_bytes: output.head.len() },
    };
    shared.metrics.requests.increment();
    Some(glanced)
}

/// Answers the ask `plain` of another node likewise. Asks are no requests of clients.
#[inline(never)]
pub(crate) fn answer_ask<H: Handler>(
    shared: &ServerState<H>,
    plain: &FastPathRequest<'_>,
    client: &Client,
    received: Instant,
    (reply, output): (&mut Vec<u8>, &mut MessageOutput),
    write: impl FnOnce(&[IoSlice<'_>]) -> WriteOutcome,
) -> Option<FastReply> {
    debug_assert!(client.is_peer() && plain.absolute, "an ask of a node");
    let glance = shared
        .handler
        .try_ask_fast_path(plain, client, received, |hit| send(output, hit, (None, received), reply, write));
    match glance {
        FastPathOutcome::NotTaken => None,
        FastPathOutcome::Sent => Some(FastReply::Sent),
        FastPathOutcome::Sending(record) => {
            Some(FastReply::Sending { record, head_bytes: output.head.len() })
        }
    }
}

/// Result of a write.
pub(crate) struct WriteOutcome {
    /// Number of bytes taken.
    pub bytes: usize,
    /// No taken byte waits within the connection.
    pub is_flushed: bool,
}

/// Builds the reply to a hit at the end of `reply` and writes it. Bytes not taken go to `output`.
#[inline]
fn send(
    output: &mut MessageOutput,
    hit: &RamHit<'_>,
    (alt_svc, received): (Option<&HeaderValue>, Instant),
    reply: &mut Vec<u8>,
    write: impl FnOnce(&[IoSlice<'_>]) -> WriteOutcome,
) -> SendProgress {
    let (start, content) = (reply.len(), hit.content);
    head::hit(reply, hit, alt_svc, received);
    let head_bytes = reply.len() - start;
    let whole = head_bytes + content.len();
    let written = match content.len() <= COPIED_MAX {
        true => {
            reply.extend_from_slice(content);
            write(&[IoSlice::new(&reply[start..])])
        }
        false => write(&[IoSlice::new(&reply[start..]), IoSlice::new(content)]),
    };
    if written.bytes == whole && written.is_flushed {
        return SendProgress::Whole { head_bytes: head_bytes as u64 };
    }
    keep(output, hit, &reply[start..start + head_bytes], written.bytes);
    SendProgress::Partly
}

/// Keeps the rest of the reply to a hit, of which `written` bytes were sent.
#[cold]
fn keep(output: &mut MessageOutput, hit: &RamHit<'_>, head: &[u8], written: usize) {
    let sent = written.saturating_sub(head.len());
    match hit.keep(sent) {
        ReplyBody::Memory(bytes) => output.resume(head, bytes, written),
        ReplyBody::Stream { frames, .. } => {
            output.resume(head, Bytes::new(), written.min(head.len()));
            output.rest = Some(Box::new(Rest { frames, sent: sent as u64 }));
        }
        ReplyBody::Empty | ReplyBody::Tunnel(_) => output.resume(head, Bytes::new(), written),
    }
}

/// Sends a head and its body at once, without copying the body.
fn lend<T: ClientIo>(
    io: &mut T,
    context: &mut Context<'_>,
    head: &[u8],
    body: &[u8],
) -> Poll<io::Result<usize>> {
    let is_corked = body.len() > SENT_AT_ONCE;
    if is_corked {
        io.cork(true);
    }
    let lent = io.poll_lend(context, head, body);
    if is_corked && !matches!(lent, Some(Poll::Ready(Ok(bytes))) if bytes < head.len() + body.len()) {
        io.cork(false);
    }
    // A body that cannot be sent this way is copied with the rest.
    lent.unwrap_or(Poll::Pending)
}

/// Bytes of the reply buffer kept after messages of other nodes.
const REPLY_BYTES_KEPT: usize = 256 << 10;

/// Maximum size of bodies that are copied behind their head. For the kernel one buffer is less work
/// than two (by 0.3 µs at 8 KB), which outweighs the copy.
const COPIED_MAX: usize = 12 << 10;

/// Buffers of a thread.
struct Buffers {
    /// Bytes just received.
    arrived: [u8; INPUT_BYTES],
    /// The reply that is being built.
    reply: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> =
        const { RefCell::new(Buffers { arrived: [0; INPUT_BYTES], reply: Vec::new() }) };
}
