//! File system with a gate for all writes, which closes at once and for good.
//!
//! A process that hands its store over to another one must not write a byte from then on, whichever
//! thread has a write under way. [`WriteGate::close`] waits for the writes that have begun, and
//! every later one fails. Reads go on.

use super::{Access, File, FileSystem, LoadedWords, MappedAccess, Mapping, Space};
use parking_lot::{RwLock, RwLockReadGuard};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// Gate that all writes of a store pass.
#[derive(Debug, Default)]
pub struct WriteGate {
    /// `true` once the gate is closed. A write holds the lock for reading.
    is_closed: RwLock<bool>,
}

impl WriteGate {
    /// Returns `files` with all its changes behind this gate. Memory maps are not behind it.
    pub fn guard(self: &Arc<Self>, files: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
        Arc::new(GatedFs { inner: files, gate: Arc::clone(self) })
    }

    /// Closes the gate. Returns when no write is under way.
    pub fn close(&self) {
        *self.is_closed.write() = true;
        debug_assert!(self.pass().is_err(), "a write after the end");
    }

    /// Returns `true` once the gate is closed.
    pub fn is_closed(&self) -> bool {
        *self.is_closed.read()
    }

    /// Lets a change through, which ends with the guard.
    fn pass(&self) -> io::Result<RwLockReadGuard<'_, bool>> {
        let is_closed = self.is_closed.read();
        if *is_closed { Err(Errno::ROFS.into()) } else { Ok(is_closed) }
    }
}

struct GatedFs {
    inner: Arc<dyn FileSystem>,
    gate: Arc<WriteGate>,
}

struct GatedFile {
    inner: Box<dyn File>,
    gate: Arc<WriteGate>,
}

impl GatedFs {
    fn file(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        file.map(|inner| Box::new(GatedFile { inner, gate: Arc::clone(&self.gate) }) as Box<dyn File>)
    }
}

impl FileSystem for GatedFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let _passing = self.gate.pass()?;
        self.file(self.inner.create(path))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.file(self.inner.open(path, access))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.file(self.inner.open_direct(path, access))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        self.inner.load(path, bytes)
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.inner.length(path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.unlink(path)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        let _passing = self.gate.pass()?;
        self.inner.make_folder(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.rename(from, to)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.remove_folder(path)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.inner.list(path, limit)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn is_ours(&self) -> bool {
        self.inner.is_ours()
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        let _passing = self.gate.pass()?;
        self.inner.map(path, bytes)
    }

    fn map_for(&self, path: &str, bytes: u64, access: MappedAccess) -> io::Result<Box<dyn Mapping>> {
        let _passing = self.gate.pass()?;
        self.inner.map_for(path, bytes, access)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let _passing = self.gate.pass()?;
        self.inner.write_at(bytes, offset)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.set_length(bytes)
    }

    fn allot(&self, bytes: u64) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.allot(bytes)
    }

    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.inner.reserve(bytes, zeros)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{MemoryFs, read_full, write_full};
    use std::sync::mpsc;

    #[test]
    fn closed_gate_lets_reads_through_only() {
        let (gate, below) = (Arc::new(WriteGate::default()), Arc::new(MemoryFs::new(1 << 20)));
        let files = gate.guard(below.clone());
        let file = files.create("a").expect("made");
        write_full(&*file, b"abc", 0).expect("written");
        assert!(!gate.is_closed());
        gate.close();
        assert!(gate.is_closed());
        let refused = |outcome: io::Result<()>| {
            let kind = outcome.expect_err("nothing is changed").kind();
            assert_eq!(kind, io::ErrorKind::ReadOnlyFilesystem);
        };
        refused(write_full(&*file, b"x", 0));
        refused(file.set_length(0));
        refused(file.allot(9));
        refused(file.reserve(9, 0));
        refused(files.create("b").map(drop));
        refused(files.unlink("a"));
        refused(files.rename("a", "b"));
        refused(files.make_folder("f").map(drop));
        refused(files.remove_folder("f"));
        refused(files.map("m", 8).map(drop));
        let mut read = [0; 3];
        assert_eq!((read_full(&*file, &mut read, 0).expect("read"), &read), (3, b"abc"));
        assert_eq!(below.files(), ["a"]);
    }

    /// A write that has begun may end after the call to close, but not after its return.
    #[test]
    fn close_waits_for_a_write_under_way() {
        let gate = Arc::new(WriteGate::default());
        let passing = gate.pass().expect("open");
        let (told, heard) = mpsc::channel();
        let closing = Arc::clone(&gate);
        let thread = std::thread::spawn(move || {
            closing.close();
            told.send(()).expect("heard");
        });
        let wait = std::time::Duration::from_millis(30);
        assert!(heard.recv_timeout(wait).is_err(), "the write is under way");
        drop(passing);
        heard.recv().expect("closed");
        thread.join().expect("no panic");
        assert!(gate.pass().is_err());
    }
}
