//! Places in which threads count and log without contention.
//!
//! A number that every core adds to would move between their caches with each request. Each counter
//! on the path of a hit therefore has several copies, one per place, and a reader adds the copies
//! up.
//!
//! ```text
//!   0 … OWNED-1        each owned by one worker, from own_place() until its thread ends
//!   OWNED … PLACES-1   shared, in turn, by all other threads
//! ```
//!
//! Only the owner writes to an owned place. The owner therefore adds by a load and a store, without
//! a locked instruction (6 ns as measured, several times per hit). Threads that share a place need
//! the locked instruction. A new owner takes a returned place with all values that the former owner
//! wrote. No count is lost when threads come and go.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of places.
pub const PLACES: usize = 32;

/// Number of places with at most one owner: the first ones.
pub const OWNED: usize = 24;

/// A value on its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CacheLine<T>(pub T);

/// Returns this thread's place, below [`PLACES`]. No other thread has a place below [`OWNED`].
#[inline]
pub fn place() -> usize {
    let place = PLACE.get();
    if place < PLACES { place } else { share() }
}

/// Gives this thread its own place until it ends, if one is left. Meant for workers, which count
/// most.
pub fn own_place() {
    // A thread that is ending takes no place.
    let _ = OWNER.try_with(|owner| {
        let mut owner = owner.borrow_mut();
        if owner.is_none()
            && let Some(place) = FREE.take()
        {
            *owner = Some(Owner(place));
            PLACE.set(place);
        }
    });
}

#[cold]
fn share() -> usize {
    let place = OWNED + NEXT.fetch_add(1, Ordering::Relaxed) % (PLACES - OWNED);
    PLACE.set(place);
    place
}

/// Places without an owner, one bit each.
struct Free(AtomicU32);

impl Free {
    const fn all() -> Self {
        Self(AtomicU32::new((1 << OWNED) - 1))
    }

    /// Takes the first free place. Acquires the former owner's writes.
    fn take(&self) -> Option<usize> {
        let without_first = |free: u32| free.checked_sub(1).map(|less| free & less);
        let before = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, without_first).ok()?;
        Some(before.trailing_zeros() as usize)
    }

    /// Returns a place. Releases the owner's writes.
    fn give_back(&self, place: usize) {
        let before = self.0.fetch_or(1 << place, Ordering::Release);
        debug_assert_eq!(before & (1 << place), 0, "a place has one owner");
    }
}

/// Returns the thread's place when the thread ends.
struct Owner(usize);

impl Drop for Owner {
    fn drop(&mut self) {
        // First: values dropped later by this thread may count, and then use a shared place.
        PLACE.set(UNTAKEN);
        FREE.give_back(self.0);
    }
}

static FREE: Free = Free::all();

/// Shared place for the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Needs no drop, so the value lives as long as the thread and costs no liveness check.
    static PLACE: Cell<usize> = const { Cell::new(UNTAKEN) };

    static OWNER: RefCell<Option<Owner>> = const { RefCell::new(None) };
}

const UNTAKEN: usize = usize::MAX;

const _: () = assert!(OWNED < PLACES && OWNED < u32::BITS as usize);

/// Lock for tests that own many places, or expect that one is left.
#[cfg(test)]
pub static ALL_PLACES: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn a_thread_keeps_its_place_and_the_next_has_another() {
        let first = place();
        assert_eq!(first, place());
        let join = |thread: thread::JoinHandle<_>| thread.join().expect("a thread that counts");
        let places: BTreeSet<_> = (0..2 * PLACES).map(|_| join(thread::spawn(place))).collect();
        assert_eq!(places, (OWNED..PLACES).collect(), "who does not ask for a place of its own shares one");
    }

    #[test]
    fn no_two_threads_own_a_place_at_once() {
        let _alone = ALL_PLACES.lock();
        let everybody = Barrier::new(2 * PLACES);
        let live_together = || {
            own_place();
            let owned = place();
            own_place();
            assert_eq!(owned, place(), "one place for each");
            everybody.wait();
            owned
        };
        let mut places: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * PLACES).map(|_| scope.spawn(live_together)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that counts")).collect()
        });
        places.retain(|place| *place < OWNED);
        // Other tests of this process may own some places meanwhile.
        assert!(!places.is_empty());
        assert_eq!(BTreeSet::from_iter(&places).len(), places.len());
    }

    #[test]
    fn a_place_comes_back_and_the_first_free_one_is_next() {
        let free = Free::all();
        let all: Vec<_> = std::iter::from_fn(|| free.take()).collect();
        assert_eq!(all, Vec::from_iter(0..OWNED));
        free.give_back(7);
        free.give_back(3);
        assert_eq!([free.take(), free.take(), free.take()], [Some(3), Some(7), None]);
    }

    /// A value dropped at the thread's end, before or after the thread returned its place.
    struct Late;

    impl Drop for Late {
        fn drop(&mut self) {
            let taken = FREE.0.load(Ordering::Relaxed);
            let place = place();
            // A panic here ends the process.
            assert!(place >= OWNED || taken & (1 << place) == 0, "the place may be another's by now");
        }
    }

    thread_local! {
        static EARLY: Late = const { Late };
        static LATE: Late = const { Late };
    }

    #[test]
    fn ending_thread_counts_in_no_returned_place() {
        let ends = || {
            EARLY.with(|_| own_place());
            LATE.with(|_| place())
        };
        for _ in 0..3 * OWNED {
            thread::spawn(ends).join().expect("a thread that counts");
        }
    }
}
