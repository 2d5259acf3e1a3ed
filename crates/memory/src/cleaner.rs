//! Emptying of spans: moves the live bodies of one span to another, a little with each body that
//! comes or goes.
//!
//! A thread that brings a body, or has some evicted, moves enough bytes to keep pace, unless
//! another thread is moving some. A body is copied without a lock. The copy replaces the body only
//! if no caller has begun to hold the body meanwhile.

use super::spans::{BodyOrigin, SpanContents};
use super::{MemoryBody, MemoryTier, TierValue};
use crate::sys::span::Span;
use parking_lot::Mutex;
use shoal_core::Key;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Span that is being emptied.
#[derive(Default)]
pub(super) struct SpanCleaner {
    /// The span, and the number of its keys that have been dealt with.
    victim: Mutex<Option<(SpanContents, usize)>>,
    moved_bytes: AtomicU64,
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
        let Some(mut victim) = self.emptying.victim.try_lock() else { return };
        let mut left_bytes = bytes.saturating_mul(PACE).saturating_add(PACE_MIN);
        while left_bytes > 0 && self.spans.are_wasteful() {
            let chosen = victim.take().or_else(|| Some((self.spans.victim()?, 0)));
            let Some((contents, mut at)) = chosen else { return };
            while let Some(key) = contents.keys.get(at).filter(|_| contents.span.live_bytes() > 0) {
                if left_bytes == 0 {
                    *victim = Some((contents, at));
                    return;
                }
                let moved = self.move_body(*key, &contents.span);
                self.emptying.moved_bytes.fetch_add(moved, Relaxed);
                left_bytes = left_bytes.saturating_sub(moved + LOOKUP_BYTES);
                at += 1;
            }
            self.spans.finish(contents);
            left_bytes = left_bytes.saturating_sub(FINISH_BYTES);
        }
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
/// Cost of choosing a span and readying it for reuse, in bytes that could be moved meanwhile.
const FINISH_BYTES: u64 = 4 << 10;
/// Cost of looking up a body that is gone, in bytes that could be moved meanwhile.
const LOOKUP_BYTES: u64 = 512;

#[cfg(test)]
mod tests;

const _: () = assert!(PACE > 0 && LOOKUP_BYTES > 0);
