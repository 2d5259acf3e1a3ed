//! Objects evicted because the index had no place for them.
//!
//! An index entry holds only twenty bits of the key. When an entry is evicted because no place is
//! in reach, the index therefore cannot name its object. The object's record can. The background
//! work reads a few of these records, so that a holder of another copy learns that its copy is the
//! only one. The number of reads is small: an index that is too small evicts one object with each
//! insert.

use super::Volume;
use super::index::VolumeEntry;
use super::reader::Reader;
use shoal_core::Key;
use std::sync::atomic::Ordering::Relaxed;
use tracing::warn;

impl Volume {
    /// Reports the next objects evicted by the index, and logs once that there are many.
    pub(super) fn report_index_evictions(&self) {
        let (crowded_out, most) = (self.directory.table.crowded_out(), self.directory.table.objects_max());
        if crowded_out >= (most / SAID_SHARE).max(SAID_MIN)
            && !self.directory.has_said_crowded.swap(true, Relaxed)
        {
            warn!(
                crowded_out,
                objects_max = most,
                "the volume's index is too small for the objects that come, and gives some up that there is space for; a \
                 volume that is made anew with a larger store.max_objects keeps them"
            );
        }
        let Some(gave_up) = self.directory.gave_up.get() else { return };
        let keys = self
            .directory
            .table
            .take_crowded_out(TOLD_AT_ONCE)
            .into_iter()
            .filter_map(|entry| self.reader.key_of(entry));
        keys.filter(|key| !self.may_contain(*key)).for_each(|key| gave_up(key));
    }
}

impl Reader {
    /// Returns the key of the record that an entry leads to.
    fn key_of(&self, entry: VolumeEntry) -> Option<Key> {
        let stripe = self.geometry.stripe_of(entry.position())?;
        let _pin = self.stripes.pin([stripe])?;
        let span = self.read_span(entry.position(), entry.bytes().min(HEAD_READ_MAX), None).ok()?;
        let head = self.decode_head(&span, entry.position()).ok()?;
        let is_it = entry.is_of(head.key) && head.sequence >= self.directory.table.stripe_sequence(stripe);
        is_it.then_some(head.key)
    }
}

/// Records read in one step of the background work. An idle store makes one step a second.
const TOLD_AT_ONCE: usize = 16;
/// Bytes read for a record's head, key and most metadata. A record with more metadata is not
/// reported.
const HEAD_READ_MAX: u64 = 8 << 10;
/// One part in this many of the index's objects is worth a log line.
const SAID_SHARE: u64 = 100;
/// Fewer evictions than this are not worth a log line.
const SAID_MIN: u64 = 64;

const _: () = {
    assert!(HEAD_READ_MAX > super::format::HEAD_BYTES as u64);
    assert!(TOLD_AT_ONCE > 0);
};
