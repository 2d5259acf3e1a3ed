//! Calls on files by name: create, open, length, rename, unlink, and the end of a handle. The same
//! metadata as in 4.4BSD is on the disk before such a call returns. Inodes and entries are written
//! in an order that never lets a name lead to an unwritten inode. (McKusick, Bostic, Karels and
//! Quarterman, *The Design and Implementation of the 4.4BSD Operating System*, 1996, chapter 8.)

use super::lookup::Intent;
use super::{FileId, Kernel};
use crate::ffs::NAME_BYTES_MAX;
use rustix::io::Errno;

impl Kernel {
    /// Makes a file: writes its inode, then its entry. Leaves the file open.
    pub(super) fn make_file(&mut self, disk: u8, folders: &[&str], name: &str) -> Result<FileId, Errno> {
        let parent = self.walk(disk, folders)?;
        if self.step(parent, name, Intent::Create)?.is_some() {
            return Err(Errno::EXIST);
        }
        let grows = self.make_entry_room(parent, name)?;
        let file = self.make_inode(parent, false)?;
        self.write_inode(file);
        self.enter_name(parent, name, file, grows);
        self.inode_mut(file).opens = 1;
        Ok(file)
    }

    /// Makes a file; see [`FileSystem::create`](shoal_store::fs::FileSystem::create).
    pub(in super::super) fn create(&mut self, path: &str) -> Result<FileId, Errno> {
        self.enter();
        let (disk, folders, name) = self.locate(path)?;
        self.make_file(disk, &folders, name)
    }

    /// Opens a file, and counts the handle.
    pub(in super::super) fn open(&mut self, path: &str) -> Result<FileId, Errno> {
        let file = self.find(path)?;
        self.inode_mut(file).opens += 1;
        Ok(file)
    }

    /// Returns the length of a file.
    pub(in super::super) fn length(&mut self, path: &str) -> Result<u64, Errno> {
        let file = self.find(path)?;
        Ok(self.inode(file).size)
    }

    /// Removes a name, and writes the directory's block at once. A file without open handles goes
    /// too.
    pub(in super::super) fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        self.enter();
        let (disk, folders, name) = self.locate(path)?;
        let parent = self.walk(disk, &folders)?;
        let file = self.step(parent, name, Intent::Remove)?.ok_or(Errno::NOENT)?;
        if self.inode(file).directory.is_some() {
            return Err(Errno::ISDIR);
        }
        self.remove_name(parent, name);
        self.inode_mut(file).is_unlinked = true;
        self.change_inode(file);
        if self.inode(file).opens == 0 {
            self.reclaim(file);
        }
        Ok(())
    }

    /// Renames a file on its disk, replacing a file of the new name. Writes the inode first, with
    /// one more link, and then the new entry. The removal of the old entry and the inode again
    /// follow (`ufs_rename`).
    pub(in super::super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        self.enter();
        let (disk, from_folders, from_name) = self.locate(from)?;
        let (to_disk, to_folders, to_name) = self.locate(to)?;
        let source = self.walk(disk, &from_folders)?;
        let file = self.step(source, from_name, Intent::Remove)?.ok_or(Errno::NOENT)?;
        if self.inode(file).directory.is_some() {
            return Err(Errno::ISDIR);
        }
        if disk != to_disk {
            return Err(Errno::XDEV);
        }
        let target = self.walk(disk, &to_folders)?;
        let replaced = self.step(target, to_name, Intent::Create)?;
        if replaced == Some(file) {
            return Ok(());
        }
        if replaced.is_some_and(|replaced| self.inode(replaced).directory.is_some()) {
            return Err(Errno::ISDIR);
        }
        let grows = replaced.is_none() && self.make_entry_room(target, to_name)?;
        self.write_inode(file);
        match replaced {
            Some(replaced) => self.replace_name(target, to_name, file, replaced),
            None => self.enter_name(target, to_name, file, grows),
        }
        self.remove_name(source, from_name);
        self.write_inode(file);
        Ok(())
    }

    /// Lets a name lead to another file. The former file is freed if it has no handles.
    fn replace_name(&mut self, directory: FileId, name: &str, file: FileId, replaced: FileId) {
        self.redirect_name(directory, name, file);
        self.inode_mut(replaced).is_unlinked = true;
        self.change_inode(replaced);
        if self.inode(replaced).opens == 0 {
            self.reclaim(replaced);
        }
    }

    /// Ends a handle.
    pub(in super::super) fn close(&mut self, file: FileId) {
        self.enter();
        let inode = self.inode_mut(file);
        inode.opens -= 1;
        if inode.opens == 0 && inode.is_unlinked {
            self.reclaim(file);
        }
    }

    fn find(&mut self, path: &str) -> Result<FileId, Errno> {
        self.enter();
        let (disk, folders, name) = self.locate(path)?;
        // The path may be a folder that was dealt to another disk than its neighbours.
        let parent = self.walk(self.placement.dealt_to(path).unwrap_or(disk), &folders)?;
        let file = self.step(parent, name, Intent::Find)?.ok_or(Errno::NOENT)?;
        if self.inode(file).directory.is_some() { Err(Errno::ISDIR) } else { Ok(file) }
    }

    /// Returns the disk, the folders and the name of a path.
    fn locate<'a>(&self, path: &'a str) -> Result<(u8, Vec<&'a str>, &'a str), Errno> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        check_name(name)?;
        let disk = self.placement.disk_of(folder).ok_or(Errno::NOENT)?;
        Ok((disk, names(folder), name))
    }

    /// Takes an inode and holds it in memory.
    pub(super) fn make_inode(&mut self, parent: FileId, is_directory: bool) -> Result<FileId, Errno> {
        let disk = parent.disk;
        let inode = self.volume(disk).new_inode(parent.inode, is_directory).map_err(|_| Errno::NOSPC)?;
        self.charge_effects(disk, false);
        let file = FileId { disk, inode };
        self.hold_inode(file);
        Ok(file)
    }

    /// Frees a file without names and handles. The inode is written without its blocks before they
    /// are freed, so that no two files can get them (`ffs_truncate`).
    pub(super) fn reclaim(&mut self, file: FileId) {
        let inode = self.inode(file);
        let is_mapped = inode.is_mapped;
        let indirect = inode.indirect_blocks();
        if inode.fragments() > 0 {
            self.write_inode(file);
        }
        for fragment in indirect {
            self.forget_block(file.disk, fragment);
        }
        self.put_inode(file);
        self.forget_inode(file);
        self.volume(file.disk).free_inode(file.inode);
        self.charge_effects(file.disk, is_mapped);
    }
}

/// Returns the names of a folder's path.
pub(super) fn names(folder: &str) -> Vec<&str> {
    folder.split('/').filter(|name| !name.is_empty()).collect()
}

pub(super) fn check_name(name: &str) -> Result<(), Errno> {
    match name.len() {
        0 => Err(Errno::INVAL),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::NAMETOOLONG),
    }
}
