//! Turns of a copied object: keeps a copy from taking the place of a newer object.
//!
//! The copy of an object is made visible in a turn, under a lock. Within the turn the object is
//! compared with its original: if that was replaced or removed, the copy is dropped. A caller that
//! replaces or removes an object takes no lock. It looks at the turn before and after, and repeats
//! its removal under the lock if a turn has passed meanwhile:
//!
//! ```text
//! copy    ── turn 1 ── compare ── commit ── turn 2 ──►
//! removal ── turn? ── remove ── turn? ── differs, or odd: lock, remove again ──►
//! ```

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Count of turns; odd within one.
#[derive(Default)]
pub(super) struct CarryTurns {
    turn: AtomicU64,
    carrying: Mutex<()>,
}

impl CarryTurns {
    /// Returns the turn before a change.
    pub(super) fn now(&self) -> u64 {
        self.turn.load(SeqCst)
    }

    /// Returns a guard if a copy may have become visible since `before`. No copy does while the
    /// guard lives.
    pub(super) fn passed_since(&self, before: u64) -> Option<MutexGuard<'_, ()>> {
        let has_passed = !before.is_multiple_of(2) || self.now() != before;
        has_passed.then(|| self.carrying.lock())
    }

    /// Compares a copy with its original and makes it visible, in a turn.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let _carrying = self.carrying.lock();
        let before = self.turn.fetch_add(1, SeqCst);
        debug_assert!(before.is_multiple_of(2), "two turns at once");
        let ended = TurnEnd(self);
        let done = work();
        drop(ended);
        done
    }
}

/// Ends a turn, also when its work panics.
struct TurnEnd<'a>(&'a CarryTurns);

impl Drop for TurnEnd<'_> {
    fn drop(&mut self) {
        self.0.turn.fetch_add(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_learns_of_turns_before_and_within() {
        let turns = CarryTurns::default();
        let before = turns.now();
        assert!(turns.passed_since(before).is_none());
        let within = turns.take(|| turns.now());
        assert!(within % 2 == 1, "a caller in a turn waits for its end");
        assert!(turns.passed_since(before).is_some() && turns.passed_since(within).is_some());
        assert!(turns.passed_since(turns.now()).is_none());
    }
}
