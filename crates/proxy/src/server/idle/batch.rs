//! Answers those who have called, several at a time, and each step for all of them before the next:
//!
//! ```text
//!   read a, b, c ─► look up a, b, c: replies and log lines ─► send a, b, c
//! ```
//!
//! A hit is short, and goes through more code, the kernel's most of all, than a core's first cache
//! holds. So each step is done for as many as there are while its code is at hand. A reply that can
//! wait for the others' is small, and the last that its client has asked for by now; any other is
//! sent at once, or by a task. One that waits is counted and logged as sent when it is put
//! together: what the kernel does not take of it a task sends, and should the client go meanwhile,
//! that is counted.

use super::ROOM;
use super::set::{IdleConnection, IdleKey, IdleSet, ReadyEvent};
use crate::message::Handler;
use crate::server::Shared;
use crate::server::connection::{self, ResumeGuard, ResumeState};
use crate::server::http1::fast_path::{FastReply, WriteOutcome, answer};
use crate::server::socket::{INPUT_BYTES, SENT_AT_ONCE};
use crate::transport::MessageOutput;
use bytes::Bytes;
use shoal_wire::HeadParser;
use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Who answers.
pub(super) struct BatchServer<H> {
    shared: Arc<Shared<H>>,
    parser: HeadParser,
    /// What has just arrived, of one guest behind the other.
    arrived: Box<[u8; ARRIVED_BYTES]>,
    /// Who has just called.
    heard: Vec<ReadyConnection>,
    /// Replies that wait to be sent, one behind the other.
    replies: Vec<u8>,
    /// What a connection did not take of a reply.
    output: MessageOutput,
    /// Calls and answers since tasks had their turn.
    pub work: usize,
}

/// A guest who has called.
struct ReadyConnection {
    key: IdleKey,
    /// There may be an end behind what it says.
    is_last: bool,
    /// Where in what has arrived its words are.
    said: Range<usize>,
    /// Where its reply waits.
    reply: Range<usize>,
    fate: AfterServe,
}

/// What becomes of a guest.
enum AfterServe {
    /// It waits for the next request.
    Waits,
    /// It has gone.
    Gone,
    /// It needs a task, which begins with that.
    Leaves(ResumeState),
}

impl<H: Handler> BatchServer<H> {
    pub fn new(shared: Arc<Shared<H>>) -> Self {
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

    /// Answers the first few of those who have called.
    pub fn serve_batch(&mut self, calls: &mut Vec<ReadyEvent>) {
        // They have come by now: one look at the clock does for all.
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
                // Nobody waits long for one who asks for much.
                if self.work >= work_sent + GUEST_WORK {
                    work_sent = self.work;
                    self.send_replies(room, &mut heard[..=number], received);
                }
            }
            self.send_replies(room, &mut heard, received);
        });
        heard.drain(..).for_each(|each| self.apply_outcome(each));
        self.heard = heard;
        self.replies.clear();
        self.replies.shrink_to(REPLIES_BYTES_KEPT);
    }

    /// Reads what those who have called say.
    fn read_ready(
        &mut self,
        room: &mut IdleSet,
        calls: impl Iterator<Item = ReadyEvent>,
        heard: &mut Vec<ReadyConnection>,
    ) {
        let mut end = 0;
        for call in calls {
            let Some(guest) = room.guest(call.key) else { continue };
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

    /// As [`Self::converse`]; a panic, which has been reported by then, ends the guest that it is
    /// about and no other.
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

    /// Answers as much of what a guest says, whose first bytes were there at `received`, as can be
    /// answered at once.
    fn serve_ready(
        &mut self,
        guest: &mut IdleConnection,
        heard: &mut ReadyConnection,
        mut received: Instant,
    ) -> AfterServe {
        let begun = self.work;
        let mut said = heard.said.clone();
        loop {
            // Else there may be more, of which the kernel would not tell again.
            let is_all = said.len() < INPUT_BYTES && !heard.is_last;
            while !said.is_empty() {
                let answered = match self.work < begun + GUEST_WORK {
                    true => self.answer(guest, said.clone(), is_all, received),
                    // It goes on and on; as a task it takes turns with others.
                    false => None,
                };
                let Some(ServedHit { glanced, head_bytes, reply }) = answered else {
                    return AfterServe::Leaves(ResumeState::of(&self.arrived[said], received, guest));
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

    /// Answers what the bytes of `said` begin with. A reply to all of them may wait if that
    /// `is_all` there is.
    fn answer(
        &mut self,
        guest: &mut IdleConnection,
        said: Range<usize>,
        is_all: bool,
        received: Instant,
    ) -> Option<ServedHit> {
        let IdleConnection { stream, standing, .. } = guest;
        if self.shared.drain.is_begun() || standing.live.keep_alive.is_zero() {
            return None;
        }
        let said = &self.arrived[said];
        let plain = self.parser.peek_fast_path(said, &standing.live.limits);
        self.parser.discard_peeked();
        let plain = plain?;
        let (start, mut waits) = (self.replies.len(), false);
        let write = |slices: &[IoSlice<'_>]| match slices {
            [whole] if is_all && plain.head_bytes == said.len() => {
                waits = true;
                WriteOutcome { bytes: whole.len(), is_flushed: true }
            }
            // That takes a while, and so a task.
            [_, body] if body.len() > SENT_AT_ONCE => WriteOutcome { bytes: 0, is_flushed: true },
            slices => WriteOutcome { bytes: stream.send(slices), is_flushed: true },
        };
        let to = (&mut self.replies, &mut self.output);
        let glanced = answer(&self.shared, &plain, &standing.client, received, to, write);
        if !waits {
            self.replies.truncate(start);
        }
        Some(ServedHit { glanced: glanced?, head_bytes: plain.head_bytes, reply: start..self.replies.len() })
    }

    /// Sends the replies that have waited.
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

    /// Sends one of them.
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

    /// Lets a guest wait on, or go.
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
        let handover = ResumeGuard::new(begun, Arc::clone(&self.shared));
        // A socket that the runtime cannot watch is closed.
        if let Ok(stream) = guest.stream.into_active() {
            tokio::spawn(connection::resume(stream, handover, guest.standing));
        }
    }
}

/// What became of a request.
struct ServedHit {
    glanced: FastReply,
    /// Bytes of its head.
    head_bytes: usize,
    /// Where the reply waits, if it does.
    reply: Range<usize>,
}

/// So many are answered together.
pub(in crate::server) const AT_ONCE: usize = 16;

/// Room for what they say, and behind it for what one of them goes on to say.
const ARRIVED_BYTES: usize = READ_ON + INPUT_BYTES;

const READ_ON: usize = AT_ONCE * INPUT_BYTES;

/// So many answers one connection gets at a time, unless it has a task.
pub(in crate::server) const GUEST_WORK: usize = 16;

/// Bytes kept for replies that wait.
const REPLIES_BYTES_KEPT: usize = 256 << 10;
