//! Options of an architecture, taken from those of a store, and the parts that a store is built on.
//!
//! A setting of all architectures stands here three times: as a field, with its default, and where
//! it comes from [`OpenOptions`].

use super::segments::SegmentSettings;
use super::{REPLACEMENT_DEFAULT, VolumeSettings, replacement};
use crate::fs::FileSystem;
use crate::index::{IndexStorage, MemoryHome};
use crate::{Error, OpenOptions};
use shoal_core::Timestamp;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Settings that an operator decides.
#[derive(Clone, Copy, Debug)]
pub struct ArchitectureOptions {
    /// Limit of disk space in bytes.
    pub disk_bytes: u64,
    /// Limit of objects; 0 derives it from `disk_bytes`.
    pub max_objects: u64,
    /// Largest body stored, in bytes.
    pub object_max_bytes: u64,
    /// Limit of files in a folder, where the architecture leaves it to the operator; 0 means 384.
    pub files_per_folder: u32,
    /// Name of the replacement policy (see [`REPLACEMENTS`](super::REPLACEMENTS)).
    pub replacement: &'static str,
    /// Settings of the mapped file for small objects, where the architecture has one.
    pub segments: SegmentSettings,
    /// Settings of the volume, for the architecture of that name.
    pub volume: VolumeSettings,
    /// Time of opening; used only to number objects.
    pub now: Timestamp,
}

impl Default for ArchitectureOptions {
    /// Options without limits but 1 GiB for a body, at time 0. A store needs `disk_bytes`.
    fn default() -> Self {
        Self {
            disk_bytes: 0,
            max_objects: 0,
            object_max_bytes: 1 << 30,
            files_per_folder: 0,
            replacement: REPLACEMENT_DEFAULT,
            segments: SegmentSettings::default(),
            volume: VolumeSettings::default(),
            now: Timestamp::from_millis(0),
        }
    }
}

impl ArchitectureOptions {
    /// Returns the options of a store that has `disk_bytes`.
    pub(super) fn of(options: &OpenOptions, disk_bytes: u64) -> Result<Self, Error> {
        Ok(Self {
            disk_bytes,
            max_objects: options.max_objects,
            object_max_bytes: options.object_max_bytes,
            files_per_folder: options.files_per_folder,
            replacement: replacement::known(&options.replacement)?,
            segments: options.segments,
            volume: options.volume,
            now: options.now,
        })
    }
}

/// Parts that a store is built on.
pub struct StoreEnv {
    /// File system for object files.
    pub files: Arc<dyn FileSystem>,
    /// Storage of the index.
    pub index: Box<dyn IndexStorage>,
    /// Identifier of the machine's current boot. An index last written in another boot may have
    /// lost pages.
    pub boot: u64,
    /// Lock held while the store or any of its bodies is in use.
    pub lock: Option<OwnedFd>,
    /// File system that survives the process but no power loss, where there is one. No disk sees
    /// its writes.
    pub transient: Option<Arc<dyn FileSystem>>,
    /// `true` gives background work a thread. Without the thread nothing happens between calls:
    /// equal calls then do equal work on the disk, and a volume finds the end of its log before it
    /// is open.
    pub background: bool,
}

impl StoreEnv {
    /// Returns the parts of a store on `files`, with an index in RAM, in boot 1. The store has no
    /// lock and no background work, so that equal calls do equal work.
    pub fn in_memory(files: Arc<dyn FileSystem>) -> Self {
        let index = Box::new(MemoryHome::default());
        Self { files, index, boot: 1, lock: None, transient: None, background: false }
    }
}
