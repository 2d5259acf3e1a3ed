//! Which keys the log may speak of since the index was written.
//!
//! The index of a process that was killed may lead to an object that was replaced or removed since.
//! The log says so, and to follow it takes up to a second or two. Meanwhile this set tells the
//! objects of which the log says nothing: these are served at once. It has the key of every record
//! and line that is written to the log, before that is written, and of every removal, before it is
//! acknowledged: a bit for many keys, so that a key may be taken for changed that is not, and never
//! the other way round.
//!
//! It is kept in files that outlive the process, and no loss of power, and that no disk sees
//! ([`transient`](crate::fs::transient)): there are two, for what comes while a new index is
//! written is marked in the old one's and in the new one's. A file counts only for the index whose
//! header it names, by volume, chunk and generation. One that is absent, damaged or of another
//! index costs the time that it takes to follow the log.

use super::checkpoint::Header;
use crate::fs::{Access, File, FileSystem, PAGE_BYTES, read_full, write_full};
use parking_lot::Mutex;
use shoal_core::Key;
use std::io;
use std::sync::Arc;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The set, or none where nothing can keep it.
pub(super) struct Changed {
    files: Option<Arc<dyn FileSystem>>,
    /// Of the volume.
    id: u64,
    words: usize,
    /// Of this process.
    session: u64,
    marks: Mutex<Marked>,
}

#[derive(Default)]
struct Marked {
    /// Since the index that is on disk was written.
    since: Option<Marks>,
    /// Since the one was begun that is being written.
    next: Option<Marks>,
}

/// A bit for each key, in memory and in a file.
struct Marks {
    file: Box<dyn File>,
    slot: usize,
    sequence: u64,
    words: Vec<u64>,
}

impl Changed {
    /// For the index of the volume `id`, with `buckets` buckets and this header, if it has one.
    /// `session` tells this process from others.
    pub(super) fn open(
        files: Option<Arc<dyn FileSystem>>,
        (id, buckets, session): (u64, u64, u64),
        header: Option<&Header>,
    ) -> Self {
        let words = (buckets / BUCKETS_A_WORD).clamp(WORDS_MIN, WORDS_MAX) as usize;
        let this = Self { files, id, words, session, marks: Mutex::default() };
        if let Some(header) = header {
            this.marks.lock().since = match header.is_clean {
                // The log has nothing that the index has not.
                true => this.make(0, header, vec![0; words]),
                // Into a file of this process: a copy of the volume, in use elsewhere, may have the
                // one that is there open.
                false => (0..SLOTS).find_map(|slot| {
                    let words = this.load(slot, header)?;
                    this.unlink(slot);
                    this.make((slot + 1) % SLOTS, header, words)
                }),
            };
        }
        this
    }

    /// What the header says of who wrote it.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// Whether the log may speak of a key.
    pub(super) fn may_have(&self, key: Key) -> bool {
        let marks = self.marks.lock();
        marks.since.as_ref().is_none_or(|marks| marks.has(key))
    }

    /// Has the log speak of these.
    pub(super) fn add(&self, keys: impl Iterator<Item = Key>) {
        let Marked { since, next } = &mut *self.marks.lock();
        for key in keys {
            for marks in [&mut *since, &mut *next] {
                if marks.as_mut().is_some_and(|marks| marks.add(key).is_err()) {
                    self.drop(marks.take());
                }
                debug_assert!(marks.as_ref().is_none_or(|marks| marks.has(key)), "a key that was lost");
            }
        }
    }

    /// An index with this header is about to be written: what comes from now on is after it.
    pub(super) fn begin(&self, header: &Header) {
        let mut marks = self.marks.lock();
        if marks.since.as_ref().is_some_and(|since| since.sequence == header.sequence) {
            return;
        }
        assert!(marks.next.is_none(), "an index is written at a time");
        let slot = marks.since.as_ref().map_or(0, |since| (since.slot + 1) % SLOTS);
        marks.next = self.make(slot, header, vec![0; self.words]);
        marks.invariants(self.words);
    }

    /// It is on disk with this header.
    pub(super) fn end(&self, header: &Header) {
        let mut marks = self.marks.lock();
        let past = match marks.next.take() {
            Some(next) => marks.since.replace(next),
            // It could not be made, or did not have to be.
            None => marks.since.take_if(|since| since.sequence != header.sequence),
        };
        self.drop(past);
    }

    /// Nobody knows whether it is on disk.
    pub(super) fn abandon(&self) {
        let next = self.marks.lock().next.take();
        self.drop(next);
    }

    /// The index on disk has the same blocks as before, under this header.
    pub(super) fn rename(&self, header: &Header) {
        let mut marks = self.marks.lock();
        let lost = marks.since.take_if(|marks| {
            let label = label(self.id, header, self.words);
            marks.sequence != header.sequence || write_full(&*marks.file, &label, 0).is_err()
        });
        self.drop(lost);
    }

    /// The index is complete, or none is any more: nothing needs to be kept.
    pub(super) fn forget(&self) {
        *self.marks.lock() = Marked::default();
        (0..SLOTS).for_each(|slot| self.unlink(slot));
    }

    /// Ends a file that gets no more marks.
    fn drop(&self, marks: Option<Marks>) {
        if let Some(marks) = marks {
            self.unlink(marks.slot);
        }
    }

    fn unlink(&self, slot: usize) {
        let Some(files) = &self.files else { return };
        if let Err(error) = files.unlink(&self.path(slot))
            && error.kind() != io::ErrorKind::NotFound
        {
            debug!(%error, "marks of changed objects stay behind");
        }
    }

    fn make(&self, slot: usize, header: &Header, words: Vec<u64>) -> Option<Marks> {
        let files = self.files.as_ref()?;
        self.unlink(slot);
        let made = files.create(&self.path(slot)).and_then(|file| {
            file.set_length((PAGE_BYTES + self.words * 8) as u64)?;
            // What is all zeros takes no memory.
            for (block, words) in words.chunks(BLOCK_WORDS).enumerate() {
                if words.iter().any(|word| *word != 0) {
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    write_full(&*file, &bytes, word_at(block * BLOCK_WORDS))?;
                }
            }
            write_full(&*file, &label(self.id, header, self.words), 0)?;
            Ok(Marks { file, slot, sequence: header.sequence, words })
        });
        made.inspect_err(|error| debug!(%error, "after a kill all objects wait for the log's end")).ok()
    }

    /// The marks in a file, if they are of the index with this header.
    fn load(&self, slot: usize, header: &Header) -> Option<Vec<u64>> {
        let file = self.files.as_ref()?.open(&self.path(slot), Access::Read).ok()?;
        let mut bytes = vec![0; PAGE_BYTES + self.words * 8];
        let length = read_full(&*file, &mut bytes, 0).ok()?;
        let label = label(self.id, header, self.words);
        if length < bytes.len() || bytes[..label.len()] != *label {
            return None;
        }
        let words = bytes[PAGE_BYTES..].as_chunks::<8>().0;
        Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn path(&self, slot: usize) -> String {
        format!("{:016x}-{slot}", self.id)
    }
}

impl Marked {
    /// Checks that the two sets are as long and in files of their own.
    fn invariants(&self, words: usize) {
        let both = [&self.since, &self.next];
        assert!(both.into_iter().flatten().all(|marks| marks.words.len() == words));
        assert!(both.into_iter().flatten().all(|marks| marks.slot < SLOTS));
        if let (Some(since), Some(next)) = (&self.since, &self.next) {
            assert_ne!(since.slot, next.slot, "two sets in a file");
        }
    }
}

impl Marks {
    fn has(&self, key: Key) -> bool {
        let (at, bit) = self.place(key);
        self.words[at] & bit != 0
    }

    fn add(&mut self, key: Key) -> io::Result<()> {
        let (at, bit) = self.place(key);
        if self.words[at] & bit != 0 {
            return Ok(());
        }
        let word = self.words[at] | bit;
        write_full(&*self.file, &word.to_le_bytes(), word_at(at))?;
        self.words[at] = word;
        Ok(())
    }

    fn place(&self, key: Key) -> (usize, u64) {
        debug_assert!(!self.words.is_empty());
        let bit = key.high() % (self.words.len() as u64 * 64);
        ((bit / 64) as usize, 1 << (bit % 64))
    }
}

/// Where a word stands in a file.
fn word_at(at: usize) -> u64 {
    (PAGE_BYTES + at * 8) as u64
}

/// What a file begins with whose marks count for the index with this header.
fn label(id: u64, header: &Header, words: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for number in [id, header.sequence, header.generation, header.session, words as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, id).to_le_bytes());
    assert!(bytes.len() <= PAGE_BYTES, "a label over marks");
    bytes
}

const MAGIC: &[u8; 8] = b"SHOALch1";
const SLOTS: usize = 2;
/// A bit a place of the index: one in twenty is set when all of the log is followed and objects are
/// of usual size, and a third when they are of 100 bytes.
const BUCKETS_A_WORD: u64 = 8;
/// Words written at once when a file is made: 16 KiB.
const BLOCK_WORDS: usize = 2048;
/// 64 KiB...
const WORDS_MIN: u64 = 8 << 10;
/// ...to 16 MiB.
const WORDS_MAX: u64 = 2 << 20;

const _: () = {
    assert!(WORDS_MIN <= WORDS_MAX);
    assert!(WORDS_MIN.is_multiple_of(BLOCK_WORDS as u64));
};
