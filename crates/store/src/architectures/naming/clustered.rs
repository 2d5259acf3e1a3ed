//! Namings with neighbouring numbers in one folder; folders fill one after the other.
//!
//! Duane Wessels's MONOTONIC_STORE of Squid 1.2 after Arjan de Vet's patch, as Maltzahn 1999
//! (2.4.1) prints it: at most k files are allocated to a folder, "once a directory reaches this
//! user-configured number of files, Squid switches to a different directory". The path is (x, y, z)
//! = (n/(k·l2), n/k mod l2, n mod k), so that max_objs = l1·l2·k.
//!
//! Andres Kroonmaa ("Clustered Store", squid-dev, 1998) compared two ways to choose n:
//!
//! - the next free number, counting up and wrapping around (`squid_monotonic`);
//! - the lowest free number (`squid_lowest`): "the effect is that squid never uses directories it
//!   doesn't need". Folders are then made on demand (his point 1). l1 and l2 follow from the file
//!   system's block size (point 2). Released files are overwritten in place (point 3; see
//!   `files::released`).
//!
//! Objects stored together lie together as long as there are runs of free numbers. Runs exist while
//! the store fills, and with `squid_monotonic` as long as replacement frees numbers in their order.
//! With both, holes made out of order spread new objects over old folders.

use super::{LEVEL_MAX, Naming, blocks_of_folder, number_of};
use crate::index::Numbers;

/// Naming of `squid_monotonic` and `squid_lowest`. See the file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusteredNaming {
    l1: u32,
    l2: u32,
    /// Limit of files in a folder.
    k: u32,
    numbers: Numbers,
}

impl ClusteredNaming {
    /// Returns the naming for `max_objects` objects, `k` in a folder, with numbers counting up.
    pub fn monotonic(max_objects: u32, k: u32) -> Self {
        Self::new(max_objects, k, Numbers::Next)
    }

    /// Returns the naming for `max_objects` objects, lowest number first. A folder of files, or of
    /// folders, takes one block of the file system. Kroonmaa found 384 files best at 8192 bytes;
    /// other block sizes are in proportion.
    pub fn lowest(max_objects: u32, block_bytes: u32) -> Self {
        let k = u64::from(block_bytes) * FILES_PER_8192 / 8192;
        Self::new(max_objects, k.clamp(1, u64::from(K_MAX)) as u32, Numbers::Lowest)
    }

    fn new(max_objects: u32, k: u32, numbers: Numbers) -> Self {
        let k = k.clamp(1, K_MAX);
        let folders = max_objects.div_ceil(k).max(1);
        let l2 = folders.min(k).min(LEVEL_MAX);
        Self { l1: folders.div_ceil(l2), l2, k, numbers }
    }

    /// Returns the naming with these parameters; `None` if they are impossible.
    pub fn with([l1, l2, k, _]: [u32; 4], numbers: Numbers) -> Option<Self> {
        let is_possible = l1 >= 1 && (1..=LEVEL_MAX).contains(&l2) && (1..=K_MAX).contains(&k);
        (is_possible && l1.checked_mul(l2).is_some()).then_some(Self { l1, l2, k, numbers })
    }
}

impl Naming for ClusteredNaming {
    fn parameters(&self) -> [u32; 4] {
        [self.l1, self.l2, self.k, 0]
    }

    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn path(&self, number: u32, _: u64) -> String {
        format!("{}/{:03X}", self.folder(number / self.k), number % self.k)
    }

    fn folders(&self) -> u32 {
        self.l1 * self.l2
    }

    fn folder(&self, folder: u32) -> String {
        format!("{:02X}/{:02X}", folder / self.l2, folder % self.l2)
    }

    fn file_at(&self, folder: u32, name: &str) -> Option<(u32, u64)> {
        let z = number_of(name, 3).filter(|z| *z < self.k)?;
        Some((folder.checked_mul(self.k)?.checked_add(z)?, 0))
    }

    fn objects_max(&self) -> u64 {
        u64::from(self.folders()) * u64::from(self.k)
    }

    fn folder_blocks(&self, max_objects: u64, block_bytes: u64) -> u64 {
        let folders = max_objects.div_ceil(u64::from(self.k));
        let upper = folders.div_ceil(u64::from(self.l2));
        folders * blocks_of_folder(u64::from(self.k), block_bytes)
            + upper * blocks_of_folder(u64::from(self.l2), block_bytes)
            + blocks_of_folder(upper, block_bytes)
    }
}

/// Three hexadecimal digits.
const K_MAX: u32 = 4096;
/// "384 files/dir seems optimal, as dir block size becomes 8192 bytes (exactly 1 disk block)"
/// (Kroonmaa 1998).
const FILES_PER_8192: u64 = 384;
