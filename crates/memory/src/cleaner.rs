//! Emptying of spans: moves the live bodies of one span to another, a little with each body that
//! comes or goes.
//!
//! A thread that brings a body, or has some evicted, moves enough bytes to keep pace, unless
//! another thread is moving some. A long body makes much to move, which its client would wait for:
//! the threads after it do some of that too. A body is copied without a lock. The copy replaces the
//! body only if no caller has begun to hold the body meanwhile.

use super::spans::{BodyOrigin, SPAN_BYTES_MIN, SpanContents};
use super::{MemoryBody, MemoryTier, TierValue};
use crate::sys::span::Span;
use parking_lot::Mutex;
use shoal_core::Key;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Span that is being emptied.
#[derive(Default)]
pub(super) struct SpanCleaner {
    work: Mutex<CleanerWork>,
    moved_bytes: AtomicU64,
}

#[derive(Default)]
struct CleanerWork {
    /// The span, and the number of its keys that have been dealt with.
    victim: Option<(SpanContents, usize)>,
    /// Bytes to be moved for bodies that have come or gone.
    owed_bytes: u64,
}

impl CleanerWork {
    /// Returns the bytes to be moved now, after `bytes` more have come or gone.
    fn share(&mut self, bytes: u64) -> u64 {
        self.owed_bytes = self.owed_bytes.saturating_add(bytes.saturating_mul(PACE)).saturating_add(PACE_MIN);
        self.owed_bytes.min(SHARE_MAX).max(self.owed_bytes.saturating_sub(OWED_MAX))
    }
}

impl SpanCleaner {
    /// Returns the bytes moved since start.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Relaxed)
    }
}

impl<V: TierValue> MemoryTier<V> {
    /// Empties enough of the spans to keep pace with `bytes` that have come or gone.
    pub(super) fn empty_spans(&self, bytes: u64) {
        if !self.spans.are_wasteful() {
            return;
        }
        let Some(mut work) = self.emptying.work.try_lock() else { return };
        let share = work.share(bytes);
        let left = self.empty_some(&mut work.victim, share);
        // If some is left, there was no waste any more, or no span to empty: nothing is owed.
        work.owed_bytes = if left > 0 { 0 } else { work.owed_bytes - share };
    }

    /// Moves about `bytes` bytes, but stops when spans are not wasteful any more. Returns the bytes
    /// not moved.
    fn empty_some(&self, victim: &mut Option<(SpanContents, usize)>, bytes: u64) -> u64 {
        let mut left_bytes = bytes;
        while left_bytes > 0 && self.spans.are_wasteful() {
            let chosen = victim.take().or_else(|| Some((self.spans.victim()?, 0)));
            let Some((contents, mut at)) = chosen else { break };
            while let Some(key) = contents.keys.get(at).filter(|_| contents.span.live_bytes() > 0) {
                if left_bytes == 0 {
                    *victim = Some((contents, at));
                    return 0;
                }
                let moved = self.move_body(*key, &contents.span);
                self.emptying.moved_bytes.fetch_add(moved, Relaxed);
                left_bytes = left_bytes.saturating_sub(moved + LOOKUP_BYTES);
                at += 1;
            }
            self.spans.finish(contents);
            left_bytes = left_bytes.saturating_sub(FINISH_BYTES);
        }
        left_bytes
    }

    /// Moves the object's body out of the span. Returns the number of bytes copied.
    fn move_body(&self, key: Key, span: &Arc<Span>) -> u64 {
        let Some(body) = self.shard(key).lock().movable(key, span) else { return 0 };
        let Some(copy) = self.spans.put(key, &body, BodyOrigin::Moved) else { return 0 };
        debug_assert_eq!(copy[..], body[..], "a copy with other bytes");
        debug_assert!(body.is_in(span));
        self.shard(key).lock().move_body(key, &body, MemoryBody::packed(copy));
        body.len() as u64
    }
}

/// Bytes moved for each byte that comes or goes while spans are wasteful: the number needed when
/// bodies die in no order.
const PACE: u64 = 16;
/// Additional bytes moved with each body.
const PACE_MIN: u64 = 64 << 10;
/// Most bytes that one thread moves at a time: some 50 us.
const SHARE_MAX: u64 = 256 << 10;
/// Bytes still to be moved from which a thread moves more than its share. Until then dead bytes of
/// one span at most wait.
const OWED_MAX: u64 = PACE * SPAN_BYTES_MIN;
/// Cost of choosing a span and readying it for reuse, in bytes that could be moved meanwhile.
const FINISH_BYTES: u64 = 4 << 10;
/// Cost of looking up a body that is gone, in bytes that could be moved meanwhile.
const LOOKUP_BYTES: u64 = 512;

#[cfg(test)]
mod tests;

const _: () = assert!(PACE > 0 && LOOKUP_BYTES > 0);
