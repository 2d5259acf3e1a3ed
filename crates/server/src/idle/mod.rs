//! Idle connections: cleartext connections that wait for a request without a task of their own.
//!
//! ```text
//!   accepted ──► idle set ──► hit in RAM: answered here, stays in the set
//!                 ▲      └──► anything else ──► a task of its own (connection) ──┐
//!                 └──────────── several hits in a row ◄──────────────────────────┘
//! ```
//!
//! Most requests are hits in RAM and never block. Waking a task and having the runtime watch a
//! socket costs as much as the hit's own decisions. The idle connections of a worker therefore
//! share one epoll instance, which the runtime watches as one descriptor. The worker reads, looks
//! up and sends hits there, several at a time ([`batch`]).
//!
//! A connection gets a task for any other request, and when the kernel takes only part of a reply.
//! The task continues with the bytes read so far. The connection returns after [`HITS_TO_RETURN`]
//! hits, each sent at once.
//!
//! An idle connection costs one slot and no task.

mod batch;
mod set;
mod stream;

#[cfg(test)]
pub(super) use batch::{AT_ONCE, GUEST_WORK};
pub(super) use set::IdleConnection;
pub(super) use stream::IdleStream;

use super::ServerState;
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
    /// Idle set of this worker.
    static ROOM: RefCell<Option<IdleSet>> = const { RefCell::new(None) };
}

/// Puts a connection into this worker's idle set. Returns the connection if that fails; the caller
/// then spawns a task.
pub(super) fn admit(guest: IdleConnection) -> Result<(), IdleConnection> {
    ROOM.with_borrow_mut(|room| match room {
        Some(room) => room.admit(guest),
        None => Err(guest),
    })
}

/// Serves the idle connections of this thread until the server drains, then closes them.
pub(super) async fn serve<H: Handler>(shared: Arc<ServerState<H>>) -> io::Result<()> {
    // The set must not outlive this future: no code would answer its connections.
    let _closing = IdleCloser;
    let mut waiter = IdlePoller::open(shared.drain.watch())?;
    let mut attendant = BatchServer::new(shared);
    let mut calls = Vec::new();
    while poll_fn(|context| waiter.poll_calls(context, &mut calls)).await {
        let mut together = calls.len();
        while !calls.is_empty() && attendant.work < TURN_WORK {
            attendant.serve_batch(&mut calls);
            // More requests arrive while several are answered. Asking the kernel here saves the
            // runtime's two system calls.
            if calls.is_empty() && together > 1 {
                gather(&mut calls);
                together = calls.len();
            }
        }
        if attendant.work >= TURN_WORK {
            attendant.work = 0;
            close_overdue();
            // Other tasks run here.
            tokio::task::yield_now().await;
        }
    }
    // Answer requests that arrived before the drain.
    while gather(&mut calls) || !calls.is_empty() {
        attendant.serve_batch(&mut calls);
    }
    Ok(())
}

/// Closes all idle connections of this thread when dropped.
struct IdleCloser;

impl Drop for IdleCloser {
    fn drop(&mut self) {
        // Close outside the borrow: dropping a connection may run code that borrows the set.
        ROOM.take().into_iter().for_each(IdleSet::close);
    }
}

/// Event sources of the idle set: epoll, the next due time and the drain signal.
struct IdlePoller {
    epoll: AsyncFd<Arc<OwnedFd>>,
    /// Time of the next search for overdue connections.
    deadline: Deadline,
    drain: DrainWatch,
}

impl IdlePoller {
    /// Creates this thread's idle set.
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

    /// Waits until `calls` has events, and collects them if it is empty. Returns `false` once the
    /// server drains.
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
                // Look for overdue connections only when no events are left: a connection with a
                // request is not overdue.
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

/// Closes overdue connections.
fn close_overdue() {
    ROOM.with_borrow_mut(|room| {
        let now = Instant::now();
        if let Some(room) = room.as_mut().filter(|room| room.sweep_next().is_some_and(|next| next <= now)) {
            room.close_overdue(now);
        }
    });
}

/// Appends pending events to `calls`. Returns `true` if there may be more.
fn gather(calls: &mut Vec<ReadyEvent>) -> bool {
    // An error of the call is temporary, since its descriptor is always valid.
    ROOM.with_borrow_mut(|room| room.as_mut().is_some_and(|room| room.calls(calls).unwrap_or(true)))
}

/// Number of hits in a row, each sent at once, after which a task's connection returns to the idle
/// set.
pub(super) const HITS_TO_RETURN: u32 = 8;

/// Number of events and replies after which other tasks run. A batch under way may add
/// [`batch::GUEST_WORK`] replies for each of its connections.
pub(super) const TURN_WORK: usize = 256;

const _: () = assert!(HITS_TO_RETURN > 0 && TURN_WORK >= batch::AT_ONCE);
