//! File system trait: the only way for an object's bytes into files.
//!
//! [`FileSystem`] is one small trait with several implementations:
//!
//! - [`OsFs`]: files of the operating system.
//! - [`MemoryFs`]: files in RAM, with power losses.
//! - [`CountingFs`]: wraps another and counts calls by kind.
//! - [`FaultyFs`]: wraps another and fails, tears and delays on a seed, or stops dead at a given
//!   call.
//! - [`OverlayFs`]: reads only.
//! - [`WriteGate`]: wraps another and can close it for writing.
//! - [`DeviceFs`]: a block device without a file system.
//! - `Ufs1999` in the crate `machine1999`: the papers' machine, as a model of transfers and time.
//!
//! [`private`] makes files and folders. [`transient`] finds the folder of files that last until the
//! machine's power goes. [`capacity`] returns the space for a store. Tests of an architecture's
//! promises about I/O use these implementations.

pub mod capacity;
mod counted;
pub mod device;
mod faulty;
mod gate;
mod memory;
mod memory_mapping;
pub mod private;
mod real;
mod real_device;
mod real_mapping;
#[cfg(test)]
mod tests;
pub mod transient;
mod untouched;

pub use counted::{CallTally, Calls, CountingFs};
pub use device::DeviceFs;
pub use faulty::{CrashPoint, Faults, FaultyFs};
pub use gate::WriteGate;
pub use memory::MemoryFs;
pub use real::OsFs;
pub use real_device::OsBlockDevice;
pub use untouched::OverlayFs;

use std::io;
use std::sync::atomic::AtomicU64;

/// Tree of folders and files. Paths are relative, with `/` between names; any thread may call.
pub trait FileSystem: Send + Sync {
    /// Makes a new file, open for reading and writing. `AlreadyExists` if the path is taken.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;

    /// Opens an existing file.
    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>>;

    /// Opens an existing file for whole pages that the system need not keep in memory. Offsets,
    /// lengths and memory addresses are multiples of [`PAGE_BYTES`]. Without support by the file
    /// system, opens the file as [`Self::open`] does.
    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.open(path, access)
    }

    /// Returns the first `bytes` bytes of a file, a multiple of eight, as words in memory. Changes
    /// to the words need not change the file. Words beyond the file's end are zero.
    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        Ok(Box::new(read_words(&*self.open(path, Access::Read)?, bytes)?))
    }

    /// Returns the length of a file, in bytes.
    fn length(&self, path: &str) -> io::Result<u64>;

    /// Removes a file's name. Handles that are open stay usable.
    fn unlink(&self, path: &str) -> io::Result<()>;

    /// Makes a folder; its parent exists. Returns `false` if the folder existed.
    fn make_folder(&self, path: &str) -> io::Result<bool>;

    /// Renames a file, replacing a file of the new name: whole or not at all.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a folder; `DirectoryNotEmpty` if it contains anything.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// Returns names in a folder, at most `limit`, in no order.
    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>>;

    /// Returns the unit and amount of free space.
    fn space(&self) -> io::Result<Space>;

    /// Returns `true` if no other program takes space here, so that none has to be left free.
    fn is_ours(&self) -> bool {
        false
    }

    /// Maps a file of exactly `bytes` bytes into memory. Makes an absent file, with its space
    /// allotted and its bytes zero. `InvalidInput` if the file exists with another length.
    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>>;

    /// Maps a file as [`Self::map`] does, for access in one of several ways. A file system that has
    /// one way only uses it for all.
    fn map_for(&self, path: &str, bytes: u64, _access: MappedAccess) -> io::Result<Box<dyn Mapping>> {
        self.map(path, bytes)
    }

    /// Returns when everything written so far would survive a power loss, mapped files included.
    fn sync(&self) -> io::Result<()>;
}

/// File of fixed length that is reached through memory, page by page. Resident pages cost no I/O,
/// other pages are read in when touched. The system chooses when written pages reach the disk. Any
/// thread may call.
pub trait Mapping: Send + Sync {
    /// Fills `buffer` from `offset`. Bytes being written meanwhile may be read in part.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. A page that is covered as a whole need not be read in.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns `true` if the page at `offset` is in memory now.
    fn is_resident(&self, offset: u64) -> bool;
}

/// Way in which a mapped file is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MappedAccess {
    /// System calls on the page cache. A read brings in its own pages, and a write of a whole page
    /// reads nothing.
    #[default]
    Calls,
    /// Memory: a page that is absent is a page fault, and the system reads pages around it.
    Memory,
    /// Memory, with the advice that accesses are random: a page fault reads its own page.
    RandomMemory,
}

/// Words in memory, shared by threads.
pub trait LoadedWords: Send + Sync {
    /// Returns all words.
    fn words(&self) -> &[AtomicU64];

    /// Returns the number of pages that the device did not deliver; they are zeros.
    fn lost_pages(&self) -> u64 {
        0
    }

    /// Asks the device to begin reading untouched pages, so that later accesses need not wait. A
    /// wish, no promise.
    fn read_ahead(&self) {}
}

impl LoadedWords for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// Open file. Positions are absolute, so that one handle serves many threads.
pub trait File: Send + Sync {
    /// Reads into `buffer` from `offset`. Returns fewer bytes than asked for only now and then, and
    /// 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `bytes` at `offset`; may write fewer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Sets the file's length; a shorter file continues with zeros.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// Gives the file `bytes` bytes, zero at first, and all the space that they will ever take.
    /// `StorageFull` if there is too little.
    fn allot(&self, bytes: u64) -> io::Result<()> {
        self.set_length(bytes)
    }

    /// Gives the file `bytes` bytes and their space like [`Self::allot`], but only the first
    /// `zeros` bytes must be zero.
    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        debug_assert!(zeros <= bytes);
        self.allot(bytes)
    }

    /// Returns when all writes to this file would survive a power loss.
    fn sync(&self) -> io::Result<()>;
}

/// Access for which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// Unit and amount of a file system's free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Unit of allocation: files take whole multiples of it.
    pub block_bytes: u64,
    /// Bytes free for us now.
    pub free_bytes: u64,
}

/// Returns the beginning of a file as words.
fn read_words(file: &dyn File, bytes: u64) -> io::Result<Box<[AtomicU64]>> {
    let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut content = vec![0; length];
    read_full(file, &mut content, 0)?;
    let word = |bytes: &[u8; 8]| AtomicU64::new(u64::from_le_bytes(*bytes));
    Ok(content.as_chunks::<8>().0.iter().map(word).collect())
}

/// Reads until `buffer` is full or the file ends. Returns the number of bytes read.
pub fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`.
pub fn write_full(file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Unit of transfers that bypass the system's memory.
pub const PAGE_BYTES: usize = 4096;
