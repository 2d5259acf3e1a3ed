//! Index in memory: eight bytes a place, ten an object.
//!
//! Each bucket of eight words is one cache line. A key has two buckets; the second is computed from
//! the first and the tag (partial-key cuckoo hashing, Fan et al., CoNEXT 2014). An entry can thus
//! move to its other bucket without its key, and nine of ten places can be filled. An entry is a
//! hint: position and size class of a record, twenty bits of the key, two of hits. The record has
//! the full key and its own position, and each entry is checked against its record: a wrong entry
//! is a miss. A lookup takes no lock and reads two cache lines. A lookup may miss an entry during
//! the instant in which the entry moves.
//!
//! The words are loaded from the index file as pages are touched, and belong to the process: the
//! kernel never writes them. The store writes them in large blocks at intervals (see `checkpoint`).
//! An index addressed by hash dirties a page with each insert, and one random write for each insert
//! would exceed all other writes.

use super::format::{POSITION_MAX, UNIT_BYTES, class_bytes};
use super::locks::{RankedMutex, TABLE};
use crate::fs::LoadedWords;
use parking_lot::Mutex;
use shoal_core::Key;
use shoal_policy::reinsertion::HITS_MAX;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Index of a volume.
pub(super) struct VolumeIndex {
    loaded: Box<dyn LoadedWords>,
    buckets: u64,
    stripes: u32,
    /// Held by a thread that adds, moves or removes entries.
    changing: RankedMutex<(), TABLE>,
    /// Blocks of words changed since they were last written.
    dirty: Box<[AtomicBool]>,
    /// Entries in the counted places; before the count begins, the number given at opening.
    objects: AtomicU64,
    /// Bound of the counted places. All places count as counted, unless the number given at opening
    /// may be wrong.
    counted: AtomicUsize,
    /// Entries evicted because both buckets were full.
    crowded_out: AtomicU64,
    /// First of the evicted entries that are not yet reported.
    untold: Mutex<Vec<VolumeEntry>>,
    /// Set once this process has counted the entries, for [`invariants`](Self::invariants).
    #[cfg(debug_assertions)]
    has_counted: AtomicBool,
}

/// Entry: 36 bits of position in units, 6 of size class, 20 of tag, 2 of hits. Zero means no entry,
/// since no record begins at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VolumeEntry(u64);

impl VolumeEntry {
    pub(super) fn new(key: Key, position: u64, class: u8, hits: u8) -> Self {
        debug_assert!(position.is_multiple_of(UNIT_BYTES));
        debug_assert!((1..POSITION_MAX).contains(&position));
        debug_assert!(class < 64);
        let units = position / UNIT_BYTES;
        let entry = Self(
            units << 28 | u64::from(class & 63) << 22 | tag_of(key) << 2 | u64::from(hits.min(HITS_MAX)),
        );
        debug_assert_eq!(entry.position(), position);
        debug_assert!(entry.is_of(key));
        entry
    }

    /// Returns the position of the record.
    pub(super) fn position(self) -> u64 {
        (self.0 >> 28) * UNIT_BYTES
    }

    /// Returns the record's size, rounded up to its class.
    pub(super) fn bytes(self) -> u64 {
        class_bytes((self.0 >> 22 & 63) as u8)
    }

    /// Returns the hits counted since the record was written, up to [`HITS_MAX`].
    pub(super) fn hits(self) -> u8 {
        (self.0 & 3) as u8
    }

    /// Returns `true` if the entry may be the key's: the tags are equal.
    pub(super) fn is_of(self, key: Key) -> bool {
        self.tag() == tag_of(key)
    }

    fn tag(self) -> u64 {
        self.0 >> 2 & TAG_MASK
    }

    /// Returns `true` if the entries are equal apart from their hits.
    pub(super) fn is_same(self, other: Self) -> bool {
        self.0 >> 2 == other.0 >> 2
    }
}

impl VolumeIndex {
    /// Makes the index from the words of an index file. `objects` is the number of its entries;
    /// unless `is_known`, the number may be wrong.
    pub(super) fn new(
        loaded: Box<dyn LoadedWords>,
        buckets: u64,
        stripes: u32,
        objects: u64,
        is_known: bool,
    ) -> Self {
        assert!(buckets > 0 && stripes > 0);
        let counted = if is_known { buckets as usize * WAYS } else { 0 };
        let words = buckets as usize * WAYS + stripes as usize;
        let dirty = (0..words.div_ceil(BLOCK_WORDS)).map(|_| AtomicBool::new(false)).collect();
        Self {
            loaded,
            buckets,
            stripes,
            changing: RankedMutex::new(()),
            dirty,
            objects: AtomicU64::new(objects),
            counted: AtomicUsize::new(counted),
            crowded_out: AtomicU64::new(0),
            untold: Mutex::default(),
            #[cfg(debug_assertions)]
            has_counted: AtomicBool::new(false),
        }
    }

    /// Checks the counts against the places.
    pub(super) fn invariants(&self) {
        let _changing = self.changing.lock();
        let places = self.buckets as usize * WAYS;
        assert!(self.counted.load(Relaxed) <= places);
        assert!(self.untold.lock().len() <= UNTOLD_MAX);
        assert!(self.dirty.len() * BLOCK_WORDS >= self.words(), "a word of no block");
        assert!(self.loaded.words().len() >= HEADER_WORDS + self.words());
        #[cfg(debug_assertions)]
        if self.has_counted.load(Relaxed) {
            let objects = (0..self.counted.load(Relaxed)).filter(|at| self.entry(*at).0 != 0).count();
            assert_eq!(self.objects(), objects as u64, "entries of the places that were counted");
        }
    }

    /// Makes the device read the index ahead, so that no lookup, not even an event loop's, waits
    /// for a page of it.
    pub(super) fn read_ahead(&self) {
        self.loaded.read_ahead();
    }

    /// Clears the entries in these words of an index file that lead behind `end`. Returns the
    /// number of the others.
    pub(super) fn clear_behind(words: &mut [u8], end: u64) -> u64 {
        let mut kept = 0;
        for word in words.as_chunks_mut::<8>().0 {
            match VolumeEntry(u64::from_le_bytes(*word)) {
                VolumeEntry(0) => {}
                entry if entry.position() >= end => *word = [0; 8],
                _ => kept += 1,
            }
        }
        kept
    }

    /// Returns the bytes of all places in an index file with `buckets` buckets.
    pub(super) fn places_bytes(buckets: u64) -> u64 {
        buckets * WAYS as u64 * 8
    }

    /// Returns the buckets for `objects` objects, at ten bytes each.
    pub(super) fn buckets_for(objects: u64) -> u64 {
        (objects * 10).div_ceil(8 * WAYS as u64).max(BUCKETS_MIN)
    }

    /// Returns the bytes of an index file with `buckets` buckets and one word for each stripe.
    pub(super) fn file_bytes(buckets: u64, stripes: u32) -> u64 {
        (HEADER_WORDS as u64 + buckets * WAYS as u64 + u64::from(stripes)) * 8
    }

    /// Returns the number of objects that find a place without evictions.
    pub(super) fn objects_max(&self) -> u64 {
        Self::objects_in(self.buckets)
    }

    /// Returns the number of objects that find a place in `buckets` buckets without evictions.
    pub(super) fn objects_in(buckets: u64) -> u64 {
        buckets * WAYS as u64 * 8 / 10
    }

    /// Returns the number of entries.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Returns the number of entries evicted for lack of a place.
    pub(super) fn crowded_out(&self) -> u64 {
        self.crowded_out.load(Relaxed)
    }

    /// Takes at most `most` evicted entries, each once. Entries evicted while the list of
    /// unreported ones was full are not included.
    pub(super) fn take_crowded_out(&self, most: usize) -> Vec<VolumeEntry> {
        let mut untold = self.untold.lock();
        let count = untold.len().min(most);
        untold.drain(..count).collect()
    }

    /// Returns all entries, in no meaningful order.
    pub(super) fn entries(&self) -> impl Iterator<Item = VolumeEntry> {
        let places = 0..self.buckets as usize * WAYS;
        places.map(|at| self.entry(at)).filter(|entry| entry.0 != 0)
    }

    /// Returns the entries that may be the object's: nearly always one or none.
    pub(super) fn candidates(&self, key: Key) -> impl Iterator<Item = VolumeEntry> {
        let tag = tag_of(key);
        let entries = self.places(key).map(|at| self.entry(at));
        entries.filter(move |entry| entry.0 != 0 && entry.tag() == tag)
    }

    /// Loads the key's buckets into the processor's cache. A caller that is about to change many
    /// keys calls this for some at a time.
    pub(super) fn touch(&self, key: Key) {
        let (first, second) = self.buckets_of(key);
        let words = [first, second].map(|bucket| self.word(bucket * WAYS).load(Relaxed));
        std::hint::black_box(words);
    }

    /// Counts a hit. A count lost to a concurrent change of the entry does no harm.
    pub(super) fn count_hit(&self, key: Key, entry: VolumeEntry) {
        if entry.hits() < HITS_MAX
            && let Some(at) = self.find(key, entry)
        {
            let word = self.word(at);
            let now = word.load(Relaxed);
            if VolumeEntry(now).is_same(entry) && now & 3 < u64::from(HITS_MAX) {
                // Another hit at the same time may win; both have the same effect.
                let _ = word.compare_exchange(now, now + 1, Relaxed, Relaxed);
            }
        }
    }

    /// Enters an object in place of the key's entry. Returns `true` if the key had an entry.
    pub(super) fn put(&self, key: Key, position: u64, class: u8, hits: u8) -> bool {
        let entry = VolumeEntry::new(key, position, class, hits);
        let _changing = self.changing.lock();
        let is_of_key = |found: VolumeEntry| found.0 != 0 && found.tag() == entry.tag();
        if let Some(at) = self.place_where(key, is_of_key) {
            self.set(at, entry.0);
            // An index written while an entry moved has the entry twice. A lookup would later take
            // the other for the object's.
            let others = self.places(key).filter(|other| *other != at && is_of_key(self.entry(*other)));
            others.for_each(|other| self.set(other, 0));
            return true;
        }
        let at = match self.place_where(key, |found| found.0 == 0) {
            Some(at) => at,
            None => self.make_place(key),
        };
        debug_assert!(self.places(key).any(|place| place == at), "a place where nobody looks");
        self.set(at, entry.0);
        false
    }

    /// Removes all entries and the stripes' sequence numbers.
    pub(super) fn clear(&self) {
        let _changing = self.changing.lock();
        (0..self.words()).filter(|at| self.word(*at).load(Relaxed) != 0).for_each(|at| self.set(at, 0));
        self.counted.store(self.buckets as usize * WAYS, Relaxed);
        self.objects.store(0, Relaxed);
        #[cfg(debug_assertions)]
        self.has_counted.store(true, Relaxed);
    }

    /// Removes exactly this entry. Returns `false` if the entry is gone.
    pub(super) fn remove(&self, key: Key, entry: VolumeEntry) -> bool {
        let _changing = self.changing.lock();
        let Some(at) = self.find(key, entry) else { return false };
        debug_assert!(entry.is_of(key));
        self.set(at, 0);
        true
    }

    /// Counts the entries in at most `most` further places, and removes those for which `is_dead`
    /// holds. Returns `false` when all places had been counted before.
    pub(super) fn count_next(&self, most: usize, is_dead: impl Fn(VolumeEntry) -> bool) -> bool {
        let _changing = self.changing.lock();
        let from = self.counted.load(Relaxed);
        let to = (from + most).min(self.buckets as usize * WAYS);
        assert!(from <= to);
        if from == 0 {
            self.objects.store(0, Relaxed);
            #[cfg(debug_assertions)]
            self.has_counted.store(true, Relaxed);
        }
        let mut objects = 0;
        for at in from..to {
            match self.entry(at) {
                VolumeEntry(0) => {}
                entry if is_dead(entry) => self.set(at, 0),
                _ => objects += 1,
            }
        }
        self.objects.fetch_add(objects, Relaxed);
        self.counted.store(to, Relaxed);
        from < to
    }

    /// Sets the hit count of an entry.
    pub(super) fn set_hits(&self, key: Key, entry: VolumeEntry, hits: u8) {
        let _changing = self.changing.lock();
        if let Some(at) = self.find(key, entry) {
            self.word(at).store(entry.0 & !3 | u64::from(hits.min(HITS_MAX)), Relaxed);
        }
    }

    /// Returns `true` if two keys look alike in an entry.
    pub(super) fn are_alike(one: Key, other: Key) -> bool {
        tag_of(one) == tag_of(other)
    }

    /// Returns the entry for exactly this record.
    pub(super) fn entry_at(&self, key: Key, position: u64) -> Option<VolumeEntry> {
        self.candidates(key).find(|entry| entry.position() == position)
    }

    /// Returns the sequence number of the stripe's first chunk, as far as known: records of earlier
    /// chunks have been overwritten.
    pub(super) fn stripe_sequence(&self, stripe: u32) -> u64 {
        debug_assert!(stripe < self.stripes);
        self.word(self.buckets as usize * WAYS + stripe as usize).load(Relaxed)
    }

    /// Records that a stripe begins with the chunk of this number.
    pub(super) fn set_stripe_sequence(&self, stripe: u32, sequence: u64) {
        assert!(stripe < self.stripes);
        self.set(self.buckets as usize * WAYS + stripe as usize, sequence);
    }

    /// Takes the next changed block of words, from block `from` on. Returns its number, its offset
    /// in the index file, and its bytes.
    pub(super) fn take_dirty(&self, from: usize) -> Option<(usize, u64, Vec<u8>)> {
        let block = (from..self.dirty.len()).find(|block| self.dirty[*block].swap(false, Acquire))?;
        let words = block * BLOCK_WORDS..((block + 1) * BLOCK_WORDS).min(self.words());
        let at = (HEADER_WORDS + words.start) as u64 * 8;
        let bytes: Vec<u8> = words.flat_map(|word| self.word(word).load(Relaxed).to_le_bytes()).collect();
        assert!(block >= from, "a block that was written before");
        assert!(at + bytes.len() as u64 <= Self::file_bytes(self.buckets, self.stripes));
        Some((block, at, bytes))
    }

    /// Returns the number of unreadable index pages, all entries of which are lost. With more than
    /// `before`, the whole index becomes dirty: writing it again repairs as much as the disk
    /// allows.
    pub(super) fn lost_pages(&self, before: u64) -> u64 {
        let lost = self.loaded.lost_pages();
        if lost > before {
            (0..self.dirty.len()).for_each(|block| self.mark_dirty(block));
        }
        lost
    }

    /// Marks a block as changed again, after a failed write.
    pub(super) fn mark_dirty(&self, block: usize) {
        self.dirty[block].store(true, Relaxed);
    }

    /// Makes a place in one of the key's full buckets: moves an entry to its other bucket, or
    /// evicts an entry.
    fn make_place(&self, key: Key) -> usize {
        for at in self.places(key) {
            let entry = self.entry(at);
            let other = self.other_bucket((at / WAYS) as u64, entry.tag()) as usize;
            if let Some(free) =
                (other * WAYS..(other + 1) * WAYS).find(|at| self.word(*at).load(Relaxed) == 0)
            {
                debug_assert_eq!(self.other_bucket(other as u64, entry.tag()), (at / WAYS) as u64);
                // Written before it is removed, so that a lookup finds the entry twice rather than
                // never.
                self.set(free, entry.0);
                return at;
            }
        }
        let hits = |at: &usize| self.entry(*at).hits();
        let at = self.places(key).min_by_key(hits).expect("a key has places");
        self.crowded_out.fetch_add(1, Relaxed);
        let mut untold = self.untold.lock();
        if untold.len() < UNTOLD_MAX {
            untold.push(self.entry(at));
        }
        at
    }

    fn find(&self, key: Key, entry: VolumeEntry) -> Option<usize> {
        self.place_where(key, |found| found.0 != 0 && found.is_same(entry))
    }

    fn place_where(&self, key: Key, wanted: impl Fn(VolumeEntry) -> bool) -> Option<usize> {
        self.places(key).find(|at| wanted(self.entry(*at)))
    }

    /// Returns the places in which the key may be entered.
    fn places(&self, key: Key) -> impl Iterator<Item = usize> + use<> {
        let (first, second) = self.buckets_of(key);
        (0..WAYS).flat_map(move |way| [first * WAYS + way, second * WAYS + way])
    }

    fn entry(&self, at: usize) -> VolumeEntry {
        VolumeEntry(self.word(at).load(Relaxed))
    }

    /// Sets a word, and counts an entry that appears or disappears. No other thread changes entries
    /// meanwhile.
    fn set(&self, at: usize, word: u64) {
        let before = self.word(at).swap(word, Relaxed);
        if at < self.counted.load(Relaxed) {
            match (before, word) {
                (0, 1..) => drop(self.objects.fetch_add(1, Relaxed)),
                // The count in an index of an earlier version may have been wrong.
                (1.., 0) => drop(self.objects.fetch_update(Relaxed, Relaxed, |now| now.checked_sub(1))),
                _ => {}
            }
        }
        // A thread that sees the dirty block also sees the changed word.
        self.dirty[at / BLOCK_WORDS].store(true, Release);
    }

    fn words(&self) -> usize {
        self.buckets as usize * WAYS + self.stripes as usize
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.loaded.words()[HEADER_WORDS + at]
    }

    fn buckets_of(&self, key: Key) -> (usize, usize) {
        let first = ((u128::from(key.high()) * u128::from(self.buckets)) >> 64) as u64;
        (first as usize, self.other_bucket(first, tag_of(key)) as usize)
    }

    /// Returns the other bucket of a tag. For a given tag this is its own inverse.
    fn other_bucket(&self, bucket: u64, tag: u64) -> u64 {
        let mixed = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        debug_assert!(bucket < self.buckets);
        (self.buckets + mixed % self.buckets - bucket) % self.buckets
    }
}

fn tag_of(key: Key) -> u64 {
    key.low() & TAG_MASK
}

/// Words before the table in its file: two pages.
pub(super) const HEADER_WORDS: usize = HEADERS as usize * 512;
/// Header pages at the file's beginning.
pub(super) const HEADERS: u64 = 2;
const WAYS: usize = 8;
const TAG_MASK: u64 = (1 << 20) - 1;
/// Words written at once: 64 KiB.
const BLOCK_WORDS: usize = 8192;
const BUCKETS_MIN: u64 = 64;
/// Limit of unreported entries: 8 KiB.
const UNTOLD_MAX: usize = 1024;

const _: () = {
    // A bucket is a cache line.
    assert!(WAYS * 8 == 64);
    // Position, class, tag and hits fill the word.
    assert!(36 + 6 + TAG_MASK.count_ones() + 2 == u64::BITS);
    assert!(POSITION_MAX / UNIT_BYTES == 1 << 36);
    assert!(HITS_MAX == 3);
    assert!(BLOCK_WORDS.is_multiple_of(WAYS));
    // `buckets_for` never makes an index without buckets.
    assert!(BUCKETS_MIN > 0);
};

#[cfg(test)]
mod tests;
