//! What a connection and the tasks of its streams share: the streams that are open, their windows,
//! and what waits to be framed.
//!
//! ```text
//!   task ──► Sending ──► queue of its stream ──► ready ──► pump, by the connection ──► Output
//!   connection ──► received ──► queue of its stream ──► Receiving ──► task
//! ```
//!
//! The connection's task alone reads and writes the socket. The lock is held for changes in memory
//! only; everything that shares it runs on one thread, so that nobody ever waits for it.
//!
//! A body's bytes are handed over only when both windows, the stream's and the connection's, have
//! room for them: what has been handed over can be sent, and a client that opens no window is
//! noticed where the bytes come from.

mod receive;
mod send;

use super::receiving::StreamReceiver;
use super::sending::StreamSender;
use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};
use receive::ReceiveHalf;
use send::SendHalf;
use shoal_wire::http2::{self, ErrorCode, WINDOW_INITIAL, WINDOW_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The way to a connection's [`State`]. Clones share it.
#[derive(Clone)]
pub(super) struct SharedState(Arc<Mutex<State>>);

/// See the head of this file.
pub(super) struct State {
    open: BTreeMap<u32, Stream>,
    /// Streams with something to frame, each in its turn.
    ready: VecDeque<u32>,
    /// Streams whose tasks wait for the connection's window.
    starved: VecDeque<u32>,
    /// Frames that wait for no turn: resets, and room for more.
    control: Vec<u8>,
    /// Bytes that may be handed over for all streams together.
    window: i64,
    /// The window that a stream begins with.
    stream_window: i64,
    /// The largest frame that the client takes, and we write.
    frame_bytes_max: usize,
    /// Bytes that the client may send on all streams together.
    receive_window: i64,
    /// Bytes that were read, and that the client has not been told of.
    receive_due: u32,
    /// Streams that the client reset before they were answered, less those that were answered.
    resets: u32,
    /// Streams that we reset for the client's errors, less those that were answered.
    errors: u32,
    /// Tasks of streams, also of those that the client has reset.
    tasks: usize,
    quiet_since: Instant,
    /// The connection's task.
    waker: Option<Waker>,
}

/// One stream.
#[derive(Default)]
pub(super) struct Stream {
    pub receive: ReceiveHalf,
    pub send: SendHalf,
}

/// The stream was reset, or the connection has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamClosed;

impl SharedState {
    /// Of a connection that begins.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            open: BTreeMap::new(),
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            control: Vec::new(),
            window: i64::from(WINDOW_INITIAL),
            stream_window: i64::from(WINDOW_INITIAL),
            frame_bytes_max: http2::FRAME_BYTES_MAX,
            receive_window: i64::from(CONNECTION_WINDOW),
            receive_due: 0,
            resets: 0,
            errors: 0,
            tasks: 0,
            quiet_since: Instant::now(),
            waker: None,
        })))
    }

    /// Locks it, for as long as nothing is waited for.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Opens a stream: `remaining` bytes of body are said to come, or any number, or none when it
    /// has `ended`. Its task gets both halves.
    pub fn open(&self, id: u32, ended: bool, remaining: Option<u64>) -> (StreamSender, StreamReceiver) {
        let mut state = self.lock();
        let receive = ReceiveHalf::new(ended, remaining);
        let send = SendHalf::new(state.stream_window);
        assert!(id % 2 == 1, "a stream that no client opens");
        assert!(state.open.last_key_value().is_none_or(|(last, _)| *last < id), "streams rise");
        state.open.insert(id, Stream { receive, send });
        state.tasks += 1;
        state.check();
        (StreamSender::new(self.clone(), id), StreamReceiver::new(self.clone(), id, ended))
    }
}

impl State {
    /// Checks all that is said of the connection, in debug builds.
    fn check(&self) {
        if cfg!(debug_assertions) {
            self.invariants();
        }
    }

    /// Checks the windows, the streams and the queues of streams. Costs time in proportion to the
    /// streams and the frames in their queues.
    fn invariants(&self) {
        self.check_windows();
        let kept: usize = self.open.values().map(|stream| stream.receive.kept_bytes()).sum();
        let credit = self.receive_window + i64::from(self.receive_due) + kept as i64;
        assert!(credit <= i64::from(CONNECTION_WINDOW), "room that was given back twice");
        for (id, Stream { receive, send }) in &self.open {
            receive.invariants();
            send.invariants();
            let is_ready = self.ready.iter().filter(|ready| *ready == id).count();
            assert_eq!(is_ready, usize::from(send.is_ready()), "a stream has one turn at a time");
            let is_starved = self.starved.iter().filter(|starved| *starved == id).count();
            assert_eq!(is_starved, usize::from(send.is_starved()));
        }
    }

    /// Checks the connection's windows.
    fn check_windows(&self) {
        debug_assert!(self.window <= WINDOW_MAX);
        debug_assert!((0..=WINDOW_MAX).contains(&self.stream_window));
        debug_assert!((0..=i64::from(CONNECTION_WINDOW)).contains(&self.receive_window));
        debug_assert!(self.receive_due < CONNECTION_WINDOW / 2, "room that the client should know of");
        debug_assert!(self.frame_bytes_max >= http2::FRAME_BYTES_MAX);
    }

    /// Streams that are open for the client.
    pub fn open_streams(&self) -> usize {
        self.open.len()
    }

    /// Whether so many are open that the client may open no further. "Streams that are in the
    /// "open" state or in either of the "half-closed" states count toward the maximum number of
    /// streams" (section 5.1.2): one whose halves have both ended does not, though somebody may
    /// still hold its body; but of these there are no more either.
    pub fn is_full(&self, streams_max: usize) -> bool {
        let is_closed = |stream: &&Stream| stream.send.sent && stream.receive.ended;
        let open = self.open.len();
        open >= streams_max
            && (open >= 2 * streams_max || open - self.open.values().filter(is_closed).count() >= streams_max)
    }

    /// Streams that have a task.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// When the last stream ended.
    pub fn quiet_since(&self) -> Instant {
        self.quiet_since
    }

    /// A stream has ended now.
    pub fn note_end(&mut self, now: Instant) {
        self.quiet_since = now;
    }

    /// Remembers whom to wake when something is to be written.
    pub fn set_waker(&mut self, context: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
        }
    }

    /// The stream, unless it is over.
    pub fn stream(&mut self, id: u32) -> Result<&mut Stream, StreamClosed> {
        self.open.get_mut(&id).ok_or(StreamClosed)
    }

    /// Ready once the stream is over; wakes the task of our half, which asks.
    pub fn poll_gone(&mut self, id: u32, context: &Context<'_>) -> Poll<()> {
        let Ok(stream) = self.stream(id) else { return Poll::Ready(()) };
        stream.send.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ends a stream, if it is not over, and says so to the client.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        debug_assert_ne!(id, 0, "the connection is not reset");
        if self.remove(id) {
            http2::write_reset(&mut self.control, id, code);
            self.wake();
        }
    }

    /// Says to the client that a stream is over that was not opened, or not any more.
    pub fn refuse(&mut self, id: u32, code: ErrorCode) {
        debug_assert!((1..1 << 31).contains(&id), "a stream of 31 bits");
        http2::write_reset(&mut self.control, id, code);
    }

    /// The client has reset a stream. How many it has reset before they were answered, less those
    /// that were answered.
    pub fn reset_by_client(&mut self, id: u32) -> u32 {
        let answered = self.open.get(&id).is_none_or(|stream| stream.send.answered);
        self.remove(id);
        self.resets += u32::from(!answered);
        self.resets
    }

    /// A stream was ended for the client's error; says how many were that were not made up for.
    pub fn reset_for_error(&mut self, id: u32, code: ErrorCode) -> u32 {
        match self.stream(id) {
            Ok(_) => self.reset(id, code),
            Err(_) => self.refuse(id, code),
        }
        self.errors += 1;
        self.errors
    }

    /// A stream was answered, which makes up for one that was not.
    fn count_answered(&mut self) {
        self.resets = self.resets.saturating_sub(1);
        self.errors = self.errors.saturating_sub(1);
    }

    /// The connection is over, and all streams with it.
    pub fn close(&mut self) {
        while let Some((&id, _)) = self.open.first_key_value() {
            self.remove(id);
        }
        self.waker = None;
    }

    /// Gives back what a burst of streams has left.
    pub fn shrink(&mut self) {
        if self.open.is_empty() {
            self.ready = VecDeque::new();
            self.starved = VecDeque::new();
            self.control = Vec::new();
        }
    }

    /// Forgets a stream of which nothing is left to be done. "A server MAY request that the client
    /// abort transmission of a request without error by sending a RST_STREAM with an error code of
    /// NO_ERROR after sending a complete response" (section 8.1).
    fn remove_if_done(&mut self, id: u32) {
        let Ok(Stream { receive, send }) = self.stream(id) else { return };
        match (send.sent, receive.ended, receive.unread) {
            (true, true, true) => {
                self.remove(id);
            }
            (true, false, true) => self.reset(id, ErrorCode::NO_ERROR),
            _ => {}
        }
    }

    /// Forgets a stream, and wakes whoever waits for it. Whether there was one.
    fn remove(&mut self, id: u32) -> bool {
        let Some(Stream { receive, send }) = self.open.remove(&id) else { return false };
        debug_assert!(!send.sent || send.queued == 0, "an end that was framed too early");
        [receive.waker, send.waker].into_iter().flatten().for_each(Waker::wake);
        self.give_back(receive.queue.iter().map(BytesMut::len).sum());
        if send.queued > 0 {
            self.window += send.queued as i64;
            self.feed_starved();
        }
        true
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// Bytes that a client may send on one stream before somebody has read them.
pub(in crate::server) const STREAM_WINDOW: u32 = 128 * 1024;

/// The same over all streams.
pub(in crate::server) const CONNECTION_WINDOW: u32 = 512 * 1024;

const _: () = {
    assert!(STREAM_WINDOW <= CONNECTION_WINDOW);
    // The connection's first WINDOW_UPDATE is the difference.
    assert!(CONNECTION_WINDOW > WINDOW_INITIAL);
    assert!((CONNECTION_WINDOW as i64) <= WINDOW_MAX);
};
