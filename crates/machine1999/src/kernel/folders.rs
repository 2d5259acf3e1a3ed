//! Folders: making, listing and removing them, and the entries of directories.

use super::calls::{check_name, names};
use super::lookup::Intent;
use super::{FileId, Kernel};
use crate::ffs::{CHUNK_BYTES, ROOT};
use crate::machine::PAGE_BYTES;
use rustix::io::Errno;
use std::collections::BTreeSet;

impl Kernel {
    /// Makes a folder on the disk of its turn. Returns `false` if the folder existed.
    pub(in super::super) fn make_folder(&mut self, path: &str) -> Result<bool, Errno> {
        self.enter();
        let names = names(path);
        let Some((last, parents)) = names.split_last() else { return Ok(false) };
        check_name(last)?;
        let parent_path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.placement.disk_of(parent_path).ok_or(Errno::NOENT)?;
        let disk = self.placement.deal(path);
        let mut directory = FileId { disk, inode: ROOT };
        self.hold_inode(directory);
        for (depth, name) in parents.iter().enumerate() {
            directory = match self.step(directory, name, Intent::Find)? {
                Some(next) => next,
                // The folders above are on another disk so far.
                None if self.placement.is_above_units(depth + 1) => self.make_directory(directory, name)?,
                None => return Err(Errno::NOENT),
            };
        }
        match self.step(directory, last, Intent::Create)? {
            Some(found) => self.inode(found).directory.as_ref().map(|_| false).ok_or(Errno::EXIST),
            None => self.make_directory(directory, last).map(|_| true),
        }
    }

    /// Removes an empty folder.
    pub(in super::super) fn remove_folder(&mut self, path: &str) -> Result<(), Errno> {
        self.enter();
        let names = names(path);
        let (last, parents) = names.split_last().ok_or(Errno::INVAL)?;
        let found = self.folders_at(&names)?;
        let is_empty = |folder: &FileId| {
            self.inode(*folder).directory.as_ref().is_some_and(|entries| entries.is_empty())
        };
        if !found.iter().all(is_empty) {
            return Err(Errno::NOTEMPTY);
        }
        for folder in found {
            let parent = self.walk(folder.disk, parents)?;
            self.step(parent, last, Intent::Remove)?;
            self.remove_name(parent, last);
            self.forget_directory_blocks(folder);
            self.reclaim(folder);
        }
        self.placement.forget(path);
        Ok(())
    }

    /// Returns names in a folder, on all disks that have the folder.
    pub(in super::super) fn list(&mut self, path: &str, limit: usize) -> Result<Vec<String>, Errno> {
        self.enter();
        let mut names_found = BTreeSet::new();
        for folder in self.folders_at(&names(path))? {
            let blocks = self.inode(folder).size.div_ceil(PAGE_BYTES as u64) as u32;
            for block in 0..blocks {
                self.spend(self.machine.processor.directory_block);
                if let Some(block) = self.directory_block(folder, block) {
                    self.read_block(block);
                }
            }
            let entries = self.inode(folder).directory.as_ref().ok_or(Errno::NOTDIR)?;
            names_found.extend(entries.names().map(str::to_owned));
        }
        Ok(names_found.into_iter().take(limit).collect())
    }

    /// Returns the directories of a folder's path, one on each disk that has it; at least one.
    fn folders_at(&mut self, names: &[&str]) -> Result<Vec<FileId>, Errno> {
        let mut found = Vec::new();
        let mut failure = Errno::NOENT;
        for disk in 0..self.placement.disks() {
            match self.walk(disk, names) {
                Ok(folder) => found.push(folder),
                Err(Errno::NOENT) => {}
                Err(error) => failure = error,
            }
        }
        if found.is_empty() { Err(failure) } else { Ok(found) }
    }

    /// Makes a directory by five writes, one after the other (`ufs_mkdir`): its inode, the
    /// parent's, its first block, its inode again, the parent's entry.
    fn make_directory(&mut self, parent: FileId, name: &str) -> Result<FileId, Errno> {
        let grows = self.make_entry_room(parent, name)?;
        let directory = self.make_inode(parent, true)?;
        self.write_inode(directory);
        self.write_inode(parent);
        if self.volume(directory.disk).grow(directory.inode, 0, u32::from(CHUNK_BYTES)).is_err() {
            self.reclaim(directory);
            return Err(Errno::NOSPC);
        }
        self.inode_mut(directory).size = u64::from(CHUNK_BYTES);
        self.charge_effects(directory.disk, false);
        if let Some(block) = self.directory_block(directory, 0) {
            self.hold_block(block);
            self.write_block(block);
        }
        self.write_inode(directory);
        self.enter_name(parent, name, directory, grows);
        Ok(directory)
    }

    /// Makes room for a name in a directory. Returns `true` if the directory had to grow.
    pub(super) fn make_entry_room(&mut self, directory: FileId, name: &str) -> Result<bool, Errno> {
        let entries = self.inode(directory).directory.as_ref().ok_or(Errno::NOTDIR)?;
        let end = (u64::from(entries.room_for(name)) + 1) * u64::from(CHUNK_BYTES);
        if end <= entries.bytes() {
            return Ok(false);
        }
        let block = ((end - 1) / PAGE_BYTES as u64) as u32;
        let bytes = (end - u64::from(block) * PAGE_BYTES as u64) as u32;
        let before = self.directory_block(directory, block);
        let grown = self.volume(directory.disk).grow(directory.inode, block, bytes);
        grown.map_err(|_| Errno::NOSPC)?;
        self.charge_effects(directory.disk, false);
        // The block's former content is in memory; it continues under its new position and length.
        if let Some(before) = before {
            self.read_block(before);
            self.forget_block(directory.disk, before.fragment);
        }
        if let Some(block) = self.directory_block(directory, block) {
            self.hold_block(block);
        }
        Ok(true)
    }

    /// Enters a name and writes its block. Also writes the inode of a directory that grew.
    pub(super) fn enter_name(&mut self, directory: FileId, name: &str, file: FileId, grew: bool) {
        let inode = self.inode_mut(directory);
        let Some(entries) = &mut inode.directory else { return };
        let chunk = entries.enter(name, file.inode);
        inode.size = entries.bytes();
        self.write_directory_chunk(directory, chunk);
        if grew {
            self.write_inode(directory);
        } else {
            self.change_inode(directory);
        }
    }

    /// Lets an entry lead to another inode and writes its block.
    pub(super) fn redirect_name(&mut self, directory: FileId, name: &str, file: FileId) {
        let entries = self.inode_mut(directory).directory.as_mut();
        if let Some(chunk) = entries.and_then(|entries| entries.redirect(name, file.inode)) {
            self.names.purge(directory.number(), name);
            self.write_directory_chunk(directory, chunk);
            self.change_inode(directory);
        }
    }

    /// Removes a name and writes its block.
    pub(super) fn remove_name(&mut self, directory: FileId, name: &str) {
        let removed = self.inode_mut(directory).directory.as_mut().and_then(|entries| entries.remove(name));
        if let Some(entry) = removed {
            self.names.purge(directory.number(), name);
            self.write_directory_chunk(directory, entry.chunk);
            self.change_inode(directory);
        }
    }

    fn write_directory_chunk(&mut self, directory: FileId, chunk: u32) {
        let block = chunk * u32::from(CHUNK_BYTES) / PAGE_BYTES as u32;
        if let Some(block) = self.directory_block(directory, block) {
            self.read_block(block);
            self.write_block(block);
        }
    }

    fn forget_directory_blocks(&mut self, directory: FileId) {
        let blocks = self.inode(directory).size.div_ceil(PAGE_BYTES as u64) as u32;
        for block in 0..blocks {
            if let Some(block) = self.directory_block(directory, block) {
                self.forget_block(directory.disk, block.fragment);
            }
        }
    }
}
