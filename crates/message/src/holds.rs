//! Bodies in RAM that replies hold in memory while their clients read them.
//!
//! A held body cannot be evicted, so held bodies have a limited share of the RAM tier. If the share
//! is used up, a reply reads its body in pieces from wherever the body then is. Bodies that are
//! gathered while they arrive have a share likewise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Account of held bytes.
pub struct Holds {
    limit: u64,
    held: AtomicU64,
    refused: AtomicU64,
}

/// Bytes held until this value is dropped.
pub struct Hold {
    holds: Arc<Holds>,
    bytes: u64,
}

impl Holds {
    /// Creates an account of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// Begins to hold `bytes`. Returns `None`, and counts a refusal, if the share has no room.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<Hold> {
        self.take(bytes).then(|| Hold { holds: Arc::clone(self), bytes })
    }

    /// Takes `bytes` like `hold`; the caller must [release](Self::release) them.
    pub fn take(&self, bytes: u64) -> bool {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self.held.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if !taken {
            self.refused.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Releases taken bytes.
    pub fn release(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more is let go than was held");
        debug_assert!(before <= self.limit, "more is held than the share");
    }

    /// Returns the bytes held now.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Returns the number of refusals.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

impl Hold {
    /// Grows the hold to `bytes` in all; a smaller number changes nothing. Returns `false`, and
    /// changes nothing, if the share has no room.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = self.holds.take(more);
        if taken {
            self.bytes += more;
            debug_assert!(self.bytes <= self.holds.limit);
            debug_assert!(self.bytes >= bytes);
        }
        taken
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_never_exceed_their_share() {
        let holds = Holds::new(100);
        let first = holds.hold(60).expect("there is room");
        assert!(holds.hold(41).is_none() && holds.hold(u64::MAX).is_none());
        let second = holds.hold(40).expect("there is room");
        assert_eq!((holds.held(), holds.refused()), (100, 2));
        drop(first);
        assert_eq!(holds.held(), 40);
        let mut second = second;
        assert!(second.grow_to(90) && second.grow_to(50) && !second.grow_to(101));
        assert_eq!(holds.held(), 90);
        drop(second);
        assert_eq!(holds.held(), 0);
    }
}
