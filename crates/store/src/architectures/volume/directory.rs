//! The directory of a volume: the table of its objects, how far it knows the log, and what is told
//! of objects that leave it.
//!
//! `checkpoint` writes it to disk, `recovery` enters what the log says of it.

use super::changed::Changed;
use super::checkpoint::{Checkpoint, Header};
use super::format::Geometry;
use super::index::VolumeIndex;
use super::locks::{CHECKPOINT, RankedMutex};
use super::volume_file::VolumeFile;
use crate::EvictionCallback;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tracing::error;

/// The objects of a volume.
pub(super) struct Directory {
    pub(super) file: Arc<VolumeFile>,
    pub(super) geometry: Geometry,
    pub(super) table: VolumeIndex,
    pub(super) checkpoint: RankedMutex<Checkpoint, CHECKPOINT>,
    /// Keys that the log may speak of since the checkpoint.
    pub(super) changed: Changed,
    /// Where the log ended when the index was last written, in bytes of it.
    pub(super) checkpointed_at: AtomicU64,
    pub(super) next_id: AtomicU64,
    pub(super) written_stripes: AtomicU32,
    /// A part of the log could not be read when it was followed.
    pub(super) has_missed: AtomicBool,
    /// All of the log has been entered: no later record overrules an entry.
    pub(super) is_followed: AtomicBool,
    /// The log's end has been found; nothing is written before.
    pub(super) is_recovered: AtomicBool,
    /// The device has been told to read the index.
    pub(super) is_index_read: AtomicBool,
    /// The index on disk may say that nothing was written to the log since: always after opening
    /// when it has a header. A header that says otherwise may have been read before it was brought
    /// to disk.
    pub(super) index_may_be_clean: AtomicBool,
    /// Only earlier processes have written in this generation's time.
    pub(super) is_generation_due: AtomicBool,
    /// The index file has a header. A new index has none until it is complete, so that it is made
    /// again when the process ends before.
    pub(super) is_index_known: AtomicBool,
    /// The log has said that the index is too small.
    pub(super) has_said_crowded: AtomicBool,
    pub(super) counts: Counts,
    /// Called with keys whose objects were evicted.
    pub(super) gave_up: OnceLock<EvictionCallback>,
}

/// Numbers that only grow.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) evictions: AtomicU64,
    pub(super) corrupt: AtomicU64,
    /// Pages of the index that could not be read, as far as that was told.
    pub(super) lost_pages: AtomicU64,
    /// Entries that were dropped from the table for damage, or for a stripe that could not be
    /// written.
    pub(super) dropped: AtomicU64,
    /// What [`forgotten`](Directory::forgotten) was when the index was begun that is on disk.
    pub(super) forgotten_before: AtomicU64,
}

impl Directory {
    /// The directory of a volume whose index file has this header, if `is_known`; and all of the
    /// log in its table, if `is_sound`.
    pub(super) fn new(
        file: &Arc<VolumeFile>,
        (table, checkpoint, changed): (VolumeIndex, Checkpoint, Changed),
        header: &Header,
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
            counts: Counts::default(),
            gave_up: OnceLock::new(),
        }
    }

    /// Says it when pages of the index could not be read. All of it is written anew with the next
    /// checkpoint. What they held is missed, and found again when the index is made anew.
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

    /// Checks the counts against the volume, and those of the table against its places.
    pub(super) fn invariants(&self) {
        assert_eq!(self.geometry, self.file.geometry);
        assert!(self.written_stripes.load(Relaxed) <= self.geometry.stripes);
        assert!(self.checkpointed_at.load(Relaxed) <= self.geometry.log_bytes());
        let is_recovered = self.is_recovered.load(Relaxed);
        assert!(!is_recovered || self.is_followed.load(Relaxed), "an end that was found without a way there");
        self.table.invariants();
    }

    /// Every stripe has been written: from now on space is had by giving something up.
    pub(super) fn is_full(&self) -> bool {
        self.written_stripes.load(Relaxed) >= self.geometry.stripes
    }
}
