//! Which URLs were invalidated lately, so that a response asked for before is not kept after.
//!
//! Invalidation removes what is stored; this table catches what is on its way into the store meanwhile. Whoever keeps
//! a response first makes it visible and then asks here; whoever invalidates first marks here and then removes. So
//! one of the two always sees the other. Times are numbers of a counter, not of a clock. Two URLs that share a slot
//! cost a response that is not kept.

use shoal_core::{Key, ObjectKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table.
pub struct Invalidations {
    slots: Box<[AtomicU64]>,
    latest: AtomicU64,
}

/// Whether something begun at some point is still valid for one URL.
#[derive(Clone)]
pub struct Validity {
    table: Arc<Invalidations>,
    primary: Key,
    begun: u64,
}

impl Invalidations {
    /// Nothing was invalidated.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), latest: AtomicU64::new(0) })
    }

    /// Marks a URL. What is stored for it must be removed after this; then it is marked again, and what lookups have
    /// moved to RAM meanwhile removed again.
    pub fn mark(&self, primary: &ObjectKey) {
        let number = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(primary.hash()).fetch_max(number, Ordering::SeqCst);
    }

    /// From now on, for this URL.
    pub fn begin(self: &Arc<Self>, primary: &ObjectKey) -> Validity {
        let begun = self.latest.load(Ordering::SeqCst);
        Validity { table: Arc::clone(self), primary: primary.hash(), begun }
    }

    fn slot(&self, primary: Key) -> &AtomicU64 {
        &self.slots[primary.low() as usize % SLOTS]
    }
}

impl Validity {
    /// Whether the URL was not invalidated since.
    pub fn holds(&self) -> bool {
        self.table.slot(self.primary).load(Ordering::SeqCst) <= self.begun
    }
}

const SLOTS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_an_invalidation_is_not_valid_after_it() {
        let table = Invalidations::new();
        let (url, other) = (ObjectKey::new(*b"a"), ObjectKey::new(*b"b"));
        let before = table.begin(&url);
        let elsewhere = table.begin(&other);
        assert!(before.holds());
        table.mark(&url);
        assert!(!before.holds() && elsewhere.holds());
        assert!(table.begin(&url).holds(), "what begins afterwards is valid, at once");
    }
}
