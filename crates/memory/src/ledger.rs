//! Byte budget of RAM: callers reserve from it the bytes that they hold for long.
//!
//! The limit is hard: the sum of all reservations never exceeds it, at no instant. When a
//! reservation does not fit, registered holders are asked to give back the bytes that they can
//! spare. When the limit is lowered, no reservation succeeds until the sum is below it.

use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Holder of bytes that can be given up.
pub trait Reclaim: Send + Sync {
    /// Returns the bytes held now: an upper bound of those that `reclaim` could give back.
    fn reclaimable_bytes(&self) -> u64;

    /// Gives up `bytes` or more if possible, and releases them before it returns. Returns their
    /// number.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// Budget of bytes; see the file's head.
pub struct MemoryBudget {
    limit: AtomicU64,
    /// Greatest limit so far, which the sum never exceeds.
    highest: AtomicU64,
    used: AtomicU64,
    refused: AtomicU64,
    givers: RwLock<Vec<Weak<dyn Reclaim>>>,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            highest: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            givers: RwLock::new(Vec::new()),
        })
    }

    /// Registers `giver`, to be asked for bytes when they run short.
    pub fn register(&self, giver: Weak<dyn Reclaim>) {
        self.givers.write().push(giver);
    }

    /// Registers `giver`, to be asked before all others.
    pub fn register_first(&self, giver: Weak<dyn Reclaim>) {
        self.givers.write().insert(0, giver);
    }

    /// Reserves `bytes` for as long as the reservation lives. Returns `None` if they are not
    /// available.
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let reservation = self.take(bytes).then(|| Reservation { ledger: Arc::clone(self), bytes });
        debug_assert!(reservation.is_none() || bytes <= self.highest());
        self.invariants();
        reservation
    }

    /// Checks in debug builds that the limit holds. It holds at each instant, also while others
    /// reserve and release.
    fn invariants(&self) {
        let (used, highest) = (self.used(), self.highest());
        debug_assert!(used <= highest, "{used} of {highest} bytes are reserved");
    }

    /// Returns the bytes reserved now.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns the most bytes that may be reserved.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    /// Sets another limit. If more is reserved, holders give back bytes before this returns; the
    /// rest comes back with the reservations of bodies in flight. Returns the bytes that are still
    /// reserved beyond the limit.
    pub fn set_limit(&self, limit: u64) -> u64 {
        self.highest.fetch_max(limit, Relaxed);
        self.limit.store(limit, Relaxed);
        debug_assert!(self.highest() >= limit);
        for _ in 0..TRIES {
            let beyond = self.used().saturating_sub(limit);
            if beyond == 0 {
                return 0;
            }
            let givers: Vec<_> = self.givers.read().iter().filter_map(Weak::upgrade).collect();
            if givers.iter().map(|giver| giver.reclaim(beyond)).sum::<u64>() == 0 {
                break;
            }
        }
        self.used().saturating_sub(limit)
    }

    /// Returns the number of reservations refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more released than was reserved");
        self.invariants();
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

    /// Takes `bytes` if they are free. The error is the number of missing bytes.
    fn take_free(&self, bytes: u64) -> Result<(), u64> {
        let limit = self.limit();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used
            .fetch_update(Relaxed, Relaxed, fits)
            .map(|_| ())
            .map_err(|used| used.saturating_add(bytes).saturating_sub(limit))
    }

    /// Asks for `missing` bytes. Returns `false` if that cannot help: no holder gives up all its
    /// bytes for a request that would fail nevertheless.
    fn collect(&self, missing: u64) -> bool {
        let givers: Vec<_> = self.givers.read().iter().filter_map(Weak::upgrade).collect();
        if givers.iter().map(|giver| giver.reclaimable_bytes()).sum::<u64>() < missing {
            return false;
        }
        let mut given = 0;
        for giver in givers {
            self.invariants();
            if given < missing {
                given += giver.reclaim(missing - given);
            }
        }
        given > 0
    }
}

/// Reserved bytes. Dropping the reservation returns them.
pub struct Reservation {
    ledger: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Returns the bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves `more_bytes` more. Returns `false`, unchanged, if they are not available.
    pub fn grow(&mut self, more_bytes: u64) -> bool {
        let taken = self.ledger.take(more_bytes);
        if taken {
            self.bytes += more_bytes;
            debug_assert!(self.bytes <= self.ledger.highest());
        }
        taken
    }

    /// Returns `fewer_bytes` to the budget, at most all.
    pub fn shrink(&mut self, fewer_bytes: u64) {
        let returned = fewer_bytes.min(self.bytes);
        self.bytes -= returned;
        debug_assert!(self.ledger.used() >= self.bytes + returned);
        self.ledger.release(returned);
    }

    pub(super) fn ledger(&self) -> &Arc<MemoryBudget> {
        &self.ledger
    }

    /// Ends the reservation without returning its bytes: from here on, the caller accounts for
    /// them.
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

/// Rounds of reclaiming before a reservation is refused: other threads may take the bytes first.
const TRIES: usize = 16;

const _: () = assert!(TRIES > 0);
