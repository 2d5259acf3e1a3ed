//! The short way through a connection: a hit in RAM is written where it stands, and the head never
//! leaves the buffer.
//!
//! The request is read into memory of the thread, and the reply is put together in such, and
//! written at once. Only what is no such request, and what of a reply the kernel does not take, is
//! copied into the connection; so a connection that is served hits holds no buffer of its own for
//! them.

use super::{AfterReply, Connection, NoRequest, head};
use crate::message::{AccessRecord, Client, FastPathOutcome, Handler, RamHit, ReplyBody, SendProgress};
use crate::server::Shared;
use crate::server::client_io::ClientIo;
use crate::server::reply_guard::ReplyGuard;
use crate::server::socket::{BufferedConnection, ClientGone, INPUT_BYTES, SENT_AT_ONCE};
use crate::transport::{MessageOutput, Rest};
use bytes::{Buf, Bytes};
use http_body::Body;
use shoal_store::memory::LENT_MIN;
use shoal_wire::FastPathRequest;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// A hit whose reply is on its way.
pub(in crate::server) enum FastReply {
    /// It is sent and settled.
    Sent,
    /// The same of one that takes a while to send: more such may follow, and are for a task.
    SentLong,
    /// The rest is in the output.
    Sending {
        /// What is still to be given back.
        record: Option<Box<AccessRecord>>,
        /// Bytes of the reply's head.
        head_bytes: usize,
    },
    /// It is settled, and the rest is in the output.
    Settled,
}

impl FastReply {
    /// Whether the reply is sent whole, and was short.
    pub fn is_sent(&self) -> bool {
        matches!(self, Self::Sent)
    }
}

impl<T: ClientIo> Connection<T> {
    /// Reads the first bytes of a head, answers what they ask for if that can be done at once, and
    /// leaves the rest in the input. Says when they were there.
    pub(super) fn poll_first<H: Handler>(
        &mut self,
        shared: &Shared<H>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Option<FastReply>, Instant), NoRequest>> {
        ARRIVED.with_borrow_mut(|arrived| {
            let count = match self.socket.io.poll_receive(context, arrived) {
                Poll::Ready(Ok(count)) if count > 0 => count,
                Poll::Ready(_) => return Poll::Ready(Err(NoRequest::Over)),
                Poll::Pending => {
                    self.socket.spare();
                    return self.poll_idle(context).map(Err);
                }
            };
            let received = Instant::now();
            let glanced = self.serve_buffered(shared, &arrived[..count], received, context);
            let (glanced, taken) = glanced.map_or((None, 0), |(glanced, taken)| (Some(glanced), taken));
            self.socket.put_back(&arrived[taken..count]);
            Poll::Ready(Ok((glanced, received)))
        })
    }

    /// The same for what is in the input. `None` leaves everything as it was.
    pub(super) fn try_fast_path<H: Handler>(
        &mut self,
        shared: &Shared<H>,
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<FastReply> {
        let input = std::mem::take(&mut self.socket.input);
        let glanced = self.serve_buffered(shared, &input, received, context);
        self.socket.input = input;
        let (glanced, taken) = glanced?;
        self.socket.input.advance(taken);
        Some(glanced)
    }

    /// Answers a request at the front of `bytes` at once, and says how many of them it took.
    fn serve_buffered<H: Handler>(
        &mut self,
        shared: &Shared<H>,
        bytes: &[u8],
        received: Instant,
        context: &mut Context<'_>,
    ) -> Option<(FastReply, usize)> {
        if self.drain.is_draining() || self.live.keep_alive.is_zero() {
            return None;
        }
        let BufferedConnection { io, output, pace, .. } = &mut self.socket;
        let plain = self.parser.peek_fast_path(bytes, &self.live.limits)?;
        let mut is_long = false;
        let write = |slices: &[IoSlice<'_>]| {
            is_long = slices.last().is_some_and(|body| body.len() > SENT_AT_ONCE);
            let written = match slices {
                [whole] => io.poll_send(context, whole),
                [head, body] if T::CAN_LEND && body.len() >= LENT_MIN => lend(io, context, head, body),
                parts => Pin::new(&mut *io).poll_write_vectored(context, parts),
            };
            // A failure comes again when the rest is sent.
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
        let glanced = REPLY.with_borrow_mut(|reply| {
            reply.clear();
            answer(shared, &plain, &self.client, received, (reply, output), write)
        })?;
        let taken = plain.head_bytes;
        self.parser.discard_peeked();
        self.socket.deadline.lift();
        let glanced = if is_long && glanced.is_sent() { FastReply::SentLong } else { glanced };
        Some((glanced, taken))
    }

    /// Settles a reply that was sent, or sends what is left of it.
    pub(super) async fn finish_glanced<H: Handler>(
        &mut self,
        shared: &Shared<H>,
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
                // Only whether it was cut is still to be counted.
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

    /// Sends what is in the output, and adds what of its data was written to `sent_bytes`.
    async fn send_counted(&mut self, sent_bytes: &mut u64) -> Result<(), ClientGone> {
        let length = self.socket.output.data.len();
        let sent = self.socket.send(&self.live.patience).await;
        let written = sent.as_ref().map_or_else(|ClientGone| self.socket.output.data_written(), |()| length);
        *sent_bytes += written as u64;
        sent
    }

    /// Sends the rest of a body, piece by piece.
    async fn send_rest(&mut self, rest: Rest, sent_bytes: &mut u64) -> Result<(), ClientGone> {
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
                    return Err(ClientGone);
                }
                None => return Ok(()),
            }
        }
    }
}

/// Answers `plain` if its response is fresh in RAM: put together at the end of `reply`, through
/// `write`, and what that does not take goes into `output`, which is empty.
#[inline]
pub(in crate::server) fn answer<H: Handler>(
    shared: &Shared<H>,
    plain: &FastPathRequest<'_>,
    client: &Client,
    received: Instant,
    (reply, output): (&mut Vec<u8>, &mut MessageOutput),
    write: impl FnOnce(&[IoSlice<'_>]) -> WriteOutcome,
) -> Option<FastReply> {
    let glance = shared
        .handler
        .try_fast_path(plain, client, received, |hit| send(output, hit, received, reply, write));
    let glanced = match glance {
        FastPathOutcome::NotTaken => return None,
        FastPathOutcome::Sent => FastReply::Sent,
        FastPathOutcome::Sending(record) => FastReply::Sending { record, head_bytes: output.head.len() },
    };
    shared.metrics.requests.increment();
    Some(glanced)
}

/// What became of bytes that were to be written.
pub(in crate::server) struct WriteOutcome {
    /// So many were taken.
    pub bytes: usize,
    /// None of them waits within the connection.
    pub is_flushed: bool,
}

/// Writes the reply to a hit, which is put together at the end of `reply`; what the connection does
/// not take goes into `output`.
#[inline]
fn send(
    output: &mut MessageOutput,
    hit: &RamHit<'_>,
    received: Instant,
    reply: &mut Vec<u8>,
    write: impl FnOnce(&[IoSlice<'_>]) -> WriteOutcome,
) -> SendProgress {
    let (start, content) = (reply.len(), hit.content);
    head::hit(reply, hit, received);
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

/// Keeps what is left of the reply to a hit of which `written` bytes were sent.
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

/// Lends a body at once, behind its head.
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
    // What cannot be lent is copied, with what else is left.
    lent.unwrap_or(Poll::Pending)
}

/// Bodies up to this size are copied behind their head: for the kernel one buffer is less work than
/// two (at 8 KB by 0.3 µs), and so is one more copy of so few bytes.
const COPIED_MAX: usize = 12 << 10;

thread_local! {
    /// What has just arrived.
    static ARRIVED: RefCell<[u8; INPUT_BYTES]> = const { RefCell::new([0; INPUT_BYTES]) };

    /// The reply in the making.
    static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
