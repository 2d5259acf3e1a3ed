//! A hash table of slot numbers: the caller brings the hash, and tells from a slot whether it is
//! the right one.
//!
//! Keys stand elsewhere, in the policy's nodes. A bucket is one cache line of twelve slots and, for
//! each, a byte of its hash. Nearly every lookup reads one line, and nearly every miss needs no
//! look at a key. A full bucket sends newcomers on to the next one and counts them, so that a
//! lookup knows when to go on. This is the table of Bronson and Shi ("Open-sourcing F14 for faster,
//! more memory-efficient hash tables", Facebook Engineering, 2019). At most three quarters of the
//! places are taken; the table grows by an eighth. 7 to 8 bytes a slot. No operation but growth
//! allocates; each is O(1).

/// Slot numbers by hash.
#[derive(Debug)]
pub struct SlotTable {
    buckets: Vec<Bucket>,
    len: usize,
}

/// One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket {
    /// A byte of the hash for each slot, 0 for none. [`OVERFLOW`] counts the slots that went on
    /// from here.
    tags: [u8; 16],
    slots: [u32; SLOTS],
}

impl SlotTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self { buckets: vec![Bucket::EMPTY], len: 0 }
    }

    /// Returns the slot with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (home, tag) = (self.home(hash), tag(hash));
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            let found = bucket.matches(tag).map(|place| bucket.slots[place]).find(|slot| is_it(*slot));
            if found.is_some() || bucket.tags[OVERFLOW] == 0 {
                return found;
            }
            at = self.after(at);
            if at == home {
                return None;
            }
        }
    }

    /// Returns the slot that [`find`](Self::find) would look at first, if any; callers read it
    /// ahead.
    #[inline]
    pub fn first_candidate(&self, hash: u64) -> Option<u32> {
        let bucket = &self.buckets[self.home(hash)];
        bucket.matches(tag(hash)).next().map(|place| bucket.slots[place])
    }

    /// Inserts a slot that is not in the table. `hash_of` gives the hash of any slot in the table,
    /// for its growth.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        debug_assert!(self.find(hash, |known| known == slot).is_none(), "slot {slot} is in the table");
        if self.len >= self.buckets.len() * FILL_MAX {
            self.grow(hash_of);
        }
        self.len += 1;
        self.put(hash, slot);
        debug_assert!(self.len < self.buckets.len() * SLOTS, "a place stays empty");
    }

    /// Removes a slot by the hash of its insertion. Returns `false` when the table does not hold
    /// it.
    #[inline]
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let (home, tag) = (self.home(hash), tag(hash));
        let mut at = home;
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(place) = bucket.matches(tag).find(|place| bucket.slots[*place] == slot) {
                bucket.tags[place] = 0;
                break;
            }
            let goes_on = bucket.tags[OVERFLOW] != 0;
            at = self.after(at);
            if !goes_on || at == home {
                return false;
            }
        }
        self.len -= 1;
        self.uncount(home, at);
        true
    }

    /// Returns the number of slots in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    fn put(&mut self, hash: u64, slot: u32) {
        let (mut at, tag) = (self.home(hash), tag(hash));
        // Some bucket has room, since a quarter of the places is empty.
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(place) = bucket.matches(0).next() {
                (bucket.tags[place], bucket.slots[place]) = (tag, slot);
                return;
            }
            // A count at its maximum stays there: lookups then go on in vain, and nothing is lost.
            bucket.tags[OVERFLOW] = bucket.tags[OVERFLOW].saturating_add(1);
            at = self.after(at);
        }
    }

    /// Takes back the counts of a slot that went on from `home` to `end`.
    fn uncount(&mut self, home: usize, end: usize) {
        let mut at = home;
        while at != end {
            let count = &mut self.buckets[at].tags[OVERFLOW];
            *count -= u8::from(*count < u8::MAX);
            at = self.after(at);
        }
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let buckets = self.buckets.len() + self.buckets.len() / 8 + 1;
        let old = std::mem::replace(&mut self.buckets, vec![Bucket::EMPTY; buckets]);
        for bucket in old {
            for place in (0..SLOTS).filter(|place| bucket.tags[*place] != 0) {
                let slot = bucket.slots[place];
                self.put(hash_of(slot), slot);
            }
        }
    }

    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        Self::new()
    }
}

impl Bucket {
    const EMPTY: Self = Self { tags: [0; 16], slots: [0; SLOTS] };

    /// Returns the places that have this tag, lowest first.
    #[inline]
    fn matches(&self, tag: u8) -> impl Iterator<Item = usize> + use<> {
        let differences = u128::from_le_bytes(self.tags) ^ (u128::from(tag) * EACH_BYTE);
        // The highest bit of each byte that is 0, and of no other: no sum of two bytes below 128
        // carries.
        let low_bits = EACH_BYTE * 0x7f;
        let zeros = !(((differences & low_bits) + low_bits) | differences | low_bits);
        let mut rest = zeros & PLACES_MASK;
        std::iter::from_fn(move || {
            let place = (rest != 0).then(|| rest.trailing_zeros() as usize / 8);
            rest &= rest.wrapping_sub(1);
            place
        })
    }
}

/// Returns the tag of a hash: its lowest byte, which has no part in the choice of the bucket, and
/// never 0.
fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// Slots in a bucket.
const SLOTS: usize = 12;
/// Slots for each bucket that the table takes before it grows.
const FILL_MAX: usize = 9;
/// Index of the overflow count among the tags.
const OVERFLOW: usize = 12;
const EACH_BYTE: u128 = u128::MAX / 0xff;
/// The tags proper.
const PLACES_MASK: u128 = (1 << (8 * SLOTS)) - 1;

const _: () = assert!(size_of::<Bucket>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn agrees_with_a_map() {
        for seed in 0..20 {
            let mut state = seed;
            let (mut table, mut hashes) = (SlotTable::new(), HashMap::<u32, u64>::new());
            for step in 0..4000 {
                let slot = (random(&mut state) % 600) as u32;
                // Few hashes and few buckets, so that tags agree and buckets overflow.
                let hash = ((random(&mut state) % 7) << 61) | (random(&mut state) % 5);
                match hashes.get(&slot).copied() {
                    Some(hash) if step % 3 == 0 => {
                        assert!(table.remove(hash, slot), "seed {seed}, step {step}");
                        assert!(!table.remove(hash, slot), "seed {seed}, step {step}");
                        hashes.remove(&slot);
                    }
                    Some(hash) => {
                        assert_eq!(table.find(hash, |s| s == slot), Some(slot), "seed {seed}, step {step}");
                    }
                    None => {
                        assert_eq!(table.find(hash, |s| s == slot), None, "seed {seed}, step {step}");
                        table.insert(hash, slot, |slot| hashes[&slot]);
                        hashes.insert(slot, hash);
                    }
                }
                assert_eq!(table.len(), hashes.len());
            }
            for (slot, hash) in &hashes {
                assert!(table.remove(*hash, *slot), "seed {seed}");
            }
            let left = |bucket: &Bucket| bucket.tags.iter().any(|tag| *tag != 0 && *tag != u8::MAX);
            assert!(table.is_empty() && !table.buckets.iter().any(left), "seed {seed}: nothing stays behind");
        }
    }

    #[test]
    fn memory_is_in_proportion_to_the_slots() {
        use crate::Fingerprint;
        let mut table = SlotTable::new();
        for slot in 0..100_000_u32 {
            table.insert(u64::from(slot).fingerprint(), slot, |slot| u64::from(slot).fingerprint());
            if slot > 1000 {
                assert!(
                    table.memory_bytes() <= 8 * (slot as usize + 64),
                    "{slot} slots: {} bytes",
                    table.memory_bytes()
                );
            }
        }
    }
}
