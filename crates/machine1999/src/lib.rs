//! `ufs1999`: a deterministic model of the machine that the papers measured, as a file system.
//!
//! The papers' workload ran on Digital UNIX 4.0 with UFS on SCSI disks: Maltzahn, Richardson and
//! Grunwald, "Reducing the Disk I/O of Web Proxy Server Caches" (USENIX 1999). The model has these
//! parts:
//!
//! - a Fast File System (`ffs`),
//! - caches of names, inodes, metadata and pages (`cache`),
//! - disks with one arm each (`disk`),
//! - a kernel that combines them (`kernel`), and a virtual clock.
//!
//! Any architecture of the store runs on the model. The [`Report`] has the transfers and their
//! time. The same calls give the same report, on every machine. The model counts I/O and does not
//! simulate a processor: calls cost a stated, small time.
//!
//! The table has the transfers of each call. Memory then holds only the things that the first
//! column names, and the directory is one block. The tests check this table.
//!
//! | call | reads | written before it returns | written later |
//! |---|---|---|---|
//! | create in cold `x/y` | 3 inodes, 3 directories, group | inode, directory | 2 inodes, group |
//! | create in warm `x/y` | none | inode, directory | as above |
//! | write up to 8 KB | none | none | the fragments, in one transfer |
//! | write of 64 KB in one file | none | none | one transfer, started at once |
//! | open and read, nothing cached | 3 directories, 4 inodes, data | none | the access time |
//! | open and read, all cached | none | none | the access time |
//! | unlink, all cached | none | directory, inode | inode, group |
//! | make a folder | its inode, group | 3 inodes, 2 directories | group |
//! | page fault | 8 KB | none, or the dirty page whose place it takes | |
//! | whole page into the mapping | none | none, or as above | 8 KB, adjacent ones together |
//!
//! # Blocks in the table
//!
//! - A create in a cold folder `x/y` reads the inodes and directories of root, x and y. Later it
//!   writes the file's and the directory's inodes, as blocks.
//! - An open with nothing cached reads an inode block for each of 4 names, unless they share one.
//! - A new folder's writes are its inode twice, the parent's inode, its own block, and the parent's
//!   directory block.
//!
//! # Sources
//!
//! The structure follows 4.4BSD in all that Digital has not published: synchronous writes, name
//! cache rules, allocation, clustering, C-LOOK. From Digital: metadata in a fixed cache of 3% of
//! memory; file data and mapped pages together in the rest; name cache of 2 (148 + 10 maxusers) 11
//! / 10 names. From the paper: section 4's machines, 8 KB blocks and 1 KB fragments, cleaning every
//! 30 seconds. Assumptions are marked in [`Machine`] and its parts. `docs/experiments/ufs1999.md`
//! measures their weight.
//!
//! # Left out
//!
//! Zones of the disks, bad blocks, rotational placement, reordering inside the drive, the paging of
//! programs, other processes, the superblock's own writes. Page replacement in the model sees every
//! access; a real one samples reference bits.

#![forbid(unsafe_code)]

mod cache;
mod disk;
mod ffs;
mod kernel;
mod machine;
mod report;
#[cfg(test)]
mod tests;

pub use disk::DiskModel;
pub use machine::{
    DirectoryPreference, DiskPlace, FINITE_MAPPED_BYTES, FileSystemShape, Machine, MemorySizes,
    MetadataWrites, PageReplacement, ProcessorCosts, SequenceLimits, TransferModel,
};
pub use report::{
    BlockKind, CallTime, CallTimes, DiskReport, Lookups, Report, Traffic, TransferCounts as TransferCount,
};

use kernel::{FileId, Kernel, timed};
use parking_lot::Mutex;
use rustix::io::Errno;
use shoal_store::fs::{Access, File, FileSystem, Mapping, Space};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Modelled machine. Calls from several threads take turns; only calls from one thread are
/// deterministic.
#[derive(Debug)]
pub struct Ufs1999 {
    kernel: Arc<Mutex<Kernel>>,
}

impl Ufs1999 {
    /// Makes a machine with new, empty file systems, at time zero.
    ///
    /// # Panics
    /// If the machine has no disk or more than 256, `mapped_disk` is out of range, or no disk has a
    /// share of folders.
    pub fn new(machine: Machine) -> Arc<Self> {
        assert!((1..=256).contains(&machine.disks.len()), "a machine has 1 to 256 disks");
        assert!(machine.mapped_disk < machine.disks.len(), "the mapped file's disk exists");
        assert!(machine.disks.iter().any(|disk| disk.folder_share > 0), "some disk holds folders");
        Arc::new(Self { kernel: Arc::new(Mutex::new(Kernel::new(machine))) })
    }

    /// Returns everything counted so far. The difference of two reports is a measured phase.
    pub fn report(&self) -> Report {
        self.kernel.lock().report()
    }

    /// Returns the virtual time since the machine was made.
    pub fn now(&self) -> Duration {
        self.kernel.lock().now()
    }

    /// Lets time pass without calls, as between requests. Cleaning continues meanwhile.
    pub fn advance(&self, duration: Duration) {
        self.kernel.lock().advance(duration);
    }

    fn handle(&self, file: FileId, access: Access) -> Box<dyn File> {
        Box::new(UfsHandle { kernel: Arc::clone(&self.kernel), file, access })
    }
}

impl FileSystem for Ufs1999 {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = timed(&mut self.kernel.lock(), |calls| &mut calls.creates, |kernel| kernel.create(path))?;
        Ok(self.handle(file, Access::Write))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let kind: fn(&mut CallTimes) -> &mut CallTime = match access {
            Access::Read => |calls| &mut calls.opens_to_read,
            Access::Write => |calls| &mut calls.opens_to_write,
        };
        let file = timed(&mut self.kernel.lock(), kind, |kernel| kernel.open(path))?;
        Ok(self.handle(file, access))
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        Ok(self.kernel.lock().length(path)?)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        Ok(timed(&mut self.kernel.lock(), |calls| &mut calls.unlinks, |kernel| kernel.unlink(path))?)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        Ok(self.kernel.lock().make_folder(path)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(self.kernel.lock().rename(from, to)?)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        Ok(self.kernel.lock().remove_folder(path)?)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        Ok(self.kernel.lock().list(path, limit)?)
    }

    fn space(&self) -> io::Result<Space> {
        let free_bytes = self.kernel.lock().free_bytes();
        Ok(Space { block_bytes: u64::from(machine::FRAGMENT_BYTES), free_bytes })
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        let file = self.kernel.lock().map(path, bytes)?;
        Ok(Box::new(MappedFile { kernel: Arc::clone(&self.kernel), file, bytes }))
    }

    fn sync(&self) -> io::Result<()> {
        self.kernel.lock().sync();
        Ok(())
    }
}

/// Open file.
struct UfsHandle {
    kernel: Arc<Mutex<Kernel>>,
    file: FileId,
    access: Access,
}

impl UfsHandle {
    fn check_writable(&self) -> Result<(), Errno> {
        if self.access == Access::Read { Err(Errno::BADF) } else { Ok(()) }
    }
}

impl File for UfsHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.kernel.lock().read(self.file, buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check_writable()?;
        Ok(self.kernel.lock().write(self.file, bytes, offset)?)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        Ok(self.kernel.lock().set_length(self.file, bytes)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.kernel.lock().sync();
        Ok(())
    }
}

impl Drop for UfsHandle {
    fn drop(&mut self) {
        self.kernel.lock().close(self.file);
    }
}

/// Memory-mapped file.
struct MappedFile {
    kernel: Arc<Mutex<Kernel>>,
    file: FileId,
    bytes: u64,
}

impl MappedFile {
    fn check(&self, offset: u64, length: usize) -> Result<(), Errno> {
        let is_inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.bytes);
        if is_inside { Ok(()) } else { Err(Errno::INVAL) }
    }
}

impl Mapping for MappedFile {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(offset, buffer.len())?;
        self.kernel.lock().load(self.file, buffer, offset);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        self.kernel.lock().store(self.file, bytes, offset);
        Ok(())
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.kernel.lock().is_resident(self.file, offset)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        self.kernel.lock().close(self.file);
    }
}
