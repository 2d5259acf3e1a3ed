//! Options of a store, and [`open`], which finds the architecture in the table.

use crate::architectures::{ArchitectureOptions, SegmentSettings, VolumeSettings};
use crate::fs::CallTally;
use crate::{Error, Store, architectures};
use shoal_core::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Folder of the store; made when absent.
    pub directory: PathBuf,
    /// Disk space used at most, in bytes: object files in whole file system blocks, folders and
    /// index included.
    pub disk_bytes: u64,
    /// Objects held at most; 0 derives it from `disk_bytes`. Fixed when the store is created.
    pub max_objects: u64,
    /// Largest body stored, in bytes.
    pub object_max_bytes: u64,
    /// Files in a folder at most, where the architecture leaves that to the operator
    /// (`squid_monotonic`); 0 means 384. Fixed when the store is created.
    pub files_per_folder: u32,
    /// The replacement policy, by name: `clock` unless there is reason for another.
    pub replacement: String,
    /// The mapped file for small objects, with `squidm`, `squidml` and `squidmla`.
    pub segments: SegmentSettings,
    /// The volume, with the architecture of that name.
    pub volume: VolumeSettings,
    /// The cache architecture, by name.
    pub architecture: String,
    /// Counts of the calls to the disk, if wanted.
    pub tally: Option<Arc<CallTally>>,
    /// The time of opening. It only numbers objects, so that of two files with one key the newer
    /// wins when the index has been lost.
    pub now: Timestamp,
}

impl Default for OpenOptions {
    /// Options of the default architecture, as [`ArchitectureOptions::default`]. A store needs
    /// `directory` and `disk_bytes`.
    fn default() -> Self {
        let options = ArchitectureOptions::default();
        Self {
            directory: PathBuf::new(),
            disk_bytes: options.disk_bytes,
            max_objects: options.max_objects,
            object_max_bytes: options.object_max_bytes,
            files_per_folder: options.files_per_folder,
            replacement: options.replacement.into(),
            segments: options.segments,
            volume: options.volume,
            architecture: "volume".into(),
            tally: None,
            now: options.now,
        }
    }
}

/// Opens or creates the store in a folder of the file system, in constant time.
///
/// # Errors
/// [`Error::Unusable`] says how an operator can help: unknown architecture, unreadable or read-only
/// folder, limit too small for any object, or another process that has the store open.
pub fn open(options: &OpenOptions) -> Result<Arc<dyn Store>, Error> {
    architectures::open(options)
}
