//! The volume: one flat space that is written in order of first miss, in large pieces, and read
//! with its neighbourhood.
//!
//! Joins what the papers teach with what has been learnt since. Objects are written once, in whole
//! stripes (1 MiB), in the order in which they were missed (Maltzahn 1999, 2.4.3), small ones
//! packed so that none needs two reads (2.4.4). A cursor goes round; what has proven popular is
//! carried over when it passes (frequency-based cyclic replacement, 3.6, generalised to any size in
//! `shoal_policy::carry`), and a stripe that is popular as a whole is skipped. The index is in
//! memory and on the disk (Kroonmaa 1998), ten bytes an object, never read through, and a hint
//! only: each record has its full key, its position and its checksums. Objects that nobody asks for
//! twice need not be written at all (`shoal_policy::Probation`), and a read brings in what lies
//! around of the same site, where that has been paying (`shoal_policy::NeighbourhoodSizer`,
//! `shoal_policy::GroupBorders`).
//!
//! What each call costs: a miss, no call to the disk (but for one key in 65,000 that looks like
//! another's); a hit on an object of up to 64 KiB, one read or none, and one or two more when it is
//! the first in a stripe that an earlier process wrote; an insert, its share of a stripe's write; a
//! removal, a line in the contents, and the mark of the record, a read and a write of its page.
//!
//! - `format`: what stands on the disk. `table`: the index. `queue`, `pending`: what waits to be
//!   written.
//! - `writer`: the log's end, stripe by stripe. `reclaim`: what happens to a stripe's old contents.
//! - `read`, `windows`, `body`: from the disk to the caller. `insert`, `update`: the other way.
//! - `crowded`: objects that the index has no place for. `durability`: when what waits is brought
//!   to disk.
//! - `removal`: objects taken out, for good.
//! - `opening`, `recovery`, `checkpoint`, `changed`, `state`: what is written of the index, what
//!   binds it to the volume, and how the rest is found again.
//! - `inspect`: a volume seen from outside.
//!
//! After a crash the index on disk is older than the log. The contents of the stripes written since
//! are read and entered again, in the background; objects that the index has, and that nothing in
//! the log can overrule, are served meanwhile.

mod body;
mod changed;
mod checkpoint;
mod crowded;
mod directory;
mod durability;
mod format;
mod index;
mod insert;
mod inspect;
mod locks;
mod opening;
mod pages;
mod pending;
mod queue;
mod read;
mod reader;
mod reclaim;
mod recovery;
mod removal;
mod state;
mod stripes;
#[cfg(test)]
mod tests;
mod update;
mod volume_file;
mod windows;
mod writer;

use super::maintenance::{BackgroundWork, Maintenance, WakeSignal, WorkDone};
use crate::{Error, EvictionCallback, Insert, OpenObject, Store, TryInsert, Usage};
use bytes::Bytes;
use directory::Directory;
use durability::SyncPacer;
use format::Geometry;
use locks::RankedMutex;
use parking_lot::Mutex;
use queue::WriteQueue;
use reader::Reader;
use recovery::Recovery;
use shoal_core::{Key, ObjectKey};
use shoal_policy::{Admission, Probation};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use update::UPDATE_TURNS;
use volume_file::VolumeFile;
use writer::LogWriter;

pub(super) use inspect::inspect_volume;
pub(super) use opening::open;

/// What an operator decides about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// Bytes written at once; rounded down to a multiple of 256 KiB. Fixed when the volume is made.
    pub stripe_bytes: u64,
    /// RAM for what stood around objects that were read, in bytes; 0 reads objects alone.
    pub window_bytes: u64,
    /// When an object may be written.
    pub admission: Admission,
}

impl Default for VolumeSettings {
    fn default() -> Self {
        Self { stripe_bytes: 1 << 20, window_bytes: 16 << 20, admission: Admission::default() }
    }
}

/// A store of one volume.
pub(super) struct VolumeStore {
    /// Its threads end when this is dropped: before the volume, so that the last reference to that
    /// is not a thread's.
    _maintenance: Vec<Maintenance>,
    volume: Arc<Volume>,
}

/// The log and its parts.
///
/// ```text
/// VolumeFile ◄── Directory ◄── Reader ◄── Volume
/// ```
///
/// A part knows those to its left only. Each part owns its locks. Their order:
///
/// ```text
/// update_turns, pace ───────────► updating ───────────────► queue ─► table.changing
/// update_turns, pace, recovery ─► writer ─► removed_early ─► queue
///                                 writer ─► checkpoint, doubts
/// ```
///
/// `locks` has their ranks, and debug builds check them.
struct Volume {
    name: &'static str,
    file: Arc<VolumeFile>,
    directory: Arc<Directory>,
    reader: Arc<Reader>,
    geometry: Geometry,
    queue: RankedMutex<WriteQueue, { locks::QUEUE }>,
    writer: RankedMutex<LogWriter, { locks::WRITER }>,
    pace: RankedMutex<SyncPacer, { locks::PACE }>,
    /// Rung when the first record waits to be brought to disk.
    sync_bell: Arc<WakeSignal>,
    admission: Admission,
    probation: Mutex<Probation>,
    /// A stripe's objects have been taken out of the table, and nothing has been written over them
    /// yet.
    is_reclaiming: AtomicBool,
    /// Held from the read of an object's metadata until its replacement is done, by key; before all
    /// other locks.
    update_turns: [RankedMutex<(), { locks::UPDATE_TURN }>; UPDATE_TURNS],
    recovery: RankedMutex<Recovery, { locks::RECOVERY }>,
    /// Keys removed before the log's end was found: the log's word on them is older. The queue has
    /// lines that say so.
    removed_early: RankedMutex<HashSet<Key>, { locks::REMOVED_EARLY }>,
    object_max_bytes: u64,
    disk_bytes: u64,
    own_bytes: u64,
    /// A caller has been told to write the queue, and has not begun.
    is_write_due: AtomicBool,
    /// There is no background work: the writer sees to the index too.
    is_alone: bool,
    /// Keeps other processes out.
    _lock: Option<OwnedFd>,
}

impl Store for VolumeStore {
    fn name(&self) -> &'static str {
        self.volume.name
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.volume.may_contain(key.hash())
    }

    fn index_is_complete(&self) -> bool {
        // After a close in order the log has nothing that the index has not.
        self.volume.directory.is_recovered.load(Relaxed) || !self.volume.reader.may_be_stale
    }

    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        self.volume.open(key)
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        self.volume.directory.table.candidates(key.hash()).next().map(|entry| entry.position())
    }

    fn try_open(&self, key: &ObjectKey) -> Option<OpenObject> {
        self.volume.try_open(key)
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        self.volume.insert(key, metadata, body_bytes)
    }

    fn try_insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body: &Bytes,
        still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        self.volume.try_insert(key, metadata, body, still)
    }

    fn flush_due(&self, _key: Key) -> Result<(), Error> {
        self.volume.flush(false).map(drop)
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        self.volume.update_metadata(key, metadata, replaces)
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        self.volume.remove(key)
    }

    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        let head = format::HEAD_BYTES as u64 + u64::from(key_bytes) + u64::from(metadata_bytes);
        stored_bytes.saturating_sub(head)
    }

    fn on_evicted(&self, gave_up: EvictionCallback) {
        // Whoever asks first is told.
        let _ = self.volume.directory.gave_up.set(gave_up);
    }

    fn usage(&self) -> Usage {
        self.volume.usage()
    }

    fn close(&self) -> Result<(), Error> {
        self.volume.close()
    }
}

impl Volume {
    fn may_contain(&self, key: Key) -> bool {
        self.directory.table.candidates(key).next().is_some() || self.queue.lock().find(key).is_some()
    }

    fn usage(&self) -> Usage {
        let written = u64::from(self.directory.written_stripes.load(Relaxed)) * self.geometry.stripe_bytes;
        let (waiting, is_unsynced) = {
            let queue = self.queue.lock();
            (queue.objects() as u64, queue.is_unsynced())
        };
        // Who brings something to disk has taken it from the queue.
        let is_under_way = is_unsynced || self.pace.is_locked() || self.writer.is_locked();
        Usage {
            objects: self.directory.table.objects() + waiting,
            objects_max: self.directory.table.objects_max(),
            bytes: self.own_bytes + written,
            bytes_max: self.disk_bytes,
            evictions: self.directory.counts.evictions.load(Relaxed) + self.directory.table.crowded_out(),
            crowded_out: self.directory.table.crowded_out(),
            corrupt: self.directory.counts.corrupt.load(Relaxed),
            spared_reads: self.reader.windows.counts().spared,
            failures: self.file.health.in_background.load(Relaxed),
            unwritten: waiting + u64::from(is_under_way),
        }
    }

    /// Writes what waits, and an index that is complete. A volume whose log has not been followed
    /// to its end is left as it was found, and followed the next time, unless something waits: that
    /// comes after the end.
    fn close(&self) -> Result<(), Error> {
        if !self.directory.is_recovered.load(Relaxed) {
            if self.queue.lock().is_empty() {
                return Ok(());
            }
            self.recover();
        }
        self.flush(true)?;
        self.write_checkpoint()?;
        self.directory.changed.forget();
        if cfg!(debug_assertions) {
            self.invariants();
        }
        Ok(())
    }

    /// Checks the parts, one after the other, and how they fit.
    fn invariants(&self) {
        self.queue.lock().invariants();
        self.writer.lock().invariants(&self.geometry);
        self.directory.invariants();
        assert_eq!(self.geometry, self.directory.geometry);
        assert_eq!(self.geometry, self.reader.geometry);
        assert!(self.own_bytes >= format::DATA_AT);
    }
}

#[cfg(test)]
impl Drop for VolumeStore {
    fn drop(&mut self) {
        // A test may insert from within a call to the disk while its caller holds locks.
        if Arc::strong_count(&self.volume) == 1 && !std::thread::panicking() {
            self.volume.invariants();
        }
    }
}

impl BackgroundWork for Volume {
    fn maintain(&self) -> WorkDone {
        if !self.directory.is_index_read.swap(true, Relaxed) {
            self.directory.table.read_ahead();
        }
        if !self.directory.is_recovered.load(Relaxed) {
            // Who looks for an object meanwhile does it too: it may take about half of the disk's
            // time.
            return WorkDone::Worked(self.recover_step(recovery::RECOVERED_AT_ONCE) / RECOVERED_FOR_A_PAUSE);
        }
        // After a failure the next call tries again.
        self.file.note_in_background(self.checkpoint_if_due());
        self.report_index_evictions();
        self.directory.see_to_lost_pages();
        WorkDone::Idle
    }
}

/// As the settings spell it.
pub(super) const NAME: &str = "volume";
/// Stripes looked at for one of the pauses that other background work makes for a file.
const RECOVERED_FOR_A_PAUSE: usize = 8;
/// Failures of the disk in a row after which it is left alone.
const FAILURES_MAX: u32 = 64;
