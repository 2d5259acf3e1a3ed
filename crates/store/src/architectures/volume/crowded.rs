//! Objects that the index had no place for.
//!
//! An index has no more of an object than twenty bits of its key, so of one that has to go for want
//! of a place in reach nobody knows whose it is. Its record says so. A few of these are read in the
//! background, for who keeps a copy elsewhere to be told that it has become the only one: as many
//! as cost little, since an index that is too small gives up an object with each that comes.

use super::Volume;
use super::index::VolumeEntry;
use super::reader::Reader;
use shoal_core::Key;
use std::sync::atomic::Ordering::Relaxed;
use tracing::warn;

impl Volume {
    /// Tells of the next objects that were crowded out, and once says that they are many.
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
    /// Whose record an entry leads to.
    fn key_of(&self, entry: VolumeEntry) -> Option<Key> {
        let stripe = self.geometry.stripe_of(entry.position())?;
        let _pin = self.stripes.pin([stripe])?;
        let span = self.read_span(entry.position(), entry.bytes().min(HEAD_READ_MAX), None).ok()?;
        let head = self.decode_head(&span, entry.position()).ok()?;
        let is_it = entry.is_of(head.key) && head.sequence >= self.directory.table.stripe_sequence(stripe);
        is_it.then_some(head.key)
    }
}

/// Records read in one step of the background work, of which there is one a second when nothing
/// else is due.
const TOLD_AT_ONCE: usize = 16;
/// What a record's head and key take with most metadata; of one with more nobody is told.
const HEAD_READ_MAX: u64 = 8 << 10;
/// So large a part of the index's objects is worth a word...
const SAID_SHARE: u64 = 100;
/// ...and fewer than these are not.
const SAID_MIN: u64 = 64;

const _: () = {
    assert!(HEAD_READ_MAX > super::format::HEAD_BYTES as u64);
    assert!(TOLD_AT_ONCE > 0);
};
