//! Reader of a volume: windows around records that were read, pins on stripes that are being read,
//! and the records that a crash may have left in part.
//!
//! `read` has the lookups, `reclaim` and `recovery` the reads of a stripe's contents.

use super::checkpoint::CheckpointHeader;
use super::directory::Directory;
use super::format::VolumeGeometry;
use super::locks::{self, RankedMutex};
use super::pages::PagePool;
use super::stripes::StripePins;
use super::volume_file::VolumeFile;
use super::windows::WindowCache;
use std::collections::HashSet;
use std::sync::Arc;

/// Reads records and decides whether to trust them.
pub(super) struct Reader {
    pub(super) file: Arc<VolumeFile>,
    pub(super) directory: Arc<Directory>,
    pub(super) geometry: VolumeGeometry,
    pub(super) windows: WindowCache,
    /// Pool of memory for reads.
    pub(super) used: Arc<PagePool>,
    pub(super) stripes: Arc<StripePins>,
    /// Held while metadata is replaced on disk, so that a reader that finds it torn can wait.
    pub(super) updating: RankedMutex<(), { locks::UPDATING }>,
    pub(super) doubts: RankedMutex<TornWriteSuspects, { locks::DOUBTS }>,
    /// Set if the last process did not end in order: entries may be older than their records.
    pub(super) may_be_stale: bool,
}

/// Objects and stripes that a crash may have left in part. Their large objects need a check of all
/// pieces, and their damage says nothing about the disk.
#[derive(Default)]
pub(super) struct TornWriteSuspects {
    /// Stripes that may have been half overwritten.
    pub(super) stripes: HashSet<u32>,
    /// Last chunk that is known to be on disk as a whole.
    pub(super) from: u64,
    /// Chunks after `from` up to this one may be incomplete on disk.
    pub(super) until: u64,
    /// Stripe in which the log ended. This stripe and those shortly before may be on disk in part.
    pub(super) end: u32,
    /// Objects that have been verified, by id.
    pub(super) settled: HashSet<u64>,
}

impl Reader {
    /// Makes a reader with windows of `window_bytes`, over a volume with the index header `header`.
    pub(super) fn new(
        directory: &Arc<Directory>,
        window_bytes: u64,
        header: &CheckpointHeader,
        is_sound: bool,
    ) -> Self {
        let geometry = directory.geometry;
        assert_eq!(geometry, directory.file.geometry);
        let doubts = TornWriteSuspects { from: header.sequence, ..TornWriteSuspects::default() };
        Self {
            file: Arc::clone(&directory.file),
            directory: Arc::clone(directory),
            geometry,
            windows: WindowCache::new(window_bytes, &geometry),
            used: Arc::default(),
            stripes: Arc::default(),
            updating: RankedMutex::new(()),
            doubts: RankedMutex::new(doubts),
            may_be_stale: !is_sound,
        }
    }
}
