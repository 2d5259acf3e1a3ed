//! Connections that wait for a request, without a task of their own.
//!
//! ```text
//!   accepted ──► room ──► hit in RAM: answered here, and it waits on
//!                 ▲  └──► anything else ──► a task of its own (connection) ──┐
//!                 └──────────── several hits in a row ◄──────────────────────┘
//! ```
//!
//! Most requests are hits in RAM, which wait for nothing. To wake a connection's task for one, and to have the runtime watch
//! its socket, costs as much as the hit's own decisions. So the connections in the clear that a worker has wait together, in one
//! epoll instance which the runtime watches as a single descriptor; and a hit is read, looked up and sent from there. A connection that
//! asks for anything else, or does not take all of a reply, gets a task with what it has said so far, and comes back once
//! [`HITS_TO_RETURN`] hits were sent to it at once.
//!
//! Idle connections cost a slot here, and no task.

mod room;

pub(super) use room::Guest;

use super::Shared;
use super::connection::{self, Begun, Handover};
use super::drain::DrainWatch;
use super::http1::glance::{Glanced, Written, answer};
use super::socket::INPUT_BYTES;
use crate::message::Handler;
use crate::transport::{Deadline, Output};
use room::{Call, Room};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use shoal_wire::HeadParser;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

thread_local! {
    /// This worker's.
    static ROOM: RefCell<Option<Room>> = const { RefCell::new(None) };
}

/// Lets a connection of this worker wait; it is given back where that cannot be, and needs a task.
pub(super) fn admit(guest: Guest) -> Result<(), Guest> {
    ROOM.with_borrow_mut(|room| match room {
        Some(room) => room.admit(guest),
        None => Err(guest),
    })
}

/// Answers those who wait on this thread, until the server drains; then they are closed.
pub(super) async fn serve<H: Handler>(shared: Arc<Shared<H>>) -> io::Result<()> {
    // It may not outlive this future: nobody would answer.
    let _closing = Closing;
    let mut waiter = Waiter::open(shared.drain.watch())?;
    let mut attendant = Attendant {
        parser: HeadParser::new(),
        arrived: Box::new([0; INPUT_BYTES]),
        output: Output::default(),
        work: 0,
        shared,
    };
    let mut calls = Vec::new();
    while poll_fn(|context| waiter.poll_calls(context, &mut calls)).await {
        // While they are answered, others call: the runtime would ask the kernel twice for those.
        while calls.len() > 1 && attendant.work < TURN_WORK {
            attendant.attend_all(&mut calls);
            gather(&mut calls);
        }
        attendant.attend_all(&mut calls);
        if attendant.work >= TURN_WORK {
            attendant.work = 0;
            close_overdue();
            // Tasks have their turn in between.
            tokio::task::yield_now().await;
        }
    }
    // Who has asked before the end is answered.
    while gather(&mut calls) || !calls.is_empty() {
        attendant.attend_all(&mut calls);
    }
    Ok(())
}

/// Closes all connections that wait on this thread.
struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        // Outside of the borrow: what a connection holds may be given back in any way.
        let room = ROOM.take();
        drop(room);
    }
}

/// What the room waits for.
struct Waiter {
    epoll: AsyncFd<Arc<OwnedFd>>,
    /// When to look for those whose time is over.
    deadline: Deadline,
    drain: DrainWatch,
}

impl Waiter {
    /// Opens this thread's room.
    fn open(drain: DrainWatch) -> io::Result<Self> {
        let room = Room::new()?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for descriptors that change; an OwnedFd does not"
        )]
        let epoll = AsyncFd::with_interest(room.descriptor(), Interest::READABLE)?;
        ROOM.set(Some(room));
        Ok(Self { epoll, deadline: Deadline::after(SWEEP_MIN), drain })
    }

    /// Waits for calls, and gathers them; false once the server drains.
    fn poll_calls(&mut self, context: &mut Context<'_>, calls: &mut Vec<Call>) -> Poll<bool> {
        if self.drain.poll_draining(context).is_ready() {
            return Poll::Ready(false);
        }
        ROOM.with_borrow_mut(|room| room.as_mut().map(|room| room.wake_by(context.waker())));
        loop {
            match self.epoll.poll_read_ready(context) {
                Poll::Ready(Ok(mut ready)) => {
                    if !gather(calls) {
                        ready.clear_ready();
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                // Only who has not asked meanwhile has been waited for in vain.
                Poll::Pending => {
                    self.sweep(context);
                    return Poll::Pending;
                }
            }
            if !calls.is_empty() {
                return Poll::Ready(true);
            }
        }
    }

    fn sweep(&mut self, context: &mut Context<'_>) {
        let due = |room: &Option<Room>| room.as_ref().and_then(Room::due_next);
        while let Some(due) = ROOM.with_borrow(due) {
            self.deadline.set(due + SWEEP_MIN);
            if self.deadline.poll_passed(context).is_pending() {
                return;
            }
            close_overdue();
        }
    }
}

/// Closes connections whose time is over.
fn close_overdue() {
    ROOM.with_borrow_mut(|room| {
        let now = Instant::now();
        if let Some(room) = room.as_mut().filter(|room| room.due_next().is_some_and(|due| due <= now)) {
            room.close_overdue(now);
        }
    });
}

/// Takes what calls there are. True when there may be more.
fn gather(calls: &mut Vec<Call>) -> bool {
    // What the kernel refuses it refuses for a moment: the call takes nothing but a sound descriptor.
    ROOM.with_borrow_mut(|room| room.as_mut().is_some_and(|room| room.calls(calls).unwrap_or(true)))
}

/// Who answers.
struct Attendant<H> {
    shared: Arc<Shared<H>>,
    parser: HeadParser,
    /// What has just arrived.
    arrived: Box<[u8; INPUT_BYTES]>,
    /// What a connection did not take of a reply.
    output: Output,
    /// Calls and answers since tasks had their turn.
    work: usize,
}

/// What becomes of a guest.
enum Fate {
    /// It waits for the next request.
    Waits,
    /// It has gone.
    Gone,
    /// It needs a task, which begins with that.
    Leaves(Begun),
}

impl<H: Handler> Attendant<H> {
    fn attend_all(&mut self, calls: &mut Vec<Call>) {
        calls.drain(..).for_each(|call| self.attend(call));
    }

    fn attend(&mut self, call: Call) {
        self.work += 1;
        let fate = ROOM.with_borrow_mut(|room| {
            let room = room.as_mut()?;
            let guest = room.guest(call.key)?;
            let (fate, due) = (self.converse_safely(guest, call.is_last), guest.due);
            if let Fate::Waits = fate {
                room.expect(due);
                return None;
            }
            Some((room.release(call.key)?, fate))
        });
        if let Some((guest, Fate::Leaves(begun))) = fate {
            let handover = Handover::new(begun, Arc::clone(&self.shared));
            // A socket that the runtime cannot watch is closed.
            if let Ok(stream) = tokio::net::TcpStream::from_std(guest.stream) {
                tokio::spawn(connection::go_on(stream, handover, guest.standing));
            }
        }
    }

    /// As [`Self::converse`]; a panic, which has been reported by then, ends the guest that it is about and no other.
    fn converse_safely(&mut self, guest: &mut Guest, is_last: bool) -> Fate {
        let conversing = AssertUnwindSafe(|| self.converse(guest, is_last));
        catch_unwind(conversing).unwrap_or_else(|_| {
            (self.parser, self.output) = (HeadParser::new(), Output::default());
            Fate::Gone
        })
    }

    /// Reads what a guest says, and answers as much of it as can be answered at once.
    fn converse(&mut self, guest: &mut Guest, is_last: bool) -> Fate {
        let begun = self.work;
        loop {
            let count = match recv(&guest.stream, &mut self.arrived[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Fate::Gone,
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return Fate::Waits,
                Err(Errno::INTR) => continue,
                Err(_) => return Fate::Gone,
            };
            let received = Instant::now();
            let mut taken = 0;
            while taken < count {
                let answered = match self.work < begun + GUEST_WORK {
                    true => self.answer(guest, taken..count, received),
                    // It goes on and on; as a task it takes turns with others.
                    false => None,
                };
                let Some((glanced, head_bytes)) = answered else {
                    return Fate::Leaves(Begun::of(&self.arrived[taken..count], received, guest));
                };
                self.work += 1;
                taken += head_bytes;
                guest.has_spoken = true;
                if !glanced.is_sent() {
                    let begun = Begun::of(&self.arrived[taken..count], received, guest);
                    return Fate::Leaves(begun.answering(glanced, std::mem::take(&mut self.output)));
                }
            }
            guest.due = received + guest.standing.live.keep_alive;
            // Else there may be more, of which the kernel would not tell again.
            if count < self.arrived.len() && !is_last {
                return Fate::Waits;
            }
        }
    }

    /// Answers what the bytes of `place` begin with, and says how many of them that took.
    fn answer(&mut self, guest: &Guest, place: Range<usize>, received: Instant) -> Option<(Glanced, usize)> {
        if self.shared.drain.is_begun() || guest.standing.live.keep_alive.is_zero() {
            return None;
        }
        let get = self.parser.plain(&self.arrived[place], &guest.standing.live.limits);
        self.parser.forget();
        let get = get?;
        let write = |slices: &[IoSlice<'_>]| write(&guest.stream, slices);
        let glanced = answer(&self.shared, &get, &guest.standing.client, received, &mut self.output, write)?;
        Some((glanced, get.head_bytes))
    }
}

/// Writes as much as the kernel takes at once. A failure comes again when the rest is sent.
fn write(stream: &TcpStream, slices: &[IoSlice<'_>]) -> Written {
    let sent = match slices {
        [whole] => send(stream, whole, SendFlags::NOSIGNAL),
        parts => sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
    };
    Written { bytes: sent.unwrap_or(0), is_flushed: true }
}

/// So many hits in a row, each sent at once, bring a connection back that has a task.
pub(super) const HITS_TO_RETURN: u32 = 8;

/// So many calls and answers come before tasks have their turn: half a millisecond's.
const TURN_WORK: usize = 128;

/// So many answers one connection gets at a time, unless it has a task.
const GUEST_WORK: usize = 64;

/// Least time between two looks for connections whose time is over.
const SWEEP_MIN: Duration = Duration::from_millis(100);
