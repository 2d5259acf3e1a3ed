//! Block device of the operating system: opened by its path, for this process alone.

use super::device::DeviceIo;
use super::real::RealFile;
use super::{Access, File, LoadedWords};
use crate::Error;
use crate::sys::Private;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Block device.
pub struct OsBlockDevice {
    buffered: RealFile,
    direct: RealFile,
    bytes: u64,
}

impl OsBlockDevice {
    /// Returns `true` if the path is that of a block device.
    pub fn is_one(path: &Path) -> bool {
        rustix::fs::stat(path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// Opens a device. Access for writing claims it, as mounting does. A device that is mounted, or
    /// claimed by another process, is refused.
    ///
    /// # Errors
    /// [`Error::Unusable`] with the reason.
    pub fn open(path: &Path, access: Access) -> Result<Self, Error> {
        Self::claimed(path, access).map_err(|error| {
            let why = match Errno::from_io_error(&error) {
                Some(Errno::BUSY | Errno::WOULDBLOCK) => {
                    "it is mounted, or in use by another process".to_owned()
                }
                _ => error.to_string(),
            };
            Error::Unusable(format!("could not open the device {}: {why}", path.display()))
        })
    }

    fn claimed(path: &Path, access: Access) -> io::Result<Self> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        } | OFlags::CLOEXEC;
        let claim = if access == Access::Write { OFlags::EXCL } else { OFlags::empty() };
        let open = |flags| rustix::fs::open(path, flags, Mode::empty());
        let buffered = open(flags | claim)?;
        if access == Access::Write {
            // For programs that check, without a claim, whether the device is in use.
            rustix::fs::flock(&buffered, FlockOperation::NonBlockingLockExclusive)?;
        }
        let bytes = rustix::fs::seek(&buffered, SeekFrom::End(0))?;
        let direct: OwnedFd = open(flags | OFlags::DIRECT).or_else(|_| open(flags))?;
        Ok(Self { buffered: RealFile(buffered), direct: RealFile(direct), bytes })
    }
}

impl DeviceIo for OsBlockDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn buffered(&self) -> &dyn File {
        &self.buffered
    }

    fn direct(&self) -> &dyn File {
        &self.direct
    }

    fn load(&self, at: u64, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(Box::new(Private::new(&self.buffered.0, at, bytes)?)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
