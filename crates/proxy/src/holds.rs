//! Bodies in RAM that replies hold, and keep in memory for as long as their clients take to read
//! them.
//!
//! What is held cannot be given up, so it has a share of the RAM tier. A reply that finds the share
//! used up reads its body piece by piece, wherever it is by then. Bodies that are gathered while
//! they arrive have a share likewise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The account of what is held.
pub struct Holds {
    limit: u64,
    held: AtomicU64,
    refused: AtomicU64,
}

/// Bytes that are held until it is dropped.
pub struct Hold {
    holds: Arc<Holds>,
    bytes: u64,
}

impl Holds {
    /// An account of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// Begins to hold so many bytes. `None`, and counted, where the share has no room for them.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<Hold> {
        self.take(bytes).then(|| Hold { holds: Arc::clone(self), bytes })
    }

    /// The same for who [releases](Self::release) them by hand.
    pub fn take(&self, bytes: u64) -> bool {
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self.held.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if !taken {
            self.refused.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Lets go of what was taken.
    pub fn release(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more is let go than was held");
        debug_assert!(before <= self.limit, "more is held than the share");
    }

    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Times that the share had no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

impl Hold {
    /// Holds so many bytes in all, if that is more; false, and unchanged, where the share has no
    /// room for them.
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
