//! Sending halves of streams: queued frames, their order, and the client's windows.

use super::super::output::FrameOutput;
use super::{ClosedStream, State, Stream};
use crate::slow_clients::SlowClientPolicy;
use bytes::Bytes;
use shoal_http2::{ErrorCode, FrameError, PeerSettings, WINDOW_MAX};
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// Sending half of a stream.
#[derive(Default)]
pub(in super::super) struct SendHalf {
    /// Send window of the stream, not yet reduced by the queued bytes.
    window: i64,
    queue: VecDeque<QueuedFrame>,
    /// Bytes of bodies in the queue.
    pub queued: usize,
    /// A final head was queued.
    pub answered: bool,
    /// The end of the stream was queued.
    pub ended: bool,
    /// The end of the stream was framed.
    pub sent: bool,
    /// The stream is in `ready`.
    is_ready: bool,
    /// The task waits for room.
    waits: bool,
    /// The stream is in `starved`.
    is_starved: bool,
    /// Bytes held back by the stream's window alone at the last check, after the task has ended.
    held: Option<usize>,
    pub waker: Option<Waker>,
}

/// Queued part of a reply.
enum QueuedFrame {
    /// Field block, and `true` if it ends the stream.
    Fields(Vec<u8>, bool),
    /// Bytes of a body, and `true` if they end the stream.
    Data(Bytes, bool),
}

impl State {
    /// Reserves the windows for a whole body that answers a stream at once. Returns `false` if they
    /// have no room for `bytes`.
    pub fn take_room(&mut self, bytes: usize) -> bool {
        let fits = bytes <= SEND_BUFFER_BYTES && bytes as i64 <= self.window.min(self.stream_window);
        if fits {
            self.window -= bytes as i64;
            debug_assert!(self.window >= 0, "more than the client takes");
            self.count_answered();
        }
        fits
    }

    /// Returns the maximum size of a frame to the client.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Returns the number of body bytes that the stream may queue. If 0, the stream's task is woken
    /// once there is room.
    pub fn room(&mut self, id: u32, context: &Context<'_>) -> Result<usize, ClosedStream> {
        let window = self.window;
        let send = &mut self.stream(id)?.send;
        let queued = send.queued as i64;
        let room = window.min(send.window - queued).min(SEND_BUFFER_BYTES as i64 - queued);
        if room > 0 {
            debug_assert!(room <= WINDOW_MAX);
            return Ok(room as usize);
        }
        send.waker = Some(context.waker().clone());
        send.waits = true;
        let is_starved = window <= 0 && !std::mem::replace(&mut send.is_starved, true);
        if is_starved {
            self.starved.push_back(id);
        }
        Ok(0)
    }

    /// Queues a field block.
    pub fn send_fields(
        &mut self,
        id: u32,
        block: Vec<u8>,
        end: bool,
        is_final: bool,
    ) -> Result<(), ClosedStream> {
        let send = &mut self.stream(id)?.send;
        debug_assert!(!send.ended, "a field block behind the end");
        send.queue.push_back(QueuedFrame::Fields(block, end));
        send.answered |= is_final;
        send.ended |= end;
        if is_final {
            self.count_answered();
        }
        self.make_ready(id);
        self.wake();
        Ok(())
    }

    /// Queues bytes, at most the number that [`Self::room`] returned.
    pub fn send_data(&mut self, id: u32, data: Bytes, end: bool) -> Result<(), ClosedStream> {
        let length = data.len();
        let send = &mut self.stream(id)?.send;
        debug_assert!(!send.ended, "data behind the end");
        send.queued += length;
        debug_assert!(send.queued <= SEND_BUFFER_BYTES, "more than there is room for");
        send.put(data, end);
        send.ended |= end;
        self.window -= length as i64;
        debug_assert!(length == 0 || self.window >= 0, "more than the client takes");
        self.make_ready(id);
        self.wake();
        Ok(())
    }

    /// Handles the drop of a stream's sending half.
    pub fn drop_sending(&mut self, id: u32) {
        debug_assert!(self.tasks > 0, "a task that was not counted");
        self.tasks -= 1;
        if self.stream(id).is_ok_and(|stream| !stream.send.ended) {
            self.reset(id, ErrorCode::CANCEL);
        }
        self.wake();
    }

    /// Increases a stream's window, or the connection's if `id` is 0.
    pub fn widen(&mut self, id: u32, increment: u32) -> Result<(), FrameError> {
        let window = match id {
            0 => &mut self.window,
            id => match self.open.get_mut(&id) {
                Some(stream) => &mut stream.send.window,
                None => return Ok(()),
            },
        };
        let wider = *window + i64::from(increment);
        if wider > WINDOW_MAX {
            return Err(FrameError {
                stream: Some(id).filter(|id| *id != 0),
                code: ErrorCode::FLOW_CONTROL_ERROR,
            });
        }
        *window = wider;
        match id {
            0 => self.feed_starved(),
            id => self.widened(id),
        }
        Ok(())
    }

    /// Applies a change of the client's settings.
    pub fn set(&mut self, settings: PeerSettings) -> Result<(), FrameError> {
        if let Some(bytes) = settings.frame_bytes_max {
            self.frame_bytes_max = bytes.min(FRAME_BYTES_WRITTEN_MAX);
        }
        let Some(window) = settings.initial_window else { return Ok(()) };
        // "… a receiver MUST adjust the size of all stream flow-control windows that it maintains
        // by the difference" (section 6.9.2).
        let difference = i64::from(window) - std::mem::replace(&mut self.stream_window, i64::from(window));
        let ids: Vec<u32> = self.open.keys().copied().collect();
        for id in ids {
            let Ok(Stream { send, .. }) = self.stream(id) else { continue };
            if send.window + difference > WINDOW_MAX {
                return Err(FrameError::connection(ErrorCode::FLOW_CONTROL_ERROR));
            }
            send.window += difference;
            self.widened(id);
        }
        Ok(())
    }

    /// Frames the queues of ready streams, one DATA frame per turn, until `output` is full.
    pub fn pump(&mut self, output: &mut FrameOutput) {
        output.append(&mut self.control);
        while !output.is_full()
            && let Some(id) = self.ready.pop_front()
        {
            let frame_bytes_max = self.frame_bytes_max;
            let Some(Stream { send, .. }) = self.open.get_mut(&id) else { continue };
            send.is_ready = false;
            let has_more = send.frame(id, frame_bytes_max, output);
            if send.waits && send.queued <= SEND_BUFFER_BYTES / 2 {
                send.wake();
            }
            if has_more {
                self.make_ready(id);
            }
            self.remove_if_done(id);
        }
        self.check_turns();
    }

    /// Checks a connection with few streams, in debug builds.
    fn check_turns(&self) {
        if self.open.len() <= CHECKED_STREAMS {
            self.check();
        }
    }

    /// Ends streams after their tasks have ended, if their windows still hold back the rest. A
    /// client may reduce a window (section 6.9.2), but must not make the server keep the bytes
    /// forever. Call once per longest pause.
    pub fn end_held(&mut self, patience: &SlowClientPolicy) {
        let mut ended = Vec::new();
        for (&id, Stream { send, .. }) in &mut self.open {
            let held = Some(send.queued).filter(|_| send.ended && !send.queue.is_empty() && !send.is_ready);
            let before = std::mem::replace(&mut send.held, held);
            if let (Some(before), Some(held)) = (before, held)
                && ((before - held) as u64) < patience.bytes_min()
            {
                ended.push(id);
            }
        }
        for id in ended {
            patience.metrics.clients_slow.increment();
            self.reset(id, ErrorCode::CANCEL);
        }
    }

    /// Returns `true` if frames wait to be written.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.control.is_empty()
    }

    fn make_ready(&mut self, id: u32) {
        if let Some(stream) = self.open.get_mut(&id)
            && !std::mem::replace(&mut stream.send.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Continues a stream after a window change: queued bytes and the waiting task.
    fn widened(&mut self, id: u32) {
        let Ok(Stream { send, .. }) = self.stream(id) else { return };
        if send.waits {
            send.wake();
        }
        if !send.queue.is_empty() {
            self.make_ready(id);
        }
    }

    /// Wakes the tasks that wait for the connection's window. Each task then asks for its share.
    pub(super) fn feed_starved(&mut self) {
        for id in std::mem::take(&mut self.starved) {
            if let Ok(Stream { send, .. }) = self.stream(id) {
                send.is_starved = false;
            }
            self.widened(id);
        }
    }
}

impl SendHalf {
    /// Creates the half of a new stream.
    pub fn new(window: i64) -> Self {
        Self { window, ..Self::default() }
    }

    /// Appends bytes to the queue. Small pieces are merged: a tunnel may bring pieces of one byte,
    /// which would take many times their size.
    fn put(&mut self, data: Bytes, end: bool) {
        if let Some(QueuedFrame::Data(last, ends)) = self.queue.back_mut()
            && last.len() + data.len() <= SMALL_BYTES
        {
            *last = [&last[..], &data[..]].concat().into();
            *ends = end;
            return;
        }
        self.queue.push_back(QueuedFrame::Data(data, end));
    }

    /// Returns `true` if the stream has a turn.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns `true` if the task waits for the connection's window.
    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Checks all that is said of the fields.
    pub(super) fn invariants(&self) {
        let queued = self.queue.iter().map(|piece| match piece {
            QueuedFrame::Data(data, _) => data.len(),
            QueuedFrame::Fields(..) => 0,
        });
        assert_eq!(queued.sum::<usize>(), self.queued, "bytes of bodies in the queue");
        assert!(self.queued <= SEND_BUFFER_BYTES);
        assert!(self.window <= WINDOW_MAX);
        assert!(!self.sent || self.ended, "an end that nobody handed over");
        assert!(!self.sent || self.queue.is_empty(), "frames behind the end");
    }

    fn wake(&mut self) {
        self.waits = false;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Frames all leading field blocks and then one DATA frame. Returns `true` if more could
    /// follow.
    fn frame(&mut self, id: u32, frame_bytes_max: usize, output: &mut FrameOutput) -> bool {
        while let Some(piece) = self.queue.front_mut() {
            match piece {
                QueuedFrame::Fields(block, end) => {
                    output.fields(id, *end, frame_bytes_max, |out| out.extend_from_slice(block));
                    self.sent |= *end;
                    self.queue.pop_front();
                }
                QueuedFrame::Data(data, end) => {
                    let window = usize::try_from(self.window).unwrap_or(0);
                    let length = data.len().min(window).min(frame_bytes_max);
                    if length == 0 && !data.is_empty() {
                        return false;
                    }
                    let is_whole = length == data.len();
                    let ends = *end && is_whole;
                    debug_assert!(length <= frame_bytes_max);
                    debug_assert!(self.queued >= length);
                    debug_assert!(!self.sent);
                    output.data(id, data.split_to(length), ends);
                    self.window -= length as i64;
                    self.queued -= length;
                    self.sent |= ends;
                    if is_whole {
                        self.queue.pop_front();
                    }
                    return !self.queue.is_empty();
                }
            }
        }
        false
    }
}

/// Maximum bytes of one stream that wait to be written.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Maximum size of frames written, even if the client takes larger ones: other streams wait behind
/// a frame.
const FRAME_BYTES_WRITTEN_MAX: usize = 64 * 1024;

/// Maximum size up to which pieces are merged.
const SMALL_BYTES: usize = 1024;

/// Streams of a connection that is checked as a whole in debug builds.
const CHECKED_STREAMS: usize = 128;

const _: () = {
    assert!(SMALL_BYTES < SEND_BUFFER_BYTES);
    assert!(FRAME_BYTES_WRITTEN_MAX <= SEND_BUFFER_BYTES);
    assert!((SEND_BUFFER_BYTES as i64) <= WINDOW_MAX);
};

#[cfg(test)]
mod tests {
    use super::super::SharedState;
    use super::*;

    #[test]
    fn single_byte_pieces_are_merged() {
        let link = SharedState::new();
        let (_sending, _receiving) = link.open(1, true, None);
        let mut state = link.lock();
        for at in 0..50_000 {
            state.send_data(1, Bytes::from_static(b"x"), at == 49_999).expect("open");
        }
        let send = &state.stream(1).expect("open").send;
        assert_eq!((send.queued, send.queue.len()), (50_000, 50_000_usize.div_ceil(SMALL_BYTES)));
        let (mut output, mut turns) = (FrameOutput::default(), 0);
        while state.has_ready() {
            state.pump(&mut output);
            turns += 1;
        }
        assert_eq!((output.response_bytes(), turns), (50_000, 1));
        // Dropping the halves takes the lock.
        drop(state);
    }

    #[test]
    fn windows_stay_within_their_limit_after_an_error() {
        let link = SharedState::new();
        let (_sending, _receiving) = link.open(1, true, None);
        let mut state = link.lock();
        for id in [0, 1] {
            let error = state.widen(id, WINDOW_MAX as u32).expect_err("more than a window may be");
            assert_eq!(error.code, ErrorCode::FLOW_CONTROL_ERROR);
        }
        state.widen(1, 1 << 30).expect("within the limit");
        let settings = PeerSettings { initial_window: Some(WINDOW_MAX as u32), frame_bytes_max: None };
        assert!(state.set(settings).is_err());
        state.pump(&mut FrameOutput::default());
        drop(state);
    }
}
