//! Keys of prefetched answers, for a look that costs a hit one load while there are none.
//!
//! Two places a set; a third key displaces the older one, which then counts as wasted though it may
//! be used. Keys are keyed hashes, so that no stranger chooses their set.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Table of keys.
#[derive(Default)]
pub(super) struct WatchedKeys {
    count: AtomicUsize,
    places: OnceLock<Box<[AtomicU64]>>,
    /// Keys that were asked for since the last look.
    seen: parking_lot::Mutex<Vec<u64>>,
}

impl WatchedKeys {
    /// Returns `true` if no key is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Watches a key.
    pub fn add(&self, key: u64) {
        debug_assert!(self.count.load(Ordering::Relaxed) <= PLACES, "a key has one place");
        let places = self.places.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        let set = set_of(key);
        let is_there = set.clone().any(|at| places[at].load(Ordering::Relaxed) == key);
        if is_there || key == 0 {
            return;
        }
        let free = set.clone().find(|at| places[*at].load(Ordering::Relaxed) == 0);
        let before = places[free.unwrap_or(set.start)].swap(key, Ordering::Relaxed);
        if before == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the watch of a key that is asked for. Returns `true` if it was watched.
    pub fn take(&self, key: u64) -> bool {
        let is_taken = self.remove(key);
        if is_taken {
            self.seen.lock().push(key);
        }
        is_taken
    }

    /// Returns the keys that were asked for since the last call.
    pub fn take_seen(&self) -> Vec<u64> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Ends the watch of a key.
    pub fn remove(&self, key: u64) -> bool {
        let Some(places) = self.places.get().filter(|_| key != 0) else { return false };
        let is_removed = set_of(key)
            .any(|at| places[at].compare_exchange(key, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        if is_removed {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        is_removed
    }
}

fn set_of(key: u64) -> std::ops::Range<usize> {
    let first = (key as usize % (PLACES / 2)) * 2;
    first..first + 2
}

/// 128 KiB, from the first prefetch on.
const PLACES: usize = 16_384;

const _: () = assert!(PLACES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_seen_once() {
        let watched = WatchedKeys::default();
        assert!(watched.is_empty() && !watched.take(7));
        watched.add(7);
        watched.add(7);
        assert!(!watched.is_empty() && watched.take(7) && !watched.take(7) && watched.is_empty());
        assert_eq!((watched.take_seen(), watched.take_seen()), (vec![7], vec![]));
    }

    #[test]
    fn crowded_set_forgets_its_oldest_key() {
        let watched = WatchedKeys::default();
        let key = |turn: u64| 5 + turn * (PLACES as u64 / 2);
        (0..3).for_each(|turn| watched.add(key(turn)));
        assert!(!watched.take(key(0)) && watched.take(key(1)) && watched.remove(key(2)));
        assert!(watched.is_empty());
    }
}
