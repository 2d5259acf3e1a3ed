//! Places of disks that come and go while a node serves: a disk keeps its number for good.
//!
//! Callers keep a disk's number with its bodies and queues. A disk that has been taken out keeps
//! its place therefore, and gets it again when it comes back. Reads take no lock.

use super::disk::Disk;
use crate::Error;
use parking_lot::Mutex;
use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};

/// Disks by number.
pub(super) struct DiskSlots {
    slots: Box<[OnceLock<Disk>]>,
    used: AtomicUsize,
    adding: Mutex<()>,
}

impl DiskSlots {
    /// Makes places for these disks and further ones.
    pub(super) fn new(disks: Vec<Disk>) -> Self {
        let used = disks.len();
        let further = (0..SLOTS_MIN.max(used)).map(|_| OnceLock::new());
        let slots: Box<[_]> = disks.into_iter().map(OnceLock::from).chain(further).collect();
        assert!(slots.len() > used, "no place for a further disk");
        Self { slots, used: AtomicUsize::new(used), adding: Mutex::new(()) }
    }

    /// Adds a disk, and returns its number.
    ///
    /// # Errors
    /// [`Error::Unusable`] if too many disks have come since the start.
    pub(super) fn add(&self, disk: Disk) -> Result<usize, Error> {
        let _adding = self.adding.lock();
        let at = self.len();
        assert!(at <= self.slots.len(), "more disks than places");
        let full = || {
            Error::Unusable(format!(
                "{at} disks have come since the start, and no more places are left: `shoal upgrade` makes some"
            ))
        };
        let slot = self.slots.get(at).ok_or_else(full)?;
        let is_free = slot.set(disk).is_ok();
        assert!(is_free, "a place that is taken twice");
        self.used.store(at + 1, Release);
        Ok(at)
    }

    pub(super) fn len(&self) -> usize {
        self.used.load(Acquire)
    }

    pub(super) fn get(&self, at: usize) -> Option<&Disk> {
        self.slots.get(at)?.get()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Disk> {
        self.slots[..self.len()].iter().filter_map(OnceLock::get)
    }
}

impl Index<usize> for DiskSlots {
    type Output = Disk;

    fn index(&self, at: usize) -> &Disk {
        self.get(at).expect("a number comes from a disk")
    }
}

/// Places for further disks.
const SLOTS_MIN: usize = 64;
