//! Volume: one flat space that is written in order of first miss, in large pieces, and read with
//! its neighbourhood.
//!
//! The volume combines the papers' results with later ones:
//!
//! - Objects are written once, in whole stripes (1 MiB), in the order in which they were missed
//!   (Maltzahn 1999, 2.4.3). Small objects are packed so that none needs two reads (2.4.4).
//! - A cursor goes round and reclaims stripes. A popular object is carried over when the cursor
//!   passes (frequency-based cyclic replacement, 3.6, generalised to any size in
//!   `shoal_policy::carry`). A stripe that is popular as a whole is skipped.
//! - The index is in memory and on disk (Kroonmaa 1998), ten bytes an object, never read through.
//!   An entry is only a hint: each record has its full key, its position and its checksums.
//! - One-hit wonders need not be written at all (`shoal_policy::Probation`).
//! - A read also brings in neighbouring records of one site, where this has paid
//!   (`shoal_policy::NeighbourhoodSizer`, `shoal_policy::GroupBorders`).
//!
//! Cost of each call in device accesses:
//!
//! - miss: none, except for one key in 65,000 that looks like another;
//! - hit on an object of up to 64 KiB: one read or none, and one or two more for the first hit in a
//!   stripe that an earlier process wrote;
//! - insert: its share of a stripe's write;
//! - removal: a line in the contents, and a read and a write of the record's page, to mark the
//!   record.
//!
//! Modules:
//!
//! - `format`: layout on disk. `index`: the index in memory. `queue`, `pending`: records that wait
//!   to be written.
//! - `writer`: the log's end, stripe by stripe. `reclaim`: the old contents of a stripe.
//! - `read`, `windows`, `body`: from the disk to the caller. `insert`, `update`: the other way.
//! - `crowded`: objects without a place in the index. `durability`: times of writes and syncs.
//! - `removal`: permanent removal of objects.
//! - `opening`, `recovery`, `checkpoint`, `changed`, `state`: the index on disk, its binding to the
//!   volume, and recovery of the rest.
//! - `resizing`: a change of the volume's size. `walking`: its objects, for a copy.
//! - `inspect`: inspection of a volume.
//!
//! After a crash the index on disk is older than the log. Recovery reads the contents of the
//! stripes written since and enters them in the background. Meanwhile the volume serves objects of
//! the index that no record of the log can overrule.

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
mod piece;
mod queue;
mod read;
mod read_piece;
mod reader;
mod reclaim;
mod recovery;
mod removal;
mod resizing;
mod ring;
mod state;
mod stripes;
#[cfg(test)]
mod tests;
mod update;
mod volume_file;
mod walking;
mod windows;
mod writer;

use super::maintenance::{BackgroundWork, Maintenance, StepResult, WakeSignal};
use crate::{
    Error, EvictionCallback, Insert, ObjectSummary, OpenObject, Peek, PromptStore, RingView, Store,
    StoreUpkeep, StoreView, TryInsert, Usage, WalkedPart,
};
use bytes::Bytes;
use directory::Directory;
use durability::SyncPacer;
use format::VolumeGeometry;
use locks::RankedMutex;
use parking_lot::Mutex;
use queue::WriteQueue;
use reader::Reader;
use recovery::Recovery;
use shoal_core::{Key, ObjectKey};
use shoal_policy::{Admission, PinNewcomers, Probation};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use update::UPDATE_TURNS;
use volume_file::VolumeFile;
use writer::LogWriter;

pub(super) use inspect::inspect_volume;
pub(super) use opening::open;
pub(super) use resizing::{empty, size};

/// Operator's settings of a volume.
#[derive(Clone, Copy, Debug)]
pub struct VolumeSettings {
    /// Largest write in bytes; rounded down to a multiple of 256 KiB. Fixed when the volume is
    /// made.
    pub stripe_bytes: u64,
    /// RAM for the neighbourhoods of objects that were read, in bytes; 0 reads objects alone.
    pub window_bytes: u64,
    /// Rule that admits objects to the disk.
    pub admission: Admission,
    /// Objects that replacement spares.
    pub pins: PinSettings,
}

/// Objects that the operator has pinned: replacement spares them.
#[derive(Clone, Copy, Debug)]
pub struct PinSettings {
    /// Most bytes that are spared; 0 spares none.
    pub bytes_max: u64,
    /// Tells by an object's metadata whether it is pinned.
    pub is_pinned: PinTest,
}

/// Test of an object's metadata.
pub type PinTest = fn(&[u8]) -> bool;

impl PinSettings {
    /// Returns `true` if an object with this metadata is pinned.
    fn holds(&self, metadata: &[u8]) -> bool {
        self.bytes_max > 0 && (self.is_pinned)(metadata)
    }
}

impl Default for PinSettings {
    fn default() -> Self {
        Self { bytes_max: 0, is_pinned: |_| false }
    }
}

impl Default for VolumeSettings {
    fn default() -> Self {
        Self {
            stripe_bytes: 1 << 20,
            window_bytes: 16 << 20,
            admission: Admission::default(),
            pins: PinSettings::default(),
        }
    }
}

/// Store of one volume.
pub(super) struct VolumeStore {
    /// Background threads. Dropped before `volume`, so that no thread holds the last reference.
    _maintenance: Vec<Maintenance>,
    volume: Arc<Volume>,
}

/// Log with its parts.
///
/// ```text
/// VolumeFile ◄── Directory ◄── Reader ◄── Volume
/// ```
///
/// A part knows only those to its left. Each part owns its locks. Their order:
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
    geometry: VolumeGeometry,
    queue: RankedMutex<WriteQueue, { locks::QUEUE }>,
    writer: RankedMutex<LogWriter, { locks::WRITER }>,
    pace: RankedMutex<SyncPacer, { locks::PACE }>,
    /// Rung when the first record waits to be brought to disk.
    sync_bell: Arc<WakeSignal>,
    admission: Admission,
    probation: Mutex<Probation>,
    pins: PinSettings,
    pin_newcomers: Mutex<PinNewcomers>,
    /// Set while a stripe's objects are out of the table and not yet overwritten.
    is_reclaiming: AtomicBool,
    /// Serializes metadata updates of one key, from the read of the metadata to its replacement.
    /// Taken before all other locks.
    update_turns: [RankedMutex<(), { locks::UPDATE_TURN }>; UPDATE_TURNS],
    recovery: RankedMutex<Recovery, { locks::RECOVERY }>,
    /// Keys removed before the log's end was found: records of them in the log are older. The queue
    /// has lines with these removals.
    removed_early: RankedMutex<HashSet<Key>, { locks::REMOVED_EARLY }>,
    object_max_bytes: u64,
    disk_bytes: u64,
    own_bytes: u64,
    /// Stripes that are written to: fewer than there are while the volume is made smaller.
    ring_end: AtomicU32,
    /// Set when a caller has been told to write the queue, until it begins.
    is_write_due: AtomicBool,
    /// Set from when the volume is being released: the queue takes no record any more, so that none
    /// is acknowledged behind the last write.
    is_releasing: AtomicBool,
    /// Set without background work: the writer then also writes the index.
    is_alone: bool,
    /// Lock that keeps other processes out, until the volume is released.
    lock: Mutex<Option<OwnedFd>>,
}

impl Store for VolumeStore {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        self.volume.open(key)
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        self.volume.insert(key, metadata, body_bytes)
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

    fn close(&self) -> Result<(), Error> {
        self.volume.close()
    }
}

impl PromptStore for VolumeStore {
    fn try_open(&self, key: &ObjectKey) -> Option<OpenObject> {
        self.volume.try_open(key)
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
}

impl StoreView for VolumeStore {
    fn name(&self) -> &'static str {
        self.volume.name
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.volume.may_contain(key.hash())
    }

    fn object_max_bytes(&self) -> u64 {
        self.volume.object_max_bytes.min(format::BODY_MAX)
    }

    fn index_is_complete(&self) -> bool {
        // After an orderly close the index has everything that the log has.
        self.volume.directory.is_recovered.load(Relaxed) || !self.volume.reader.may_be_stale
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        self.volume.directory.table.candidates(key.hash()).next().map(|entry| entry.position())
    }

    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        let head = format::HEAD_BYTES as u64 + u64::from(key_bytes) + u64::from(metadata_bytes);
        stored_bytes.saturating_sub(head)
    }

    fn usage(&self) -> Usage {
        self.volume.usage()
    }

    fn ring(&self) -> Option<RingView> {
        Some(self.volume.directory.ring.view(self.volume.geometry.stripes))
    }
}

impl StoreUpkeep for VolumeStore {
    fn flush_due(&self, _key: Key) -> Result<(), Error> {
        self.volume.flush(false).map(drop)
    }

    fn release(&self) -> Result<(), Error> {
        self.volume.release()
    }

    fn walk(&self, place: u64) -> Result<Option<WalkedPart>, Error> {
        self.volume.walk(place)
    }

    fn confine(&self, bytes: u64) -> Result<Option<u64>, Error> {
        self.volume.confine(bytes)
    }

    fn trim(&self) -> Result<(), Error> {
        self.volume.trim()
    }

    fn on_evicted(&self, gave_up: EvictionCallback) {
        // The first callback stays.
        let _ = self.volume.directory.gave_up.set(gave_up);
    }
}

impl Peek for VolumeStore {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        self.volume.peek(key)
    }
}

impl Volume {
    fn may_contain(&self, key: Key) -> bool {
        let is_written = || self.directory.table.candidates(key).next().is_some();
        // Twice: an object moves from the queue to the table when it has been written.
        is_written() || self.queue.lock().find(key).is_some() || is_written()
    }

    fn usage(&self) -> Usage {
        let written = u64::from(self.directory.written_stripes.load(Relaxed)) * self.geometry.stripe_bytes;
        let (waiting, is_unsynced) = {
            let queue = self.queue.lock();
            (queue.objects() as u64, queue.is_unsynced())
        };
        // Records being brought to disk have left the queue.
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

    /// Writes the queued records and a complete index. If the log has not been followed to its end
    /// and nothing is queued, the volume stays as it was found; the next opening follows the log.
    /// Queued records belong after the log's end, so they need it first.
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

    /// Closes the volume in order, closes its files for writing, and lets another process open it.
    fn release(&self) -> Result<(), Error> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            return Err(Error::Unusable("the volume is claimed in a way that cannot be shared".into()));
        }
        self.is_releasing.store(true, Relaxed);
        // Callers that hold the queue have not seen the flag.
        drop(self.queue.lock());
        // A record that the writer has put back is written too: its insert was acknowledged.
        let closed = self.close().and_then(|()| {
            let is_written = self.queue.lock().is_empty();
            if is_written { Ok(()) } else { self.close() }
        });
        if let Err(error) = closed {
            self.is_releasing.store(false, Relaxed);
            return Err(error);
        }
        self.file.gate.close();
        let released = lock.take();
        assert!(released.is_some() && self.file.gate.is_closed(), "a lock that goes before the last write");
        drop(released);
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
    fn maintain(&self) -> StepResult {
        if self.file.gate.is_closed() {
            return StepResult::Idle;
        }
        if !self.directory.is_index_read.swap(true, Relaxed) {
            self.directory.table.read_ahead();
        }
        if !self.directory.is_recovered.load(Relaxed) {
            // A lookup meanwhile recovers too, so recovery may take about half of the disk's time.
            return StepResult::Worked(
                self.recover_step(recovery::RECOVERED_AT_ONCE) / RECOVERED_FOR_A_PAUSE,
            );
        }
        // After a failure the next call tries again.
        self.file.note_in_background(self.checkpoint_if_due());
        self.report_index_evictions();
        self.directory.see_to_lost_pages();
        StepResult::Idle
    }
}

/// Name of the architecture in the settings.
pub(super) const NAME: &str = "volume";
/// Stripes read for one of the pauses that other background work makes for a file.
const RECOVERED_FOR_A_PAUSE: usize = 8;
/// Consecutive disk failures after which the disk is left alone.
const FAILURES_MAX: u32 = 64;
