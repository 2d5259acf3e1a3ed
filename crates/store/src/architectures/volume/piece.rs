//! A piece of a large body while it is put together, in pooled memory once it is large.

use super::format::PIECE_BYTES;
use super::pages::{AlignedPages, PagePool};
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of a piece, as many as have come.
pub(super) enum PieceBuilder {
    /// So few that the allocator holds them best.
    Small(Vec<u8>),
    /// The first `length` bytes of pooled pages.
    Large { pages: AlignedPages, length: usize },
}

impl Default for PieceBuilder {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl PieceBuilder {
    /// Appends bytes, in memory of `pool` if many.
    pub(super) fn extend(&mut self, bytes: &[u8], pool: &Arc<PagePool>) {
        let length = self.bytes().len();
        assert!(length + bytes.len() <= PIECE_BYTES, "bytes of the next piece");
        if matches!(self, Self::Small(_)) && length + bytes.len() > SMALL_MAX {
            let mut pages = pool.pages(PIECE_BYTES);
            pages.as_mut()[..length].copy_from_slice(self.bytes());
            *self = Self::Large { pages, length };
        }
        match self {
            Self::Small(small) => small.extend_from_slice(bytes),
            Self::Large { pages, length } => {
                pages.as_mut()[*length..*length + bytes.len()].copy_from_slice(bytes);
                *length += bytes.len();
            }
        }
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(small) => small,
            Self::Large { pages, length } => &pages.as_ref()[..*length],
        }
    }

    /// Returns the bytes for good; their memory goes back to the pool with the last of them.
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Small(small) => small.into(),
            Self::Large { pages, length } => Bytes::from_owner(pages).slice(..length),
        }
    }
}

/// Most bytes outside pooled pages.
const SMALL_MAX: usize = 16 << 10;

const _: () = assert!(SMALL_MAX < PIECE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_the_same_as_the_piece_grows() {
        let pool = Arc::new(PagePool::default());
        let whole: Vec<u8> = (0..PIECE_BYTES).map(|at| (at % 251) as u8).collect();
        for step in [1000, SMALL_MAX, SMALL_MAX + 1, PIECE_BYTES] {
            let mut piece = PieceBuilder::default();
            whole.chunks(step).for_each(|bytes| piece.extend(bytes, &pool));
            assert!(matches!(piece, PieceBuilder::Large { .. }));
            assert_eq!(piece.bytes(), whole);
            assert_eq!(piece.into_bytes(), whole);
        }
        let mut short = PieceBuilder::default();
        short.extend(&whole[..SMALL_MAX], &pool);
        assert!(matches!(short, PieceBuilder::Small(_)));
        assert_eq!(short.into_bytes(), whole[..SMALL_MAX]);
    }

    #[test]
    fn memory_of_one_piece_serves_the_next() {
        let pool = Arc::new(PagePool::default());
        let piece = |fill: u8| {
            let mut piece = PieceBuilder::default();
            piece.extend(&[fill; PIECE_BYTES], &pool);
            piece.into_bytes()
        };
        let first = piece(1);
        let at = first.as_ptr();
        drop(first);
        assert_eq!(piece(2).as_ptr(), at);
    }
}
