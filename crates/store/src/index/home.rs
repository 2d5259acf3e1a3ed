//! Place of an index between sessions: a file, or memory for tests and simulations.

use super::{Index, IndexGeometry, RamWords, Words, file};
use crate::fs::CrashPoint;
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Place of an index.
pub trait IndexStorage {
    /// Returns the existing index.
    fn existing(&self) -> io::Result<Option<Box<dyn Words>>>;

    /// Puts the existing index out of the way, for good.
    fn set_aside(&self) -> io::Result<()>;

    /// Makes an empty index.
    fn make(&self, geometry: &IndexGeometry) -> io::Result<Box<dyn Words>>;

    /// Returns the bytes on disk of an index set aside. Deletes one above `most` bytes.
    fn aside_bytes(&self, most: u64) -> u64;
}

/// Folder of the real file system.
pub(crate) struct FileHome(pub(crate) PathBuf);

impl IndexStorage for FileHome {
    fn existing(&self) -> io::Result<Option<Box<dyn Words>>> {
        Ok(file::open(&self.0)?.map(|mapped| Box::new(mapped) as Box<dyn Words>))
    }

    fn set_aside(&self) -> io::Result<()> {
        file::set_aside(&self.0)
    }

    fn make(&self, geometry: &IndexGeometry) -> io::Result<Box<dyn Words>> {
        Ok(Box::new(file::make(&self.0, geometry)?))
    }

    fn aside_bytes(&self, most: u64) -> u64 {
        file::aside_bytes(&self.0, most)
    }
}

/// Memory that outlives the store. A clone shares it.
#[derive(Clone, Default)]
pub struct MemoryHome(Arc<Mutex<Home>>);

#[derive(Default)]
struct Home {
    words: Option<RamWords>,
    crash: Option<Arc<CrashPoint>>,
}

impl MemoryHome {
    /// Makes a home that holds this index, or none.
    pub fn with(words: Option<RamWords>) -> Self {
        Self(Arc::new(Mutex::new(Home { words, crash: None })))
    }

    /// Stops stores to the index at `crash`, from now on.
    pub fn crash_at(&self, crash: Arc<CrashPoint>) {
        self.0.lock().crash = Some(crash);
    }

    /// Returns the existing index.
    pub fn words(&self) -> Option<RamWords> {
        self.0.lock().words.clone()
    }
}

impl Home {
    fn open(&self) -> Option<Box<dyn Words>> {
        let words = self.words.as_ref()?;
        let crash = self.crash.clone().unwrap_or_else(CrashPoint::never);
        Some(Box::new(words.crashing_at(crash)))
    }
}

impl IndexStorage for MemoryHome {
    fn existing(&self) -> io::Result<Option<Box<dyn Words>>> {
        Ok(self.0.lock().open())
    }

    fn set_aside(&self) -> io::Result<()> {
        self.0.lock().words = None;
        Ok(())
    }

    fn make(&self, geometry: &IndexGeometry) -> io::Result<Box<dyn Words>> {
        let words = RamWords::new(geometry.words());
        Index::format(&words, geometry);
        let mut home = self.0.lock();
        // An index appears whole or not at all; a process that has ended makes none.
        if home.crash.as_ref().is_none_or(|crash| crash.pass()) {
            home.words = Some(words);
            return home.open().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        Err(io::ErrorKind::Other.into())
    }

    fn aside_bytes(&self, _: u64) -> u64 {
        0
    }
}
