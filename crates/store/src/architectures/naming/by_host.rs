//! Naming of SquidL: all objects of a host in one folder.

use super::url::host_of;
use super::{FILES_PER_FOLDER, LEVEL_MAX, Naming, blocks_of_folder, number_of};
use crate::index::Numbers;
use xxhash_rust::xxh3::xxh3_64;

/// SquidL's naming (Maltzahn 1999, 2.4.1): (x, y, z) = (h(s) ∧ m_l1, h(s) ∧ m_l2, n), "where s is
/// the host name of the requested URL, h is a hash function, ∧ is the bitwise conjunction, m_l1 a
/// bit mask for the first level directories, and m_l2 for the second level directories".
///
/// Requests for one page mostly name one host. These requests go to one folder, and the blocks of
/// that folder are in memory. Popular hosts make long folders (the paper had about 30 with more
/// than 1000 files); nothing balances them.
///
/// l1 and l2 are powers of two here. m_l1 selects the lowest bits of h; m_l2 selects the bits above
/// those, shifted down in the name. The paper does not print the masks' values. If both masks
/// selected the lowest bits, y would determine x or the other way round. Only max(l1, l2) of the
/// l1·l2 folders would then be used. h is XXH3-64 of the host in lower case. n is the lowest free
/// number; it only has to be unique, and the low end of the index is warm.
///
/// The number does not name the folder, so the index's side word does: x·l2 + y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByHost {
    l1: u32,
    l2: u32,
}

impl ByHost {
    /// Returns the naming for `max_objects` objects: about 256 in each folder on average.
    pub fn for_objects(max_objects: u32) -> Self {
        let folders =
            max_objects.div_ceil(FILES_PER_FOLDER).clamp(1, LEVEL_MAX * LEVEL_MAX).next_power_of_two();
        let l2 = folders.min(LEVEL_MAX);
        Self { l1: folders / l2, l2 }
    }

    /// Returns the naming with these folder counts at each level; `None` if a count is impossible.
    pub fn with([l1, l2, ..]: [u32; 4]) -> Option<Self> {
        let is_level = |level: u32| level.is_power_of_two() && level <= LEVEL_MAX;
        (is_level(l1) && is_level(l2)).then_some(Self { l1, l2 })
    }
}

impl Naming for ByHost {
    fn parameters(&self) -> [u32; 4] {
        [self.l1, self.l2, 0, 0]
    }

    fn numbers(&self) -> Numbers {
        Numbers::Lowest
    }

    fn needs_sides(&self) -> bool {
        true
    }

    fn side(&self, full_key: &[u8]) -> u64 {
        let hash = xxh3_64(&host_of(full_key).to_ascii_lowercase());
        let (mask1, mask2) = (u64::from(self.l1 - 1), u64::from(self.l2 - 1) << self.l1.trailing_zeros());
        let (x, y) = (hash & mask1, (hash & mask2) >> self.l1.trailing_zeros());
        x * u64::from(self.l2) + y
    }

    fn path(&self, number: u32, side: u64) -> String {
        let folder = (side % u64::from(self.folders())) as u32;
        format!("{}/{number:08X}", self.folder(folder))
    }

    fn folders(&self) -> u32 {
        self.l1 * self.l2
    }

    fn folder(&self, folder: u32) -> String {
        format!("{:02X}/{:02X}", folder / self.l2, folder % self.l2)
    }

    fn file_at(&self, folder: u32, name: &str) -> Option<(u32, u64)> {
        Some((number_of(name, 8)?, u64::from(folder)))
    }

    /// Each folder has one block that is not full, however the files are spread.
    fn folder_blocks(&self, max_objects: u64, block_bytes: u64) -> u64 {
        blocks_of_folder(max_objects, block_bytes) + u64::from(self.folders()) + u64::from(self.l1) + 1
    }
}
