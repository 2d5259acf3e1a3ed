//! Name cache: "stores file and directory name resolutions which associate file and directory names
//! with file system data structures that otherwise reside on disk" (Maltzahn 1999, 2.1).
//!
//! As in 4.4BSD's `vfs_cache.c`:
//!
//! - An entry is good only while its inode stays in memory, so entries carry the inode's generation
//!   there.
//! - Names longer than a limit are not remembered.
//! - A lookup that found nothing may be remembered.
//! - A create enters nothing; the first open afterwards does.

use super::{Lru, mix_name};

/// Resolved names, the least recently used evicted first. A name and its directory are kept as 64
/// bits of hash. Two names that collide would be charged wrongly. At a few thousand entries that
/// happens in none of many runs, and the resolution itself never comes from here.
#[derive(Debug)]
pub(in super::super) struct NameCache {
    entries: Lru<u64, Remembered>,
    limit: usize,
    name_bytes_max: usize,
}

/// Remembered result of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Remembered {
    /// The name does not exist.
    #[default]
    Absent,
    /// Generation of the name's inode in memory.
    Generation(u64),
}

impl NameCache {
    pub(in super::super) fn new(limit: usize, name_bytes_max: usize) -> Self {
        Self { entries: Lru::new(), limit, name_bytes_max }
    }

    pub(in super::super) fn find(&mut self, directory: u64, name: &str) -> Option<Remembered> {
        self.entries.touch(mix_name(directory, name)).copied()
    }

    pub(in super::super) fn enter(&mut self, directory: u64, name: &str, what: Remembered) {
        if name.len() > self.name_bytes_max || self.limit == 0 {
            return;
        }
        let key = mix_name(directory, name);
        if let Some(entry) = self.entries.touch(key) {
            *entry = what;
            return;
        }
        if self.entries.len() == self.limit
            && let Some(oldest) = self.entries.oldest()
        {
            self.entries.remove(oldest);
        }
        self.entries.insert(key, what);
        debug_assert!(self.entries.len() <= self.limit, "{} of {} names", self.entries.len(), self.limit);
    }

    pub(in super::super) fn purge(&mut self, directory: u64, name: &str) {
        self.entries.remove(mix_name(directory, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_latest_short_names() {
        let mut names = NameCache::new(2, 8);
        names.enter(1, "a", Remembered::Generation(7));
        names.enter(1, "much too long", Remembered::Generation(8));
        names.enter(2, "a", Remembered::Absent);
        assert_eq!(names.find(1, "a"), Some(Remembered::Generation(7)));
        names.enter(1, "b", Remembered::Generation(9));
        assert_eq!(names.find(2, "a"), None, "not used for longest");
        assert_eq!(names.find(1, "a"), Some(Remembered::Generation(7)));
        names.purge(1, "a");
        assert_eq!((names.find(1, "a"), names.find(1, "much too long")), (None, None));
    }
}
