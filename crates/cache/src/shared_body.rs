//! A body that is sent to its readers while it arrives.
//!
//! One writer appends; any number of readers follow at their own pace. The latest bytes stand in a
//! window in RAM. Older bytes leave the window once they can be read from the store instead (the
//! *spill*). Without a spill, bytes that an attached reader still needs stay in the window: the
//! writer waits.
//!
//! ```text
//!   0 ........ window_start ........ appended
//!   [  spill, on disk  ][ window, in RAM  ]   <- the writer
//!        ^ slow reader        ^ reader   ^ reader that waits
//! ```

use crate::holds::Hold;
use crate::message::BodyError;
use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use shoal_memory::{BodyBuilder, Reservation};
use shoal_store::StoredBody;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

/// The shared state of an arriving body.
pub struct SharedBody {
    state: Mutex<SharedBodyState>,
    /// `true` if trailers may follow although the head announces an empty body (HTTP/2).
    may_have_trailers: AtomicBool,
}

/// End of a body.
#[derive(Clone, Debug)]
pub enum BodyEnd {
    /// Complete, perhaps with trailers.
    Complete(Option<HeaderMap>),
    /// Cut, with the message for the readers.
    Cut(String),
}

#[derive(Default)]
struct SharedBodyState {
    window: VecDeque<Bytes>,
    window_start: u64,
    appended: u64,
    spill: Option<Arc<dyn StoredBody>>,
    spilled: u64,
    end: Option<BodyEnd>,
    /// Attached readers; free slots are `None`.
    readers: Vec<Option<AttachedReader>>,
    waiting_writer: Option<Waker>,
    /// Woken when the last reader leaves.
    waiting_for_end: Option<Waker>,
    /// Charge of the window after its writer has gone.
    charge: Option<(Reservation, Hold)>,
}

/// An attached reader.
struct AttachedReader {
    /// Offset of the next read.
    offset: u64,
    /// Waker of the task that waits for bytes at the offset. The waker is dropped with its reader,
    /// since many clients of a slow body may leave.
    waiting: Option<Waker>,
}

/// Content at a reader's offset.
pub enum ReadStep {
    /// Bytes from the window, at most the requested number.
    Bytes(Bytes),
    /// The bytes are in the store.
    Spilled(Arc<dyn StoredBody>),
    /// The body has ended here.
    End(BodyEnd),
}

/// A reader's position, which holds back the writer until dropped.
pub struct BodyReader {
    body: Arc<SharedBody>,
    slot: usize,
}

impl SharedBody {
    /// Creates a body of which nothing has arrived.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), may_have_trailers: AtomicBool::new(false) })
    }

    /// Makes readers of an empty body wait for its trailers. Called before the first read.
    pub fn expect_trailers(&self) {
        self.may_have_trailers.store(true, Relaxed);
    }

    /// Returns `true` if readers of an empty body wait for its end.
    pub fn expects_trailers(&self) -> bool {
        self.may_have_trailers.load(Relaxed)
    }

    /// Appends arrived bytes and wakes the readers.
    pub fn append(&self, bytes: Bytes) {
        let mut state = self.state.lock();
        debug_assert!(state.end.is_none(), "nothing follows the end");
        state.appended += bytes.len() as u64;
        state.push(bytes);
        state.invariants();
        state.wake_readers();
    }

    /// Ends the body.
    pub fn finish(&self, end: BodyEnd) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        state.wake_readers();
    }

    /// Lets readers read bytes before `spilled` from `body` from now on.
    pub fn set_spill(&self, body: &Arc<dyn StoredBody>, spilled: u64) {
        let mut state = self.state.lock();
        debug_assert!(spilled >= state.spilled, "bytes that left the store");
        debug_assert!(spilled <= state.appended);
        state.spill = Some(Arc::clone(body));
        state.spilled = spilled;
    }

    /// Drops unneeded bytes from the window, but none of the last `keep` that a reader can still
    /// use. Returns the window's size.
    pub fn trim(&self, keep: usize) -> usize {
        let mut state = self.state.lock();
        state.trim(keep);
        (state.appended - state.window_start) as usize
    }

    /// Trims the window and waits until it has at most `limit` bytes, or no reader is left.
    pub async fn wait_window_below(&self, limit: usize) {
        std::future::poll_fn(|context| self.poll_drained(limit, context)).await;
    }

    fn poll_drained(&self, limit: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        state.trim(limit);
        if state.appended - state.window_start <= limit as u64 {
            return Poll::Ready(());
        }
        state.waiting_writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits until every reader has read all arrived bytes.
    pub async fn wait_all_read(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if state.readers.iter().flatten().all(|reader| reader.offset >= state.appended) {
                return Poll::Ready(());
            }
            state.waiting_writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns `Ready` if no reader is attached.
    pub fn poll_deserted(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.readers.iter().flatten().next().is_none() {
            return Poll::Ready(());
        }
        if !state.waiting_for_end.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.waiting_for_end = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the number of attached readers.
    pub fn readers(&self) -> usize {
        self.state.lock().readers.iter().flatten().count()
    }

    /// Returns `true` if the body broke off before its end.
    pub fn is_cut(&self) -> bool {
        matches!(self.state.lock().end, Some(BodyEnd::Cut(_)))
    }

    /// Returns the number of arrived bytes.
    pub fn appended(&self) -> u64 {
        self.state.lock().appended
    }

    /// Returns all arrived bytes, followed by `last`. The window must still hold them all.
    pub fn gathered(&self, last: Option<&Bytes>) -> Bytes {
        let state = self.state.lock();
        assert_eq!(state.window_start, 0, "nothing has been dropped from a body that is being gathered");
        match last {
            Some(last) if state.window.is_empty() => last.clone(),
            last => {
                let length = state.appended as usize + last.map_or(0, Bytes::len);
                join(state.window.iter().chain(last), length)
            }
        }
    }

    /// Returns the bytes from `offset` to the last arrived one, from the window, in pieces.
    pub fn since(&self, offset: u64) -> Option<Vec<Bytes>> {
        let state = self.state.lock();
        let mut skip = offset.checked_sub(state.window_start)?;
        let mut pieces = Vec::new();
        for chunk in &state.window {
            let skipped = skip.min(chunk.len() as u64);
            skip -= skipped;
            if skipped < chunk.len() as u64 {
                pieces.push(chunk.slice(skipped as usize..));
            }
        }
        (skip == 0).then_some(pieces)
    }

    /// Replaces the pieces by `whole`, the complete body. A current reader then holds only these
    /// bytes.
    pub fn replace_by_whole(&self, whole: Bytes) {
        let mut state = self.state.lock();
        debug_assert!(
            state.window_start == 0 && state.appended <= whole.len() as u64,
            "all of it was gathered"
        );
        state.appended = whole.len() as u64;
        state.window = VecDeque::from([whole]);
        state.invariants();
        state.wake_readers();
    }

    /// Reads the whole body of `length` bytes from `whole` from now on, and releases the window.
    pub fn move_to(&self, whole: Arc<dyn StoredBody>, length: u64) {
        let mut state = self.state.lock();
        debug_assert!(state.appended <= length, "all of it was gathered");
        (state.appended, state.window_start, state.spilled) = (length, length, length);
        debug_assert_eq!(whole.length(), length, "another body");
        state.window.clear();
        state.spill = Some(whole);
        state.invariants();
        state.wake_readers();
    }

    /// Keeps the window's charge for as long as the window holds bytes for readers.
    pub fn charge(&self, reservation: Reservation, hold: Hold) {
        self.state.lock().charge = Some((reservation, hold));
    }

    /// Returns `true` if the window holds the whole body so far.
    pub fn is_whole(&self) -> bool {
        self.state.lock().window_start == 0
    }

    /// Attaches a reader at `offset`. Returns `None` if the bytes there are no longer available.
    pub fn attach(self: &Arc<Self>, offset: u64) -> Option<BodyReader> {
        let mut state = self.state.lock();
        if offset < state.window_start && offset >= state.spilled {
            return None;
        }
        let free = state.readers.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            state.readers.push(None);
            state.readers.len() - 1
        });
        debug_assert!(state.readers[slot].is_none(), "a reader in another's place");
        state.readers[slot] = Some(AttachedReader { offset, waiting: None });
        Some(BodyReader { body: Arc::clone(self), slot })
    }
}

impl BodyReader {
    /// Returns the content at this reader's offset, at most `limit` bytes. Pending until there is
    /// content.
    pub fn poll_next(&self, limit: u64, context: &mut Context<'_>) -> Poll<Result<ReadStep, BodyError>> {
        let mut state = self.body.state.lock();
        let offset = state.reader(self.slot).offset;
        if offset < state.window_start {
            return Poll::Ready(match &state.spill {
                Some(body) if offset < state.spilled => Ok(ReadStep::Spilled(Arc::clone(body))),
                _ => Err(BodyError::Cut("this reader fell behind a body that could not be stored".into())),
            });
        }
        if offset < state.appended {
            let bytes = state.at(offset, limit);
            debug_assert!(!bytes.is_empty() || limit == 0, "bytes of the window that are not there");
            return Poll::Ready(Ok(ReadStep::Bytes(bytes)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(Ok(ReadStep::End(end.clone())));
        }
        let waiting = &mut state.reader(self.slot).waiting;
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Moves this reader's position forward.
    pub fn advance(&self, bytes: u64) {
        let mut state = self.body.state.lock();
        state.reader(self.slot).offset += bytes;
        state.wake_writer();
    }

    /// Returns this reader's offset.
    pub fn offset(&self) -> u64 {
        self.body.state.lock().reader(self.slot).offset
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let mut state = self.body.state.lock();
        debug_assert!(state.readers[self.slot].is_some());
        state.readers[self.slot] = None;
        state.wake_writer();
        if state.readers.iter().flatten().next().is_none()
            && let Some(waker) = state.waiting_for_end.take()
        {
            waker.wake();
        }
    }
}

impl SharedBodyState {
    fn reader(&mut self, slot: usize) -> &mut AttachedReader {
        self.readers[slot].as_mut().expect("an attached reader has a place")
    }

    /// Returns the window's bytes at `offset`, within one chunk and at most `limit` bytes.
    fn at(&self, offset: u64, limit: u64) -> Bytes {
        let mut start = self.window_start;
        for chunk in &self.window {
            let end = start + chunk.len() as u64;
            if offset < end {
                let from = (offset - start) as usize;
                let to = chunk.len().min(from.saturating_add(limit as usize));
                return chunk.slice(from..to);
            }
            start = end;
        }
        Bytes::new()
    }

    /// Appends a chunk. Small chunks are joined with earlier ones that are not longer than the
    /// joined chunk. Each byte is therefore copied O(log [`JOINED_MAX`]) times. Otherwise an origin
    /// that sends a body byte by byte would cost a hundred times the charge.
    fn push(&mut self, bytes: Bytes) {
        let (mut joined, mut length) = (0, bytes.len());
        for elder in self.window.iter().rev() {
            if elder.len() > length || elder.len() + length > JOINED_MAX {
                break;
            }
            (joined, length) = (joined + 1, length + elder.len());
        }
        let first = self.window.len() - joined;
        let bytes = match joined {
            0 => bytes,
            _ => join(self.window.range(first..).chain([&bytes]), length),
        };
        self.window.truncate(first);
        self.window.push_back(bytes);
    }

    /// Drops whole chunks from the front. Stops at one that is needed: it is not spilled, and a
    /// reader is not past it. Within the last `keep` bytes, stops at one that a reader can use.
    fn trim(&mut self, keep: usize) {
        let slowest = self.readers.iter().flatten().map(|reader| reader.offset).min().unwrap_or(u64::MAX);
        while let Some(front) = self.window.front() {
            let end = self.window_start + front.len() as u64;
            let needed = end > self.spilled.max(slowest);
            let spared = end > slowest && self.appended - self.window_start <= keep as u64;
            if needed || spared {
                break;
            }
            self.window_start = end;
            self.window.pop_front();
        }
        self.invariants();
    }

    /// Checks the window and its bounds, in debug builds.
    fn invariants(&self) {
        debug_assert!(self.window_start <= self.appended);
        debug_assert!(self.spilled <= self.appended, "bytes in the store that have not come");
        debug_assert_eq!(
            self.window.iter().map(|chunk| chunk.len() as u64).sum::<u64>(),
            self.appended - self.window_start,
            "bytes of the window"
        );
    }

    fn wake_readers(&mut self) {
        self.readers.iter_mut().flatten().filter_map(|reader| reader.waiting.take()).for_each(Waker::wake);
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.waiting_writer.take() {
            waker.wake();
        }
    }
}

fn join<'a>(chunks: impl Iterator<Item = &'a Bytes>, length: usize) -> Bytes {
    let mut chunks = chunks.peekable();
    if let Some(only) = chunks.next_if(|chunk| chunk.len() == length) {
        return only.clone();
    }
    let mut whole = BodyBuilder::with_capacity(length);
    chunks.for_each(|chunk| whole.push(chunk));
    debug_assert_eq!(whole.length(), length);
    whole.into_bytes()
}

/// Maximum bytes of a joined chunk.
const JOINED_MAX: usize = 4096;

#[cfg(test)]
mod tests;
