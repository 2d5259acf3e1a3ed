//! Fixed table of words that takes memory only for the parts that were written.
//!
//! Tables sized for the worst case are empty in most nodes. A table that is filled with zeros at
//! the start has all of its pages in memory nevertheless.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Table of atomic words, all zero at first. A block of 4 KiB is allocated with the first write to
/// one of its words. A read allocates nothing.
#[derive(Debug)]
pub struct LazyWords {
    blocks: Box<[OnceLock<Box<Block>>]>,
}

type Block = [AtomicU64; BLOCK_WORDS];

impl LazyWords {
    /// Creates a table of at least `words` words, in whole blocks.
    pub fn new(words: usize) -> Self {
        Self { blocks: (0..words.div_ceil(BLOCK_WORDS)).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the value of a word.
    #[inline]
    pub fn load(&self, at: usize, order: Ordering) -> u64 {
        self.written(at).map_or(0, |word| word.load(order))
    }

    /// Returns a word for a write. Its block is in memory from then on.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        let block = self.blocks[at / BLOCK_WORDS].get_or_init(|| Box::new([const { AtomicU64::new(0) }; _]));
        &block[at % BLOCK_WORDS]
    }

    /// Returns a word if its block was written; else it is zero. A thread that sees a value of a
    /// later write also sees the block.
    #[inline]
    pub fn written(&self, at: usize) -> Option<&AtomicU64> {
        self.blocks[at / BLOCK_WORDS].get().map(|block| &block[at % BLOCK_WORDS])
    }

    /// Returns the bytes of the blocks that are in memory.
    pub fn held_bytes(&self) -> usize {
        self.blocks.iter().filter(|block| block.get().is_some()).count() * size_of::<Block>()
    }
}

/// Words of a block: one page on most machines.
const BLOCK_WORDS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_zero_until_written() {
        let words = LazyWords::new(3 * BLOCK_WORDS - 1);
        assert_eq!((words.load(3 * BLOCK_WORDS - 1, Relaxed), words.held_bytes()), (0, 0));
        assert!(words.written(0).is_none());
        words.word(BLOCK_WORDS).store(7, Relaxed);
        words.word(BLOCK_WORDS + 1).fetch_max(8, Relaxed);
        assert_eq!([0, 1].map(|at| words.load(BLOCK_WORDS + at, Relaxed)), [7, 8]);
        assert_eq!((words.load(0, Relaxed), words.held_bytes()), (0, 4096), "one block is written");
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn word_beyond_the_table_panics() {
        LazyWords::new(BLOCK_WORDS).load(BLOCK_WORDS, Relaxed);
    }
}
