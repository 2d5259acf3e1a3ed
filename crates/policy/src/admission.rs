//! Which objects are worth writing to disk: those that somebody has asked for before.
//!
//! Most objects that come to a cache are never asked for again (one-hit wonders), and each costs a
//! write and the space of one that would be. So a newcomer is on probation: it is written when it
//! is asked for a second time, as long as its key is remembered in a list of ghosts, like the small
//! queue of S3-FIFO (Yang et al., SOSP 2023), with RAM as that queue. A store that has room for
//! everything asks nobody: see [`Admission::Always`].
//!
//! A store of ten million objects remembers as many keys beside them, so a key is kept in two
//! bytes: thirteen bits of its hash and in which of eight stretches of time it came, a stretch
//! being a quarter of the keys to be remembered. Buckets are cache lines of 32 places. Two ways to
//! be wrong, both harmless: of 300 newcomers one is taken for another; and a key is remembered
//! while between three and four quarters of the limit came after it. What is older is cleared where
//! its bucket is touched.
//!
//! Cost: one cache line a question, and 3 to 6 bytes a key remembered.

use shoal_core::Key;

/// When an object may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// When it first comes.
    Always,
    /// While the store has unused space, when it first comes; from then on, when it is asked for
    /// again.
    #[default]
    Probation,
}

/// The keys that are on probation.
#[derive(Debug, Default)]
pub struct Probation {
    buckets: Vec<Bucket>,
    /// The stretch of time that runs, from 0 to 7.
    stretch: u16,
    /// Keys remembered in it.
    count: usize,
}

/// One cache line: fingerprints, with the stretch in which each was remembered in their low bits. 0
/// marks an empty place.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([u16; PLACES]);

impl Probation {
    /// Whether the key was among about the last `limit` asked about that have not been admitted; it
    /// then is admitted, and otherwise remembered.
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

    /// Bytes taken from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Makes room, and some more so that this is seldom done. What is remembered is kept: the first
    /// bits of a hash choose the bucket, so that each bucket's keys go to the same few, of which
    /// the right one is not known; they are put into all of them, and those that are not looked for
    /// there leave with time.
    fn grow(&mut self, limit: usize) {
        let places = limit + limit / SPARE_SHARE;
        let wanted = (places + places / SPARE_SHARE).div_ceil(PLACES).max(1);
        let old = std::mem::take(&mut self.buckets);
        self.buckets = match wanted.checked_div(old.len()) {
            None => vec![Bucket([0; PLACES]); wanted],
            Some(times) => {
                let times = times.max(2);
                old.iter().flat_map(|bucket| std::iter::repeat_n(*bucket, times)).collect()
            }
        };
    }
}

impl Bucket {
    /// Forgets a fingerprint that was remembered lately. Whether there was one.
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

    /// Remembers a fingerprint, in the place of the oldest when there is no other.
    fn put(&mut self, fingerprint: u16, now: u16) {
        let worth = |place: &&mut u16| if **place == 0 { u16::MAX } else { age(**place, now) };
        if let Some(place) = self.0.iter_mut().max_by_key(worth) {
            *place = fingerprint | now;
        }
    }
}

/// Stretches since.
fn age(place: u16, now: u16) -> u16 {
    now.wrapping_sub(place) & STRETCH_MASK
}

/// Never 0, and with the low bits free.
fn fingerprint_of(key: Key) -> u16 {
    match (key.low() as u16) & !STRETCH_MASK {
        0 => STRETCH_MASK + 1,
        fingerprint => fingerprint,
    }
}

const PLACES: usize = 32;
/// Of eight stretches that can be told apart so many are remembered: a bucket is touched long
/// before the others come round.
const STRETCHES_KEPT: usize = 4;
const STRETCH_MASK: u16 = 7;
/// A quarter more places than keys: fewer than one bucket in a hundred overflows and forgets its
/// oldest.
const SPARE_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::unkeyed(&number.to_le_bytes())
    }

    #[test]
    fn the_second_request_is_admitted_and_the_third_begins_anew() {
        let mut probation = Probation::default();
        assert!(!probation.admits(key(1), 100));
        assert!(probation.admits(key(1), 100));
        assert!(!probation.admits(key(1), 100));
    }

    /// Keys of a run of newcomers that are admitted when they come again after so many others.
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
    fn who_comes_back_in_time_is_known_and_who_comes_too_late_is_new() {
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
    fn strangers_are_seldom_taken_for_others_and_memory_is_small() {
        let mut probation = Probation::default();
        let limit = 100_000;
        let taken = (0..1_000_000).filter(|number| probation.admits(key(*number), limit)).count();
        assert!(taken < 5_000, "{taken} of a million");
        assert!(probation.memory_bytes() <= limit * 13 / 4, "{}", probation.memory_bytes());
    }
}
