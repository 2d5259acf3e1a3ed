//! Blocks of stored bodies on their way from the disk to clients; a slow client keeps its block in
//! RAM.
//!
//! A block is charged to the ledger while it is held. All blocks together take at most a part of
//! the ledger, so that slow clients cannot empty the RAM tier. Beyond this part, replies continue
//! in small pieces, which cost more reads and hold almost no memory.

use bytes::Bytes;
use shoal_memory::{MemoryBudget, Reservation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks held by all replies.
pub struct DiskBlockBudget {
    ledger: Arc<MemoryBudget>,
    held: Arc<AtomicU64>,
}

/// Permitted size of the next read of a stored body.
pub enum ReadAllowance {
    /// A whole, charged block.
    Block(BlockCharge),
    /// At most [`PIECE`] bytes.
    Piece,
}

/// Charge of one block.
pub struct BlockCharge {
    held: Arc<AtomicU64>,
    _reservation: Reservation,
}

impl DiskBlockBudget {
    /// Creates a budget that draws on `ledger`.
    pub fn new(ledger: &Arc<MemoryBudget>) -> Self {
        Self { ledger: Arc::clone(ledger), held: Arc::default() }
    }

    /// Returns the permitted size of the next read.
    pub fn allow(&self) -> ReadAllowance {
        let most = self.ledger.limit() / PART;
        let fits = |held: u64| Some(held + BLOCK).filter(|held| *held <= most);
        if self.held.fetch_update(Relaxed, Relaxed, fits).is_err() {
            return ReadAllowance::Piece;
        }
        match self.ledger.try_reserve(BLOCK) {
            Some(reservation) => {
                ReadAllowance::Block(BlockCharge { held: Arc::clone(&self.held), _reservation: reservation })
            }
            None => {
                self.held.fetch_sub(BLOCK, Relaxed);
                ReadAllowance::Piece
            }
        }
    }
}

impl ReadAllowance {
    /// Returns the number of bytes to read at `offset`. A read ends with its block, since blocks
    /// are read and checked whole.
    pub fn bytes(&self, offset: u64) -> u64 {
        let rest = BLOCK - offset % BLOCK;
        match self {
            Self::Block(_) => rest,
            Self::Piece => rest.min(PIECE),
        }
    }

    /// Returns `bytes` for sending; they keep no more memory than allowed.
    pub fn charge_bytes(self, bytes: Bytes) -> Bytes {
        match self {
            Self::Block(charge) => Bytes::from_owner(ChargedBlock { bytes, _charge: charge }),
            // a slice would keep the whole checked block
            Self::Piece => Bytes::copy_from_slice(&bytes),
        }
    }

    /// Returns a copy of `bytes`, of which there must be no more than allowed.
    pub fn copy(self, bytes: &[u8]) -> Bytes {
        let bytes = Bytes::copy_from_slice(bytes);
        match self {
            Self::Block(charge) => Bytes::from_owner(ChargedBlock { bytes, _charge: charge }),
            Self::Piece => bytes,
        }
    }
}

impl Drop for BlockCharge {
    fn drop(&mut self) {
        self.held.fetch_sub(BLOCK, Relaxed);
    }
}

/// A block with its charge.
struct ChargedBlock {
    bytes: Bytes,
    _charge: BlockCharge,
}

impl AsRef<[u8]> for ChargedBlock {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of a block, the unit that the store checks.
const BLOCK: u64 = 64 * 1024;

/// Maximum bytes per read without a charged block.
pub const PIECE: u64 = 8 * 1024;

/// Divisor: blocks take at most this part of the ledger.
const PART: u64 = 4;

const _: () = {
    assert!(BLOCK.is_multiple_of(PIECE));
    assert!(PIECE.is_power_of_two() && PART > 0);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_beyond_block_budget_get_pieces() {
        let ledger = MemoryBudget::new(2 * PART * BLOCK);
        let blocks = DiskBlockBudget::new(&ledger);
        let read = || {
            let allowance = blocks.allow();
            let bytes = allowance.bytes(BLOCK + 100);
            allowance.charge_bytes(Bytes::from(vec![7; bytes as usize]))
        };
        let held = [read(), read()];
        assert_eq!(ledger.used(), 2 * BLOCK);
        assert_eq!(held[0].len() as u64, BLOCK - 100, "to the end of the block");
        let piece = read();
        assert_eq!((piece.len() as u64, ledger.used()), (PIECE, 2 * BLOCK));
        drop(held);
        assert_eq!(ledger.used(), 0);
        assert_eq!(read().len() as u64, BLOCK - 100);
    }

    #[test]
    fn a_piece_holds_nothing_of_its_block() {
        let whole = Bytes::from(vec![7; BLOCK as usize]);
        let piece = ReadAllowance::Piece.charge_bytes(whole.slice(..PIECE as usize));
        assert!(whole.is_unique() && piece.len() as u64 == PIECE);
    }

    #[test]
    fn a_ledger_that_is_full_leaves_pieces() {
        let ledger = MemoryBudget::new(2 * PART * BLOCK);
        let blocks = DiskBlockBudget::new(&ledger);
        let _all = ledger.try_reserve(ledger.limit()).expect("room");
        assert!(matches!(blocks.allow(), ReadAllowance::Piece));
        assert!(matches!(blocks.allow(), ReadAllowance::Piece));
        assert_eq!(blocks.held.load(Relaxed), 0);
    }
}
