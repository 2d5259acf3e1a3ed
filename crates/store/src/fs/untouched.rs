//! File system that changes nothing: existing files are only read, new files are in RAM and
//! forgotten.
//!
//! Serves the inspection of a store in use elsewhere, such as that of a running node. The store's
//! own code opens it as after a restart. No byte on the disk can change, since every file is opened
//! for reading.

use super::{Access, File, FileSystem, LoadedWords, Mapping, MemoryFs, Space};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// Wrapper of a file system that must stay unchanged.
pub struct OverlayFs {
    inner: Arc<dyn FileSystem>,
    made: MemoryFs,
}

impl OverlayFs {
    /// Wraps `inner` for reading; at most `limit_bytes` may be made in RAM.
    pub fn new(inner: Arc<dyn FileSystem>, limit_bytes: u64) -> Self {
        Self { inner, made: MemoryFs::new(limit_bytes) }
    }

    fn is_made(&self, path: &str) -> bool {
        self.made.length(path).is_ok()
    }
}

impl FileSystem for OverlayFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.made.create(path)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        if self.is_made(path) { self.made.open(path, access) } else { self.inner.open(path, Access::Read) }
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        match self.is_made(path) {
            true => self.made.open(path, access),
            false => self.inner.open_direct(path, Access::Read),
        }
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        if self.is_made(path) { self.made.load(path, bytes) } else { self.inner.load(path, bytes) }
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.made.length(path).or_else(|_| self.inner.length(path))
    }

    fn unlink(&self, _path: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn make_folder(&self, _path: &str) -> io::Result<bool> {
        Err(Errno::ROFS.into())
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn remove_folder(&self, _path: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.inner.list(path, limit)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn map(&self, _path: &str, _bytes: u64) -> io::Result<Box<dyn Mapping>> {
        Err(Errno::ROFS.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{read_full, write_full};

    #[test]
    fn overlay_reads_below_and_writes_only_to_ram() {
        let below = Arc::new(MemoryFs::new(1 << 20));
        write_full(&*below.create("a").expect("made"), b"abc", 0).expect("written");
        let door = OverlayFs::new(below.clone(), 1 << 20);
        let file = door.open("a", Access::Write).expect("there");
        let mut read = [0; 3];
        assert_eq!((read_full(&*file, &mut read, 0).expect("read"), &read), (3, b"abc"));
        assert!(write_full(&*file, b"x", 0).is_err() && door.unlink("a").is_err());
        assert!(door.make_folder("f").is_err() && door.map("m", 8).is_err());
        let made = door.create("b").expect("in RAM");
        write_full(&*made, b"12345678", 0).expect("in RAM");
        assert_eq!((door.length("b").expect("made"), door.length("a").expect("there")), (8, 3));
        assert_eq!(door.load("b", 8).expect("made").words().len(), 1);
        assert_eq!(below.files(), ["a"]);
    }
}
