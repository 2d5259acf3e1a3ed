//! Objects taken out, for good: not found from now on, nor after a kill.

use super::Volume;
use super::directory::Directory;
use super::index::VolumeEntry;
use super::pending::QueuedRecord;
use super::recovery::RECOVERED_AT_ONCE;
use super::writer::QUEUED_STRIPES;
use crate::Error;
use shoal_core::ObjectKey;
use std::sync::atomic::Ordering::Relaxed;

/// What became of an object that was taken out.
pub(super) struct TakenOut {
    /// There was something.
    found: bool,
    /// Of records that have to be marked.
    pub(super) entries: Vec<VolumeEntry>,
    /// The log will say that it was removed.
    is_logged: bool,
}

impl Volume {
    /// Takes an object out: from now on it is not found, and once the next chunk is written it will
    /// not be after a crash either; nor before the log has been followed up to that chunk, since
    /// its record is marked, and records that it has replaced are not found before the log has been
    /// followed. A key that looks like this one's is taken out as well, which costs a miss.
    pub(super) fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        // What the log has and the index has not is to be marked too: the line that says that it
        // was removed may come too late.
        while !self.directory.is_followed.load(Relaxed) {
            self.recover_step(RECOVERED_AT_ONCE);
        }
        let taken = self.take_out(key, limit_bytes);
        // Each is tried, also behind one that failed.
        let mark = |entry| self.mark_removed(key.hash(), entry);
        let marked: Vec<Result<(), Error>> = taken.entries.into_iter().map(mark).collect();
        if !taken.is_logged {
            // Who finds a long queue waits for the disk, and for the log's end, before which
            // nothing is written.
            self.recover();
            self.flush(false)?;
            self.queue_up(QueuedRecord::Removed(key.hash()), limit_bytes)?;
        }
        marked.into_iter().collect::<Result<(), Error>>()?;
        if self.directory.has_missed.load(Relaxed) {
            // What could not be read when the log was followed may have it: then that line alone
            // keeps it away.
            self.flush_and_sync()?;
        }
        if !taken.found && self.may_be_on_disk_alone() {
            self.recover();
            self.flush(true)?;
        }
        Ok(taken.found)
    }

    /// The same without touching the device: the records are marked within a second. For who has
    /// just been let into the queue.
    pub(super) fn remove_later(&self, key: &ObjectKey) {
        let taken = self.take_out(key, u64::MAX);
        if self.queue.lock().mark_later(key.hash(), taken.entries) {
            self.sync_bell.ring();
        }
    }

    /// Takes an object out of the queue and the table, and has the log say so unless so many bytes
    /// wait already.
    pub(super) fn take_out(&self, key: &ObjectKey, limit_bytes: u64) -> TakenOut {
        let (taken, is_first) = {
            // Held until it is out of the table, lest recovery enter it in between.
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
                // The index on disk may still have what was given up since. Such removals are no
                // reason to write at all: a stream of unsafe requests for what is not stored would
                // wake the disk every second.
                false => {
                    if is_logged {
                        queue.push_unhurried(removal);
                    }
                    false
                }
            };
            (TakenOut { found, entries, is_logged }, is_first)
        };
        // When it is out of the table: an index that is written from now on does not have it.
        self.directory.changed.add([key.hash()].into_iter());
        if is_first {
            self.sync_bell.ring();
        }
        taken
    }

    /// Whether the index on disk may lead to objects that the table has lost, and of which the log
    /// says nothing: what is not found has to be removed by a line of the log then.
    fn may_be_on_disk_alone(&self) -> bool {
        self.is_reclaiming.load(Relaxed)
            || self.directory.forgotten() > self.directory.counts.forgotten_before.load(Relaxed)
    }
}

impl Directory {
    /// Entries that went out of the table since the volume was opened, neither by a removal nor for
    /// a later record.
    pub(super) fn forgotten(&self) -> u64 {
        self.counts.dropped.load(Relaxed) + self.table.crowded_out() + self.counts.lost_pages.load(Relaxed)
    }
}
