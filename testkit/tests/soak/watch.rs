//! What the node holds: memory and disks while it works, descriptors and RAM when its clients have
//! left.

use crate::DISKS;
use shoal_testkit::{Shoal, disk, wait};
use std::cell::Cell;
use std::time::Duration;

/// The most that was seen.
#[derive(Debug)]
pub struct Watch {
    ram: u64,
    resident: Cell<u64>,
    descriptors: Cell<usize>,
}

impl Watch {
    pub fn new(ram: u64) -> Self {
        Self { ram, resident: Cell::new(0), descriptors: Cell::new(0) }
    }

    /// Memory, descriptors and disks as they are under the load.
    pub fn look(&self, shoal: &Shoal) {
        self.resident.set(self.resident.get().max(shoal.resident_bytes()));
        self.descriptors.set(self.descriptors.get().max(descriptors(shoal)));
        for (name, _, bytes) in DISKS {
            let occupied = disk::occupied(&shoal.folder().join(name));
            assert!(occupied <= bytes, "{occupied} bytes of disk {name}, which has {bytes}");
        }
        let resident = self.resident.get();
        assert!(
            resident <= self.ram + self.ram / 16 + BESIDE,
            "{resident} bytes resident: {}",
            shoal.status()["ram"]
        );
    }

    /// The same when all clients have left, and nothing is asked of the origin.
    pub fn after(&self, shoal: &Shoal) {
        let left = || shoal.metric("shoal_connections", "");
        wait::until("all connections are closed", || left() == 0);
        let few = wait::within(Duration::from_secs(20), || descriptors(shoal) <= DESCRIPTORS);
        assert!(few, "{} descriptors are left", descriptors(shoal));
        let ram = &shoal.status()["ram"];
        assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= self.ram), "{ram}");
        eprintln!("{self:?}, {} bytes resident at the end; {ram}", shoal.resident_bytes());
    }
}

fn descriptors(shoal: &Shoal) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", shoal.pid())).map_or(0, Iterator::count)
}

/// What a node with a volume and some dozen clients takes beside `cache.ram`.
const BESIDE: u64 = 48 << 20;

/// Of a node that serves nobody: listeners, logs, store, runtimes, and some connections to the
/// origin that are kept.
const DESCRIPTORS: usize = 120;
