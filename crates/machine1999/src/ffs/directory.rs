//! Entries of a directory, and their positions in it.
//!
//! 4.4BSD: a directory is a file of chunks of 512 bytes, and entries do not cross chunks. An entry
//! takes 8 bytes and its name with a closing zero, rounded up to 4. A new entry goes into the first
//! chunk with room, or a new chunk is added. A removal leaves room and never shortens the file. A
//! lookup goes through the blocks one after the other, beginning where the last one ended.

use crate::cache::Mixed;
use std::collections::HashMap;

/// Entries of a directory.
#[derive(Debug)]
pub(in super::super) struct Directory {
    entries: HashMap<Box<str>, Entry, Mixed>,
    /// Free bytes of each chunk.
    free: Vec<u16>,
    /// Chunk in which the last lookup found its name.
    cursor: u32,
}

/// Target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) inode: u32,
    /// Chunk of 512 bytes that holds the entry.
    pub(in super::super) chunk: u32,
}

impl Directory {
    /// Makes a directory with entries for itself and its parent, in one chunk.
    pub(super) fn new() -> Self {
        let free = vec![CHUNK_BYTES - entry_bytes(".") - entry_bytes("..")];
        Self { entries: HashMap::default(), free, cursor: 0 }
    }

    pub(in super::super) fn find(&self, name: &str) -> Option<Entry> {
        self.entries.get(name).copied()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all names, in no order.
    pub(in super::super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// Returns the length of the directory as a file.
    pub(in super::super) fn bytes(&self) -> u64 {
        self.free.len() as u64 * u64::from(CHUNK_BYTES)
    }

    /// Returns the chunk for a new entry: one past the last if no chunk has room.
    pub(in super::super) fn room_for(&self, name: &str) -> u32 {
        let needed = entry_bytes(name);
        self.free.iter().position(|free| *free >= needed).unwrap_or(self.free.len()) as u32
    }

    /// Enters an absent name. Returns its chunk.
    pub(in super::super) fn enter(&mut self, name: &str, inode: u32) -> u32 {
        let chunk = self.room_for(name);
        if chunk as usize == self.free.len() {
            self.free.push(CHUNK_BYTES);
        }
        self.free[chunk as usize] -= entry_bytes(name);
        let before = self.entries.insert(name.into(), Entry { inode, chunk });
        debug_assert!(before.is_none(), "{name} is in the folder already");
        chunk
    }

    /// Lets a name lead to another inode. Returns its chunk.
    pub(in super::super) fn redirect(&mut self, name: &str, inode: u32) -> Option<u32> {
        let entry = self.entries.get_mut(name)?;
        entry.inode = inode;
        Some(entry.chunk)
    }

    /// Removes a name.
    pub(in super::super) fn remove(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.free[entry.chunk as usize] += entry_bytes(name);
        debug_assert!(self.free[entry.chunk as usize] <= CHUNK_BYTES, "a chunk is freer than empty");
        Some(entry)
    }

    /// Returns the blocks that a lookup reads: from the end of the last lookup to the entry. All
    /// blocks if the name is absent, or if a place for a new entry is sought at the same time.
    pub(in super::super) fn search(&mut self, name: &str, for_creation: bool) -> Vec<u32> {
        let blocks = (self.free.len() as u32).div_ceil(CHUNKS_PER_BLOCK);
        let start = if for_creation { 0 } else { self.cursor / CHUNKS_PER_BLOCK };
        let Some(entry) = self.find(name) else { return (start..blocks).chain(0..start).collect() };
        let block = entry.chunk / CHUNKS_PER_BLOCK;
        if !for_creation {
            self.cursor = entry.chunk;
        }
        if block >= start { (start..=block).collect() } else { (start..blocks).chain(0..=block).collect() }
    }
}

/// Returns the bytes that an entry takes.
fn entry_bytes(name: &str) -> u16 {
    (8 + name.len().min(NAME_BYTES_MAX) as u16 + 1).next_multiple_of(4)
}

/// Least growth of a directory, which an update writes atomically (`DIRBLKSIZ`).
pub(in super::super) const CHUNK_BYTES: u16 = 512;
const CHUNKS_PER_BLOCK: u32 = 16;
/// Longest name of a file.
pub(in super::super) const NAME_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fill_chunks_by_hand() {
        assert_eq!((entry_bytes("."), entry_bytes(".."), entry_bytes("0000001F")), (12, 12, 20));
        let mut directory = Directory::new();
        // 488 bytes are left of the first chunk: 24 entries of 20; 25 in each further one.
        for n in 0..24 + 25 {
            assert_eq!(directory.enter(&format!("{n:08X}"), n), u32::from(n >= 24));
        }
        assert_eq!(directory.bytes(), 1024);
        assert_eq!(directory.room_for("000000FF"), 2);
        assert_eq!(directory.remove("00000003"), Some(Entry { inode: 3, chunk: 0 }));
        assert_eq!(directory.enter("000000FF", 255), 0);
        assert_eq!(directory.bytes(), 1024);
    }

    #[test]
    fn searches_read_on_from_the_last_find() {
        let mut directory = Directory::new();
        // Three blocks: 16 × 25 − 1 entries, 400, and the rest.
        for n in 0..1000 {
            directory.enter(&format!("{n:08}"), n);
        }
        assert_eq!(directory.search("00000999", false), [0, 1, 2]);
        assert_eq!(directory.search("00000998", false), [2]);
        assert_eq!(directory.search("00000001", false), [2, 0]);
        assert_eq!(directory.search("00000500", false), [0, 1]);
        assert_eq!(directory.search("absent", false), [1, 2, 0]);
        assert_eq!(directory.search("absent", true), [0, 1, 2]);
    }
}
