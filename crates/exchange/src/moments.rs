//! A short memory of keys, each until its own moment.
//!
//! The keys are URLs of origins that asked for a pause, and stored responses that are never fresh,
//! for which waiting with others is useless. Further keys are those that a reload has recently
//! fetched or validated.
//!
//! The memory is a fixed table, in which a newer URL displaces an older one of the same slot. Slots
//! and marks are a keyed hash of the full key. A stranger cannot know which URLs collide, and a
//! displaced URL costs one request to its origin.

use shoal_core::{LazyWords, ObjectKey, Timestamp};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering::Relaxed;

/// The table: each word holds 32 bits of the hash and the tenth of a second at which the entry
/// expires.
pub struct Moments {
    slots: LazyWords,
    secret: RandomState,
}

impl Default for Moments {
    fn default() -> Self {
        Self { slots: LazyWords::new(SLOTS), secret: RandomState::new() }
    }
}

impl Moments {
    /// Remembers the URL until this time.
    pub fn remember(&self, key: &ObjectKey, until: Timestamp) {
        let (slot, mark) = self.place(key);
        self.slots.word(slot).store(mark | u64::from(tenths(until)), Relaxed);
    }

    /// Forgets the URL.
    pub fn forget(&self, key: &ObjectKey) {
        let (slot, mark) = self.place(key);
        let Some(slot) = self.slots.written(slot) else { return };
        let word = slot.load(Relaxed);
        if word & !u64::from(u32::MAX) == mark {
            let _ = slot.compare_exchange(word, 0, Relaxed, Relaxed);
        }
    }

    /// Returns `true` if the URL is remembered at `now`.
    pub fn holds(&self, key: &ObjectKey, now: Timestamp) -> bool {
        let (slot, mark) = self.place(key);
        let word = self.slots.load(slot, Relaxed);
        let left = (word as u32).wrapping_sub(tenths(now)) as i32;
        word & !u64::from(u32::MAX) == mark && left > 0
    }

    /// Returns the slot of a URL, and its mark there, which is never zero.
    fn place(&self, key: &ObjectKey) -> (usize, u64) {
        let hash = self.secret.hash_one(key.full());
        (hash as usize % SLOTS, (hash | 1 << 32) & !u64::from(u32::MAX))
    }
}

/// Returns tenths of a second. The low 32 bits distinguish times that lie years apart.
fn tenths(time: Timestamp) -> u32 {
    (time.millis() / 100) as u32
}

/// 32 KiB once all are used.
const SLOTS: usize = 4096;

const _: () = assert!(SLOTS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn url_is_remembered_until_its_moment() {
        let (moments, now) = (Moments::default(), Timestamp::from_seconds(1_795_000_000));
        let (one, other) = (ObjectKey::new(*b"http://a/"), ObjectKey::new(*b"http://b/"));
        assert!(!moments.holds(&one, now));
        moments.remember(&one, now.plus(Duration::from_secs(10)));
        assert!(moments.holds(&one, now.plus(Duration::from_millis(9_900))));
        assert!(!moments.holds(&one, now.plus(Duration::from_secs(10))));
        assert!(!moments.holds(&other, now));
        moments.forget(&other);
        assert!(moments.holds(&one, now));
        moments.forget(&one);
        assert!(!moments.holds(&one, now));
    }
}
