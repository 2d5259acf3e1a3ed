//! Positions on a disk: the arithmetic of cylinder groups.
//!
//! ```text
//! group:  boot, superblock copy | group block | inode blocks, 64 inodes each | data blocks
//!         2 blocks                1 block       inodes / 64 blocks            the rest
//! ```

use crate::disk::DiskModel;
use crate::machine::{FRAGMENT_BYTES, FRAGMENTS, FileSystemShape};

/// Measures of a file system, in fragments unless otherwise stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FfsShape {
    pub(super) groups: u32,
    pub(super) fragments_per_group: u32,
    pub(super) inodes_per_group: u32,
}

impl FfsShape {
    /// Returns the shape that `newfs` would make. Space behind the last whole group is not used.
    pub(super) fn new(model: &DiskModel, parameters: &FileSystemShape) -> Self {
        let cylinder_bytes = model.bytes() / u64::from(model.cylinders);
        let group_bytes = cylinder_bytes * u64::from(parameters.cylinders_per_group.max(1));
        let block_bytes = u64::from(FRAGMENTS * FRAGMENT_BYTES);
        let fragments_per_group = (group_bytes / block_bytes) as u32 * FRAGMENTS;
        let per_inode = parameters.bytes_per_inode.max(FRAGMENT_BYTES);
        let inodes = (u64::from(fragments_per_group * FRAGMENT_BYTES) / u64::from(per_inode)) as u32;
        let fragments = model.bytes() / u64::from(FRAGMENT_BYTES);
        let groups = (fragments / u64::from(fragments_per_group)).max(1) as u32;
        let inodes_per_group = inodes.next_multiple_of(INODES_PER_BLOCK);
        assert!(fragments_per_group > 0 && inodes_per_group > 0, "a group has blocks and inodes");
        Self { groups, fragments_per_group, inodes_per_group }
    }

    /// Returns the number of fragments at the start of each group that hold no data.
    pub(super) fn fragments_before_data(&self) -> u32 {
        INODES_AT + self.inodes_per_group / INODES_PER_BLOCK * FRAGMENTS
    }

    pub(super) fn group_of_inode(&self, inode: u32) -> u32 {
        inode / self.inodes_per_group
    }

    pub(super) fn group_of_fragment(&self, fragment: u32) -> u32 {
        fragment / self.fragments_per_group
    }

    /// Returns the block that holds an inode.
    pub(super) fn inode_block(&self, inode: u32) -> u32 {
        let block = inode % self.inodes_per_group / INODES_PER_BLOCK;
        self.group_start(self.group_of_inode(inode)) + INODES_AT + block * FRAGMENTS
    }

    /// Returns the block with a group's free maps.
    pub(super) fn group_block(&self, group: u32) -> u32 {
        self.group_start(group) + GROUP_AT
    }

    pub(super) fn group_start(&self, group: u32) -> u32 {
        group * self.fragments_per_group
    }

    /// Returns the number of fragments for data on the whole disk.
    pub(super) fn data_fragments(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.fragments_per_group - self.fragments_before_data())
    }
}

/// Inodes of a block: 8192 bytes of 128.
const INODES_PER_BLOCK: u32 = 64;
const GROUP_AT: u32 = 2 * FRAGMENTS;
const INODES_AT: u32 = 3 * FRAGMENTS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_four_gigabyte_disk_by_hand() {
        // 16 cylinders of 20 × 113 sectors: 36,160 sectors, 18,080 fragments, 2260 blocks; one
        // inode for 4 fragments.
        let shape = FfsShape::new(&DiskModel::rz29(), &FileSystemShape::default());
        assert_eq!(shape, FfsShape { groups: 231, fragments_per_group: 18_080, inodes_per_group: 4544 });
        assert_eq!(shape.fragments_before_data(), 24 + 71 * 8);
        assert_eq!((shape.inode_block(2), shape.inode_block(64), shape.group_block(0)), (24, 32, 16));
        assert_eq!((shape.inode_block(4544), shape.group_block(1)), (18_104, 18_096));
    }
}
