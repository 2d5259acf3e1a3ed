//! Disks named in the settings, and whether the node needs them.

use crate::{Disk, Store};
use shoal_core::ByteCount;

impl Store {
    /// Returns every disk: those of `disks`, or the one folder, or none without a disk store.
    pub fn all_disks(&self) -> Vec<Disk> {
        if !self.disks.is_empty() || self.directory.as_os_str().is_empty() {
            return self.disks.clone();
        }
        vec![Disk { path: self.directory.clone(), bytes: self.disk }]
    }

    /// Returns `true` if the operator has named a disk. The built-in folder with the built-in size
    /// does not count.
    pub fn names_a_disk(&self) -> bool {
        let built_in = Self::default();
        let is_named = self.required.is_some()
            || self.directory != built_in.directory
            || self.disk != built_in.disk
            || !self.disks.is_empty();
        is_named && !self.all_disks().is_empty()
    }

    /// Returns `true` if the node must not start without a usable disk.
    pub fn is_required(&self) -> bool {
        self.names_a_disk() && self.required.unwrap_or(true)
    }

    /// Returns the size of the smallest disk.
    pub fn smallest_disk(&self) -> ByteCount {
        self.disks.iter().map(|disk| disk.bytes).min().unwrap_or(self.disk)
    }
}
