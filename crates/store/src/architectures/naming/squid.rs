//! Naming of Squid: neighbouring numbers in different folders.

use super::{FILES_PER_FOLDER, LEVEL_MAX, Naming, blocks_of_folder, number_of};
use crate::fs::FileSystem;
use crate::index::Numbers;
use std::io;

/// Squid's naming (Maltzahn 1999, 2.3.2): "A unique file number n maps to a two-level file path
/// that contains the cached object. The file path follows from the unique file number using the
/// formula (x, y, z) = (n mod l1, n/l1 mod l2, n)." All three in hexadecimal, as Squid writes them.
///
/// Neighbouring numbers lie in different first-level folders, so the tree is balanced at every
/// fill. The price: the objects of one page are spread over folders. [`super::ClusteredNaming`] and
/// [`super::ByHost`] avoid this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squid {
    l1: u32,
    l2: u32,
}

impl Squid {
    /// Returns the naming for `max_objects` objects: about 256 in each folder, so that a folder
    /// fills one or two blocks.
    pub fn for_objects(max_objects: u32) -> Self {
        let folders = max_objects.div_ceil(FILES_PER_FOLDER).clamp(1, LEVEL_MAX * LEVEL_MAX);
        let l2 = folders.min(LEVEL_MAX);
        Self { l1: folders.div_ceil(l2), l2 }
    }

    /// Returns the naming with these folder counts at each level; `None` if a count is impossible.
    pub fn with([l1, l2]: [u32; 2]) -> Option<Self> {
        let levels = 1..=LEVEL_MAX;
        (levels.contains(&l1) && levels.contains(&l2)).then_some(Self { l1, l2 })
    }

    /// Returns the naming that fits the existing folders; `None` when there are none.
    pub fn of_folders(files: &dyn FileSystem) -> Option<Self> {
        let count = |folder: &str| {
            let names = files.list(folder, 2 * LEVEL_MAX as usize).unwrap_or_default();
            names.iter().filter(|name| number_of(name, 2).is_some()).count() as u32
        };
        match count("") {
            0 => None,
            l1 => Self::with([l1, count("00").max(1)]),
        }
    }
}

impl Naming for Squid {
    fn parameters(&self) -> [u32; 4] {
        [self.l1, self.l2, 0, 0]
    }

    fn numbers(&self) -> Numbers {
        Numbers::Any
    }

    fn path(&self, number: u32, _: u64) -> String {
        format!("{:02X}/{:02X}/{number:08X}", number % self.l1, number / self.l1 % self.l2)
    }

    fn folders(&self) -> u32 {
        self.l1 * self.l2
    }

    fn folder(&self, folder: u32) -> String {
        format!("{:02X}/{:02X}", folder / self.l2, folder % self.l2)
    }

    fn file_at(&self, _: u32, name: &str) -> Option<(u32, u64)> {
        Some((number_of(name, 8)?, 0))
    }

    fn folder_blocks(&self, max_objects: u64, block_bytes: u64) -> u64 {
        let folders = u64::from(self.folders());
        folders * blocks_of_folder(max_objects.div_ceil(folders), block_bytes) + u64::from(self.l1) + 1
    }

    fn make_folders(&self, files: &dyn FileSystem) -> io::Result<()> {
        for x in 0..self.l1 {
            files.make_folder(&format!("{x:02X}"))?;
            for y in 0..self.l2 {
                files.make_folder(&format!("{x:02X}/{y:02X}"))?;
            }
        }
        Ok(())
    }
}
