//! Admission to disk: only objects that were requested before are worth writing.
//!
//! Most objects that reach a cache are never requested again (one-hit wonders). Each costs a write
//! and the space of an object that would be. So a newcomer is on probation: it is written at its
//! second request, while its key is still remembered in a list of ghosts. RAM plays the role of
//! S3-FIFO's small queue (Yang et al., SOSP 2023). A store with room for everything needs no
//! probation: see [`Admission::Always`].
//!
//! A store of ten million objects remembers as many keys beside them. A key therefore takes two
//! bytes: thirteen bits of its hash, and one of eight periods of time. One period lasts for a
//! quarter of the keys to be remembered. Buckets are cache lines of 32 slots. Two errors are
//! possible, both harmless. One newcomer in 300 is taken for another. A key is remembered until
//! between three and four quarters of the limit came after it. Older keys are cleared when their
//! bucket is touched.
//!
//! Cost: one cache line a query, and 3 to 6 bytes a remembered key.

use shoal_core::Key;

/// Condition for writing an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// The object is written when it first arrives.
    Always,
    /// While the store has unused space, the object is written when it first arrives. From then on
    /// it is written when it is requested again.
    #[default]
    Probation,
}

/// Keys on probation.
#[derive(Debug, Default)]
pub struct Probation {
    buckets: Vec<FingerprintBucket>,
    /// Current period of time, from 0 to 7.
    stretch: u16,
    /// Keys remembered in the current period.
    count: usize,
}

/// Cache line of fingerprints; the low bits of each hold the period in which it was remembered. 0
/// marks an empty slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct FingerprintBucket([u16; PLACES]);

impl Probation {
    /// Returns `true` if the key was among about the last `limit` refused keys, and admits it.
    /// Otherwise the key is remembered.
    pub fn admits(&mut self, key: Key, limit: usize) -> bool {
        if self.buckets.len() * PLACES < limit + limit / SPARE_SHARE {
            self.grow(limit);
        }
        let at = ((u128::from(key.high()) * self.buckets.len() as u128) >> 64) as usize;
        let fingerprint = fingerprint_of(key);
        let is_known = self.buckets[at].take(fingerprint, self.stretch);
        if !is_known {
            self.buckets[at].put(fingerprint, self.stretch);
            self.count += 1;
            if self.count >= limit.div_ceil(STRETCHES_KEPT) {
                (self.stretch, self.count) = ((self.stretch + 1) & STRETCH_MASK, 0);
            }
        }
        is_known
    }

    /// Returns the bytes taken from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<FingerprintBucket>()
    }

    /// Makes room, with a reserve so that this happens seldom, and keeps the remembered keys. The
    /// first bits of a hash choose the bucket, so that each old bucket's keys belong to the same
    /// few new buckets. The right one is unknown, so each of them gets a copy of all these keys.
    /// Copies in a wrong bucket expire with time.
    fn grow(&mut self, limit: usize) {
        let places = limit + limit / SPARE_SHARE;
        let wanted = (places + places / SPARE_SHARE).div_ceil(PLACES).max(1);
        let old = std::mem::take(&mut self.buckets);
        self.buckets = match wanted.checked_div(old.len()) {
            None => vec![FingerprintBucket([0; PLACES]); wanted],
            Some(times) => {
                let times = times.max(2);
                old.iter().flat_map(|bucket| std::iter::repeat_n(*bucket, times)).collect()
            }
        };
    }
}

impl FingerprintBucket {
    /// Forgets a fingerprint that was remembered lately. Returns `true` if there was one.
    fn take(&mut self, fingerprint: u16, now: u16) -> bool {
        let mut is_known = false;
        for place in &mut self.0 {
            if *place == 0 {
                continue;
            }
            let is_old = age(*place, now) >= STRETCHES_KEPT as u16;
            let is_it = *place & !STRETCH_MASK == fingerprint && !is_old;
            if is_old || is_it {
                *place = 0;
            }
            is_known |= is_it;
        }
        is_known
    }

    /// Remembers a fingerprint, in place of the oldest when no slot is empty.
    fn put(&mut self, fingerprint: u16, now: u16) {
        let worth = |place: &&mut u16| if **place == 0 { u16::MAX } else { age(**place, now) };
        if let Some(place) = self.0.iter_mut().max_by_key(worth) {
            *place = fingerprint | now;
        }
    }
}

/// Returns the number of periods since the slot was filled.
fn age(place: u16, now: u16) -> u16 {
    now.wrapping_sub(place) & STRETCH_MASK
}

/// Returns a fingerprint that is never 0 and has its low bits free.
fn fingerprint_of(key: Key) -> u16 {
    match (key.low() as u16) & !STRETCH_MASK {
        0 => STRETCH_MASK + 1,
        fingerprint => fingerprint,
    }
}

const PLACES: usize = 32;
/// Periods for which a key is remembered, out of the eight that can be distinguished. A bucket is
/// touched long before the other periods return.
const STRETCHES_KEPT: usize = 4;
const STRETCH_MASK: u16 = 7;
/// Slots beyond the keys, as a share: a quarter. Fewer than one bucket in a hundred then overflows
/// and forgets its oldest key.
const SPARE_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::unkeyed(&number.to_le_bytes())
    }

    #[test]
    fn second_request_is_admitted_third_starts_again() {
        let mut probation = Probation::default();
        assert!(!probation.admits(key(1), 100));
        assert!(probation.admits(key(1), 100));
        assert!(!probation.admits(key(1), 100));
    }

    /// Returns the number of newcomers, of a series, that are admitted when they return after
    /// `others` others.
    fn remembered_after(others: u32, limit: usize) -> usize {
        let mut probation = Probation::default();
        let admitted = (0..10 * limit as u32).filter(|number| {
            probation.admits(key(*number), limit);
            number.checked_sub(others).is_some_and(|earlier| {
                // Asked without being remembered again.
                let mut asked = Probation { buckets: probation.buckets.clone(), ..probation };
                asked.admits(key(earlier), limit)
            })
        });
        admitted.count()
    }

    #[test]
    fn key_is_known_within_limit_and_new_beyond() {
        let limit = 400;
        let all = 10 * limit;
        for (others, share) in [(1, 99..=100), (200, 97..=100), (300, 95..=100), (400, 0..=2), (800, 0..=2)] {
            let found = remembered_after(others, limit) * 100 / (all - others as usize);
            assert!(share.contains(&found), "{found}% of those that come back after {others} are known");
        }
    }

    #[test]
    fn growing_forgets_nobody() {
        let mut probation = Probation::default();
        for number in 0..1000 {
            probation.admits(key(number), 2000);
        }
        let known = (0..1000).filter(|number| probation.admits(key(*number), 100_000)).count();
        assert!(known >= 990, "{known}");
    }

    #[test]
    fn false_matches_are_rare_and_memory_small() {
        let mut probation = Probation::default();
        let limit = 100_000;
        let taken = (0..1_000_000).filter(|number| probation.admits(key(*number), limit)).count();
        assert!(taken < 5_000, "{taken} of a million");
        assert!(probation.memory_bytes() <= limit * 13 / 4, "{}", probation.memory_bytes());
    }
}
