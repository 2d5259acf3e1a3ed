//! Locks of a volume with ranks: in debug builds a thread that takes them out of order panics.

use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// Mutex that a thread takes only while it holds none of its rank or a higher one.
#[derive(Debug, Default)]
pub(super) struct RankedMutex<T, const RANK: u8> {
    inner: Mutex<T>,
}

/// Lock that is held.
pub(super) struct RankedGuard<'a, T, const RANK: u8> {
    inner: MutexGuard<'a, T>,
    #[cfg(debug_assertions)]
    _held: held::RankEntry<RANK>,
}

impl<T, const RANK: u8> RankedMutex<T, RANK> {
    pub(super) const fn new(value: T) -> Self {
        Self { inner: Mutex::new(value) }
    }

    /// Waits for the lock.
    #[track_caller]
    pub(super) fn lock(&self) -> RankedGuard<'_, T, RANK> {
        #[cfg(debug_assertions)]
        held::assert_all_lower(RANK);
        RankedGuard {
            inner: self.inner.lock(),
            #[cfg(debug_assertions)]
            _held: held::RankEntry::note(),
        }
    }

    /// Takes the lock if it is free, in any order: nothing is waited for.
    pub(super) fn try_lock(&self) -> Option<RankedGuard<'_, T, RANK>> {
        let inner = self.inner.try_lock()?;
        Some(RankedGuard {
            inner,
            #[cfg(debug_assertions)]
            _held: held::RankEntry::note(),
        })
    }

    /// Returns `true` if a thread holds the lock.
    pub(super) fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }
}

impl<T, const RANK: u8> Deref for RankedGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, const RANK: u8> DerefMut for RankedGuard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(debug_assertions)]
mod held {
    use std::cell::RefCell;

    thread_local! {
        /// Ranks of the locks that this thread holds, in the order in which it took them.
        static RANKS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    /// Entry in the thread's list while it lives.
    pub(super) struct RankEntry<const RANK: u8>;

    impl<const RANK: u8> RankEntry<RANK> {
        pub(super) fn note() -> Self {
            RANKS.with_borrow_mut(|ranks| ranks.push(RANK));
            Self
        }
    }

    impl<const RANK: u8> Drop for RankEntry<RANK> {
        fn drop(&mut self) {
            RANKS.with_borrow_mut(|ranks| {
                let at = ranks.iter().rposition(|rank| *rank == RANK);
                ranks.remove(at.expect("a guard stays with its thread"));
            });
        }
    }

    #[track_caller]
    pub(super) fn assert_all_lower(rank: u8) {
        RANKS.with_borrow(|ranks| {
            assert!(ranks.iter().all(|held| *held < rank), "lock of rank {rank} behind {ranks:?}");
        });
    }
}

/// Ranks, in the order that `mod` draws.
pub(super) const UPDATE_TURN: u8 = 0;
pub(super) const PACE: u8 = 1;
pub(super) const RECOVERY: u8 = 2;
pub(super) const UPDATING: u8 = 3;
pub(super) const WRITER: u8 = 4;
pub(super) const REMOVED_EARLY: u8 = 5;
pub(super) const CHECKPOINT: u8 = 6;
pub(super) const DOUBTS: u8 = 7;
pub(super) const QUEUE: u8 = 8;
pub(super) const TABLE: u8 = 9;

const _: () = {
    assert!(UPDATE_TURN < UPDATING && PACE < UPDATING && UPDATING < QUEUE);
    assert!(UPDATE_TURN < WRITER && PACE < WRITER && RECOVERY < WRITER);
    assert!(WRITER < REMOVED_EARLY && REMOVED_EARLY < QUEUE && QUEUE < TABLE);
    assert!(WRITER < CHECKPOINT && WRITER < DOUBTS);
};

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn locks_in_order_are_taken() {
        let (writer, queue) = (RankedMutex::<u8, WRITER>::new(1), RankedMutex::<u8, QUEUE>::new(2));
        let mut held = writer.lock();
        *held += *queue.lock();
        drop(held);
        let queue = queue.lock();
        assert_eq!((*writer.try_lock().expect("it is free"), *queue), (3, 2));
    }

    #[test]
    #[should_panic = "lock of rank 4 behind [8]"]
    fn locks_out_of_order_panic() {
        let (writer, queue) = (RankedMutex::<u8, WRITER>::new(1), RankedMutex::<u8, QUEUE>::new(2));
        let _queue = queue.lock();
        drop(writer.lock());
    }
}
