//! Connections that wait for a request, without a task of their own.
//!
//! ```text
//!   accepted ──► room ──► hit in RAM: answered here, and it waits on
//!                 ▲  └──► anything else ──► a task of its own (connection) ──┐
//!                 └──────────── several hits in a row ◄──────────────────────┘
//! ```
//!
//! Most requests are hits in RAM, which wait for nothing. To wake a connection's task for one, and
//! to have the runtime watch its socket, costs as much as the hit's own decisions. So the
//! connections that a worker has in the clear wait together, in one epoll instance which the
//! runtime watches as a single descriptor; and a hit is read, looked up
//! and sent from there, several at a time ([`attendant`]). A connection that asks for anything
//! else, or does not take all of a reply, gets a task with what it has said so far, and comes back
//! once [`HITS_TO_RETURN`] hits were sent to it at once.
//!
//! Idle connections cost a slot here, and no task.

mod batch;
mod set;
mod stream;

#[cfg(test)]
pub(super) use batch::{AT_ONCE, GUEST_WORK};
pub(super) use set::IdleConnection;
pub(super) use stream::IdleStream;

use super::Shared;
use super::drain::DrainWatch;
use crate::message::Handler;
use crate::transport::Deadline;
use batch::BatchServer;
use set::{IdleSet, ReadyEvent};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

thread_local! {
    /// This worker's.
    static ROOM: RefCell<Option<IdleSet>> = const { RefCell::new(None) };
}

/// Lets a connection of this worker wait; it is given back where that cannot be, and needs a task.
pub(super) fn admit(guest: IdleConnection) -> Result<(), IdleConnection> {
    ROOM.with_borrow_mut(|room| match room {
        Some(room) => room.admit(guest),
        None => Err(guest),
    })
}

/// Answers those who wait on this thread, until the server drains; then they are closed.
pub(super) async fn serve<H: Handler>(shared: Arc<Shared<H>>) -> io::Result<()> {
    // It may not outlive this future: nobody would answer.
    let _closing = Closing;
    let mut waiter = IdlePoller::open(shared.drain.watch())?;
    let mut attendant = BatchServer::new(shared);
    let mut calls = Vec::new();
    while poll_fn(|context| waiter.poll_calls(context, &mut calls)).await {
        let mut together = calls.len();
        while !calls.is_empty() && attendant.work < TURN_WORK {
            attendant.serve_batch(&mut calls);
            // While several are answered, others call: the runtime would ask the kernel twice for
            // those.
            if calls.is_empty() && together > 1 {
                gather(&mut calls);
                together = calls.len();
            }
        }
        if attendant.work >= TURN_WORK {
            attendant.work = 0;
            close_overdue();
            // Tasks have their turn in between.
            tokio::task::yield_now().await;
        }
    }
    // Who has asked before the end is answered.
    while gather(&mut calls) || !calls.is_empty() {
        attendant.serve_batch(&mut calls);
    }
    Ok(())
}

/// Closes all connections that wait on this thread.
struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        // Outside of the borrow: what a connection holds may be given back in any way.
        ROOM.take().into_iter().for_each(IdleSet::close);
    }
}

/// What the room waits for.
struct IdlePoller {
    epoll: AsyncFd<Arc<OwnedFd>>,
    /// When to look for those whose time is over.
    deadline: Deadline,
    drain: DrainWatch,
}

impl IdlePoller {
    /// Opens this thread's room.
    fn open(drain: DrainWatch) -> io::Result<Self> {
        let room = IdleSet::new()?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for descriptors that change; an OwnedFd does not"
        )]
        let epoll = AsyncFd::with_interest(room.descriptor(), Interest::READABLE)?;
        ROOM.set(Some(room));
        Ok(Self { epoll, deadline: Deadline::after(set::SWEEP_MIN), drain })
    }

    /// Waits for calls, and gathers them, unless some have been left; false once the server drains.
    fn poll_calls(&mut self, context: &mut Context<'_>, calls: &mut Vec<ReadyEvent>) -> Poll<bool> {
        if self.drain.poll_draining(context).is_ready() {
            return Poll::Ready(false);
        }
        if !calls.is_empty() {
            return Poll::Ready(true);
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
        let next = |room: &Option<IdleSet>| room.as_ref().and_then(IdleSet::sweep_next);
        while let Some(next) = ROOM.with_borrow(next) {
            self.deadline.set(next);
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
        if let Some(room) = room.as_mut().filter(|room| room.sweep_next().is_some_and(|next| next <= now)) {
            room.close_overdue(now);
        }
    });
}

/// Takes what calls there are. True when there may be more.
fn gather(calls: &mut Vec<ReadyEvent>) -> bool {
    // What the kernel refuses it refuses for a moment: the call takes nothing but a sound
    // descriptor.
    ROOM.with_borrow_mut(|room| room.as_mut().is_some_and(|room| room.calls(calls).unwrap_or(true)))
}

/// So many hits in a row, each sent at once, bring a connection back that has a task.
pub(super) const HITS_TO_RETURN: u32 = 8;

/// After so many calls and answers tasks have their turn. Those who are answered together may get
/// [`attendant::GUEST_WORK`] answers each more.
pub(super) const TURN_WORK: usize = 256;

const _: () = assert!(HITS_TO_RETURN > 0 && TURN_WORK >= batch::AT_ONCE);
