//! Defaults of a store's options, and the parts of a store without a disk.

use super::segments::SegmentSettings;
use super::{ArchitectureOptions, REPLACEMENTS, StoreEnv, VolumeSettings};
use crate::fs::FileSystem;
use crate::index::MemoryHome;
use shoal_core::Timestamp;
use std::sync::Arc;

impl Default for ArchitectureOptions {
    /// Options without limits but 1 GiB for a body, at time 0. A store needs `disk_bytes`.
    fn default() -> Self {
        Self {
            disk_bytes: 0,
            max_objects: 0,
            object_max_bytes: 1 << 30,
            files_per_folder: 0,
            replacement: REPLACEMENTS[0],
            segments: SegmentSettings::default(),
            volume: VolumeSettings::default(),
            now: Timestamp::from_millis(0),
        }
    }
}

impl StoreEnv {
    /// Returns the parts of a store on `files`, with an index in RAM, in boot 1. The store has no
    /// lock and no background work, so that equal calls do equal work.
    pub fn in_memory(files: Arc<dyn FileSystem>) -> Self {
        let index = Box::new(MemoryHome::default());
        Self { files, index, boot: 1, lock: None, transient: None, background: false }
    }
}
