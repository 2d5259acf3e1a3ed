//! Permanent removal of objects, also after a kill.

use super::Volume;
use super::directory::Directory;
use super::index::VolumeEntry;
use super::pending::QueuedRecord;
use super::recovery::RECOVERED_AT_ONCE;
use super::writer::QUEUED_STRIPES;
use crate::Error;
use shoal_core::ObjectKey;
use std::sync::atomic::Ordering::Relaxed;

/// Result of a removal from queue and table.
pub(super) struct TakenOut {
    /// Set if an object was there.
    found: bool,
    /// Entries of records that have to be marked.
    pub(super) entries: Vec<VolumeEntry>,
    /// Set if the log will record the removal.
    is_logged: bool,
}

impl Volume {
    /// Removes an object. Lookups no longer find it. After the next chunk is written, no lookup
    /// finds it after a crash either. Until the log has been followed up to that chunk, the mark on
    /// the object's record hides it. Records that it replaced are not found before the log has been
    /// followed. A key that looks alike is removed too, which costs a miss.
    pub(super) fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        // Entries that only the log has must be marked too: the line that records the removal may
        // come too late.
        while !self.directory.is_followed.load(Relaxed) {
            self.recover_step(RECOVERED_AT_ONCE);
        }
        let taken = self.take_out(key, limit_bytes);
        // Each mark is tried, even after a failed one.
        let mark = |entry| self.mark_removed(key.hash(), entry);
        let marked: Vec<Result<(), Error>> = taken.entries.into_iter().map(mark).collect();
        if !taken.is_logged {
            // A caller that finds a long queue waits for the disk, and for the log's end, since
            // nothing is written earlier.
            self.recover();
            self.flush(false)?;
            self.queue_up(QueuedRecord::Removed(key.hash()), limit_bytes)?;
        }
        marked.into_iter().collect::<Result<(), Error>>()?;
        if self.directory.has_missed.load(Relaxed) {
            // A part of the log that could not be read may hold the object: then only that line
            // hides it.
            self.flush_and_sync()?;
        }
        if !taken.found && self.may_be_on_disk_alone() {
            self.recover();
            self.flush(true)?;
        }
        Ok(taken.found)
    }

    /// Removes an object without touching the device: its records are marked within a second. For a
    /// caller that has just queued a record.
    pub(super) fn remove_later(&self, key: &ObjectKey) {
        let taken = self.take_out(key, u64::MAX);
        if self.queue.lock().mark_later(key.hash(), taken.entries) {
            self.sync_bell.ring();
        }
    }

    /// Removes an object from the queue and the table. Queues a line for the log, unless
    /// `limit_bytes` bytes already wait.
    pub(super) fn take_out(&self, key: &ObjectKey, limit_bytes: u64) -> TakenOut {
        let (taken, is_first) = {
            // Held until the key is out of the table, so that recovery cannot enter it meanwhile.
            let mut removed_early = self.removed_early.lock();
            if !self.directory.is_recovered.load(Relaxed) {
                removed_early.insert(key.hash());
            }
            let mut queue = self.queue.lock();
            let has_waited = queue.remove(key.hash()).is_some();
            let mut entries: Vec<VolumeEntry> = self.directory.table.candidates(key.hash()).collect();
            entries.retain(|entry| self.directory.table.remove(key.hash(), *entry));
            debug_assert!(queue.find(key.hash()).is_none(), "a removed object that waits");
            debug_assert!(self.directory.table.candidates(key.hash()).next().is_none());
            let found = has_waited || !entries.is_empty();
            let is_logged = queue.bytes() < limit_bytes;
            let removal = QueuedRecord::Removed(key.hash());
            let is_first = match found || !self.directory.is_recovered.load(Relaxed) {
                true => is_logged && queue.push(removal),
                // The index on disk may still have objects evicted since. A removal of an absent
                // object alone causes no write: a stream of unsafe requests for absent objects
                // would wake the disk every second.
                false => {
                    if is_logged {
                        queue.push_unhurried(removal);
                    }
                    false
                }
            };
            (TakenOut { found, entries, is_logged }, is_first)
        };
        // Added after the removal from the table: an index written from now on lacks the object.
        self.directory.changed.add([key.hash()].into_iter());
        if is_first {
            self.sync_bell.ring();
        }
        taken
    }

    /// Returns `true` if the index on disk may lead to objects that the table has lost and the log
    /// does not mention. The removal of an absent object then needs a line in the log.
    fn may_be_on_disk_alone(&self) -> bool {
        self.is_reclaiming.load(Relaxed)
            || self.directory.forgotten() > self.directory.counts.forgotten_before.load(Relaxed)
    }
}

impl Directory {
    /// Returns the number of entries lost from the table since opening, other than by a removal or
    /// a later record.
    pub(super) fn forgotten(&self) -> u64 {
        self.counts.dropped.load(Relaxed) + self.table.crowded_out() + self.counts.lost_pages.load(Relaxed)
    }
}
