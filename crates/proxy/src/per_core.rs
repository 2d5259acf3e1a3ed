//! Places for threads that count and log without meeting each other.
//!
//! A number that every core adds to would travel between their caches with each request. What is written on the
//! way of a hit is therefore kept several times, once for each place; a thread takes a place when it first needs one, and
//! whoever reads adds the places up. Workers start together and take neighbouring places, so that no two of them share one
//! while there are at most [`PLACES`]; beyond that they share, which costs time and never a count.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many places there are: a power of two.
pub const PLACES: usize = 16;

/// A value on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Apart<T>(pub T);

/// This thread's place, below [`PLACES`].
pub fn place() -> usize {
    PLACE.with(|place| {
        if place.get() == UNTAKEN {
            place.set(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES);
        }
        place.get()
    })
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(UNTAKEN) };
}

const UNTAKEN: usize = usize::MAX;

const _: () = assert!(PLACES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_place_and_the_next_has_another() {
        let first = place();
        assert_eq!(first, place());
        let places: Vec<_> = (0..2 * PLACES)
            .map(|_| std::thread::spawn(place).join().expect("a thread that counts"))
            .collect();
        assert!(places.iter().all(|place| *place < PLACES));
        assert!((0..PLACES).all(|place| place == first || places.contains(&place)));
    }
}
