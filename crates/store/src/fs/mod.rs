//! The door to the file system: the only way by which object bytes reach files.
//!
//! One small trait with several bodies: [`OsFs`], [`MemoryFs`] (files in RAM, with power losses),
//! [`CountingFs`] (wraps another and counts calls by kind), [`FaultyFs`] (wraps another and fails,
//! tears and delays on a seed, or stops dead at a given call), [`OverlayFs`] (reads only),
//! [`DeviceFs`] (a block device without a file system), [`ufs1999`] (the papers' machine, modelled:
//! transfers and time in place of a disk). [`private`] makes files and folders, [`transient`] finds
//! where they last until the machine's power goes, [`capacity`] says what fits. What an
//! architecture promises about its I/O is tested through them.

pub mod capacity;
mod counted;
pub mod device;
mod faulty;
mod memory;
pub mod private;
mod real;
mod real_device;
mod real_mapping;
#[cfg(test)]
mod tests;
pub mod transient;
pub mod ufs1999;
mod untouched;

pub use counted::{Calls, CountingFs};
pub use device::DeviceFs;
pub use faulty::{CrashPoint, Faults, FaultyFs};
pub use memory::MemoryFs;
pub use real::OsFs;
pub use real_device::OsBlockDevice;
pub use untouched::OverlayFs;

use std::io;
use std::sync::atomic::AtomicU64;

/// A tree of folders and files. Paths are relative, with `/` between names; any thread may call.
pub trait FileSystem: Send + Sync {
    /// Makes a new file, open for reading and writing. `AlreadyExists` when the path is taken.
    fn create(&self, path: &str) -> io::Result<Box<dyn File>>;

    /// Opens an existing file.
    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>>;

    /// The same for whole pages that need not be kept in memory by the system: offsets, lengths and
    /// the memory itself are multiples of [`PAGE_BYTES`]. Where the file system cannot do that, it
    /// is an open file like others.
    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.open(path, access)
    }

    /// The first `bytes` bytes of a file, a multiple of eight, as words in memory, which may change
    /// without changing the file. What a file is too short for is zero.
    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        Ok(Box::new(read_words(&*self.open(path, Access::Read)?, bytes)?))
    }

    /// The length of a file, in bytes.
    fn length(&self, path: &str) -> io::Result<u64>;

    /// Removes a file's name. Handles that are open stay usable.
    fn unlink(&self, path: &str) -> io::Result<()>;

    /// Makes a folder; its parent exists. False when it was there.
    fn make_folder(&self, path: &str) -> io::Result<bool>;

    /// Gives a file another name, in place of a file that has it: whole or not at all.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a folder; `DirectoryNotEmpty` when something is in it.
    fn remove_folder(&self, path: &str) -> io::Result<()>;

    /// Names in a folder, at most `limit`, in no order.
    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>>;

    /// How the file system allots space.
    fn space(&self) -> io::Result<Space>;

    /// Whether nobody else takes space here, so that none has to be left.
    fn is_ours(&self) -> bool {
        false
    }

    /// Maps a file of exactly so many bytes into memory; makes it, its space allotted and its bytes
    /// zero, when it is absent. `InvalidInput` when it is there with another length.
    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>>;

    /// Returns when everything written so far would survive a power loss, mapped files included.
    fn sync(&self) -> io::Result<()>;
}

/// A file of fixed length that is reached through memory, page by page: what is resident costs no
/// I/O, other pages are read in when they are touched, and written pages reach the disk when the
/// system sees fit. Any thread may call.
pub trait Mapping: Send + Sync {
    /// Fills `buffer` from `offset`. Bytes that are being written meanwhile may come in part.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. A page that is covered as a whole need not be read in.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Whether the page at `offset` is in memory now.
    fn is_resident(&self, offset: u64) -> bool;
}

/// Words in memory, shared by threads.
pub trait LoadedWords: Send + Sync {
    /// All of them.
    fn words(&self) -> &[AtomicU64];

    /// Pages that the device did not deliver, and that are zeros instead.
    fn lost_pages(&self) -> u64 {
        0
    }

    /// Has the device begin to read what has not been touched, so that who touches it later need
    /// not wait. A wish, no promise.
    fn read_ahead(&self) {}
}

impl LoadedWords for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// An open file. Positions are absolute, so that one handle serves many threads.
pub trait File: Send + Sync {
    /// Reads into `buffer` from `offset`; fewer bytes than asked for only now and then, 0 at the
    /// end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `bytes` at `offset`; may write fewer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Ends the file after so many bytes; one that was shorter goes on with zeros.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// Gives the file so many bytes, zero at first, and all the space that they will ever take.
    /// `StorageFull` when there is too little.
    fn allot(&self, bytes: u64) -> io::Result<()> {
        self.set_length(bytes)
    }

    /// The same where only the first `zeros` bytes have to be zero, and the rest may be anything.
    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        debug_assert!(zeros <= bytes);
        self.allot(bytes)
    }

    /// Returns when what was written to this file would survive a power loss.
    fn sync(&self) -> io::Result<()>;
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// How a file system allots space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Files take whole multiples of so many bytes.
    pub block_bytes: u64,
    /// Bytes free for us now.
    pub free_bytes: u64,
}

/// The beginning of a file as words.
fn read_words(file: &dyn File, bytes: u64) -> io::Result<Box<[AtomicU64]>> {
    let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut content = vec![0; length];
    read_full(file, &mut content, 0)?;
    let word = |bytes: &[u8; 8]| AtomicU64::new(u64::from_le_bytes(*bytes));
    Ok(content.as_chunks::<8>().0.iter().map(word).collect())
}

/// Reads until `buffer` is full or the file ends, and says how much it was.
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

/// What transfers that bypass the system's memory come in multiples of.
pub const PAGE_BYTES: usize = 4096;
