//! Set of keys that the log may mention since the index was written.
//!
//! After a kill, the index may lead to an object that was replaced or removed since. The log
//! records this, but following the log takes up to a second or two. Meanwhile this set tells the
//! objects that the log does not mention: these are served at once. The set receives the key of
//! every record and line before it is written to the log. The set receives the key of every removal
//! before the removal is acknowledged. Many keys share a bit: an unchanged key may count as
//! changed, never the reverse.
//!
//! The set is kept in files that survive the process but no power loss, and that no disk sees
//! ([`transient`](crate::fs::transient)). There are two files: while a new index is written, keys
//! are marked in the old one's file and in the new one's. A file counts only for the index header
//! that it names, by volume, chunk and generation. If the file is absent, damaged or of another
//! index, objects wait until the log has been followed.

use super::checkpoint::CheckpointHeader;
use crate::fs::{Access, File, FileSystem, PAGE_BYTES, read_full, write_full};
use parking_lot::Mutex;
use shoal_core::Key;
use std::io;
use std::sync::Arc;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Set of changed keys; empty where no file system can keep it.
pub(super) struct ChangedKeys {
    files: Option<Arc<dyn FileSystem>>,
    /// Id of the volume.
    id: u64,
    words: usize,
    /// Id of this process.
    session: u64,
    marks: Mutex<MarkSets>,
}

#[derive(Default)]
struct MarkSets {
    /// Marks since the index on disk was written.
    since: Option<Marks>,
    /// Marks since the index being written was begun.
    next: Option<Marks>,
}

/// Bit for each key, in memory and in a file.
struct Marks {
    file: Box<dyn File>,
    slot: usize,
    sequence: u64,
    words: Vec<u64>,
}

impl ChangedKeys {
    /// Opens the set for the index of the volume `id`, with `buckets` buckets and this header, if
    /// the index has one. `session` identifies this process.
    pub(super) fn open(
        files: Option<Arc<dyn FileSystem>>,
        (id, buckets, session): (u64, u64, u64),
        header: Option<&CheckpointHeader>,
    ) -> Self {
        let words = (buckets / BUCKETS_A_WORD).clamp(WORDS_MIN, WORDS_MAX) as usize;
        let this = Self { files, id, words, session, marks: Mutex::default() };
        if let Some(header) = header {
            this.marks.lock().since = match header.is_clean {
                // The index has all changes of the log.
                true => this.make(0, header, vec![0; words]),
                // Into a file of this process: another process may use a copy of the volume and
                // have the existing file open.
                false => (0..SLOTS).find_map(|slot| {
                    let words = this.load(slot, header)?;
                    this.unlink(slot);
                    this.make((slot + 1) % SLOTS, header, words)
                }),
            };
        }
        this
    }

    /// Returns the session that headers carry as their writer's.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// Returns `true` if the log may mention the key.
    pub(super) fn may_have(&self, key: Key) -> bool {
        let marks = self.marks.lock();
        marks.since.as_ref().is_none_or(|marks| marks.has(key))
    }

    /// Adds the keys of records that are about to be written to the log.
    pub(super) fn add(&self, keys: impl Iterator<Item = Key>) {
        let MarkSets { since, next } = &mut *self.marks.lock();
        for key in keys {
            for marks in [&mut *since, &mut *next] {
                if marks.as_mut().is_some_and(|marks| marks.add(key).is_err()) {
                    self.drop(marks.take());
                }
                debug_assert!(marks.as_ref().is_none_or(|marks| marks.has(key)), "a key that was lost");
            }
        }
    }

    /// Notes that an index with this header is about to be written: later keys are marked for it
    /// too.
    pub(super) fn begin(&self, header: &CheckpointHeader) {
        let mut marks = self.marks.lock();
        if marks.since.as_ref().is_some_and(|since| since.sequence == header.sequence) {
            return;
        }
        assert!(marks.next.is_none(), "an index is written at a time");
        let slot = marks.since.as_ref().map_or(0, |since| (since.slot + 1) % SLOTS);
        marks.next = self.make(slot, header, vec![0; self.words]);
        marks.invariants(self.words);
    }

    /// Notes that the index with this header is on disk.
    pub(super) fn end(&self, header: &CheckpointHeader) {
        let mut marks = self.marks.lock();
        let past = match marks.next.take() {
            Some(next) => marks.since.replace(next),
            // The file could not be made, or was not needed.
            None => marks.since.take_if(|since| since.sequence != header.sequence),
        };
        self.drop(past);
    }

    /// Notes that the index may or may not be on disk.
    pub(super) fn abandon(&self) {
        let next = self.marks.lock().next.take();
        self.drop(next);
    }

    /// Relabels the set: the index on disk has the same blocks under a new header.
    pub(super) fn rename(&self, header: &CheckpointHeader) {
        let mut marks = self.marks.lock();
        let lost = marks.since.take_if(|marks| {
            let label = label(self.id, header, self.words);
            marks.sequence != header.sequence || write_full(&*marks.file, &label, 0).is_err()
        });
        self.drop(lost);
    }

    /// Removes the files: the index is complete, or no index is left.
    pub(super) fn forget(&self) {
        *self.marks.lock() = MarkSets::default();
        (0..SLOTS).for_each(|slot| self.unlink(slot));
    }

    /// Removes the file of marks that are no longer used.
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

    fn make(&self, slot: usize, header: &CheckpointHeader, words: Vec<u64>) -> Option<Marks> {
        let files = self.files.as_ref()?;
        self.unlink(slot);
        let made = files.create(&self.path(slot)).and_then(|file| {
            file.set_length((PAGE_BYTES + self.words * 8) as u64)?;
            // Blocks of zeros take no memory.
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

    /// Returns the marks in a file, if they belong to the index with this header.
    fn load(&self, slot: usize, header: &CheckpointHeader) -> Option<Vec<u64>> {
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

impl MarkSets {
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

/// Returns the offset of a word in a file.
fn word_at(at: usize) -> u64 {
    (PAGE_BYTES + at * 8) as u64
}

/// Returns the label at the start of a file with marks for the index with this header.
fn label(id: u64, header: &CheckpointHeader, words: usize) -> Vec<u8> {
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
/// One bit for each place of the index. With all of the log followed, one bit in twenty is set at
/// the usual size of objects, and a third at 100 bytes.
const BUCKETS_A_WORD: u64 = 8;
/// Words written at once when a file is made: 16 KiB.
const BLOCK_WORDS: usize = 2048;
/// 64 KiB.
const WORDS_MIN: u64 = 8 << 10;
/// 16 MiB.
const WORDS_MAX: u64 = 2 << 20;

const _: () = {
    assert!(WORDS_MIN <= WORDS_MAX);
    assert!(WORDS_MIN.is_multiple_of(BLOCK_WORDS as u64));
};
