//! The byte budget of RAM: everything that holds bytes for long reserves them here first.
//!
//! The limit is hard: the sum of all reservations never exceeds it, at no instant. When a
//! reservation does not fit, those who registered are asked to give back what they can spare.

use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Someone who holds bytes that can be given up.
pub trait Reclaim: Send + Sync {
    /// Bytes held now; an upper bound of what could be given back.
    fn reclaimable_bytes(&self) -> u64;

    /// Gives up `bytes` or more where possible, releasing them before it returns, and says how many
    /// they were.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// A budget of bytes. See the file's head.
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    refused: AtomicU64,
    givers: RwLock<Vec<Weak<dyn Reclaim>>>,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            givers: RwLock::new(Vec::new()),
        })
    }

    /// Will ask `giver` for bytes when they run short.
    pub fn register(&self, giver: Weak<dyn Reclaim>) {
        self.givers.write().push(giver);
    }

    /// Reserves `bytes`, for as long as the reservation lives. `None` when they cannot be had.
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let reservation = self.take(bytes).then(|| Reservation { ledger: Arc::clone(self), bytes });
        debug_assert!(reservation.is_none() || bytes <= self.limit);
        debug_assert!(self.used() <= self.limit, "the limit holds at each instant");
        reservation
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Most bytes that may be reserved.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Reservations refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more released than was reserved");
        debug_assert!(before <= self.limit, "more reserved than may be");
    }

    fn take(&self, bytes: u64) -> bool {
        for _ in 0..TRIES {
            match self.take_free(bytes) {
                Ok(()) => return true,
                Err(missing) if !self.collect(missing) => break,
                Err(_) => {}
            }
        }
        self.refused.fetch_add(1, Relaxed);
        false
    }

    /// Takes what is free; otherwise says how many bytes are missing.
    fn take_free(&self, bytes: u64) -> Result<(), u64> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Relaxed, Relaxed, fits)
            .map(|_| ())
            .map_err(|used| bytes.saturating_sub(self.limit - used))
    }

    /// Asks for `missing` bytes; false when that cannot help. Nobody is asked to give up all it has
    /// for a request that would fail nevertheless.
    fn collect(&self, missing: u64) -> bool {
        let givers: Vec<_> = self.givers.read().iter().filter_map(Weak::upgrade).collect();
        if givers.iter().map(|giver| giver.reclaimable_bytes()).sum::<u64>() < missing {
            return false;
        }
        let mut given = 0;
        for giver in givers {
            debug_assert!(self.used() <= self.limit);
            if given < missing {
                given += giver.reclaim(missing - given);
            }
        }
        given > 0
    }
}

/// Bytes set aside. Dropping it returns them.
pub struct Reservation {
    ledger: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves so many bytes more; false, and unchanged, when they cannot be had.
    pub fn grow(&mut self, more_bytes: u64) -> bool {
        let taken = self.ledger.take(more_bytes);
        if taken {
            self.bytes += more_bytes;
            debug_assert!(self.bytes <= self.ledger.limit);
        }
        taken
    }

    /// Returns so many bytes, at most all.
    pub fn shrink(&mut self, fewer_bytes: u64) {
        let returned = fewer_bytes.min(self.bytes);
        self.bytes -= returned;
        debug_assert!(self.ledger.used() >= self.bytes + returned);
        self.ledger.release(returned);
    }

    pub(super) fn ledger(&self) -> &Arc<MemoryBudget> {
        &self.ledger
    }

    /// Ends the reservation without returning its bytes: someone else has them on the books from
    /// here.
    pub(super) fn transfer(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

/// Checks that all that was reserved has been given back.
impl Drop for MemoryBudget {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            debug_assert_eq!(*self.used.get_mut(), 0, "bytes that nobody holds");
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.ledger.release(self.bytes);
    }
}

/// Times that bytes given back may be taken by someone faster before the reservation is refused.
const TRIES: usize = 16;

const _: () = assert!(TRIES > 0);
