//! File system that fails on a seed, and can end suddenly. Its faults are errors, torn writes,
//! short reads, full disks, disks smaller than they say, and delays.
//!
//! A [`CrashPoint`] counts down over all calls of all file systems that share it, and over the
//! stores to the index. At zero the process is as good as killed: the present call may take effect
//! in part, and no later one does.

use super::{Access, File, FileSystem, LoadedWords, Mapping, Space};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Wrapper of a file system that lets calls fail.
pub struct FaultyFs {
    inner: Arc<dyn FileSystem>,
    faults: Arc<Faults>,
}

/// Choice of the calls that fail.
#[derive(Debug)]
pub struct Faults {
    /// State of the generator that chooses failing calls; one seed and order of calls always fail
    /// alike.
    state: AtomicU64,
    /// Failing calls of a thousand, for each kind of fault.
    rates: Rates,
    delay_max: Duration,
    /// Function that lets a delay pass.
    pass_time: PassTime,
    /// Offset at which every file starts over from its beginning, at any length of the file.
    wraps_at: u64,
    crash: Arc<CrashPoint>,
}

/// Function that lets time pass.
struct PassTime(Box<dyn Fn(Duration) + Send + Sync>);

impl std::fmt::Debug for PassTime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PassTime")
    }
}

/// Failing calls of a thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    errors: u64,
    full: u64,
    torn: u64,
    short: u64,
    delays: u64,
}

/// Moment at which everything stops.
#[derive(Debug)]
pub struct CrashPoint(AtomicU64);

impl CrashPoint {
    /// Stops after `calls` calls have passed.
    pub fn after(calls: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(calls)))
    }

    /// Makes a point that never stops a call.
    pub fn never() -> Arc<Self> {
        Self::after(NEVER)
    }

    /// Stops now.
    pub fn come(&self) {
        self.0.store(STOPPED, SeqCst);
    }

    /// Lets one call pass or stops it. Returns `true` if it passes.
    pub fn pass(&self) -> bool {
        let countdown = |left: u64| match left {
            NEVER | STOPPED => None,
            0 => Some(STOPPED),
            left => Some(left - 1),
        };
        match self.0.fetch_update(SeqCst, SeqCst, countdown) {
            Ok(left) => left > 0,
            Err(state) => state == NEVER,
        }
    }

    /// Returns `true` if everything has stopped.
    pub fn has_come(&self) -> bool {
        self.0.load(SeqCst) == STOPPED
    }
}

impl Faults {
    /// Creates faults that strike no call yet.
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
            rates: Rates::default(),
            delay_max: Duration::from_millis(1),
            pass_time: PassTime(Box::new(std::thread::sleep)),
            wraps_at: u64::MAX,
            crash: CrashPoint::never(),
        }
    }

    /// Lets `per_mille` of a thousand calls fail with an input/output error (EIO).
    pub fn errors(mut self, per_mille: u64) -> Self {
        self.rates.errors = per_mille;
        self
    }

    /// Lets `per_mille` of a thousand creates and writes find the disk full (ENOSPC).
    pub fn full(mut self, per_mille: u64) -> Self {
        self.rates.full = per_mille;
        self
    }

    /// Lets `per_mille` of a thousand writes write a part and then fail.
    pub fn torn(mut self, per_mille: u64) -> Self {
        self.rates.torn = per_mille;
        self
    }

    /// Lets `per_mille` of a thousand reads return a part of the bytes asked for.
    pub fn short(mut self, per_mille: u64) -> Self {
        self.rates.short = per_mille;
        self
    }

    /// Limits open files to `bytes` bytes, a multiple of [`PAGE_BYTES`](super::PAGE_BYTES). Later
    /// bytes go to the file's beginning, as on a disk that claims to be larger than it is.
    pub fn wraps_at(mut self, bytes: u64) -> Self {
        self.wraps_at = bytes;
        self
    }

    /// Delays `per_mille` of a thousand calls by up to a millisecond.
    pub fn delays(mut self, per_mille: u64) -> Self {
        self.rates.delays = per_mille;
        self
    }

    /// Delays every call by up to `most`, on a simulated clock. `pass_time` gets the delay, and may
    /// make calls of its own.
    pub fn takes(mut self, most: Duration, pass_time: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.rates.delays = 1000;
        self.delay_max = most;
        self.pass_time = PassTime(Box::new(pass_time));
        self
    }

    /// Stops everything at this point.
    pub fn crash_at(mut self, crash: Arc<CrashPoint>) -> Self {
        self.crash = crash;
        self
    }

    /// Returns a number below `limit`, the next of the sequence (splitmix64).
    fn below(&self, limit: u64) -> u64 {
        let z = self.state.fetch_add(GOLDEN, SeqCst).wrapping_add(GOLDEN);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    fn strikes(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    /// Strikes any call: a delay, the crash, or an error.
    fn befall(&self) -> io::Result<()> {
        if self.strikes(self.rates.delays) {
            (self.pass_time.0)(Duration::from_micros(self.below(self.delay_max.as_micros() as u64)));
        }
        if !self.crash.pass() || self.strikes(self.rates.errors) {
            return Err(Errno::IO.into());
        }
        Ok(())
    }

    fn befall_growth(&self) -> io::Result<()> {
        self.befall()?;
        if self.strikes(self.rates.full) { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    /// Strikes a write. The write at the crash may leave a part.
    fn befall_write(&self) -> Write {
        let was_over = self.crash.has_come();
        match self.befall_growth() {
            Err(_) if !was_over && self.crash.has_come() => Write::Torn,
            Err(error) => Write::Failed(error),
            Ok(()) if self.strikes(self.rates.torn) => Write::Torn,
            Ok(()) => Write::Whole,
        }
    }
}

/// Extent of a write.
enum Write {
    Whole,
    /// A part is written, then it fails.
    Torn,
    Failed(io::Error),
}

impl FaultyFs {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn FileSystem>, faults: Faults) -> Self {
        Self { inner, faults: Arc::new(faults) }
    }

    fn wrap(&self, inner: Box<dyn File>) -> Box<dyn File> {
        Box::new(FaultyFile { inner, faults: Arc::clone(&self.faults) })
    }
}

impl FileSystem for FaultyFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.faults.befall_growth()?;
        Ok(self.wrap(self.inner.create(path)?))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.faults.befall()?;
        Ok(self.wrap(self.inner.open(path, access)?))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.faults.befall()?;
        Ok(self.wrap(self.inner.open_direct(path, access)?))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        self.faults.befall()?;
        self.inner.load(path, bytes)
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.faults.befall()?;
        self.inner.length(path)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.faults.befall()?;
        self.inner.unlink(path)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        self.faults.befall_growth()?;
        self.inner.make_folder(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.befall_growth()?;
        self.inner.rename(from, to)
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        self.faults.befall()?;
        self.inner.remove_folder(path)
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        self.faults.befall()?;
        self.inner.list(path, limit)
    }

    fn space(&self) -> io::Result<Space> {
        self.faults.befall()?;
        self.inner.space()
    }

    fn is_ours(&self) -> bool {
        self.inner.is_ours()
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        self.faults.befall_growth()?;
        Ok(Box::new(FaultyMapping { inner: self.inner.map(path, bytes)?, faults: Arc::clone(&self.faults) }))
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.befall()?;
        self.inner.sync()
    }
}

/// Mapped file with reads and writes that may fail.
struct FaultyMapping {
    inner: Box<dyn Mapping>,
    faults: Arc<Faults>,
}

impl Mapping for FaultyMapping {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.faults.befall()?;
        self.inner.read(buffer, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.faults.befall_write() {
            Write::Whole => self.inner.write(bytes, offset),
            Write::Torn => {
                let part = self.faults.below(bytes.len() as u64 + 1) as usize;
                // A failing call promises nothing, so the fate of the part does not matter.
                let _ = self.inner.write(&bytes[..part], offset);
                Err(Errno::IO.into())
            }
            Write::Failed(error) => Err(error),
        }
    }

    fn is_resident(&self, offset: u64) -> bool {
        self.inner.is_resident(offset)
    }
}

/// Open file with reads and writes that may fail.
struct FaultyFile {
    inner: Box<dyn File>,
    faults: Arc<Faults>,
}

impl FaultyFile {
    /// Writes some of the bytes, as an interrupted call does.
    fn tear(&self, bytes: &[u8], offset: u64) {
        let part = self.faults.below(bytes.len() as u64 + 1) as usize;
        // A failing call promises nothing, so the fate of the part does not matter.
        let _ = self.inner.write_at(&bytes[..part], offset);
    }

    /// Returns the length and offset of a call on the smaller disk.
    fn place(&self, length: usize, offset: u64) -> (usize, u64) {
        let offset = offset % self.faults.wraps_at;
        let left = usize::try_from(self.faults.wraps_at - offset).unwrap_or(usize::MAX);
        (length.min(left), offset)
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.faults.befall()?;
        let (mut length, offset) = self.place(buffer.len(), offset);
        if length > 1 && self.faults.strikes(self.faults.rates.short) {
            length = 1 + self.faults.below(length as u64 - 1) as usize;
        }
        self.inner.read_at(&mut buffer[..length], offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (length, offset) = self.place(bytes.len(), offset);
        let bytes = &bytes[..length];
        match self.faults.befall_write() {
            Write::Whole => self.inner.write_at(bytes, offset),
            Write::Torn => {
                self.tear(bytes, offset);
                Err(Errno::IO.into())
            }
            Write::Failed(error) => Err(error),
        }
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.faults.befall_growth()?;
        self.inner.set_length(bytes)
    }

    fn allot(&self, bytes: u64) -> io::Result<()> {
        self.faults.befall_growth()?;
        self.inner.allot(bytes)
    }

    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        self.faults.befall_growth()?;
        self.inner.reserve(bytes, zeros)
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.befall()?;
        self.inner.sync()
    }
}

/// Countdown that does not run.
const NEVER: u64 = u64::MAX;
/// Countdown that has run out and stopped a call.
const STOPPED: u64 = u64::MAX - 1;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
