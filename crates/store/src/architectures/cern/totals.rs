//! Totals of a tree of URL folders, kept in RAM, and in a small file between an orderly close and
//! the next opening.
//!
//! No other state about the contents is kept. After an unclean stop the store walks the tree and
//! counts. Until the count ends, all charges are refused, which declines all inserts, and credits
//! are ignored.

use crate::fs::{Access, FileSystem, read_full, write_full};
use parking_lot::Mutex;
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Running totals.
pub(super) struct TreeTotals {
    sums: Mutex<Sums>,
    limits: Limits,
}

/// Limits of the totals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Limit of all bytes on disk.
    pub(super) bytes: u64,
    /// Bytes of the files that always exist.
    pub(super) fixed_bytes: u64,
    pub(super) objects: u64,
    pub(super) object_bytes: u64,
}

/// Current totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Bytes of objects, their metadata files and folders, in whole blocks.
    pub(super) bytes: u64,
    pub(super) objects: u64,
    /// Set while the tree is being counted.
    pub(super) counting: bool,
}

impl TreeTotals {
    /// Starts with these sums, or with a count of the tree.
    pub(super) fn new(known: Option<Sums>, limits: Limits) -> Self {
        let sums = known.unwrap_or(Sums { counting: true, ..Sums::default() });
        Self { sums: Mutex::new(sums), limits }
    }

    pub(super) fn now(&self) -> Sums {
        *self.sums.lock()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the bytes available to objects and folders in total.
    pub(super) fn room(&self) -> u64 {
        self.limits.bytes - self.limits.fixed_bytes
    }

    /// Charges `bytes` bytes. Returns `false` when there is no room, or while the tree is being
    /// counted.
    pub(super) fn charge(&self, bytes: u64) -> bool {
        let mut sums = self.sums.lock();
        let fits = !sums.counting && sums.bytes + bytes <= self.room();
        if fits {
            sums.bytes += bytes;
        }
        fits
    }

    /// Credits bytes. Ignored during a count: the walk may not have reached these bytes yet, and a
    /// total that is too high is safe.
    pub(super) fn credit(&self, bytes: u64) {
        let mut sums = self.sums.lock();
        if !sums.counting {
            sums.bytes = sums.bytes.saturating_sub(bytes);
        }
    }

    /// Counts one more object. Returns `false` at the limit.
    pub(super) fn add_object(&self) -> bool {
        let mut sums = self.sums.lock();
        let fits = sums.objects < self.limits.objects;
        sums.objects += u64::from(fits);
        fits
    }

    pub(super) fn drop_object(&self) {
        let mut sums = self.sums.lock();
        if !sums.counting {
            sums.objects = sums.objects.saturating_sub(1);
        }
    }

    /// Adds bytes and objects that the count has found, regardless of the limit.
    pub(super) fn found(&self, bytes: u64, objects: u64) {
        let mut sums = self.sums.lock();
        sums.bytes += bytes;
        sums.objects += objects;
    }

    /// Subtracts bytes that the count has found before.
    pub(super) fn lost(&self, bytes: u64) {
        let mut sums = self.sums.lock();
        sums.bytes = sums.bytes.saturating_sub(bytes);
    }

    /// Ends the count.
    pub(super) fn counted(&self) {
        self.sums.lock().counting = false;
    }
}

/// Totals as an orderly close leaves them, with the last sequence number given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedTotals {
    pub(super) bytes: u64,
    pub(super) objects: u64,
    pub(super) sequence: u64,
}

impl SavedTotals {
    /// Reads the file. Returns `None` when there is none, or when it is not whole.
    pub(super) fn read(files: &dyn FileSystem) -> io::Result<Option<Self>> {
        let file = match files.open(PATH, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; 256];
        let read = read_full(&*file, &mut bytes, 0)?;
        Ok(std::str::from_utf8(&bytes[..read]).ok().and_then(Self::parse))
    }

    /// Writes the file and returns when it is on disk.
    pub(super) fn write(&self, files: &dyn FileSystem) -> io::Result<()> {
        Self::remove(files)?;
        write_full(&*files.create(PATH)?, self.text().as_bytes(), 0)?;
        files.sync()
    }

    /// Removes the file, which is about to become untrue.
    pub(super) fn remove(files: &dyn FileSystem) -> io::Result<()> {
        match files.unlink(PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn text(&self) -> String {
        let text = format!("{PREFIX}{} {} {}", self.bytes, self.objects, self.sequence);
        format!("{text} {:016x}\n", xxh3_64(text.as_bytes()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers =
            text.strip_prefix(PREFIX)?.split_ascii_whitespace().map_while(|word| word.parse().ok());
        let closed = Self { bytes: numbers.next()?, objects: numbers.next()?, sequence: numbers.next()? };
        (closed.text() == text).then_some(closed)
    }
}

/// Path of the totals file.
pub(super) const PATH: &str = "totals";
const PREFIX: &str = "shoal totals 1: ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;

    #[test]
    fn totals_come_back_and_not_at_all_when_damaged() {
        let files = MemoryFs::new(1 << 20);
        let closed = SavedTotals { bytes: 123_456, objects: 78, sequence: u64::MAX };
        assert_eq!(SavedTotals::read(&files).unwrap(), None);
        closed.write(&files).unwrap();
        assert_eq!(SavedTotals::read(&files).unwrap(), Some(closed));
        for bit in 0..closed.text().len() * 8 {
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            assert_eq!(SavedTotals::read(&files).unwrap(), None, "bit {bit}");
            files.tamper(PATH, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        SavedTotals::remove(&files).unwrap();
        SavedTotals::remove(&files).unwrap();
        assert_eq!(SavedTotals::read(&files).unwrap(), None);
    }

    #[test]
    fn limits_are_not_exceeded_and_counting_takes_nothing() {
        let limits = Limits { bytes: 1000, fixed_bytes: 100, objects: 1, object_bytes: 1 };
        let totals = TreeTotals::new(None, limits);
        assert!(!totals.charge(1));
        totals.found(500, 1);
        totals.credit(500);
        totals.counted();
        assert!(totals.charge(400) && !totals.charge(1) && !totals.add_object());
        totals.credit(5000);
        totals.drop_object();
        assert_eq!(totals.now(), Sums::default());
        assert!(totals.add_object());
    }
}
