//! The reader of a volume: windows around what was read, pins on stripes that are being read, and
//! the records that a crash may have left in part.
//!
//! `read` has the ways of a lookup, `reclaim` and `recovery` those of the contents of a stripe.

use super::checkpoint::Header;
use super::directory::Directory;
use super::format::Geometry;
use super::locks::{self, RankedMutex};
use super::pages::PagePool;
use super::stripes::StripePins;
use super::volume_file::VolumeFile;
use super::windows::WindowCache;
use std::collections::HashSet;
use std::sync::Arc;

/// Reads records, and decides which to believe.
pub(super) struct Reader {
    pub(super) file: Arc<VolumeFile>,
    pub(super) directory: Arc<Directory>,
    pub(super) geometry: Geometry,
    pub(super) windows: WindowCache,
    /// Memory for reads.
    pub(super) used: Arc<PagePool>,
    pub(super) stripes: Arc<StripePins>,
    /// Held while metadata is replaced on the disk, so that a reader who finds it torn can wait.
    pub(super) updating: RankedMutex<(), { locks::UPDATING }>,
    pub(super) doubts: RankedMutex<TornWriteSuspects, { locks::DOUBTS }>,
    /// The last process did not end in order: entries may be older than their records.
    pub(super) may_be_stale: bool,
}

/// Objects and stripes that a crash may have left in part: large objects whose pieces have to be
/// looked at, and objects whose damage says nothing about the disk.
#[derive(Default)]
pub(super) struct TornWriteSuspects {
    /// Stripes that may have been half written over.
    pub(super) stripes: HashSet<u32>,
    /// Chunks after this one had perhaps not been brought to disk as a whole...
    pub(super) from: u64,
    /// ...up to this one.
    pub(super) until: u64,
    /// The stripe in which the log ended: it and those shortly before may have been brought to disk
    /// in part.
    pub(super) end: u32,
    /// Objects that have been looked at, by number.
    pub(super) settled: HashSet<u64>,
}

impl Reader {
    /// A reader with windows of `window_bytes` over a volume whose index began with `header`.
    pub(super) fn new(
        directory: &Arc<Directory>,
        window_bytes: u64,
        header: &Header,
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
