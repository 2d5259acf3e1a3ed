//! The disks that the settings name, and whether the node may do without them.

use crate::{Disk, Store};
use shoal_core::ByteCount;

impl Store {
    /// Every disk: those of `disks`, or the one folder; none without a disk store.
    pub fn all_disks(&self) -> Vec<Disk> {
        if !self.disks.is_empty() || self.directory.as_os_str().is_empty() {
            return self.disks.clone();
        }
        vec![Disk { path: self.directory.clone(), bytes: self.disk }]
    }

    /// Says whether the operator has named a disk: the built-in folder of the built-in size is
    /// nobody's wish.
    pub fn names_a_disk(&self) -> bool {
        let built_in = Self::default();
        let is_named = self.required.is_some()
            || self.directory != built_in.directory
            || self.disk != built_in.disk
            || !self.disks.is_empty();
        is_named && !self.all_disks().is_empty()
    }

    /// Says whether the node may not start without a disk that can be used.
    pub fn is_required(&self) -> bool {
        self.names_a_disk() && self.required.unwrap_or(true)
    }

    /// The bytes of the smallest disk.
    pub fn smallest_disk(&self) -> ByteCount {
        self.disks.iter().map(|disk| disk.bytes).min().unwrap_or(self.disk)
    }
}
