//! Spans: few large stretches of memory for the RAM tier's small bodies, so that the tier takes no
//! more memory than its budget.
//!
//! An allocator cannot move a block that it has given out. Objects of all sizes that come and go
//! leave holes: a quarter to a third of the heap. Here, bodies are appended to spans. When dead
//! bodies make up much of the spans, the emptiest span is emptied: its live bodies move to another
//! span, and it is filled again from its start. This is log-structured memory: Rumble, Kejriwal and
//! Ousterhout, "Log-structured Memory for DRAM-based Storage", FAST 2014; its segments are our
//! spans.
//!
//! Bodies that were moved once have spans apart from new bodies. Most new bodies die soon and at
//! about one time, so that their spans are nearly empty when emptied.
//!
//! Room for a body costs a lock held for a few instructions, and the copy. If bodies die in no
//! order at all, up to `WASTE_SHARE` bytes are moved for each byte that comes in. On web traces one
//! to two bytes are.
//!
//! A body that a caller holds is not moved. Its span waits, and other pages of the span return to
//! the system one by one. A held body thus keeps only its own pages in memory.

use crate::sys::fill::{FillBuffer, FilledBody};
use crate::sys::span::{Span, SpanSlice};
use parking_lot::Mutex;
use shoal_core::Key;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// All spans of a tier.
pub(super) struct Spans {
    span_bytes: usize,
    /// Bytes of room that live bodies have.
    live_bytes: Arc<AtomicU64>,
    /// Sum of `taken_bytes` over all spans.
    taken_bytes: AtomicU64,
    state: Mutex<SpanState>,
}

/// Origin of a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyOrigin {
    /// Arrived from outside.
    Arrived,
    /// Moved from a span that is being emptied.
    Moved,
}

/// Span, and the keys of the bodies put into it.
pub(super) struct SpanContents {
    pub(super) span: Arc<Span>,
    pub(super) keys: Vec<Key>,
    /// Bytes of the span in memory that are not free room.
    taken_bytes: u64,
    /// Value of `emptied` until which the span is left alone, since its bodies could not be moved.
    waits_until: u64,
}

#[derive(Default)]
struct SpanState {
    /// Spans that take bodies, by the origin of the bodies; least room first.
    open: [Vec<SpanContents>; 2],
    full: Vec<SpanContents>,
    /// Emptied span, for the next need.
    spare: Option<Arc<Span>>,
    /// Spans emptied or tried, and searches without result.
    emptied: u64,
    /// Index in `full` at which the next search begins.
    next: usize,
}

impl Spans {
    /// Creates the spans for a tier of `tier_bytes`.
    pub(super) fn new(tier_bytes: u64) -> Self {
        let span_bytes = (tier_bytes / SPANS).clamp(SPAN_BYTES_MIN, SPAN_BYTES_MAX).next_power_of_two();
        Self {
            span_bytes: span_bytes as usize,
            live_bytes: Arc::default(),
            taken_bytes: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Returns the bytes of the spans that hold bodies, or held some and have not been emptied.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }

    /// Returns the bytes of room that live bodies have.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Relaxed)
    }

    /// Reserves room for the body of `key`. Returns `None` if there is no memory.
    pub(super) fn room(&self, key: Key, length: usize, origin: BodyOrigin) -> Option<FillBuffer<SpanSlice>> {
        let mut state = self.state.lock();
        let open = &mut state.open[origin as usize];
        match open.iter_mut().find_map(|contents| contents.room(key, length, &self.taken_bytes)) {
            Some(room) => Some(room),
            None => self.open_another(&mut state, origin)?.room(key, length, &self.taken_bytes),
        }
    }

    /// Copies the body into a span. Returns `None` if there is no memory.
    pub(super) fn put(&self, key: Key, body: &[u8], origin: BodyOrigin) -> Option<FilledBody<SpanSlice>> {
        let mut room = self.room(key, body.len(), origin)?;
        drop(room.push(body));
        Some(room.body())
    }

    /// Checks all that is said of the spans. One that is being emptied is counted and not here.
    pub(super) fn invariants(&self) {
        let state = self.state.lock();
        assert!(state.open.iter().all(|open| open.len() <= OPEN_MAX));
        let all = || state.open.iter().flatten().chain(&state.full);
        assert!(all().all(|contents| contents.taken_bytes <= self.span_bytes as u64));
        assert!(all().all(|contents| contents.span.bytes() == self.span_bytes));
        let taken: u64 = all().map(|contents| contents.taken_bytes).sum();
        assert!(taken <= self.taken_bytes(), "taken bytes that were not counted");
        assert!(state.spare.as_ref().is_none_or(|span| span.live_bytes() == 0));
    }

    /// Opens another span, and closes the one with the least room if enough are open.
    fn open_another<'a>(&self, state: &'a mut SpanState, origin: BodyOrigin) -> Option<&'a mut SpanContents> {
        let span = match state.spare.take() {
            Some(span) => span,
            None => Arc::new(Span::new(self.span_bytes, Arc::clone(&self.live_bytes)).ok()?),
        };
        let open = &mut state.open[origin as usize];
        open.sort_by_key(|contents| contents.span.left_bytes());
        if open.len() == OPEN_MAX {
            let mut closed = open.remove(0);
            closed.take(closed.span.left_bytes(), &self.taken_bytes);
            state.full.push(closed);
        }
        assert_eq!(span.live_bytes(), 0);
        open.push(SpanContents { span, keys: Vec::new(), taken_bytes: 0, waits_until: 0 });
        assert!(open.len() <= OPEN_MAX);
        open.last_mut()
    }

    /// Returns `true` if the spans take too much memory for their live bodies.
    pub(super) fn are_wasteful(&self) -> bool {
        let live = self.live_bytes();
        self.taken_bytes() > live + live / WASTE_SHARE + self.span_bytes as u64
    }

    /// Returns the span best emptied, of at most `LOOKED_AT`. The caller gives it back by
    /// [`Self::finish`].
    pub(super) fn victim(&self) -> Option<SpanContents> {
        let mut state = self.state.lock();
        let (full, emptied) = (&state.full, state.emptied);
        let count = full.len().min(LOOKED_AT);
        let seen = (state.next..state.next + count).map(|at| at % full.len().max(1));
        let gain = |at: &usize| {
            let (live, taken) = (full[*at].span.live_bytes(), full[*at].taken_bytes);
            taken.saturating_sub(live) as f64 / (live + 1) as f64
        };
        let ready = seen.filter(|at| full[*at].waits_until <= emptied);
        let best = ready.max_by(|one, other| gain(one).total_cmp(&gain(other))).filter(|at| gain(at) > 0.0);
        state.next += count;
        let Some(best) = best else {
            // Count a search without result, so that waiting spans do not wait for good if there
            // are no others.
            state.emptied += 1;
            return None;
        };
        Some(state.full.swap_remove(best))
    }

    /// Takes back a span that should be empty now.
    pub(super) fn finish(&self, mut contents: SpanContents) {
        let mut state = self.state.lock();
        state.emptied += 1;
        let before = self.taken_bytes.fetch_sub(contents.taken_bytes, Relaxed);
        assert!(before >= contents.taken_bytes);
        if let Some(span) = Arc::get_mut(&mut contents.span) {
            assert_eq!(span.live_bytes(), 0, "a body without a holder");
            span.clear();
            state.spare.get_or_insert(contents.span);
            return;
        }
        let kept = self.span_bytes - contents.span.return_dead_pages() as usize;
        contents.taken_bytes = 0;
        contents.take(kept, &self.taken_bytes);
        contents.waits_until = state.emptied + WAITS;
        state.full.push(contents);
    }
}

impl SpanContents {
    /// Reserves room for the body of `key`, and adds its bytes to `all_taken_bytes` too.
    fn room(
        &mut self,
        key: Key,
        length: usize,
        all_taken_bytes: &AtomicU64,
    ) -> Option<FillBuffer<SpanSlice>> {
        let left = self.span.left_bytes();
        let room = self.span.room(length)?;
        self.keys.push(key);
        self.take(left - self.span.left_bytes(), all_taken_bytes);
        Some(room)
    }

    fn take(&mut self, bytes: usize, all_taken_bytes: &AtomicU64) {
        self.taken_bytes += bytes as u64;
        debug_assert!(self.taken_bytes <= self.span.bytes() as u64);
        all_taken_bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// Approximate number of spans of a tier, within the sizes below.
const SPANS: u64 = 200;
pub(super) const SPAN_BYTES_MIN: u64 = 512 << 10;
const SPAN_BYTES_MAX: u64 = 4 << 20;
/// Spans are emptied when their dead bytes exceed a sixteenth of the live ones.
const WASTE_SHARE: u64 = 16;
/// Most open spans of one origin: a span too full for a large body still takes small ones.
const OPEN_MAX: usize = 4;
/// Full spans compared in a search for the emptiest.
const LOOKED_AT: usize = 128;
/// Other spans to be emptied before a span with immovable bodies is tried again.
const WAITS: u64 = 16;

const _: () = {
    assert!(SPAN_BYTES_MIN.is_power_of_two() && SPAN_BYTES_MAX.is_power_of_two());
    assert!(SPAN_BYTES_MIN <= SPAN_BYTES_MAX);
    // A place in a span is 32 bits.
    assert!(SPAN_BYTES_MAX <= u32::MAX as u64);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::key;

    #[test]
    fn victim_search_passes_over_spans_without_gain() {
        let spans = Spans::new(100 << 20);
        // Eight bodies fill a span to the last byte. There are more spans than a single search
        // covers.
        let fill = |count: usize| -> Vec<_> {
            (0..count as u64 * 8)
                .map(|number| spans.put(key(number), &[1; SPAN_BYTES_MIN as usize / 8], BodyOrigin::Arrived))
                .collect()
        };
        let live = fill(LOOKED_AT + 10);
        drop(fill(20));
        let later = fill(OPEN_MAX);
        assert!(live.iter().chain(&later).all(Option::is_some) && spans.are_wasteful());
        assert!(spans.victim().or_else(|| spans.victim()).is_some(), "dead spans are found");
    }
}
