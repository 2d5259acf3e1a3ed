//! Metadata cache: blocks of inodes, directories, cylinder groups and addresses. The cache has a
//! fixed size, apart from the memory for file data. Digital UNIX 4.0's buffer cache "only needs to
//! cache metadata, requiring only 3% of physical memory".

use super::{Kernel, traffic};
use crate::cache::Lru;
use crate::disk::Transfer;
use crate::ffs::Effects;
use crate::machine::{MetadataWrites, PAGE_BYTES};
use crate::report::BlockKind;
use std::collections::BTreeSet;

/// Metadata block on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) disk: u8,
    pub(super) fragment: u32,
    pub(super) bytes: u32,
    pub(super) kind: BlockKind,
    pub(super) is_mapped: bool,
}

type Place = (u8, u32);

/// Blocks in memory.
#[derive(Debug)]
pub(super) struct Buffers {
    resident: Lru<Place, Option<Block>>,
    dirty: BTreeSet<Place>,
    bytes: u64,
    limit: u64,
}

impl Buffers {
    pub(super) fn new(limit: u64) -> Self {
        Self { resident: Lru::new(), dirty: BTreeSet::new(), bytes: 0, limit }
    }

    fn remove(&mut self, place: Place) -> Option<Block> {
        let block = self.resident.remove(place).flatten()?;
        self.bytes -= u64::from(block.bytes);
        Some(block)
    }
}

impl Block {
    /// Returns a whole block.
    pub(super) fn whole(disk: u8, fragment: u32, kind: BlockKind, is_mapped: bool) -> Self {
        Self { disk, fragment, bytes: PAGE_BYTES as u32, kind, is_mapped }
    }

    fn place(&self) -> Place {
        (self.disk, self.fragment)
    }

    fn transfer(&self, is_write: bool) -> Transfer {
        let traffic = traffic(is_write, self.is_mapped, self.kind);
        Transfer { traffic, fragment: self.fragment, bytes: self.bytes }
    }
}

impl Kernel {
    /// Brings a block into memory, reading it if it is not there (`bread`).
    pub(super) fn read_block(&mut self, block: Block) {
        let is_hit = self.buffers.resident.touch(block.place()).is_some();
        if !self.counts.metadata.count(is_hit) {
            self.hold_block(block);
            self.transfer(block.disk, block.transfer(false));
        }
    }

    /// Gives a block memory without reading its content.
    pub(super) fn hold_block(&mut self, block: Block) {
        self.buffers.remove(block.place());
        while self.buffers.bytes + u64::from(block.bytes) > self.buffers.limit
            && let Some(oldest) = self.buffers.resident.oldest()
        {
            let gone = self.buffers.remove(oldest);
            if self.buffers.dirty.remove(&oldest)
                && let Some(gone) = gone
            {
                self.start(gone.disk, gone.transfer(true));
            }
        }
        self.buffers.bytes += u64::from(block.bytes);
        self.buffers.resident.insert(block.place(), Some(block));
    }

    /// Changes a block in memory; the next cleaning writes it to the disk (`bdwrite`).
    pub(super) fn change_block(&mut self, block: Block) {
        self.buffers.dirty.insert(block.place());
    }

    /// Changes a block, and waits until the disk has it (`bwrite`) or the log does.
    pub(super) fn write_block(&mut self, block: Block) {
        match self.machine.file_system.metadata_writes {
            MetadataWrites::Synchronous => {
                self.buffers.dirty.remove(&block.place());
                self.transfer(block.disk, block.transfer(true));
            }
            MetadataWrites::Logged { change_bytes } => {
                self.change_block(block);
                self.log(block.disk, change_bytes);
            }
        }
    }

    /// Forgets a block that is no longer in use.
    pub(super) fn forget_block(&mut self, disk: u8, fragment: u32) {
        self.buffers.remove((disk, fragment));
        self.buffers.dirty.remove(&(disk, fragment));
    }

    /// Starts writing all changed blocks.
    pub(super) fn clean_blocks(&mut self) {
        for place in std::mem::take(&mut self.buffers.dirty) {
            if let Some(Some(block)) = self.buffers.resident.peek(place) {
                let (disk, transfer) = (block.disk, block.transfer(true));
                self.start(disk, transfer);
            }
        }
    }

    /// Charges the changes of an allocation. Groups' maps are written with a delay. New blocks of
    /// addresses are written at once, "so that indirect blocks never point at garbage" (4.4BSD,
    /// `ffs_balloc.c`).
    pub(super) fn charge_effects(&mut self, disk: u8, is_mapped: bool) {
        let Effects { groups, new_indirect } = self.volume(disk).take_effects();
        for group in groups {
            let fragment = self.volume(disk).group_block(group);
            let block = Block::whole(disk, fragment, BlockKind::Group, is_mapped);
            self.read_block(block);
            self.change_block(block);
        }
        for fragment in new_indirect {
            let block = Block::whole(disk, fragment, BlockKind::Indirect, is_mapped);
            self.hold_block(block);
            self.write_block(block);
        }
    }
}
