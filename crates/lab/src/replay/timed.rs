//! A door that measures: each call's duration by kind, and the first call that failed.
//!
//! Kroonmaa (Clustered Store, squid-dev, 1998) compared architectures by the cost of open, create
//! and unlink. On the real file system each call of the door is one system call, so that this
//! counts those too.

use super::latency::{Latencies, LatencyHistogram};
use shoal_store::fs::{Access, File, FileSystem, LoadedWords, MappedAccess, Mapping, Space};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn nanos(&self) -> u64;
}

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// A file is made.
    Create,
    /// A file is opened.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is closed.
    Close,
    /// A name is removed.
    Unlink,
    /// Other calls: lengths, renames, maps, folders made, removed and listed, space, sync.
    Other,
}

impl CallKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Create, Self::Open, Self::Read, Self::Write, Self::Close, Self::Unlink, Self::Other];

    /// Returns the kind's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Close => "close",
            Self::Unlink => "unlink",
            Self::Other => "other",
        }
    }
}

/// File system that measures its calls. Clones share their measurements.
#[derive(Clone)]
pub struct TimingFs {
    inner: Arc<dyn FileSystem>,
    meter: Arc<Meter>,
}

/// A call that failed unexpectedly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedCall {
    /// Kind of the call.
    pub call: CallKind,
    /// File of the call, relative to the store.
    pub path: String,
    /// Error of the system.
    pub cause: String,
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { &self.path };
        let verb = if self.call == CallKind::Other { "look at or change" } else { self.call.name() };
        write!(f, "could not {verb} {path}: {}", self.cause)
    }
}

/// Measurements of the calls.
struct Meter {
    clock: Box<dyn Clock>,
    histograms: [LatencyHistogram; CallKind::ALL.len()],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    has_failed: AtomicBool,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    /// The first failure that no architecture has to expect.
    first: Option<FailedCall>,
    /// The latest failure, expected or not.
    latest: Option<FailedCall>,
}

impl TimingFs {
    /// Measures the calls to `inner`.
    pub fn new(inner: Arc<dyn FileSystem>, clock: Box<dyn Clock>) -> Self {
        let meter = Meter {
            clock,
            histograms: Default::default(),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failures: Mutex::default(),
        };
        Self { inner, meter: Arc::new(meter) }
    }

    /// Returns the measurements since the last call.
    pub fn take(&self) -> Latencies {
        Latencies {
            calls: self.meter.histograms.each_ref().map(LatencyHistogram::take),
            bytes_read: self.meter.bytes_read.swap(0, Relaxed),
            bytes_written: self.meter.bytes_written.swap(0, Relaxed),
        }
    }

    /// Returns the first call that failed for another reason than a file or folder absent or
    /// already there.
    pub fn failed(&self) -> Option<FailedCall> {
        if !self.meter.has_failed.load(Relaxed) {
            return None;
        }
        self.meter.failures().first.clone()
    }

    /// Returns the latest failed call, for any reason: the cause of an error that the store has
    /// just returned.
    pub fn latest_failed(&self) -> Option<FailedCall> {
        self.meter.failures().latest.clone()
    }

    fn file(&self, path: &str, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(TimedFile { inner: Some(file), path: path.into(), meter: Arc::clone(&self.meter) })
    }
}

impl Meter {
    fn measure<T>(&self, call: CallKind, path: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let begun = self.clock.nanos();
        let outcome = work();
        self.histograms[call as usize].add(self.clock.nanos().saturating_sub(begun));
        if let Err(error) = &outcome {
            self.note(call, path, error);
        }
        outcome
    }

    fn note(&self, call: CallKind, path: &str, error: &io::Error) {
        // Only a try shows whether a folder is empty. This error is an answer and does not end a
        // run.
        if error.kind() == io::ErrorKind::DirectoryNotEmpty {
            return;
        }
        let failed = FailedCall { call, path: path.to_owned(), cause: error.to_string() };
        let mut failures = self.failures();
        if !is_ordinary(call, error) {
            failures.first.get_or_insert_with(|| failed.clone());
            self.has_failed.store(true, Relaxed);
        }
        failures.latest = Some(failed);
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if an architecture may expect the error: files absent or already there, folders
/// made on demand, and calls that the store only tries.
fn is_ordinary(call: CallKind, error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::Interrupted, io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound];
    kinds.contains(&error.kind()) || call == CallKind::Other
}

impl FileSystem for TimingFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let file = self.meter.measure(CallKind::Create, path, || self.inner.create(path))?;
        Ok(self.file(path, file))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let file = self.meter.measure(CallKind::Open, path, || self.inner.open(path, access))?;
        Ok(self.file(path, file))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        let file = self.meter.measure(CallKind::Open, path, || self.inner.open_direct(path, access))?;
        Ok(self.file(path, file))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        self.meter.measure(CallKind::Other, path, || self.inner.load(path, bytes))
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.meter.measure(CallKind::Other, path, || self.inner.length(path))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.meter.measure(CallKind::Unlink, path, || self.inner.unlink(path))
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        self.meter.measure(CallKind::Other, path, || self.inner.make_folder(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.meter.measure(CallKind::Other, from, || self.inner.rename(from, to))
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.meter.measure(CallKind::Other, path, || self.inner.remove_folder(path))
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.meter.measure(CallKind::Other, path, || self.inner.list(path, limit))
    }

    fn space(&self) -> io::Result<Space> {
        self.meter.measure(CallKind::Other, "", || self.inner.space())
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        self.map_for(path, bytes, MappedAccess::Calls)
    }

    fn map_for(&self, path: &str, bytes: u64, access: MappedAccess) -> io::Result<Box<dyn Mapping>> {
        let inner = self.meter.measure(CallKind::Other, path, || self.inner.map_for(path, bytes, access))?;
        Ok(Box::new(TimedMapping { inner, path: path.into(), meter: Arc::clone(&self.meter) }))
    }

    fn sync(&self) -> io::Result<()> {
        self.meter.measure(CallKind::Other, "", || self.inner.sync())
    }
}

/// A mapped file that is measured.
struct TimedMapping {
    inner: Box<dyn Mapping>,
    path: Box<str>,
    meter: Arc<Meter>,
}

impl Mapping for TimedMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = buffer.len() as u64;
        self.meter.measure(CallKind::Read, &self.path, || self.inner.read(buffer, offset))?;
        self.meter.bytes_read.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.meter.measure(CallKind::Write, &self.path, || self.inner.write(bytes, offset))?;
        self.meter.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.inner.is_resident(offset)
    }
}

/// An open file that is measured.
struct TimedFile {
    /// `None` only while it is being dropped.
    inner: Option<Box<dyn File>>,
    path: Box<str>,
    meter: Arc<Meter>,
}

impl TimedFile {
    fn inner(&self) -> io::Result<&dyn File> {
        self.inner.as_deref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl File for TimedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let work = || self.inner()?.read_at(buffer, offset);
        let read = self.meter.measure(CallKind::Read, &self.path, work)?;
        self.meter.bytes_read.fetch_add(read as u64, Relaxed);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let work = || self.inner()?.write_at(bytes, offset);
        let written = self.meter.measure(CallKind::Write, &self.path, work)?;
        self.meter.bytes_written.fetch_add(written as u64, Relaxed);
        Ok(written)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.meter.measure(CallKind::Other, &self.path, || self.inner()?.set_length(bytes))
    }

    fn allot(&self, bytes: u64) -> io::Result<()> {
        self.meter.measure(CallKind::Other, &self.path, || self.inner()?.allot(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.meter.measure(CallKind::Other, &self.path, || self.inner()?.sync())
    }
}

impl Drop for TimedFile {
    fn drop(&mut self) {
        let file = self.inner.take();
        let begun = self.meter.clock.nanos();
        drop(file);
        self.meter.histograms[CallKind::Close as usize].add(self.meter.clock.nanos().saturating_sub(begun));
    }
}
