//! Operating system's file system: system calls relative to one folder.

use super::memory_mapping::MemoryMapping;
use super::real_mapping::RealMapping;
use super::{Access, File, FileSystem, LoadedWords, MappedAccess, Mapping, Space, private, read_words};
use crate::sys::Private;
use rustix::fs::{AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Tree under a folder. Paths cannot lead out of it, not even through symbolic links.
#[derive(Debug)]
pub struct OsFs {
    root: OwnedFd,
}

impl OsFs {
    /// Opens an existing folder.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(folder, flags, Mode::empty())? })
    }

    /// Makes the tree under an open folder.
    pub(super) fn at(root: OwnedFd) -> Self {
        Self { root }
    }

    fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mode = private::FILE;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = if path.is_empty() { "." } else { path };
        match rustix::fs::openat2(&self.root, path, flags, mode_for(flags, mode), ResolveFlags::BENEATH) {
            // A kernel or sandbox without openat2: the last name is still not followed.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&self.root, path, flags, mode),
            result => result,
        }
    }

    /// Opens an existing regular file. One opened for writing becomes private to this user.
    fn opened(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let file = self.open_at(path, flags | OFlags::NONBLOCK)?;
        private::only_files(&file)?;
        if flags.contains(OFlags::RDWR) {
            private::tighten(&file);
        }
        Ok(file)
    }
}

impl FileSystem for OsFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = self.open_at(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        Ok(Box::new(RealFile(self.opened(path, flags)?)))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let flags = if access == Access::Read { OFlags::RDONLY } else { OFlags::RDWR };
        match self.opened(path, flags | OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                self.open(path, access)
            }
            opened => Ok(Box::new(RealFile(opened?))),
        }
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        let file = self.opened(path, OFlags::RDONLY)?;
        if rustix::fs::fstat(&file)?.st_size as u64 >= bytes {
            return Ok(Box::new(Private::new(&file, 0, bytes)?));
        }
        Ok(Box::new(read_words(&RealFile(file), bytes)?))
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        let stat = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(stat.st_size as u64),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.root, path, AtFlags::empty())?)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.root, path, private::FOLDER) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.root, from, &self.root, to)?)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.root, path, AtFlags::REMOVEDIR)?)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        let folder = self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            if names.len() == limit {
                break;
            }
            // Names that are not UTF-8 are not ours.
            match entry?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    fn space(&self) -> io::Result<Space> {
        let stat = rustix::fs::fstatvfs(&self.root)?;
        let block_bytes = stat.f_frsize.max(1);
        Ok(Space { block_bytes, free_bytes: stat.f_bavail.saturating_mul(block_bytes) })
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        self.map_for(path, bytes, MappedAccess::Calls)
    }

    fn map_for(&self, path: &str, bytes: u64, access: MappedAccess) -> io::Result<Box<dyn Mapping>> {
        let file = match self.opened(path, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.open_at(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?
            }
            opened => opened?,
        };
        let file = RealFile(file);
        Ok(match access {
            MappedAccess::Calls => Box::new(RealMapping::new(file, bytes)?),
            MappedAccess::Memory => Box::new(MemoryMapping::new(file, bytes, false)?),
            MappedAccess::RandomMemory => Box::new(MemoryMapping::new(file, bytes, true)?),
        })
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }
}

/// Open file.
pub(super) struct RealFile(pub(super) OwnedFd);

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.0, buffer, offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(&self.0, bytes, offset)?)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.0, bytes)?)
    }

    fn allot(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            // Some file systems cannot allot space beforehand.
            Err(Errno::OPNOTSUPP) => self.set_length(bytes),
            result => Ok(result?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }
}

/// Returns the mode for openat2, which refuses a mode unless a file is made.
fn mode_for(flags: OFlags, mode: Mode) -> Mode {
    if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() }
}
