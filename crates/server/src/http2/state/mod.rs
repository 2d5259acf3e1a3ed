//! State shared by a connection and its stream tasks: open streams, their windows and queued
//! frames.
//!
//! ```text
//!   task ──► Sending ──► queue of its stream ──► ready ──► pump, by the connection ──► Output
//!   connection ──► received ──► queue of its stream ──► Receiving ──► task
//! ```
//!
//! Only the connection's task reads and writes the socket. The lock is held only for changes in
//! memory. All its users run on one thread, so the lock is never contended.
//!
//! A body's bytes are queued only if the windows of both stream and connection have room. Queued
//! bytes can therefore be sent at once. A client that opens no window is noticed at the source of
//! the bytes.

mod receive;
mod send;

use super::receiving::StreamReceiver;
use super::sending::StreamSender;
use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};
use receive::ReceiveHalf;
use send::SendHalf;
use shoal_http2::{self as http2, ErrorCode, WINDOW_INITIAL, WINDOW_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Handle to a connection's [`State`]. Clones share the state.
#[derive(Clone)]
pub(super) struct SharedState(Arc<Mutex<State>>);

/// State of a connection's streams.
pub(super) struct State {
    open: BTreeMap<u32, Stream>,
    /// Streams with frames to write, in turn.
    ready: VecDeque<u32>,
    /// Streams with a task that waits for the connection's window.
    starved: VecDeque<u32>,
    /// Frames written ahead of all streams: resets and window updates.
    control: Vec<u8>,
    /// Bytes that may be queued on all streams together.
    window: i64,
    /// Initial send window of a stream.
    stream_window: i64,
    /// Maximum size of a frame to the client.
    frame_bytes_max: usize,
    /// Bytes that the client may send on all streams together.
    receive_window: i64,
    /// Bytes read but not yet credited by WINDOW_UPDATE.
    receive_due: u32,
    /// Number of streams that the client reset before their reply, less the streams answered.
    resets: u32,
    /// Number of streams reset for the client's errors, less the streams answered.
    errors: u32,
    /// Number of running stream tasks, including those of reset streams.
    tasks: usize,
    quiet_since: Instant,
    /// Waker of the connection's task.
    waker: Option<Waker>,
}

/// State of one stream.
#[derive(Default)]
pub(super) struct Stream {
    pub receive: ReceiveHalf,
    pub send: SendHalf,
}

/// Error: the stream was reset, or the connection has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedStream;

impl SharedState {
    /// Creates the state of a new connection.
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

    /// Locks the state. The caller must not await while it holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Opens a stream and returns both halves for its task. `remaining` is the announced length of
    /// the body, if known. `ended` means that there is no body.
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

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.open.len()
    }

    /// Returns `true` if the client may not open further streams. "Streams that are in the "open"
    /// state or in either of the "half-closed" states count toward the maximum number of streams"
    /// (section 5.1.2). A stream with both halves ended does not count, though its body may still
    /// be unread. Such streams have the same limit.
    pub fn is_full(&self, streams_max: usize) -> bool {
        let is_closed = |stream: &&Stream| stream.send.sent && stream.receive.ended;
        let open = self.open.len();
        open >= streams_max
            && (open >= 2 * streams_max || open - self.open.values().filter(is_closed).count() >= streams_max)
    }

    /// Returns the number of running stream tasks.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Returns the time at which the last stream ended.
    pub fn quiet_since(&self) -> Instant {
        self.quiet_since
    }

    /// Records that a stream has ended at `now`.
    pub fn note_end(&mut self, now: Instant) {
        self.quiet_since = now;
    }

    /// Sets the waker called when output is queued.
    pub fn set_waker(&mut self, context: &Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
        }
    }

    /// Returns the stream if it is open.
    pub fn stream(&mut self, id: u32) -> Result<&mut Stream, ClosedStream> {
        self.open.get_mut(&id).ok_or(ClosedStream)
    }

    /// Returns ready once the stream has ended. Otherwise registers the sending task to be woken.
    pub fn poll_gone(&mut self, id: u32, context: &Context<'_>) -> Poll<()> {
        let Ok(stream) = self.stream(id) else { return Poll::Ready(()) };
        stream.send.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Resets a stream, if open, and sends RST_STREAM.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        debug_assert_ne!(id, 0, "the connection is not reset");
        if self.remove(id) {
            http2::write_reset(&mut self.control, id, code);
            self.wake();
        }
    }

    /// Sends RST_STREAM for a stream that is not open.
    pub fn refuse(&mut self, id: u32, code: ErrorCode) {
        debug_assert!((1..1 << 31).contains(&id), "a stream of 31 bits");
        http2::write_reset(&mut self.control, id, code);
    }

    /// Handles a reset by the client. Returns the number of streams reset before their reply, less
    /// the streams answered.
    pub fn reset_by_client(&mut self, id: u32) -> u32 {
        let answered = self.open.get(&id).is_none_or(|stream| stream.send.answered);
        self.remove(id);
        self.resets += u32::from(!answered);
        self.resets
    }

    /// Resets a stream for the client's error. Returns the number of such errors, less the streams
    /// answered.
    pub fn reset_for_error(&mut self, id: u32, code: ErrorCode) -> u32 {
        match self.stream(id) {
            Ok(_) => self.reset(id, code),
            Err(_) => self.refuse(id, code),
        }
        self.errors += 1;
        self.errors
    }

    /// Counts an answered stream, which offsets one reset and one error.
    fn count_answered(&mut self) {
        self.resets = self.resets.saturating_sub(1);
        self.errors = self.errors.saturating_sub(1);
    }

    /// Closes the connection's state and all streams.
    pub fn close(&mut self) {
        while let Some((&id, _)) = self.open.first_key_value() {
            self.remove(id);
        }
        self.waker = None;
    }

    /// Frees memory left from a burst of streams.
    pub fn shrink(&mut self) {
        if self.open.is_empty() {
            self.ready = VecDeque::new();
            self.starved = VecDeque::new();
            self.control = Vec::new();
        }
    }

    /// Removes a stream with nothing left to do. "A server MAY request that the client abort
    /// transmission of a request without error by sending a RST_STREAM with an error code of
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

    /// Removes a stream and wakes its tasks. Returns `true` if the stream existed.
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

/// Bytes that a client may send on one stream before they are read.
pub(crate) const STREAM_WINDOW: u32 = 128 * 1024;

/// Bytes that a client may send on all streams before they are read.
pub(crate) const CONNECTION_WINDOW: u32 = 512 * 1024;

const _: () = {
    assert!(STREAM_WINDOW <= CONNECTION_WINDOW);
    // The connection's first WINDOW_UPDATE is the difference.
    assert!(CONNECTION_WINDOW > WINDOW_INITIAL);
    assert!((CONNECTION_WINDOW as i64) <= WINDOW_MAX);
};
