//! Memory of the index: 64-bit words, mapped from a file or plain, with a sudden end for tests.
//!
//! A store to a word is the unit of change: after a crash of the process the memory holds the
//! stores made so far, in their order.

use crate::fs::CrashPoint;
use crate::sys::Map;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// Words that survive the process.
pub trait Words: Send + Sync {
    /// Returns the number of words.
    fn count(&self) -> usize;

    /// Returns the word at a position below `count`.
    fn load(&self, at: usize) -> u64;

    /// Changes a word. Stores take effect in program order.
    fn store(&self, at: usize, value: u64);

    /// Changes a word if it still is `current`. Returns `true` if it was.
    fn exchange(&self, at: usize, current: u64, value: u64) -> bool;

    /// Returns when `count` words from `at` on would survive a power loss.
    fn sync(&self, at: usize, count: usize) -> io::Result<()>;

    /// Returns the number of pages that the disk did not deliver. They read as zeros, and writes to
    /// them do not reach the disk.
    fn lost_pages(&self) -> u64 {
        0
    }
}

/// Words of a mapped file.
pub(crate) struct MappedWords(pub(crate) Map);

impl Words for MappedWords {
    fn count(&self) -> usize {
        self.0.words().len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0.words()[at].load(Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        self.0.words()[at].store(value, Release);
    }

    fn exchange(&self, at: usize, current: u64, value: u64) -> bool {
        self.0.words()[at].compare_exchange(current, value, AcqRel, Acquire).is_ok()
    }

    fn sync(&self, at: usize, count: usize) -> io::Result<()> {
        if self.lost_pages() > 0 {
            return Err(io::Error::other("the disk did not deliver a part of the index"));
        }
        self.0.flush(at, count)
    }

    fn lost_pages(&self) -> u64 {
        self.0.lost_pages()
    }
}

/// Words in RAM, for tests and simulations. A clone shares them.
#[derive(Clone, Debug)]
pub struct RamWords {
    words: Arc<[AtomicU64]>,
    synced: Arc<[AtomicU64]>,
    crash: Arc<CrashPoint>,
}

impl RamWords {
    /// Makes `count` zeros.
    pub fn new(count: usize) -> Self {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { words: zeros(), synced: zeros(), crash: CrashPoint::never() }
    }

    /// Returns the same words, with stores that stop at `crash`.
    pub fn crashing_at(&self, crash: Arc<CrashPoint>) -> Self {
        Self { crash, ..self.clone() }
    }

    /// Returns the state that a killed process leaves: a copy of the words as they are.
    pub fn after_kill(&self) -> Self {
        let copy = Self::new(self.words.len());
        for (at, word) in self.words.iter().enumerate() {
            copy.words[at].store(word.load(Acquire), Release);
            copy.synced[at].store(self.synced[at].load(Acquire), Release);
        }
        copy
    }

    /// Returns the state that a power loss leaves. `choose` returns a number below its argument,
    /// and so decides for each page: its state at the last sync or now.
    pub fn after_power_loss(&self, mut choose: impl FnMut(u64) -> u64) -> Self {
        let copy = self.after_kill();
        for page in 0..self.words.len().div_ceil(PAGE_WORDS) {
            let is_lost = choose(2) == 0;
            let words = page * PAGE_WORDS..((page + 1) * PAGE_WORDS).min(self.words.len());
            for at in words.filter(|_| is_lost) {
                copy.words[at].store(self.synced[at].load(Acquire), Release);
            }
        }
        copy
    }
}

impl Words for RamWords {
    fn count(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        if self.crash.pass() {
            self.words[at].store(value, Release);
        }
    }

    fn exchange(&self, at: usize, current: u64, value: u64) -> bool {
        // After the end no test looks; the caller only must not try for ever.
        !self.crash.pass() || self.words[at].compare_exchange(current, value, AcqRel, Acquire).is_ok()
    }

    fn sync(&self, at: usize, count: usize) -> io::Result<()> {
        if self.crash.pass() {
            for at in at..at + count {
                self.synced[at].store(self.load(at), Release);
            }
        }
        Ok(())
    }
}

/// Words of a page, which a power loss takes or leaves as a whole.
pub(crate) const PAGE_WORDS: usize = 512;

// A page of the file is a page of words.
const _: () = assert!(PAGE_WORDS * 8 == crate::fs::PAGE_BYTES);
