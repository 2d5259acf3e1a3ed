//! Disks named in the settings, and whether the node needs them.

use crate::{Disk, Store};
use shoal_core::ByteCount;

impl Store {
    /// Returns every disk: those of `disks`, or the one folder, or none without a disk store.
    pub fn all_disks(&self) -> Vec<Disk> {
        if !self.disks.is_empty() || self.directory.as_os_str().is_empty() {
            return self.disks.clone();
        }
        vec![Disk { path: self.directory.clone(), bytes: self.disk, endurance: self.endurance }]
    }

    /// Returns the bytes that may be written to a disk in its life, if known.
    pub fn rating_of(&self, path: &str) -> Option<u64> {
        let disks = self.all_disks();
        let disk = disks.iter().find(|disk| disk.path.to_string_lossy() == path)?;
        disk.endurance.map(|bytes| bytes.0)
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

    /// Returns the bytes of all disks.
    pub fn disk_bytes(&self) -> u64 {
        self.all_disks().iter().map(|disk| disk.bytes.0).sum()
    }

    /// Returns a disk's share of the bytes for pinned responses.
    pub fn pin_max_of(&self, disk: &Disk) -> ByteCount {
        let share = match self.pin_max.0 {
            0 => disk.bytes.0 / 10,
            all => {
                let total = u128::from(self.disk_bytes().max(1));
                u64::try_from(u128::from(all) * u128::from(disk.bytes.0) / total).unwrap_or(u64::MAX)
            }
        };
        // Pinned objects stand still; the rest of the log must be able to go on.
        let share = share.min(disk.bytes.0 / 2);
        debug_assert!(share <= disk.bytes.0 - share, "no room for others");
        ByteCount(share)
    }

    /// Returns the size of the smallest disk.
    pub fn smallest_disk(&self) -> ByteCount {
        self.disks.iter().map(|disk| disk.bytes).min().unwrap_or(self.disk)
    }
}
