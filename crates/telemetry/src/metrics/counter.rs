//! Numbers that many threads add to.

use crate::per_core::{CacheLine, OWNED, PLACES, place};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number to which several threads add.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Subtracts `amount`, for gauges.
    pub fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds `amount` at `place`, the calling thread's. An owned place needs no locked instruction,
    /// since no other thread adds there.
    #[inline]
    pub fn add_at(&self, place: usize, amount: u64) {
        match place < OWNED {
            true => self.0.store(self.value().wrapping_add(amount), Ordering::Relaxed),
            false => self.add(amount),
        }
    }
}

/// A [`Counter`] kept per core. Takes 2 KiB.
#[derive(Debug, Default)]
pub struct PerCoreCounter([CacheLine<Counter>; PLACES]);

impl PerCoreCounter {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.add_at(place(), amount);
    }

    /// Adds `amount` at `place`, the calling thread's.
    #[inline]
    pub fn add_at(&self, place: usize, amount: u64) {
        self.0[place].0.add_at(place, amount);
    }

    /// Subtracts `amount`, for gauges. Any thread may subtract: places wrap around, and only their
    /// sum has a meaning.
    pub fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// Returns the current value: the sum over the cores.
    pub fn value(&self) -> u64 {
        sum(&self.0)
    }

    /// Returns the part of the value counted by threads that own their place.
    pub fn owned_value(&self) -> u64 {
        sum(&self.0[..OWNED])
    }
}

fn sum(places: &[CacheLine<Counter>]) -> u64 {
    places.iter().fold(0, |sum, place| sum.wrapping_add(place.0.value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_core::{ALL_PLACES, own_place};

    #[test]
    fn thread_counts_add_up() {
        let (counter, gauge) = (PerCoreCounter::default(), PerCoreCounter::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
            scope.spawn(|| gauge.add(5));
        });
        std::thread::scope(|scope| drop(scope.spawn(|| gauge.subtract(3))));
        assert_eq!((counter.value(), gauge.value()), (4000, 2));
    }

    /// Runs more threads at once than there are places. They come and go, with and without a place
    /// of their own.
    #[test]
    fn no_count_is_lost_while_places_change_hands() {
        let _alone = ALL_PLACES.lock();
        let counter = PerCoreCounter::default();
        let count = |times: u64| (0..times).for_each(|_| counter.increment());
        std::thread::scope(|scope| {
            for thread in 0..2 * PLACES as u64 {
                scope.spawn(move || {
                    for life in 0..LIVES {
                        let counts = move || {
                            count(COUNTS / 2);
                            if !(thread + life).is_multiple_of(4) {
                                own_place();
                            }
                            count(COUNTS / 2);
                        };
                        std::thread::scope(|scope| drop(scope.spawn(counts)));
                    }
                });
            }
        });
        assert_eq!(counter.value(), 2 * PLACES as u64 * LIVES * COUNTS);
    }

    const LIVES: u64 = 20;
    const COUNTS: u64 = 20_000;
}
