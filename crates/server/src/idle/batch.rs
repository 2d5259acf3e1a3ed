//! Serves several ready connections together, one step for all before the next step:
//!
//! ```text
//!   read a, b, c ─► look up a, b, c: replies and log lines ─► send a, b, c
//! ```
//!
//! A hit is short, but runs more code than a core's first-level cache holds, most of it the
//! kernel's. Each step therefore runs for all ready connections while its code is in the cache.
//!
//! A reply waits for the others if it is small and answers the last request its client has sent so
//! far. Any other reply is sent at once, or by a task. A waiting reply is counted and logged as
//! sent when it is written into the buffer. A task sends any rest that the kernel does not take. If
//! the client closes meanwhile, that is counted.

use super::ROOM;
use super::lanes::{self, AwaitedReply, ReplyWaiter};
use super::set::{IdleConnection, IdleKey, IdleSet, ReadyEvent};
use crate::ServerState;
use crate::connection::ResumeState;
use crate::http1::fast_path::{FastReply, WriteOutcome, answer, answer_ask};
use crate::message::Handler;
use crate::socket::INPUT_BYTES;
use crate::transport::{MessageOutput, SENT_AT_ONCE};
use bytes::Bytes;
use shoal_wire::HeadParser;
use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves batches of ready connections.
pub(super) struct BatchServer<H> {
    shared: Arc<ServerState<H>>,
    parser: HeadParser,
    /// Bytes just received, all connections in one buffer.
    arrived: Box<[u8; ARRIVED_BYTES]>,
    /// Connections of the current batch.
    heard: Vec<ReadyConnection>,
    /// Replies to be sent, in one buffer.
    replies: Vec<u8>,
    /// Rest of a reply that a connection did not take.
    output: MessageOutput,
    /// Events and replies since other tasks last ran.
    pub work: usize,
}

/// Connection with bytes to read.
struct ReadyConnection {
    key: IdleKey,
    /// The peer may have closed after these bytes.
    is_last: bool,
    /// Range of its received bytes in `arrived`.
    said: Range<usize>,
    /// Range of its reply in `replies`.
    reply: Range<usize>,
    fate: AfterServe,
}

/// Next state of a connection.
enum AfterServe {
    /// Stays in the idle set.
    Waits,
    /// Is closed.
    Gone,
    /// Moves to a task that continues from this state.
    Leaves(ResumeState),
}

impl<H: Handler> BatchServer<H> {
    pub fn new(shared: Arc<ServerState<H>>) -> Self {
        Self {
            shared,
            parser: HeadParser::new(),
            arrived: Box::new([0; ARRIVED_BYTES]),
            heard: Vec::with_capacity(AT_ONCE),
            replies: Vec::new(),
            output: MessageOutput::default(),
            work: 0,
        }
    }

    /// Serves the first [`AT_ONCE`] events, or fewer.
    pub fn serve_batch(&mut self, calls: &mut Vec<ReadyEvent>) {
        // All requests have arrived by now, so one clock reading serves all.
        let received = Instant::now();
        let few = calls.drain(..calls.len().min(AT_ONCE));
        self.work += few.len();
        let mut heard = std::mem::take(&mut self.heard);
        ROOM.with_borrow_mut(|room| {
            let Some(room) = room.as_mut() else { return };
            self.read_ready(room, few, &mut heard);
            let mut work_sent = self.work;
            for number in 0..heard.len() {
                let each = &mut heard[number];
                if let (AfterServe::Waits, Some(guest)) = (&each.fate, room.guest(each.key)) {
                    each.fate = self.serve_ready_or_close(guest, each, received);
                }
                // Send early, so that one busy client does not delay the other replies.
                if self.work >= work_sent + GUEST_WORK {
                    work_sent = self.work;
                    self.send_replies(room, &mut heard[..=number], received);
                }
            }
            self.send_replies(room, &mut heard, received);
        });
        heard.drain(..).for_each(|each| self.apply_outcome(each));
        self.heard = heard;
        lanes::send_waiting(&self.shared);
        self.replies.clear();
        self.replies.shrink_to(REPLIES_BYTES_KEPT);
    }

    /// Reads the bytes that have arrived on the ready connections.
    fn read_ready(
        &mut self,
        room: &mut IdleSet,
        calls: impl Iterator<Item = ReadyEvent>,
        heard: &mut Vec<ReadyConnection>,
    ) {
        let mut end = 0;
        for call in calls {
            let Some(guest) = room.guest(call.key) else { continue };
            if let Some(awaited) = &mut guest.awaits {
                // One request at a time. The event is kept until the reply has come.
                awaited.called = Some(awaited.called.unwrap_or(false) || call.is_last);
                continue;
            }
            let (count, fate) = match guest.stream.receive(&mut self.arrived[end..end + INPUT_BYTES]) {
                Ok(0) => (0, AfterServe::Gone),
                Ok(count) => (count, AfterServe::Waits),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(_) => (0, AfterServe::Gone),
            };
            let said = end..end + count;
            end += count;
            heard.push(ReadyConnection { key: call.key, is_last: call.is_last, said, reply: 0..0, fate });
        }
    }

    /// Runs [`Self::serve_ready`]. A panic closes only the connection concerned; the panic hook has
    /// reported it by then.
    fn serve_ready_or_close(
        &mut self,
        guest: &mut IdleConnection,
        heard: &mut ReadyConnection,
        received: Instant,
    ) -> AfterServe {
        let waiting = self.replies.len();
        let conversing = AssertUnwindSafe(|| self.serve_ready(guest, heard, received));
        catch_unwind(conversing).unwrap_or_else(|_| {
            (self.parser, self.output) = (HeadParser::new(), MessageOutput::default());
            self.replies.truncate(waiting);
            heard.reply = 0..0;
            AfterServe::Gone
        })
    }

    /// Answers all requests of a connection that can be answered at once. Their first bytes arrived
    /// at `received`.
    fn serve_ready(
        &mut self,
        guest: &mut IdleConnection,
        heard: &mut ReadyConnection,
        mut received: Instant,
    ) -> AfterServe {
        let begun = self.work;
        let mut said = heard.said.clone();
        loop {
            // Otherwise more bytes may be waiting, and the kernel reports them only once.
            let is_all = said.len() < INPUT_BYTES && !heard.is_last;
            while !said.is_empty() {
                let answered = match self.work < begun + GUEST_WORK {
                    true => self.answer((guest, heard.key), said.clone(), is_all, received),
                    // The client keeps sending. As a task it takes turns with other tasks.
                    false => ServeOutcome::Ordinary,
                };
                let ServedHit { glanced, head_bytes, reply } = match answered {
                    ServeOutcome::Hit(hit) => hit,
                    ServeOutcome::Deferred => {
                        self.work += 1;
                        guest.due = received + guest.standing.live.keep_alive.max(AWAITED_MAX);
                        return AfterServe::Waits;
                    }
                    ServeOutcome::Ordinary => {
                        return AfterServe::Leaves(ResumeState::of(&self.arrived[said], received, guest));
                    }
                };
                self.work += 1;
                said.start += head_bytes;
                guest.has_spoken = true;
                if !glanced.is_sent() {
                    let begun = ResumeState::of(&self.arrived[said], received, guest);
                    return AfterServe::Leaves(begun.answering(glanced, std::mem::take(&mut self.output)));
                }
                heard.reply = reply;
            }
            guest.due = received + guest.standing.live.keep_alive;
            if is_all {
                return AfterServe::Waits;
            }
            let count = match guest.stream.receive(&mut self.arrived[READ_ON..]) {
                Ok(0) => return AfterServe::Gone,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return AfterServe::Waits,
                Err(_) => return AfterServe::Gone,
            };
            (said, received) = (READ_ON..READ_ON + count, Instant::now());
        }
    }

    /// Answers the request at the start of `said`. The reply may wait for the batch if it answers
    /// all of `said` and `is_all` is set: no more bytes are there.
    fn answer(
        &mut self,
        (guest, key): (&mut IdleConnection, IdleKey),
        said: Range<usize>,
        is_all: bool,
        received: Instant,
    ) -> ServeOutcome {
        let IdleConnection { stream, standing, .. } = guest;
        if self.shared.drain.is_begun() || standing.live.keep_alive.is_zero() {
            return ServeOutcome::Ordinary;
        }
        let said = &self.arrived[said];
        let of_peer = standing.client.is_peer();
        let start = self.replies.len();
        if of_peer
            && is_all
            && self.shared.handler.try_message(said, &standing.client, received, &mut self.replies)
        {
            let (head_bytes, reply) = (said.len(), start..self.replies.len());
            return ServeOutcome::Hit(ServedHit { glanced: FastReply::Sent, head_bytes, reply });
        }
        let plain = match of_peer {
            false => self.parser.peek_fast_path(said, &standing.live.limits),
            true => self.parser.peek_ask(said, &standing.live.limits),
        };
        self.parser.discard_peeked();
        let Some(plain) = plain else { return ServeOutcome::Ordinary };
        let (start, mut waits) = (self.replies.len(), false);
        let write = |slices: &[IoSlice<'_>]| match slices {
            [whole] if is_all && plain.head_bytes == said.len() => {
                waits = true;
                WriteOutcome { bytes: whole.len(), is_flushed: true }
            }
            // A large body takes a while to send, so a task sends it.
            [_, body] if body.len() > SENT_AT_ONCE => WriteOutcome { bytes: 0, is_flushed: true },
            slices => WriteOutcome { bytes: stream.send(slices), is_flushed: true },
        };
        let to = (&mut self.replies, &mut self.output);
        let glanced = match of_peer {
            false => answer(&self.shared, &plain, &standing.client, received, to, write),
            true => answer_ask(&self.shared, &plain, &standing.client, received, to, write),
        };
        if !waits {
            self.replies.truncate(start);
        }
        let (head_bytes, reply) = (plain.head_bytes, start..self.replies.len());
        if let Some(glanced) = glanced {
            return ServeOutcome::Hit(ServedHit { glanced, head_bytes, reply });
        }
        let is_whole = is_all && head_bytes == said.len() && !of_peer;
        let Some(ask) =
            is_whole.then(|| self.shared.handler.defer_to_peer(&plain, &standing.client, received))
        else {
            return ServeOutcome::Ordinary;
        };
        let Some(ask) = ask else { return ServeOutcome::Ordinary };
        guest.has_spoken = true;
        let begun = ResumeState::of(said, received, guest);
        match lanes::wait(ask, ReplyWaiter::Idle(key)) {
            Ok(()) => {
                guest.awaits = Some(Box::new(AwaitedReply { begun, called: None }));
                ServeOutcome::Deferred
            }
            Err(_) => ServeOutcome::Ordinary,
        }
    }

    /// Sends the waiting replies of `heard`.
    fn send_replies(&self, room: &mut IdleSet, heard: &mut [ReadyConnection], received: Instant) {
        for each in heard {
            let reply = std::mem::take(&mut each.reply);
            if !reply.is_empty()
                && let Some(guest) = room.guest(each.key)
            {
                each.fate = self.send_reply(guest, reply, received);
            }
        }
    }

    /// Sends one waiting reply.
    fn send_reply(&self, guest: &mut IdleConnection, reply: Range<usize>, received: Instant) -> AfterServe {
        let reply = &self.replies[reply];
        let sent = guest.stream.send(&[IoSlice::new(reply)]);
        if sent == reply.len() {
            return AfterServe::Waits;
        }
        let mut output = MessageOutput::default();
        output.resume(reply, Bytes::new(), sent);
        AfterServe::Leaves(ResumeState::of(&[], received, guest).answering(FastReply::Settled, output))
    }

    /// Leaves a connection in the set, or removes it.
    fn apply_outcome(&self, heard: ReadyConnection) {
        let guest = ROOM.with_borrow_mut(|room| {
            let room = room.as_mut()?;
            if let AfterServe::Waits = heard.fate {
                let due = room.guest(heard.key)?.due;
                room.expect(due);
                return None;
            }
            room.release(heard.key)
        });
        let Some(guest) = guest else { return };
        let AfterServe::Leaves(begun) = heard.fate else { return };
        lanes::spawn(guest, begun, &self.shared);
    }
}

/// Outcome of a request.
enum ServeOutcome {
    /// Answered at once.
    Hit(ServedHit),
    /// Waits for another node.
    Deferred,
    /// Takes the ordinary path.
    Ordinary,
}

/// Outcome of an answered request.
struct ServedHit {
    glanced: FastReply,
    /// Bytes of the request's head.
    head_bytes: usize,
    /// Range of the waiting reply in `replies`; empty if the reply does not wait.
    reply: Range<usize>,
}

/// Maximum number of connections served together.
pub(crate) const AT_ONCE: usize = 16;

/// Least time that a connection stays in the set for the reply of another node.
const AWAITED_MAX: Duration = Duration::from_secs(60);

/// Buffer for one read of each connection, and one further read of one connection.
const ARRIVED_BYTES: usize = READ_ON + INPUT_BYTES;

const READ_ON: usize = AT_ONCE * INPUT_BYTES;

/// Maximum number of replies that one connection gets in a row without a task.
pub(crate) const GUEST_WORK: usize = 16;

/// Bytes of the reply buffer kept between batches.
const REPLIES_BYTES_KEPT: usize = 256 << 10;
