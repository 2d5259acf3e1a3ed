//! Directory of a volume: the table of its objects, the part of the log that the table covers, and
//! the callback for evicted objects.
//!
//! `checkpoint` writes the directory to disk, `recovery` adds the log's records to it.

use super::changed::ChangedKeys;
use super::checkpoint::{Checkpoint, CheckpointHeader};
use super::format::VolumeGeometry;
use super::index::{VolumeEntry, VolumeIndex};
use super::locks::{CHECKPOINT, RankedMutex};
use super::ring::RingCounts;
use super::volume_file::VolumeFile;
use crate::EvictionCallback;
use shoal_core::Key;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tracing::error;

/// Objects of a volume.
pub(super) struct Directory {
    pub(super) file: Arc<VolumeFile>,
    pub(super) geometry: VolumeGeometry,
    pub(super) table: VolumeIndex,
    pub(super) checkpoint: RankedMutex<Checkpoint, CHECKPOINT>,
    /// Keys that the log may mention since the checkpoint.
    pub(super) changed: ChangedKeys,
    /// Offset in the log at which the log ended when the index was last written.
    pub(super) checkpointed_at: AtomicU64,
    pub(super) next_id: AtomicU64,
    pub(super) written_stripes: AtomicU32,
    /// Set if a part of the log could not be read during recovery.
    pub(super) has_missed: AtomicBool,
    /// Set when the whole log has been entered: no later record overrules an entry.
    pub(super) is_followed: AtomicBool,
    /// Set when the log's end has been found; nothing is written earlier.
    pub(super) is_recovered: AtomicBool,
    /// Set when the device has been told to read the index.
    pub(super) is_index_read: AtomicBool,
    /// Set while the index on disk may be marked clean. Always set after opening with a header: the
    /// header that was read may not be the latest one on disk.
    pub(super) index_may_be_clean: AtomicBool,
    /// Set until this process begins a generation: only earlier processes have written in the
    /// current one.
    pub(super) is_generation_due: AtomicBool,
    /// Set when the index file has a header. A new index gets its header when it is complete. If
    /// the process ends earlier, the index is made again.
    pub(super) is_index_known: AtomicBool,
    /// Set when a log line has said that the index is too small.
    pub(super) has_said_crowded: AtomicBool,
    pub(super) counts: DirectoryCounts,
    pub(super) ring: RingCounts,
    /// Callback with the keys of evicted objects.
    pub(super) gave_up: OnceLock<EvictionCallback>,
}

/// Counters that only grow.
#[derive(Default)]
pub(super) struct DirectoryCounts {
    pub(super) evictions: AtomicU64,
    pub(super) corrupt: AtomicU64,
    /// Unreadable pages of the index, as far as the kernel reported them.
    pub(super) lost_pages: AtomicU64,
    /// Entries dropped from the table for damage, or for a stripe that could not be written.
    pub(super) dropped: AtomicU64,
    /// Value of [`forgotten`](Directory::forgotten) when the index on disk was begun.
    pub(super) forgotten_before: AtomicU64,
}

impl Directory {
    /// Makes the directory of a volume from the header of its index file. `is_known` tells that the
    /// file has this header, `is_sound` that the table covers the whole log.
    pub(super) fn new(
        file: &Arc<VolumeFile>,
        (table, checkpoint, changed): (VolumeIndex, Checkpoint, ChangedKeys),
        header: &CheckpointHeader,
        (is_known, is_sound): (bool, bool),
        least_id: u64,
    ) -> Self {
        let geometry = file.geometry;
        assert!(header.written_stripes <= u64::from(geometry.stripes), "a header that was not checked");
        Self {
            file: Arc::clone(file),
            geometry,
            table,
            checkpoint: RankedMutex::new(checkpoint),
            changed,
            checkpointed_at: AtomicU64::new(header.stripe * geometry.stripe_bytes + header.offset),
            next_id: AtomicU64::new(header.next_id.max(least_id)),
            written_stripes: AtomicU32::new(header.written_stripes as u32),
            has_missed: AtomicBool::new(false),
            is_followed: AtomicBool::new(is_sound),
            is_recovered: AtomicBool::new(false),
            is_index_read: AtomicBool::default(),
            index_may_be_clean: AtomicBool::new(is_known),
            is_generation_due: AtomicBool::new(true),
            is_index_known: AtomicBool::new(is_known),
            has_said_crowded: AtomicBool::new(false),
            counts: DirectoryCounts::default(),
            ring: RingCounts::at(header.stripe as u32),
            gave_up: OnceLock::new(),
        }
    }

    /// Logs unreadable pages of the index. The next checkpoint writes the whole index again. The
    /// objects of these pages are misses, until the index is rebuilt.
    pub(super) fn see_to_lost_pages(&self) {
        let before = self.counts.lost_pages.load(Relaxed);
        let lost = self.table.lost_pages(before);
        assert!(lost >= before, "lost pages came back");
        if lost > before {
            self.counts.lost_pages.store(lost, Relaxed);
            self.file.health.in_background.fetch_add(lost - before, Relaxed);
            error!(
                pages = lost,
                "the disk did not deliver a part of the volume's index: what it led to is not found; look at the disk's health"
            );
        }
    }

    /// Counts a hit on an object of the log, for the object and for its part of the ring.
    pub(super) fn count_hit(&self, key: Key, entry: VolumeEntry) {
        self.table.count_hit(key, entry);
        if let Some(stripe) = self.geometry.stripe_of(entry.position()) {
            self.ring.count_hit(stripe, self.geometry.stripes);
        }
    }

    /// Checks the counts against the volume, and those of the table against its places.
    pub(super) fn invariants(&self) {
        assert_eq!(self.geometry, self.file.geometry);
        assert!(self.written_stripes.load(Relaxed) <= self.geometry.stripes);
        assert!(self.checkpointed_at.load(Relaxed) <= self.geometry.log_bytes());
        let is_recovered = self.is_recovered.load(Relaxed);
        assert!(!is_recovered || self.is_followed.load(Relaxed), "an end that was found without a way there");
        self.table.invariants();
    }

    /// Returns `true` if every stripe has been written: further writes reclaim stripes.
    pub(super) fn is_full(&self) -> bool {
        self.written_stripes.load(Relaxed) >= self.geometry.stripes
    }
}
