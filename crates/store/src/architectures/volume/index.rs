//! The index in memory: eight bytes a place, ten an object.
//!
//! Buckets of eight words are one cache line each. A key has two buckets, the second computed from
//! the first and the tag (partial-key cuckoo hashing, Fan et al., CoNEXT 2014), so that an entry
//! can be moved to its other bucket without knowing its key, and nine of ten places can be filled.
//! An entry is a hint: position and size class of a record, twenty bits of the key, two of hits.
//! What it says is checked against the record, which has the full key and its own position; so a
//! wrong entry is a miss. A lookup takes no lock and reads two cache lines; it may miss an entry
//! for an instant while that is moved.
//!
//! The words are loaded from the index file as pages are touched, and belong to the process: the
//! system never writes them. The store writes them in large pieces now and then (see `checkpoint`),
//! since an index addressed by hash dirties a page with each insert, and one random write an insert
//! would be more than all others together.

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

/// The index.
pub(super) struct VolumeIndex {
    loaded: Box<dyn LoadedWords>,
    buckets: u64,
    stripes: u32,
    /// Held by whoever adds, moves or removes entries.
    changing: RankedMutex<(), TABLE>,
    /// Blocks of words that have changed since they were last written.
    dirty: Box<[AtomicBool]>,
    /// Entries in the places that have been counted; until some have been, as many as were said
    /// when it was taken up.
    objects: AtomicU64,
    /// Places before this one have been counted: all, unless what was said of their number may be
    /// wrong.
    counted: AtomicUsize,
    /// Entries given up because both buckets were full.
    crowded_out: AtomicU64,
    /// The first of these of which nobody has been told.
    untold: Mutex<Vec<VolumeEntry>>,
    /// Set once this process has counted the entries, for [`invariants`](Self::invariants).
    #[cfg(debug_assertions)]
    has_counted: AtomicBool,
}

/// An entry: 36 bits of position in units, 6 of size class, 20 of tag, 2 of hits. Zero is none,
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

    /// Where its record begins.
    pub(super) fn position(self) -> u64 {
        (self.0 >> 28) * UNIT_BYTES
    }

    /// As many bytes as its record has, or a few more.
    pub(super) fn bytes(self) -> u64 {
        class_bytes((self.0 >> 22 & 63) as u8)
    }

    /// Hits counted since it was written, up to [`HITS_MAX`].
    pub(super) fn hits(self) -> u8 {
        (self.0 & 3) as u8
    }

    /// Whether this may be the key's: all that an entry has of it is the same.
    pub(super) fn is_of(self, key: Key) -> bool {
        self.tag() == tag_of(key)
    }

    fn tag(self) -> u64 {
        self.0 >> 2 & TAG_MASK
    }

    /// The same but for hits.
    pub(super) fn is_same(self, other: Self) -> bool {
        self.0 >> 2 == other.0 >> 2
    }
}

impl VolumeIndex {
    /// Takes up the words of an index file, of which is known, or only supposed, how many objects
    /// it has.
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

    /// Has the device read the index, so that no lookup, which may be an event loop's, has to wait
    /// for a page of it.
    pub(super) fn read_ahead(&self) {
        self.loaded.read_ahead();
    }

    /// Buckets for so many objects, at ten bytes each.
    pub(super) fn buckets_for(objects: u64) -> u64 {
        (objects * 10).div_ceil(8 * WAYS as u64).max(BUCKETS_MIN)
    }

    /// Bytes of an index file with so many buckets and a word for each stripe.
    pub(super) fn file_bytes(buckets: u64, stripes: u32) -> u64 {
        (HEADER_WORDS as u64 + buckets * WAYS as u64 + u64::from(stripes)) * 8
    }

    /// Objects that find a place without crowding others out.
    pub(super) fn objects_max(&self) -> u64 {
        self.buckets * WAYS as u64 * 8 / 10
    }

    /// Entries now.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Entries given up for want of a place.
    pub(super) fn crowded_out(&self) -> u64 {
        self.crowded_out.load(Relaxed)
    }

    /// Some of these, each once. Those that were given up while very many waited to be told of are
    /// not among them.
    pub(super) fn take_crowded_out(&self, most: usize) -> Vec<VolumeEntry> {
        let mut untold = self.untold.lock();
        let count = untold.len().min(most);
        untold.drain(..count).collect()
    }

    /// All of them, in no order that means anything.
    pub(super) fn entries(&self) -> impl Iterator<Item = VolumeEntry> {
        let places = 0..self.buckets as usize * WAYS;
        places.map(|at| self.entry(at)).filter(|entry| entry.0 != 0)
    }

    /// What may be the object's record: nearly always one entry or none.
    pub(super) fn candidates(&self, key: Key) -> impl Iterator<Item = VolumeEntry> {
        let tag = tag_of(key);
        let entries = self.places(key).map(|at| self.entry(at));
        entries.filter(move |entry| entry.0 != 0 && entry.tag() == tag)
    }

    /// Has the key's buckets brought to the processor, without waiting: whoever is about to change
    /// many asks for some at a time.
    pub(super) fn touch(&self, key: Key) {
        let (first, second) = self.buckets_of(key);
        let words = [first, second].map(|bucket| self.word(bucket * WAYS).load(Relaxed));
        std::hint::black_box(words);
    }

    /// Counts a hit. Nothing is lost when the entry has changed meanwhile, or when the count is.
    pub(super) fn count_hit(&self, key: Key, entry: VolumeEntry) {
        if entry.hits() < HITS_MAX
            && let Some(at) = self.find(key, entry)
        {
            let word = self.word(at);
            let now = word.load(Relaxed);
            if VolumeEntry(now).is_same(entry) && now & 3 < u64::from(HITS_MAX) {
                // Another hit at the same time may win; both mean the same.
                let _ = word.compare_exchange(now, now + 1, Relaxed, Relaxed);
            }
        }
    }

    /// Enters an object in place of what the key had. True when the key had something.
    pub(super) fn put(&self, key: Key, position: u64, class: u8, hits: u8) -> bool {
        let entry = VolumeEntry::new(key, position, class, hits);
        let _changing = self.changing.lock();
        let is_of_key = |found: VolumeEntry| found.0 != 0 && found.tag() == entry.tag();
        if let Some(at) = self.place_where(key, is_of_key) {
            self.set(at, entry.0);
            // An index that was written while an entry was moved has it twice: the other would be
            // taken for the object's some day.
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

    /// Takes out everything, and forgets when stripes were written.
    pub(super) fn clear(&self) {
        let _changing = self.changing.lock();
        (0..self.words()).filter(|at| self.word(*at).load(Relaxed) != 0).for_each(|at| self.set(at, 0));
        self.counted.store(self.buckets as usize * WAYS, Relaxed);
        self.objects.store(0, Relaxed);
        #[cfg(debug_assertions)]
        self.has_counted.store(true, Relaxed);
    }

    /// Takes out exactly this entry. False when it is not there any more.
    pub(super) fn remove(&self, key: Key, entry: VolumeEntry) -> bool {
        let _changing = self.changing.lock();
        let Some(at) = self.find(key, entry) else { return false };
        debug_assert!(entry.is_of(key));
        self.set(at, 0);
        true
    }

    /// Counts the entries in the next places, at most so many, and takes out those that `is_dead`
    /// says are of nothing. False when all have been counted before.
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

    /// Gives an entry another count of hits.
    pub(super) fn set_hits(&self, key: Key, entry: VolumeEntry, hits: u8) {
        let _changing = self.changing.lock();
        if let Some(at) = self.find(key, entry) {
            self.word(at).store(entry.0 & !3 | u64::from(hits.min(HITS_MAX)), Relaxed);
        }
    }

    /// Whether two keys look alike in an entry.
    pub(super) fn are_alike(one: Key, other: Key) -> bool {
        tag_of(one) == tag_of(other)
    }

    /// The entry for exactly this record.
    pub(super) fn entry_at(&self, key: Key, position: u64) -> Option<VolumeEntry> {
        self.candidates(key).find(|entry| entry.position() == position)
    }

    /// Of the first chunk in the stripe, as far as is known: what was written there before has been
    /// written over.
    pub(super) fn stripe_sequence(&self, stripe: u32) -> u64 {
        debug_assert!(stripe < self.stripes);
        self.word(self.buckets as usize * WAYS + stripe as usize).load(Relaxed)
    }

    /// A stripe begins with a chunk of this number.
    pub(super) fn set_stripe_sequence(&self, stripe: u32, sequence: u64) {
        assert!(stripe < self.stripes);
        self.set(self.buckets as usize * WAYS + stripe as usize, sequence);
    }

    /// Takes the next block of words that has changed, from `from` on, as bytes to write at an
    /// offset of the index file.
    pub(super) fn take_dirty(&self, from: usize) -> Option<(usize, u64, Vec<u8>)> {
        let block = (from..self.dirty.len()).find(|block| self.dirty[*block].swap(false, Acquire))?;
        let words = block * BLOCK_WORDS..((block + 1) * BLOCK_WORDS).min(self.words());
        let at = (HEADER_WORDS + words.start) as u64 * 8;
        let bytes: Vec<u8> = words.flat_map(|word| self.word(word).load(Relaxed).to_le_bytes()).collect();
        assert!(block >= from, "a block that was written before");
        assert!(at + bytes.len() as u64 <= Self::file_bytes(self.buckets, self.stripes));
        Some((block, at, bytes))
    }

    /// Pages of the index that could not be read, with all that they held. When these are more than
    /// before all of the index is to be written anew, which mends what a disk can mend.
    pub(super) fn lost_pages(&self, before: u64) -> u64 {
        let lost = self.loaded.lost_pages();
        if lost > before {
            (0..self.dirty.len()).for_each(|block| self.mark_dirty(block));
        }
        lost
    }

    /// A block could not be written: it still has to be.
    pub(super) fn mark_dirty(&self, block: usize) {
        self.dirty[block].store(true, Relaxed);
    }

    /// A place in one of the key's full buckets: by moving an entry to its other bucket, or else by
    /// giving one up.
    fn make_place(&self, key: Key) -> usize {
        for at in self.places(key) {
            let entry = self.entry(at);
            let other = self.other_bucket((at / WAYS) as u64, entry.tag()) as usize;
            if let Some(free) =
                (other * WAYS..(other + 1) * WAYS).find(|at| self.word(*at).load(Relaxed) == 0)
            {
                debug_assert_eq!(self.other_bucket(other as u64, entry.tag()), (at / WAYS) as u64);
                // Written before it is taken away, so that a lookup finds it twice rather than
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

    /// The places that the key may be entered in.
    fn places(&self, key: Key) -> impl Iterator<Item = usize> + use<> {
        let (first, second) = self.buckets_of(key);
        (0..WAYS).flat_map(move |way| [first * WAYS + way, second * WAYS + way])
    }

    fn entry(&self, at: usize) -> VolumeEntry {
        VolumeEntry(self.word(at).load(Relaxed))
    }

    /// Gives a word another value, and counts an entry that comes or goes; of those nobody else
    /// changes one meanwhile.
    fn set(&self, at: usize, word: u64) {
        let before = self.word(at).swap(word, Relaxed);
        if at < self.counted.load(Relaxed) {
            match (before, word) {
                (0, 1..) => drop(self.objects.fetch_add(1, Relaxed)),
                // An index written by an earlier version may have been wrong about it.
                (1.., 0) => drop(self.objects.fetch_update(Relaxed, Relaxed, |now| now.checked_sub(1))),
                _ => {}
            }
        }
        // Whoever finds the block dirty finds the word changed too.
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

    /// Its own inverse for a given tag.
    fn other_bucket(&self, bucket: u64, tag: u64) -> u64 {
        let mixed = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        debug_assert!(bucket < self.buckets);
        (self.buckets + mixed % self.buckets - bucket) % self.buckets
    }
}

fn tag_of(key: Key) -> u64 {
    key.low() & TAG_MASK
}

/// Words before the table in its file: one page.
pub(super) const HEADER_WORDS: usize = HEADERS as usize * 512;
/// Pages with a header each, at the file's beginning.
pub(super) const HEADERS: u64 = 2;
const WAYS: usize = 8;
const TAG_MASK: u64 = (1 << 20) - 1;
/// Words written at once: 64 KiB.
const BLOCK_WORDS: usize = 8192;
const BUCKETS_MIN: u64 = 64;
/// Entries kept to be told of: 8 KiB.
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
mod tests {
    use super::*;

    fn table(buckets: u64) -> VolumeIndex {
        let words = VolumeIndex::file_bytes(buckets, 4) / 8;
        let loaded: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        VolumeIndex::new(Box::new(loaded), buckets, 4, 0, true)
    }

    #[test]
    fn an_entry_that_an_index_has_twice_does_not_outlive_its_object() {
        let table = table(64);
        let key = Key::of(b"twice");
        let others = || table.places(key).skip(1);
        for same in [true, false] {
            table.put(key, 64, 1, 0);
            others().step_by(4).for_each(|at| table.set(at, VolumeEntry::new(key, 64, 1, 2).0));
            table.put(key, if same { 64 } else { 128 }, 1, 0);
            assert_eq!((table.candidates(key).count(), table.objects()), (1, 1));
            let entry = table.candidates(key).next().expect("the latest");
            assert!(table.remove(key, entry) && table.objects() == 0);
        }
    }

    #[test]
    fn nine_of_ten_places_are_filled_and_what_is_crowded_out_is_counted() {
        let table = table(512);
        let keys: Vec<Key> = (0..512 * WAYS as u64 * 9 / 10).map(|n| Key::of(&n.to_le_bytes())).collect();
        for (number, key) in keys.iter().enumerate() {
            table.put(*key, (number as u64 + 1) * UNIT_BYTES, 1, 0);
        }
        let at = |number: usize| (number as u64 + 1) * UNIT_BYTES;
        let found =
            (0..keys.len()).filter(|number| table.entry_at(keys[*number], at(*number)).is_some()).count();
        assert_eq!(table.objects(), found as u64);
        assert!(keys.len() - found <= table.crowded_out() as usize + 4, "a few are alike");
        assert!(table.crowded_out() < keys.len() as u64 / 50, "{} crowded out", table.crowded_out());
    }
}
