//! A body that is sent to its readers while it arrives.
//!
//! One writer appends; any number of readers follow at their own pace. The latest bytes stand in a
//! window in RAM. Older ones are dropped from it once they can be read from the store instead (the
//! *spill*). Without a spill nothing is dropped that an attached reader still needs: the writer
//! waits.
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
use shoal_store::StoredBody;
use shoal_store::memory::{BodyBuilder, Reservation};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

/// The shared state of an arriving body.
pub struct SharedBody {
    state: Mutex<State>,
    /// Trailers may follow, though the head announces a body of no bytes (HTTP/2).
    may_have_trailers: AtomicBool,
}

/// How a body ended.
#[derive(Clone, Debug)]
pub enum BodyEnd {
    /// Complete, perhaps with trailers.
    Complete(Option<HeaderMap>),
    /// Cut: what the readers are told.
    Cut(String),
}

#[derive(Default)]
struct State {
    window: VecDeque<Bytes>,
    window_start: u64,
    appended: u64,
    spill: Option<Arc<dyn StoredBody>>,
    spilled: u64,
    end: Option<BodyEnd>,
    /// The attached readers; free slots are `None`.
    readers: Vec<Option<Reader>>,
    waiting_writer: Option<Waker>,
    /// Woken when the last reader leaves.
    waiting_for_end: Option<Waker>,
    /// What the window is charged after its writer has gone.
    charge: Option<(Reservation, Hold)>,
}

/// An attached reader.
struct Reader {
    /// Where it reads next.
    offset: u64,
    /// What waits for the bytes there. It goes with its reader, as who waits for a slow body may
    /// leave in numbers.
    waiting: Option<Waker>,
}

/// What a reader finds at its offset.
pub enum NextRead {
    /// Bytes from the window, at most as many as asked.
    Bytes(Bytes),
    /// The bytes are in the store.
    Spilled(Arc<dyn StoredBody>),
    /// The body has ended here.
    End(BodyEnd),
}

/// A reader's place; it holds back the writer until dropped.
pub struct BodyReader {
    body: Arc<SharedBody>,
    slot: usize,
}

impl SharedBody {
    /// A body of which nothing has arrived.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), may_have_trailers: AtomicBool::new(false) })
    }

    /// Has readers of a body of no bytes wait for its trailers. Called before anybody reads.
    pub fn expect_trailers(&self) {
        self.may_have_trailers.store(true, Relaxed);
    }

    /// Whether readers of a body of no bytes wait for its end.
    pub fn expects_trailers(&self) -> bool {
        self.may_have_trailers.load(Relaxed)
    }

    /// Appends what has arrived and wakes the readers.
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

    /// From now on bytes before `spilled` can be read from `body`.
    pub fn set_spill(&self, body: &Arc<dyn StoredBody>, spilled: u64) {
        let mut state = self.state.lock();
        debug_assert!(spilled >= state.spilled, "bytes that left the store");
        debug_assert!(spilled <= state.appended);
        state.spill = Some(Arc::clone(body));
        state.spilled = spilled;
    }

    /// Drops from the window what is beyond `keep` bytes and no longer needed there. Returns the
    /// window's size.
    pub fn trim(&self, keep: usize) -> usize {
        let mut state = self.state.lock();
        state.trim(keep);
        (state.appended - state.window_start) as usize
    }

    /// Waits until the window, trimmed, is at most `limit` bytes, or no reader is left.
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

    /// Waits until every reader has all that has arrived.
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

    /// Ready when no reader is attached.
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

    /// Readers attached now.
    pub fn readers(&self) -> usize {
        self.state.lock().readers.iter().flatten().count()
    }

    /// Whether it ended before its end.
    pub fn is_cut(&self) -> bool {
        matches!(self.state.lock().end, Some(BodyEnd::Cut(_)))
    }

    /// Bytes that have arrived.
    pub fn appended(&self) -> u64 {
        self.state.lock().appended
    }

    /// All that has arrived, and `last` behind it. The window must still hold it all.
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

    /// The bytes from `offset` to what has arrived, out of the window.
    pub fn since(&self, offset: u64) -> Option<Bytes> {
        let state = self.state.lock();
        let skip = offset.checked_sub(state.window_start)?;
        let all = join(state.window.iter(), (state.appended - state.window_start) as usize);
        (skip <= all.len() as u64).then(|| all.slice(skip as usize..))
    }

    /// Puts `whole`, which is all of the body, in the place of its pieces: whoever still reads
    /// holds those bytes and no others.
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

    /// All of the body, so many bytes, is read from `whole` from now on, and nothing of it is held
    /// here.
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

    /// Keeps what the window is charged for as long as it holds bytes for readers.
    pub fn charge(&self, reservation: Reservation, hold: Hold) {
        self.state.lock().charge = Some((reservation, hold));
    }

    /// Whether the window has all of it.
    pub fn is_whole(&self) -> bool {
        self.state.lock().window_start == 0
    }

    /// Attaches a reader at `offset`. `None` when the bytes there can no longer be had.
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
        state.readers[slot] = Some(Reader { offset, waiting: None });
        Some(BodyReader { body: Arc::clone(self), slot })
    }
}

impl BodyReader {
    /// What stands at this reader's offset, at most `limit` bytes; pending until something does.
    pub fn poll_next(&self, limit: u64, context: &mut Context<'_>) -> Poll<Result<NextRead, BodyError>> {
        let mut state = self.body.state.lock();
        let offset = state.reader(self.slot).offset;
        if offset < state.window_start {
            return Poll::Ready(match &state.spill {
                Some(body) if offset < state.spilled => Ok(NextRead::Spilled(Arc::clone(body))),
                _ => Err(BodyError::Cut("this reader fell behind a body that could not be stored".into())),
            });
        }
        if offset < state.appended {
            let bytes = state.at(offset, limit);
            debug_assert!(!bytes.is_empty() || limit == 0, "bytes of the window that are not there");
            return Poll::Ready(Ok(NextRead::Bytes(bytes)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(Ok(NextRead::End(end.clone())));
        }
        let waiting = &mut state.reader(self.slot).waiting;
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Moves this reader's place forward.
    pub fn advance(&self, bytes: u64) {
        let mut state = self.body.state.lock();
        state.reader(self.slot).offset += bytes;
        state.wake_writer();
    }

    /// This reader's offset.
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

impl State {
    fn reader(&mut self, slot: usize) -> &mut Reader {
        self.readers[slot].as_mut().expect("an attached reader has a place")
    }

    /// The part of the chunk in the window that begins at `offset`, at most `limit` bytes.
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

    /// Adds a chunk behind the others. Small ones are joined with their elders, as long as those
    /// are no longer than what they are joined with, so that each byte is copied O(log
    /// [`JOINED_MAX`]) times: an origin may send a body byte by byte, and would cost a hundred
    /// times what is charged for it.
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

    /// Drops whole chunks from the front while more than `keep` bytes remain and the front is not
    /// needed: it is spilled, or every reader is past it.
    fn trim(&mut self, keep: usize) {
        let slowest = self.readers.iter().flatten().map(|reader| reader.offset).min().unwrap_or(u64::MAX);
        while let Some(front) = self.window.front() {
            let end = self.window_start + front.len() as u64;
            let needed = end > self.spilled.max(slowest);
            if needed || self.appended - self.window_start <= keep as u64 {
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

/// Chunks of the window are joined to no more than this, in bytes.
const JOINED_MAX: usize = 4096;

#[cfg(test)]
mod tests;
