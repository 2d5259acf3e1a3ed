//! Inode: the file system's state of a file. In memory the block addresses are one list. Positions
//! tell the addresses in indirect blocks: "the first 12 pointers are direct pointers while the last
//! three pointers refer to indirect blocks" (Maltzahn 1999, 2.1).

use super::contents::Contents;
use super::directory::Directory;
use crate::machine::{FRAGMENT_BYTES, FRAGMENTS};
use std::collections::BTreeMap;

/// File or directory.
#[derive(Debug, Default)]
pub(in super::super) struct Inode {
    /// Length in bytes.
    pub(in super::super) size: u64,
    pub(super) blocks: Vec<Extent>,
    /// Indirect blocks by number: the single one is 0, the double one's root 1, those below it from
    /// 2 on.
    pub(super) indirect: BTreeMap<u32, u32>,
    pub(in super::super) contents: Contents,
    pub(in super::super) directory: Option<Directory>,
    /// Number of open handles and mappings.
    pub(in super::super) opens: u32,
    /// `true` if no name leads to the file any more.
    pub(in super::super) is_unlinked: bool,
    /// `true` if the file is memory-mapped: its traffic is counted apart.
    pub(in super::super) is_mapped: bool,
    /// Number of the file's first pages that have been in memory at some time, or may have been.
    pub(in super::super) pages_seen: u32,
    /// Number of the file's first pages that have been written at some time, or may have been.
    pub(in super::super) written_pages: u32,
    /// Next block of a sequential reader, and the number of blocks that it would get.
    pub(in super::super) ahead: ReadAhead,
    /// Next page of sequential faults, likewise.
    pub(in super::super) fault_ahead: ReadAhead,
    /// Whole blocks written one after the other.
    pub(in super::super) run: Run,
}

/// Blocks written one after the other, which may become a full cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Run {
    pub(in super::super) start: u32,
    pub(in super::super) length: u32,
}

/// Last block that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Tail {
    pub(in super::super) page: u32,
    pub(in super::super) bytes: u32,
}

/// Recognition of sequential reading.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct ReadAhead {
    pub(in super::super) next: u32,
    pub(in super::super) window: u32,
}

/// Adjacent fragments that hold a block of a file, or its last part. Address 0, of the boot block,
/// holds no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Extent {
    pub(in super::super) address: u32,
    pub(in super::super) fragments: u32,
}

impl Inode {
    /// Returns the extent of a block; `None` if it was never written.
    pub(in super::super) fn extent(&self, block: u32) -> Option<Extent> {
        self.blocks.get(block as usize).copied().filter(|extent| extent.fragments > 0)
    }

    /// Returns the number of whole, adjacent blocks from this one on, at most `limit`. `with_tail`
    /// counts a fragmented last block too.
    pub(in super::super) fn adjacent(&self, block: u32, limit: u32, with_tail: bool) -> u32 {
        let Some(first) = self.extent(block) else { return 0 };
        let follows = |count: &u32| {
            let here = self.extent(block + count);
            let before_is_whole =
                self.extent(block + count - 1).is_some_and(|extent| extent.fragments == FRAGMENTS);
            before_is_whole
                && here.is_some_and(|extent| {
                    extent.address == first.address + count * FRAGMENTS
                        && (with_tail || extent.fragments == FRAGMENTS)
                })
        };
        1 + (1..limit.max(1)).take_while(follows).count() as u32
    }

    /// Returns the addresses of the indirect blocks on the way to a block.
    pub(in super::super) fn way_to(&self, block: u32) -> Vec<u32> {
        slots(block).filter_map(|slot| self.indirect.get(&slot).copied()).collect()
    }

    /// Returns the last block if it is not whole.
    pub(in super::super) fn short_tail(&self) -> Option<Tail> {
        let last = self.blocks.last().filter(|last| (1..FRAGMENTS).contains(&last.fragments))?;
        Some(Tail { page: self.blocks.len() as u32 - 1, bytes: last.fragments * FRAGMENT_BYTES })
    }

    /// Returns the addresses of all indirect blocks.
    pub(in super::super) fn indirect_blocks(&self) -> Vec<u32> {
        self.indirect.values().copied().collect()
    }

    /// Returns the number of fragments that the file takes, indirect blocks included.
    pub(in super::super) fn fragments(&self) -> u64 {
        let data: u64 = self.blocks.iter().map(|extent| u64::from(extent.fragments)).sum();
        data + self.indirect.len() as u64 * u64::from(FRAGMENTS)
    }
}

/// Returns the numbers of the indirect blocks on the way to a block, from the inode on.
pub(super) fn slots(block: u32) -> impl Iterator<Item = u32> {
    let single = (DIRECT..DIRECT + POINTERS).contains(&block).then_some(0);
    let double = block.checked_sub(DIRECT + POINTERS).map(|behind| [1, 2 + behind / POINTERS]);
    single.into_iter().chain(double.into_iter().flatten())
}

/// Blocks with addresses in the inode.
pub(in super::super) const DIRECT: u32 = 12;
/// Addresses of 4 bytes in a block.
pub(super) const POINTERS: u32 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_block() {
        for (block, expected) in [
            (11, vec![]),
            (12, vec![0]),
            (12 + 2047, vec![0]),
            (12 + 2048, vec![1, 2]),
            (12 + 2048 + 2048, vec![1, 3]),
        ] {
            assert_eq!(slots(block).collect::<Vec<_>>(), expected, "block {block}");
        }
    }

    #[test]
    fn adjacent_blocks_are_whole_but_for_a_tail() {
        let extent = |address, fragments| Extent { address, fragments };
        let blocks = vec![extent(100, 8), extent(108, 8), extent(200, 8), extent(208, 3)];
        let inode = Inode { blocks, ..Inode::default() };
        assert_eq!([0, 1, 2, 3, 4].map(|block| inode.adjacent(block, 8, false)), [2, 1, 1, 1, 0]);
        assert_eq!([0, 2].map(|block| inode.adjacent(block, 8, true)), [2, 2]);
        assert_eq!(inode.adjacent(0, 1, true), 1);
    }
}
