//! Memory for pieces of bodies that are on their way to the disk. A piece is used for milliseconds,
//! and its memory then serves another. The allocator would return it to the kernel, which clears
//! each page at its next use.

use bytes::Bytes;
use parking_lot::Mutex;

/// Memory of one piece, returned to the pool when dropped.
pub struct PieceMemory(Vec<u8>);

impl PieceMemory {
    /// Returns a copy of `bytes`: in pooled memory if they nearly fill it, else in memory of their
    /// own. The budget charges the bytes, not the memory.
    pub fn copy(bytes: &[u8]) -> Bytes {
        if !(POOLED_MIN..=PIECE_BYTES).contains(&bytes.len()) {
            return Bytes::copy_from_slice(bytes);
        }
        let mut memory = POOL.lock().pop().unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES));
        debug_assert!(memory.is_empty() && memory.capacity() >= PIECE_BYTES);
        memory.extend_from_slice(bytes);
        Bytes::from_owner(Self(memory))
    }
}

impl AsRef<[u8]> for PieceMemory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PieceMemory {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        memory.clear();
        let mut pool = POOL.lock();
        if pool.len() < POOLED_MAX {
            pool.push(memory);
        }
    }
}

static POOL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Bytes of one piece: those that are read from an origin at once.
const PIECE_BYTES: usize = 64 << 10;
/// Fewest bytes for pooled memory: at most an eighth of it is empty.
const POOLED_MIN: usize = PIECE_BYTES - PIECE_BYTES / 8;
/// Pieces in the pool: those of two large bodies.
const POOLED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_dropped_piece_serves_the_next() {
        // Nothing else here takes from the pool.
        assert!(POOL.lock().is_empty());
        drop(PieceMemory::copy(&[1; POOLED_MIN - 1]));
        assert!(POOL.lock().is_empty(), "so small a piece has memory of its own");
        let first = PieceMemory::copy(&[1; PIECE_BYTES]);
        let at = first.as_ptr();
        let kept = first.slice(..10);
        drop(first);
        let second = PieceMemory::copy(&[2; PIECE_BYTES]);
        assert_ne!(second.as_ptr(), at, "a part is still in use");
        assert_eq!(kept[..], [1; 10]);
        drop(kept);
        let third = PieceMemory::copy(&[3; POOLED_MIN]);
        assert_eq!(third.as_ptr(), at);
        assert_eq!((third[..].len(), third[0], second[0]), (POOLED_MIN, 3, 2));
        drop((0..2 * POOLED_MAX).map(|_| PieceMemory::copy(&[4; PIECE_BYTES])).collect::<Vec<_>>());
        assert_eq!(POOL.lock().len(), POOLED_MAX);
    }
}
