//! Inodes in memory: a limited number. The least recently used ones leave unless they are open.

use super::Kernel;
use super::buffers::Block;
use crate::cache::PageKey;
use crate::ffs::Inode;
use crate::report::BlockKind;

/// Inode of a disk's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct FileId {
    pub(in super::super) disk: u8,
    pub(in super::super) inode: u32,
}

/// State of an inode in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InCore {
    /// Number of this stay in memory.
    pub(super) generation: u64,
}

impl FileId {
    /// Returns the inode as one number.
    pub(super) fn number(self) -> u64 {
        u64::from(self.disk) << 32 | u64::from(self.inode)
    }
}

impl Kernel {
    pub(super) fn inode(&self, file: FileId) -> &Inode {
        self.volumes[usize::from(file.disk)].inode(file.inode)
    }

    pub(super) fn inode_mut(&mut self, file: FileId) -> &mut Inode {
        self.volumes[usize::from(file.disk)].inode_mut(file.inode)
    }

    /// Brings an inode into memory, reading its block if it is not there (`iget`).
    pub(super) fn hold_inode(&mut self, file: FileId) {
        let is_hit = self.inodes.touch(file).is_some();
        if !self.counts.inodes.count(is_hit) {
            self.make_inode_room();
            let block = self.inode_block(file);
            self.read_block(block);
            self.generation += 1;
            self.inodes.insert(file, InCore { generation: self.generation });
        }
    }

    /// Notes a change of an inode that may wait for the next cleaning.
    pub(super) fn change_inode(&mut self, file: FileId) {
        self.dirty_inodes.insert(file);
    }

    /// Writes an inode and waits.
    pub(super) fn write_inode(&mut self, file: FileId) {
        self.dirty_inodes.remove(&file);
        let block = self.inode_block(file);
        self.read_block(block);
        self.write_block(block);
    }

    /// Copies changed inodes into their blocks, which are dirty then.
    pub(super) fn clean_inodes(&mut self) {
        for file in std::mem::take(&mut self.dirty_inodes) {
            self.put_inode(file);
        }
    }

    /// Copies an inode into its block.
    pub(super) fn put_inode(&mut self, file: FileId) {
        let block = self.inode_block(file);
        self.read_block(block);
        self.change_block(block);
    }

    /// Removes an inode and its pages from memory, without writing: the file is gone.
    pub(super) fn forget_inode(&mut self, file: FileId) {
        self.inodes.remove(file);
        self.dirty_inodes.remove(&file);
        self.drop_pages(file, 0);
    }

    /// Drops a file's pages from this one on, dirty ones too.
    pub(super) fn drop_pages(&mut self, file: FileId, from: u32) {
        let pages = self.inode(file).pages_seen;
        (from..pages).for_each(|page| self.pages.remove(PageKey { file, page }));
    }

    fn inode_block(&self, file: FileId) -> Block {
        let fragment = self.volumes[usize::from(file.disk)].inode_block(file.inode);
        Block::whole(file.disk, fragment, BlockKind::Inode, self.inode(file).is_mapped)
    }

    fn make_inode_room(&mut self) {
        // Open ones are passed over, each once at most.
        for _ in 0..self.inodes.len() {
            if self.inodes.len() < self.machine.memory.inodes.max(1) {
                break;
            }
            let Some(oldest) = self.inodes.oldest() else { break };
            if self.inode(oldest).opens > 0 {
                self.inodes.touch(oldest);
                continue;
            }
            self.evict_inode(oldest);
        }
    }

    fn evict_inode(&mut self, file: FileId) {
        if self.machine.memory.inodes_take_pages {
            self.clean_file(file);
            self.drop_pages(file, 0);
        }
        if self.dirty_inodes.remove(&file) {
            self.put_inode(file);
        }
        self.inodes.remove(file);
    }
}
