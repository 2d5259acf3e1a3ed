//! Ghosts: the latest keys of evicted objects, in 8 bytes each.
//!
//! The layout is that of S3-FIFO's authors (SOSP 2023, section 4.2): a table of buckets of one
//! cache line each. A bucket holds 4-byte fingerprints with the 4-byte turn in which each was
//! remembered. A key is remembered while fewer than `limit` keys came after it, which a subtraction
//! tells. An older key leaves when a newcomer takes its slot. Remember and forget touch one cache
//! line each.
//!
//! Two errors are possible, both rare, and harmless since a ghost is a hint. One key in 2^32 /
//! `limit` is taken for another (1 in 43,000 with 100,000 ghosts). A bucket that overflows forgets
//! its oldest key too early. By the Poisson distribution of keys over buckets, this affects 3% of
//! the keys with two thirds of the slots taken, where the table grows. It affects 1.5% with four
//! sevenths taken, the share after growth.

/// Remembered keys. See the file's head.
#[derive(Debug)]
pub(crate) struct Ghost {
    buckets: Vec<GhostBucket>,
    /// Number of keys remembered so far, wrapping.
    turn: u32,
}

/// Bucket of one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct GhostBucket {
    fingerprints: [u32; PLACES],
    /// Turn in which each was remembered; 0 marks an empty slot, and no turn is 0.
    turns: [u32; PLACES],
}

impl Ghost {
    pub(crate) fn new() -> Self {
        Self { buckets: Vec::new(), turn: 0 }
    }

    /// Remembers a fingerprint as the latest of `limit`.
    pub(crate) fn remember(&mut self, fingerprint: u64, limit: usize) {
        if self.buckets.is_empty() || self.buckets.len() * PLACES < limit + limit / 2 {
            self.grow(limit);
        }
        self.turn = self.turn.wrapping_add(1).max(1);
        let turn = self.turn;
        self.put(shorten(fingerprint), turn);
    }

    /// Forgets the fingerprint. Returns `true` if it was among the last `limit` remembered.
    pub(crate) fn forget(&mut self, fingerprint: u64, limit: usize) -> bool {
        let short = shorten(fingerprint);
        let turn = self.turn;
        let Some(at) = self.bucket(short) else { return false };
        let bucket = &mut self.buckets[at];
        for place in 0..PLACES {
            if bucket.fingerprints[place] == short && bucket.turns[place] != 0 {
                let age = turn.wrapping_sub(bucket.turns[place]);
                bucket.turns[place] = 0;
                return (age as usize) < limit;
            }
        }
        false
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<GhostBucket>()
    }

    /// Writes into the fingerprint's own slot, an empty one, or the oldest.
    fn put(&mut self, short: u32, turn: u32) {
        let now = self.turn;
        let Some(at) = self.bucket(short) else { return };
        let bucket = &mut self.buckets[at];
        // An empty slot is older than any other.
        let age = |turn: u32| if turn == 0 { u32::MAX } else { now.wrapping_sub(turn) };
        let mut best = 0;
        for place in 0..PLACES {
            if bucket.fingerprints[place] == short {
                best = place;
                break;
            }
            if age(bucket.turns[place]) > age(bucket.turns[best]) {
                best = place;
            }
        }
        (bucket.fingerprints[best], bucket.turns[best]) = (short, turn);
    }

    fn bucket(&self, short: u32) -> Option<usize> {
        let at = (u64::from(short) * self.buckets.len() as u64) >> 32;
        (!self.buckets.is_empty()).then_some(at as usize)
    }

    /// Grows the table to seven slots for four keys, and at least a few buckets.
    fn grow(&mut self, limit: usize) {
        let buckets = (limit * 7 / 4).div_ceil(PLACES).max(BUCKETS_MIN);
        let empty = GhostBucket { fingerprints: [0; PLACES], turns: [0; PLACES] };
        let old = std::mem::replace(&mut self.buckets, vec![empty; buckets]);
        for bucket in old {
            for (short, turn) in
                bucket.fingerprints.into_iter().zip(bucket.turns).filter(|(_, turn)| *turn != 0)
            {
                self.put(short, turn);
            }
        }
    }
}

/// Returns the high half; its bits are uniform, and the highest choose the bucket.
fn shorten(fingerprint: u64) -> u32 {
    (fingerprint >> 32) as u32
}

const PLACES: usize = 8;
/// Least number of buckets: a kilobyte, as fewer buckets would be filled unevenly.
const BUCKETS_MIN: usize = 16;

const _: () = assert!(size_of::<GhostBucket>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn the_last_so_many_are_remembered_and_no_older_ones() {
        let (mut remembered, mut too_early) = (0, 0);
        for seed in 0..20 {
            let (mut ghost, mut random) = (Ghost::new(), Random(seed));
            // Keys in the order in which they were remembered; a key that is forgotten or
            // remembered again leaves a gap.
            let mut history: Vec<Option<u64>> = Vec::new();
            for step in 0..3000 {
                // The limit varies, and grows beyond the capacity of the first table.
                let limit = 16 + (step / 30 + random.below(5)) as usize;
                let key = random.below(200).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let known = history.iter().position(|known| *known == Some(key));
                if let Some(position) = known {
                    history[position] = None;
                }
                if random.below(2) == 0 {
                    ghost.remember(key, limit);
                    history.push(Some(key));
                } else {
                    let expected = known.is_some_and(|position| history.len() - 1 - position < limit);
                    let found = ghost.forget(key, limit);
                    assert!(expected || !found, "seed {seed}, step {step}");
                    remembered += usize::from(expected);
                    too_early += usize::from(expected && !found);
                }
            }
        }
        assert!(too_early < remembered / 30, "{too_early} of {remembered}");
    }

    #[test]
    fn few_are_forgotten_before_their_time() {
        let (mut ghost, mut random) = (Ghost::new(), Random(1));
        let mut key = || random.below(u64::MAX);
        let limit = 30_000;
        let keys: Vec<u64> = (0..5 * limit).map(|_| key()).collect();
        keys.iter().for_each(|key| ghost.remember(*key, limit));
        assert!(ghost.memory_bytes() <= limit * 14 + 128, "14 bytes a key");
        let last = &keys[4 * limit..];
        let kept = last.iter().filter(|key| ghost.forget(**key, limit)).count();
        assert!(limit - kept < limit / 50, "{kept} of {limit}");
        let mistaken = keys[..4 * limit].iter().filter(|key| ghost.forget(**key, limit)).count();
        assert!(mistaken <= 8, "{mistaken}");
    }
}
