//! Turns of a copied object: keeps a copy from taking the place of a newer object.
//!
//! The copy of an object is made visible in a turn, under a lock. Its key is announced before the
//! object is read. Within the turn the copy is dropped if the key has changed since then, or the
//! original is gone. A caller that replaces or removes an object takes no lock. It tells the
//! announced copies of its change afterwards, and looks at the turn before and after. It repeats
//! its removal under the lock if a turn of its key may have passed meanwhile:
//!
//! ```text
//! copy    ── announce ── read ── turn 1 ── is it changed? ── commit ── turn 2 ──►
//! removal ── turn? ── remove ── tell copies ── turn? ── of this key: lock, remove again ──►
//! ```
//!
//! The keys of the latest turns are remembered: copies of other objects cost a change nothing. A
//! change that took longer than these turns counts any as one of its key.
//!
//! Invariant: a copy is visible only if every change of its key ended before the copy was read, or
//! removes the copy before it ends. A change that the copy's read has not seen comes after the
//! announcement. If that change tells the copy before the copy looks, the copy is dropped.
//! Otherwise the change looks at the turn after the copy's turn has begun, and repeats itself.
//!
//! Cost of a change without copies: three atomic loads.

use parking_lot::{Mutex, MutexGuard};
use shoal_core::Key;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Count of turns, and the copies under way.
#[derive(Default)]
pub(super) struct CarryTurns {
    /// Odd within a turn.
    turn: AtomicU64,
    carrying: Mutex<LatestTurns>,
    /// Copies announced and not ended: the length of `copies`.
    announced: AtomicUsize,
    copies: Mutex<Vec<Arc<CopyState>>>,
}

/// Turns of late, with their keys.
#[derive(Default)]
pub(super) struct LatestTurns {
    turns: VecDeque<(u64, Key)>,
    /// The last turn that is not among them any more; 0 if all are.
    forgotten: u64,
}

impl LatestTurns {
    fn add(&mut self, turn: u64, key: Key) {
        debug_assert!(turn % 2 == 1 && self.turns.back().is_none_or(|(last, _)| *last < turn));
        if self.turns.len() >= TURNS_MAX
            && let Some((oldest, _)) = self.turns.pop_front()
        {
            self.forgotten = oldest;
        }
        self.turns.push_back((turn, key));
    }

    /// Returns `true` if a copy of the key may have become visible in or since this turn.
    fn may_have(&self, key: Key, since: u64) -> bool {
        let mut recent = self.turns.iter().rev().take_while(|(turn, _)| *turn >= since);
        self.forgotten >= since.max(1) || recent.any(|(_, other)| *other == key)
    }
}

/// Copy that is announced until this is dropped.
pub(super) struct AnnouncedCopy<'a> {
    turns: &'a CarryTurns,
    state: Arc<CopyState>,
}

struct CopyState {
    key: Key,
    is_changed: AtomicBool,
}

impl CarryTurns {
    /// Returns the turn before a change.
    pub(super) fn now(&self) -> u64 {
        self.turn.load(SeqCst)
    }

    /// Tells the copies of the key that a change begun in turn `before` is made. Returns a guard if
    /// a copy of the key may have become visible since. No copy does while the guard lives.
    pub(super) fn end_change(&self, key: Key, before: u64) -> Option<MutexGuard<'_, LatestTurns>> {
        if self.announced.load(SeqCst) > 0 {
            let copies = self.copies.lock();
            copies.iter().filter(|copy| copy.key == key).for_each(|copy| copy.is_changed.store(true, SeqCst));
        }
        let has_passed = !before.is_multiple_of(2) || self.now() != before;
        has_passed.then(|| self.carrying.lock()).filter(|latest| latest.may_have(key, before))
    }

    /// Announces a copy, before its object is read.
    pub(super) fn announce(&self, key: Key) -> AnnouncedCopy<'_> {
        let state = Arc::new(CopyState { key, is_changed: AtomicBool::new(false) });
        let mut copies = self.copies.lock();
        copies.push(Arc::clone(&state));
        self.announced.store(copies.len(), SeqCst);
        AnnouncedCopy { turns: self, state }
    }
}

impl AnnouncedCopy<'_> {
    /// Makes the copy visible in a turn by `work`. Returns `None` if the key has changed since the
    /// announcement.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let turns = self.turns;
        let mut latest = turns.carrying.lock();
        let before = turns.turn.fetch_add(1, SeqCst);
        debug_assert!(before.is_multiple_of(2), "two turns at once");
        latest.add(before + 1, self.state.key);
        let ended = TurnEnd(turns);
        let done = (!self.state.is_changed.load(SeqCst)).then(work);
        drop(ended);
        done
    }
}

impl Drop for AnnouncedCopy<'_> {
    fn drop(&mut self) {
        let mut copies = self.turns.copies.lock();
        copies.retain(|copy| !Arc::ptr_eq(copy, &self.state));
        self.turns.announced.store(copies.len(), SeqCst);
    }
}

/// Ends a turn, also when its work panics.
struct TurnEnd<'a>(&'a CarryTurns);

impl Drop for TurnEnd<'_> {
    fn drop(&mut self) {
        self.0.turn.fetch_add(1, SeqCst);
    }
}

/// Turns that are remembered.
const TURNS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key::unkeyed(&[number])
    }

    #[test]
    fn change_learns_of_turns_of_its_key() {
        let turns = CarryTurns::default();
        let before = turns.now();
        assert!(turns.end_change(key(1), before).is_none());
        let within = turns.announce(key(2)).take(|| turns.now()).expect("no change");
        assert!(within % 2 == 1, "a caller in a turn waits for its end");
        assert!(turns.end_change(key(2), before).is_some() && turns.end_change(key(2), within).is_some());
        assert!(turns.end_change(key(1), before).is_none(), "another object's turn");
        assert!(turns.end_change(key(2), turns.now()).is_none());
    }

    #[test]
    fn forgotten_turns_count_as_those_of_any_key() {
        let turns = CarryTurns::default();
        let first = turns.now();
        for _ in 0..TURNS_MAX {
            turns.announce(key(2)).take(|| ()).expect("no change");
        }
        assert!(turns.end_change(key(1), first).is_none(), "all are known");
        let second = turns.now();
        turns.announce(key(2)).take(|| ()).expect("no change");
        assert!(turns.end_change(key(1), first).is_some() && turns.end_change(key(1), second).is_none());
        assert!(turns.carrying.lock().turns.len() <= TURNS_MAX);
    }

    #[test]
    fn change_between_read_and_turn_drops_the_copy() {
        let turns = CarryTurns::default();
        let (one, two) = (turns.announce(key(1)), turns.announce(key(2)));
        assert!(turns.end_change(key(1), turns.now()).is_none(), "no turn has begun");
        assert_eq!((one.take(|| 1), two.take(|| 2)), (None, Some(2)));
        drop((one, two));
        assert!(turns.copies.lock().is_empty() && turns.announced.load(SeqCst) == 0);
        assert_eq!(turns.announce(key(1)).take(|| 1), Some(1), "a later copy has read the change");
    }
}
