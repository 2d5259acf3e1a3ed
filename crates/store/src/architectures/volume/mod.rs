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
mod durability;
mod format;
mod index;
mod insert;
mod inspect;
mod opening;
mod pages;
mod pending;
mod queue;
mod read;
mod reclaim;
mod recovery;
mod removal;
mod state;
mod stripes;
#[cfg(test)]
mod tests;
mod update;
mod windows;
mod writer;

use super::maintenance::{BackgroundWork, Maintenance, WakeSignal, WorkDone};
use super::seal::Seal;
use crate::fs::File;
use crate::{Declined, Error, EvictionCallback, Insert, OpenObject, Store, TryInsert, Usage};
use bytes::Bytes;
use changed::Changed;
use checkpoint::Checkpoint;
use durability::SyncPacer;
use format::Geometry;
use index::VolumeIndex;
use pages::PagePool;
use parking_lot::Mutex;
use queue::WriteQueue;
use recovery::Recovery;
use shoal_core::{Key, ObjectKey};
use shoal_policy::{Admission, Probation};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use stripes::StripePins;
use tracing::{debug, error};
use update::UPDATE_TURNS;
use windows::WindowCache;
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

/// What the store, its bodies and its inserts share.
struct Volume {
    name: &'static str,
    data: Box<dyn File>,
    geometry: Geometry,
    seal: Seal,
    /// Records are sealed in stripes that begin with a chunk of this number or a later one.
    sealed_from: AtomicU64,
    table: VolumeIndex,
    queue: Mutex<WriteQueue>,
    writer: Mutex<LogWriter>,
    pace: Mutex<SyncPacer>,
    /// Rung when something waits to be brought to disk and nothing did.
    sync_bell: Arc<WakeSignal>,
    windows: WindowCache,
    /// Memory for what is read.
    used: Arc<PagePool>,
    stripes: Arc<StripePins>,
    admission: Admission,
    probation: Mutex<Probation>,
    checkpoint: Mutex<Checkpoint>,
    /// Which keys the log may speak of since then.
    changed: Changed,
    /// A stripe's objects have been taken out of the table, and nothing has been written over them
    /// yet.
    is_reclaiming: AtomicBool,
    /// Held while metadata is replaced on the disk, so that a reader who finds it torn can wait.
    updating: Mutex<()>,
    /// Held from where an object's metadata is read to be replaced until that is done, by key;
    /// before all other locks.
    update_turns: [Mutex<()>; UPDATE_TURNS],
    doubts: Mutex<TornWriteSuspects>,
    /// The last process did not end in order: entries may be older than what they point to.
    may_be_stale: bool,
    recovery: Mutex<Recovery>,
    /// A part of the log could not be read when it was followed.
    has_missed: AtomicBool,
    /// All of the log has been entered: the table has nothing that a later record overrules.
    is_followed: AtomicBool,
    /// The log's end has been found; nothing is written before.
    is_recovered: AtomicBool,
    /// Removed before that: what the log says of them is older. No more than lines that say so wait
    /// in the queue.
    removed_early: Mutex<HashSet<Key>>,
    next_id: AtomicU64,
    object_max_bytes: u64,
    disk_bytes: u64,
    own_bytes: u64,
    written_stripes: AtomicU32,
    /// The device has been told to read the index.
    is_index_read: AtomicBool,
    /// Somebody has been told to write what waits, and has not begun.
    is_write_due: AtomicBool,
    health: Health,
    /// Somebody has read that the index is too small.
    has_said_crowded: AtomicBool,
    counts: Counts,
    /// Told of keys whose objects were given up.
    gave_up: OnceLock<EvictionCallback>,
    /// The index on disk may say that nothing was written to the log since: always after opening
    /// when it has a header, for one that says otherwise may have been read before it was brought
    /// to disk.
    index_may_be_clean: AtomicBool,
    /// Nothing was written yet in this generation's time but by earlier processes.
    is_generation_due: AtomicBool,
    /// The index file has a header. One that is being made anew has none until it is complete, so
    /// that it is made anew again when the process ends before.
    is_index_known: AtomicBool,
    /// Where the log ended when the index was last written, in bytes of it.
    checkpointed_at: AtomicU64,
    /// There is no background work: who writes sees to the index too.
    is_alone: bool,
    /// Keeps other processes out.
    _lock: Option<OwnedFd>,
}

/// What may not be whole, since the last process did not end in order: large objects whose pieces
/// have to be looked at, and objects whose damage says nothing about the disk.
#[derive(Default)]
struct TornWriteSuspects {
    /// Stripes that may have been half written over.
    stripes: HashSet<u32>,
    /// Chunks after this one had perhaps not been brought to disk as a whole...
    from: u64,
    /// ...up to this one.
    until: u64,
    /// The stripe in which the log ended: what stands there and shortly before it may have been
    /// brought to disk in part.
    end: u32,
    /// Objects that have been looked at, by number.
    settled: HashSet<u64>,
}

/// Numbers that only grow.
#[derive(Default)]
struct Counts {
    evictions: AtomicU64,
    corrupt: AtomicU64,
    /// Pages of the index that could not be read, as far as that was told.
    lost_pages: AtomicU64,
    /// Entries that were dropped from the table for damage, or for a stripe that could not be
    /// written.
    dropped: AtomicU64,
    /// What [`forgotten`](Self::forgotten) was when the index was begun that is on disk.
    forgotten_before: AtomicU64,
}

/// Whether the disk can be relied on.
#[derive(Default)]
struct Health {
    /// Failures of the disk in a row.
    failures: AtomicU32,
    /// All that nobody waited for.
    in_background: AtomicU64,
    has_been_said: AtomicBool,
    out_of_service: AtomicBool,
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
        self.volume.is_recovered.load(Relaxed) || !self.volume.may_be_stale
    }

    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        self.volume.open(key)
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        self.volume.table.candidates(key.hash()).next().map(|entry| entry.position())
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
        let _ = self.volume.gave_up.set(gave_up);
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
        self.table.candidates(key).next().is_some() || self.queue.lock().find(key).is_some()
    }

    fn usage(&self) -> Usage {
        let written = u64::from(self.written_stripes.load(Relaxed)) * self.geometry.stripe_bytes;
        let (waiting, is_unsynced) = {
            let queue = self.queue.lock();
            (queue.objects() as u64, queue.is_unsynced())
        };
        // Who brings something to disk has taken it from the queue.
        let is_under_way = is_unsynced || self.pace.is_locked() || self.writer.is_locked();
        Usage {
            objects: self.table.objects() + waiting,
            objects_max: self.table.objects_max(),
            bytes: self.own_bytes + written,
            bytes_max: self.disk_bytes,
            evictions: self.counts.evictions.load(Relaxed) + self.table.crowded_out(),
            crowded_out: self.table.crowded_out(),
            corrupt: self.counts.corrupt.load(Relaxed),
            spared_reads: self.windows.counts().spared,
            failures: self.health.in_background.load(Relaxed),
            unwritten: waiting + u64::from(is_under_way),
        }
    }

    /// Writes what waits, and an index that is complete. A volume whose log has not been followed
    /// to its end is left as it was found, and followed the next time, unless something waits: that
    /// comes after the end.
    fn close(&self) -> Result<(), Error> {
        if !self.is_recovered.load(Relaxed) {
            if self.queue.lock().is_empty() {
                return Ok(());
            }
            self.recover();
        }
        self.flush(true)?;
        self.write_checkpoint()?;
        self.changed.forget();
        Ok(())
    }

    /// Says it when pages of the index could not be read. All of it is written anew with the next
    /// checkpoint. What they held is missed, and found again when the index is made anew.
    fn see_to_lost_pages(&self) {
        let before = self.counts.lost_pages.load(Relaxed);
        let lost = self.table.lost_pages(before);
        if lost > before {
            self.counts.lost_pages.store(lost, Relaxed);
            self.health.in_background.fetch_add(lost - before, Relaxed);
            error!(
                pages = lost,
                "the disk did not deliver a part of the volume's index: what it led to is not found; look at the disk's health"
            );
        }
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.data.sync().map_err(|source| self.failed("bring the volume to disk", source))
    }

    /// Notes a failure of the disk, says it once, and takes the disk out of service when it goes
    /// on.
    fn failed(&self, action: &'static str, source: std::io::Error) -> Error {
        let failures = self.health.failures.fetch_add(1, Relaxed) + 1;
        if !self.health.has_been_said.swap(true, Relaxed) {
            error!(
                action,
                error = %source,
                "the disk failed; what cannot be read or written is fetched again. Further failures are counted"
            );
        }
        if failures >= FAILURES_MAX && !self.health.out_of_service.swap(true, Relaxed) {
            // Whoever has several disks says so, with the name of this one.
            debug!(action, error = %source, "the disk goes on failing and is left alone until it is opened again");
        }
        Error::Disk { action, source }
    }

    /// Counts a failure that nobody else gets to know of.
    fn note_in_background<T>(&self, outcome: Result<T, Error>) -> Option<T> {
        if matches!(outcome, Err(Error::Disk { .. })) {
            self.health.in_background.fetch_add(1, Relaxed);
        }
        outcome.ok()
    }

    fn succeeded(&self) {
        if self.health.failures.load(Relaxed) != 0 {
            self.health.failures.store(0, Relaxed);
        }
    }

    /// Every stripe has been written: from now on space is had by giving something up.
    fn is_full(&self) -> bool {
        self.written_stripes.load(Relaxed) >= self.geometry.stripes
    }

    fn check_service(&self) -> Result<(), Error> {
        match self.health.out_of_service.load(Relaxed) {
            true => Err(Error::Declined(Declined::OutOfService)),
            false => Ok(()),
        }
    }
}

impl BackgroundWork for Volume {
    fn maintain(&self) -> WorkDone {
        if !self.is_index_read.swap(true, Relaxed) {
            self.table.read_ahead();
        }
        if !self.is_recovered.load(Relaxed) {
            // Who looks for an object meanwhile does it too: it may take about half of the disk's
            // time.
            return WorkDone::Worked(self.recover_step(recovery::RECOVERED_AT_ONCE) / RECOVERED_FOR_A_PAUSE);
        }
        // After a failure the next call tries again.
        self.note_in_background(self.checkpoint_if_due());
        self.report_index_evictions();
        self.see_to_lost_pages();
        WorkDone::Idle
    }
}

/// As the settings spell it.
pub(super) const NAME: &str = "volume";
/// Stripes looked at for one of the pauses that other background work makes for a file.
const RECOVERED_FOR_A_PAUSE: usize = 8;
/// Failures of the disk in a row after which it is left alone.
const FAILURES_MAX: u32 = 64;
