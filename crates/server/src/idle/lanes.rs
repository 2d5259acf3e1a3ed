//! Lanes: requests that wait for another node, gathered into messages to that node.
//!
//! Each worker has a lane for each node. A message carries the requests that have gathered while
//! the messages before it were under way. Under load, many requests thus share an exchange; one
//! request alone waits for nothing. A request without a reply takes the ordinary path.

use super::ROOM;
use super::set::{IdleConnection, IdleKey, IdleSet, ReadyEvent};
use crate::ServerState;
use crate::connection::{self, ResumeGuard, ResumeState};
use crate::http1::fast_path::FastReply;
use crate::message::{Handler, PeerAsk, PeerReplies};
use crate::transport::MessageOutput;
use bytes::Bytes;
use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Connection that waits for the reply to a request.
pub(crate) enum ReplyWaiter {
    /// Connection of the idle set.
    Idle(IdleKey),
    /// Task of a connection.
    Task(oneshot::Sender<Option<Bytes>>),
}

/// Request of an idle connection that waits for another node.
pub(crate) struct AwaitedReply {
    /// The request, for the ordinary path.
    pub begun: ResumeState,
    /// Event that came meanwhile: `Some(true)` if the peer may have closed.
    pub called: Option<bool>,
}

/// Requests that wait for one node.
struct PeerLane {
    /// Number of the lane, from the requests.
    number: u64,
    waiting: Vec<(PeerAsk, ReplyWaiter)>,
    /// Messages under way.
    under_way: usize,
}

thread_local! {
    /// Lanes of this worker.
    static LANES: RefCell<Vec<PeerLane>> = const { RefCell::new(Vec::new()) };
}

/// Adds a request to the lane of its node. Returns the waiter if the lane is full.
pub(crate) fn wait(ask: PeerAsk, waiter: ReplyWaiter) -> Result<(), ReplyWaiter> {
    LANES.with_borrow_mut(|lanes| {
        let at = lanes.iter().position(|lane| lane.number == ask.lane);
        let at = at.unwrap_or_else(|| {
            // Nodes that have left, or have another address now.
            lanes.retain(|lane| lane.under_way > 0 || !lane.waiting.is_empty());
            lanes.push(PeerLane { number: ask.lane, waiting: Vec::new(), under_way: 0 });
            lanes.len() - 1
        });
        if lanes[at].waiting.len() >= WAITING_MAX {
            return Err(waiter);
        }
        lanes[at].waiting.push((ask, waiter));
        debug_assert!(lanes[at].waiting.len() <= WAITING_MAX, "a lane is bounded");
        Ok(())
    })
}

/// Sends the requests that wait, as far as messages may be under way.
pub(crate) fn send_waiting<H: Handler>(shared: &Arc<ServerState<H>>) {
    loop {
        let next = LANES.with_borrow_mut(|lanes| {
            // A second message goes out only if it is worth its cost.
            let is_due = |lane: &&mut PeerLane| match lane.under_way {
                0 => !lane.waiting.is_empty(),
                count => count < UNDER_WAY_MAX && lane.waiting.len() >= TOGETHER_MAX,
            };
            let lane = lanes.iter_mut().find(is_due)?;
            lane.under_way += 1;
            debug_assert!(lane.under_way <= UNDER_WAY_MAX, "few messages are under way");
            Some((lane.number, lane.take()))
        });
        let Some((lane, asks)) = next else { return };
        tokio::spawn(carry(lane, asks, Arc::clone(shared)));
    }
}

/// Sends messages of a lane until no request waits.
async fn carry<H: Handler>(lane: u64, mut asks: Vec<(PeerAsk, ReplyWaiter)>, shared: Arc<ServerState<H>>) {
    let seat = LaneSeat(lane);
    while !asks.is_empty() {
        debug_assert!(asks.len() <= TOGETHER_MAX, "a message has room for them");
        let (parts, waiters): (Vec<_>, Vec<_>) = asks.into_iter().unzip();
        let mut awaited = AwaitedReplies { waiters, shared: Arc::clone(&shared) };
        let replies = shared.handler.ask_peer(parts).await;
        awaited.answer(replies);
        asks = seat.next();
    }
}

impl PeerLane {
    fn take(&mut self) -> Vec<(PeerAsk, ReplyWaiter)> {
        let count = self.waiting.len().min(TOGETHER_MAX);
        self.waiting.drain(..count).collect()
    }
}

/// Place among the messages under way of a lane, until dropped.
struct LaneSeat(u64);

impl LaneSeat {
    fn next(&self) -> Vec<(PeerAsk, ReplyWaiter)> {
        self.with_lane(PeerLane::take).unwrap_or_default()
    }

    fn with_lane<T>(&self, work: impl FnOnce(&mut PeerLane) -> T) -> Option<T> {
        // The thread may be ending.
        let find = |lanes: &RefCell<Vec<PeerLane>>| {
            let mut lanes = lanes.borrow_mut();
            lanes.iter_mut().find(|lane| lane.number == self.0).map(work)
        };
        LANES.try_with(find).ok().flatten()
    }
}

impl Drop for LaneSeat {
    fn drop(&mut self) {
        self.with_lane(|lane| {
            debug_assert!(lane.under_way > 0, "each message is counted once");
            lane.under_way -= 1;
        });
    }
}

/// Connections that wait for the replies of one message. Without an answer, as after a panic, all
/// of them take the ordinary path.
struct AwaitedReplies<H: Handler> {
    waiters: Vec<ReplyWaiter>,
    shared: Arc<ServerState<H>>,
}

impl<H: Handler> AwaitedReplies<H> {
    /// Sends the replies.
    fn answer(&mut self, replies: PeerReplies) {
        debug_assert!([0, self.waiters.len()].contains(&replies.places.len()), "a place for each request");
        let (bytes, now) = (Bytes::from(replies.bytes), Instant::now());
        let mut places = replies.places.into_iter();
        for waiter in std::mem::take(&mut self.waiters) {
            let reply = places.next().flatten().map(|place| bytes.slice(place));
            if reply.is_some() {
                self.shared.metrics.requests.increment();
            }
            match waiter {
                ReplyWaiter::Task(task) => drop(task.send(reply)),
                ReplyWaiter::Idle(key) => self.answer_idle(key, reply, now),
            }
        }
        wake_recalled();
    }

    /// Sends a reply to an idle connection, or gives the connection a task.
    fn answer_idle(&self, key: IdleKey, reply: Option<Bytes>, now: Instant) {
        let leaving = ROOM.with_borrow_mut(|room| {
            let room = room.as_mut()?;
            let guest = room.guest(key)?;
            let awaited = guest.awaits.take()?;
            let Some(reply) = reply else { return Some((room.release(key)?, awaited.begun)) };
            let sent = guest.stream.send(&[IoSlice::new(&reply)]);
            debug_assert!(sent <= reply.len(), "no more than there is");
            if sent < reply.len() {
                let mut output = MessageOutput::default();
                output.resume(&reply, Bytes::new(), sent);
                let begun = ResumeState::of(&[], now, guest).answering(FastReply::Settled, output);
                return Some((room.release(key)?, begun));
            }
            guest.due = now + guest.standing.live.keep_alive;
            let due = guest.due;
            room.expect(due);
            if let Some(is_last) = awaited.called {
                room.recall(ReadyEvent { key, is_last });
            }
            None
        });
        if let Some((guest, begun)) = leaving {
            spawn(guest, begun, &self.shared);
        }
    }
}

impl<H: Handler> Drop for AwaitedReplies<H> {
    fn drop(&mut self) {
        let now = Instant::now();
        for waiter in std::mem::take(&mut self.waiters) {
            match waiter {
                ReplyWaiter::Task(task) => drop(task.send(None)),
                ReplyWaiter::Idle(key) => self.answer_idle(key, None, now),
            }
        }
    }
}

/// Gives all idle connections that wait for another node a task, before the set closes.
pub(super) fn hand_over_waiting<H: Handler>(shared: &Arc<ServerState<H>>) {
    let waiting = ROOM.with_borrow_mut(|room| room.as_mut().map(IdleSet::release_awaiting));
    for (guest, begun) in waiting.into_iter().flatten() {
        spawn(guest, begun, shared);
    }
}

/// Gives a connection a task that goes on from `begun`.
pub(super) fn spawn<H: Handler>(guest: IdleConnection, begun: ResumeState, shared: &Arc<ServerState<H>>) {
    let handover = ResumeGuard::new(begun, Arc::clone(shared));
    // A socket that the runtime cannot watch is closed.
    if let Ok(stream) = guest.stream.into_active() {
        tokio::spawn(connection::resume(stream, handover, guest.standing));
    }
}

/// Wakes the server of the idle set if connections have had events while they waited.
fn wake_recalled() {
    ROOM.with_borrow(|room| room.iter().for_each(IdleSet::wake_recalled));
}

/// Most requests of one message.
const TOGETHER_MAX: usize = 32;

/// Most messages to one node that a worker has under way.
const UNDER_WAY_MAX: usize = 2;

/// Most requests that wait in a lane.
const WAITING_MAX: usize = 4096;

const _: () = assert!(TOGETHER_MAX <= shoal_cluster::HITS_MAX);
