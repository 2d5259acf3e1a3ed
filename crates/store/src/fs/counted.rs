//! File system that counts calls: the I/O budget tests compare its numbers with the promise.

use super::{Access, File, FileSystem, LoadedWords, MappedAccess, Mapping, Space};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Wrapper of a file system that counts calls by kind.
pub struct CountingFs {
    inner: Arc<dyn FileSystem>,
    tally: Arc<CallTally>,
}

/// Calls by kind, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Files made.
    pub creates: u64,
    /// Files opened.
    pub opens: u64,
    /// Reads of files.
    pub reads: u64,
    /// Writes to files.
    pub writes: u64,
    /// Names removed.
    pub unlinks: u64,
    /// All other calls: lengths asked for and set, files renamed, folders made, removed and listed,
    /// space, sync.
    pub others: u64,
    /// Reads of mapped files.
    pub map_reads: u64,
    /// Writes to mapped files.
    pub map_writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl CountingFs {
    /// Wraps `inner` and counts from zero.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self::with_tally(inner, Arc::default())
    }

    /// Wraps `inner` and adds to `tally`.
    pub fn with_tally(inner: Arc<dyn FileSystem>, tally: Arc<CallTally>) -> Self {
        Self { inner, tally }
    }

    /// Returns the calls since the previous `take`.
    pub fn take(&self) -> Calls {
        Calls::of(self.tally.0.each_ref().map(|count| count.swap(0, Relaxed)))
    }

    fn wrap(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        Ok(Box::new(CountedFile { inner: file?, tally: Arc::clone(&self.tally) }))
    }
}

impl Calls {
    /// Returns the calls by the counts of their kinds.
    fn of(counts: [u64; 10]) -> Self {
        let [
            creates,
            opens,
            reads,
            writes,
            unlinks,
            others,
            map_reads,
            map_writes,
            bytes_read,
            bytes_written,
        ] = counts;
        Self {
            creates,
            opens,
            reads,
            writes,
            unlinks,
            others,
            map_reads,
            map_writes,
            bytes_read,
            bytes_written,
        }
    }
}

impl FileSystem for CountingFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.tally.count(CallKind::Create);
        self.wrap(self.inner.create(path))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.tally.count(CallKind::Open);
        self.wrap(self.inner.open(path, access))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.tally.count(CallKind::Open);
        self.wrap(self.inner.open_direct(path, access))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        self.tally.count(CallKind::Other);
        self.inner.load(path, bytes)
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.tally.count(CallKind::Other);
        self.inner.length(path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.tally.count(CallKind::Unlink);
        self.inner.unlink(path)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        self.tally.count(CallKind::Other);
        self.inner.make_folder(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.rename(from, to)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.remove_folder(path)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.tally.count(CallKind::Other);
        self.inner.list(path, limit)
    }

    fn space(&self) -> io::Result<Space> {
        self.tally.count(CallKind::Other);
        self.inner.space()
    }

    fn is_ours(&self) -> bool {
        self.inner.is_ours()
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        self.tally.count(CallKind::Other);
        Ok(Box::new(CountedMapping { inner: self.inner.map(path, bytes)?, tally: Arc::clone(&self.tally) }))
    }

    fn map_for(&self, path: &str, bytes: u64, access: MappedAccess) -> io::Result<Box<dyn Mapping>> {
        self.tally.count(CallKind::Other);
        let inner = self.inner.map_for(path, bytes, access)?;
        Ok(Box::new(CountedMapping { inner, tally: Arc::clone(&self.tally) }))
    }

    fn sync(&self) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.sync()
    }
}

/// Mapped file with counted reads and writes.
struct CountedMapping {
    inner: Box<dyn Mapping>,
    tally: Arc<CallTally>,
}

impl Mapping for CountedMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.tally.count(CallKind::MapRead);
        self.tally.add(CallKind::BytesRead, buffer.len() as u64);
        self.inner.read(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.tally.count(CallKind::MapWrite);
        self.tally.add(CallKind::BytesWritten, bytes.len() as u64);
        self.inner.write(bytes, offset)
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.inner.is_resident(offset)
    }
}

/// Open file with counted reads and writes.
struct CountedFile {
    inner: Box<dyn File>,
    tally: Arc<CallTally>,
}

impl File for CountedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.tally.count(CallKind::Read);
        let read = self.inner.read_at(buffer, offset)?;
        self.tally.add(CallKind::BytesRead, read as u64);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.tally.count(CallKind::Write);
        let written = self.inner.write_at(bytes, offset)?;
        self.tally.add(CallKind::BytesWritten, written as u64);
        Ok(written)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.set_length(bytes)
    }

    fn allot(&self, bytes: u64) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.allot(bytes)
    }

    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.reserve(bytes, zeros)
    }

    fn sync(&self) -> io::Result<()> {
        self.tally.count(CallKind::Other);
        self.inner.sync()
    }
}

/// Kinds of counts, in the order of the fields of [`Calls`].
#[derive(Clone, Copy)]
enum CallKind {
    Create,
    Open,
    Read,
    Write,
    Unlink,
    Other,
    MapRead,
    MapWrite,
    BytesRead,
    BytesWritten,
}

/// Counts of calls that several file systems add to, one after the other or at once.
#[derive(Debug, Default)]
pub struct CallTally([AtomicU64; 10]);

impl CallTally {
    /// Returns the calls so far.
    pub fn calls(&self) -> Calls {
        Calls::of(self.0.each_ref().map(|count| count.load(Relaxed)))
    }

    fn count(&self, kind: CallKind) {
        self.add(kind, 1);
    }

    fn add(&self, kind: CallKind, amount: u64) {
        self.0[kind as usize].fetch_add(amount, Relaxed);
    }
}
