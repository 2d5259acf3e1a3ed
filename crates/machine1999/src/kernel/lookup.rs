//! From a path to an inode, name by name: "each translation can cause a miss in the file system's
//! name cache in which case the translation requires information from the disk" (Maltzahn 1999,
//! 2.3.1).

use super::buffers::Block;
use super::{FileId, Kernel};
use crate::cache::Remembered;
use crate::ffs::ROOT;
use crate::report::BlockKind;
use rustix::io::Errno;

/// Purpose of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// Use the named file.
    Find,
    /// Enter the name. The cache forgets it.
    Create,
    /// Remove the name. Its entry is sought in the directory in any case.
    Remove,
}

impl Kernel {
    /// Returns the directory that names lead to from the root of a disk.
    pub(super) fn walk(&mut self, disk: u8, names: &[&str]) -> Result<FileId, Errno> {
        let mut directory = FileId { disk, inode: ROOT };
        self.hold_inode(directory);
        for name in names {
            directory = self.step(directory, name, Intent::Find)?.ok_or(Errno::NOENT)?;
            self.inode(directory).directory.as_ref().ok_or(Errno::NOTDIR)?;
        }
        Ok(directory)
    }

    /// Looks a name up in a directory.
    pub(super) fn step(
        &mut self,
        directory: FileId,
        name: &str,
        intent: Intent,
    ) -> Result<Option<FileId>, Errno> {
        self.spend(self.machine.processor.name);
        let entries = self.inode(directory).directory.as_ref().ok_or(Errno::NOTDIR)?;
        let found = entries.find(name).map(|entry| FileId { disk: directory.disk, inode: entry.inode });
        let is_hit = self.is_remembered(directory, name, found, intent);
        if !self.counts.names.count(is_hit) {
            self.search_directory(directory, name, intent);
        }
        if let Some(file) = found {
            self.hold_inode(file);
        }
        if !is_hit && intent == Intent::Find {
            self.remember(directory, name, found);
        }
        Ok(found)
    }

    /// Returns the block of a directory, as its cache knows it.
    pub(super) fn directory_block(&self, directory: FileId, block: u32) -> Option<Block> {
        let extent = self.inode(directory).extent(block)?;
        let bytes = extent.fragments * crate::machine::FRAGMENT_BYTES;
        let (disk, fragment) = (directory.disk, extent.address);
        Some(Block { disk, fragment, bytes, kind: BlockKind::Directory, is_mapped: false })
    }

    /// Returns `true` if the name cache answers.
    fn is_remembered(
        &mut self,
        directory: FileId,
        name: &str,
        found: Option<FileId>,
        intent: Intent,
    ) -> bool {
        let remembered = self.names.find(directory.number(), name);
        let in_memory = found.and_then(|file| self.inodes.peek(file)).map(|inode| inode.generation);
        let is_good = match remembered {
            None => return false,
            Some(Remembered::Absent) => found.is_none() && intent != Intent::Create,
            Some(Remembered::Generation(number)) => in_memory == Some(number) && intent != Intent::Remove,
        };
        if !is_good {
            self.names.purge(directory.number(), name);
        }
        is_good
    }

    fn search_directory(&mut self, directory: FileId, name: &str, intent: Intent) {
        let Some(entries) = &mut self.inode_mut(directory).directory else { return };
        for place in entries.search(name, intent == Intent::Create) {
            self.spend(self.machine.processor.directory_block);
            if let Some(block) = self.directory_block(directory, place) {
                self.read_block(block);
            }
        }
    }

    fn remember(&mut self, directory: FileId, name: &str, found: Option<FileId>) {
        let what = match found {
            Some(file) => self.inodes.peek(file).map(|inode| Remembered::Generation(inode.generation)),
            None => self.machine.memory.negative_names.then_some(Remembered::Absent),
        };
        if let Some(what) = what {
            self.names.enter(directory.number(), name, what);
        }
    }
}
