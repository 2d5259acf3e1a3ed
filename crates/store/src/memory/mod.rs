//! The RAM tier: objects by key, shared by all workers, within a byte budget that holds in a burst
//! too.
//!
//! Sharded by key; a shard's lock is held for a lookup and a pointer copy. The budget is a
//! [`MemoryBudget`] that bodies in flight reserve from as well: when it runs short the tier gives
//! up objects, by S3-FIFO unless told otherwise.
//!
//! Small bodies stand in few large stretches of memory that are kept dense, spans; large ones in
//! pages of their own.
//!
//! An object that someone still holds would stay in memory if it were given up, so its bytes stay
//! charged: it is passed over as a victim, and when it is removed or replaced it lingers on the
//! books until it has been let go. A reply holds an object's body and not the object; so
//! [`TierValue`] tells whether anything of it is held.

mod body;
mod cleaner;
mod ledger;
mod shard;
mod spans;
#[cfg(test)]
mod tests;
mod zero_copy;

pub use crate::sys::page_arena::{PageArenaUsage, gives_large_pages, tracts};
pub use body::{IncomingBody, MemoryBody};
pub use ledger::{MemoryBudget, Reclaim, Reservation};
pub use zero_copy::{BodyBuilder, LENT_MIN, lend, room_bytes};

use bytes::Bytes;
use cleaner::SpanCleaner;
use parking_lot::Mutex;
use shard::Shard;
use shoal_core::Key;
use shoal_policy::{Replacement, S3Fifo};
use spans::{BodyOrigin, Spans};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Objects in RAM. See the module's head.
pub struct MemoryTier<V> {
    ledger: Arc<MemoryBudget>,
    shards: Box<[Mutex<Shard<V>>]>,
    /// Where small bodies stand.
    spans: Spans,
    emptying: SpanCleaner,
    /// Bytes on the books: objects that can be found, and those that linger.
    bytes: AtomicU64,
    evictions: AtomicU64,
    /// Where the next search for a victim starts.
    next_shard: AtomicUsize,
}

/// What can be kept in the tier. Nothing of it but its body is held by who does not hold the whole.
pub trait TierValue: Send + Sync + 'static {
    /// Its body, if it has one.
    fn body(&self) -> Option<&MemoryBody>;

    /// The same, for putting it elsewhere in memory. Asked when nobody holds the whole, nor the
    /// body.
    fn body_mut(&mut self) -> Option<&mut MemoryBody>;
}

/// What the tier holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Objects that can be found.
    pub objects: u64,
    /// Bytes charged for them, overhead included.
    pub bytes: u64,
    /// Objects given up to make room, since start.
    pub evictions: u64,
    /// Bytes of memory in which small bodies stand, with what dead ones have left between them.
    pub span_bytes: u64,
    /// Bytes of bodies that were moved to have less of that, since start.
    pub moved_bytes: u64,
}

impl<V: TierValue> MemoryTier<V> {
    /// An empty tier that replaces by S3-FIFO. `shards` is rounded up to a power of two; a few per
    /// core is right. Keys have a secret, so that nobody chooses some that meet in one place.
    pub fn new(ledger: Arc<MemoryBudget>, shards: usize) -> Arc<Self> {
        Self::with_policy(ledger, shards, || Box::new(S3Fifo::new()))
    }

    /// An empty tier with a replacement policy for each shard.
    pub fn with_policy(
        ledger: Arc<MemoryBudget>,
        shards: usize,
        policy: impl Fn() -> Box<dyn Replacement>,
    ) -> Arc<Self> {
        let shards = shards.clamp(1, SHARDS_MAX).next_power_of_two();
        assert!(shards <= SHARDS_MAX);
        let tier = Arc::new(Self {
            ledger: Arc::clone(&ledger),
            shards: (0..shards).map(|_| Mutex::new(Shard::new(policy()))).collect(),
            spans: Spans::new(ledger.limit()),
            emptying: SpanCleaner::default(),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            next_shard: AtomicUsize::new(0),
        });
        let giver: Weak<Self> = Arc::downgrade(&tier);
        ledger.register(giver);
        tier
    }

    /// Where the body of an object that is to be inserted will stand, so that it can be put there
    /// while it arrives. `None` where it will stand elsewhere: it is empty, or there is no memory.
    /// Who has a piece of a large one keeps all its pages, so that it is to be charged as a whole
    /// before its first piece.
    pub fn room(&self, key: Key, length: u64) -> Option<IncomingBody> {
        let length = usize::try_from(length).ok()?;
        if let Some(room) = zero_copy::room(length) {
            return Some(IncomingBody::in_pages(room));
        }
        // One for which the system gives no pages is better there than among all that the program
        // allocates.
        if !(1..=SPANNED_MAX).contains(&length) {
            return None;
        }
        let room = self.spans.room(key, length, BodyOrigin::Arrived);
        // Whatever becomes of it: not all that arrives is kept.
        self.empty_spans(length as u64);
        room.map(IncomingBody::packed)
    }

    /// The body of an object that is to be inserted, where it will stand. What it is part of is not
    /// kept for it.
    pub fn place(&self, key: Key, body: Bytes) -> MemoryBody {
        let body = MemoryBody::from(body);
        if body.is_empty() || body.is_lent() {
            return body;
        }
        let placed = self.room(key, body.len() as u64).and_then(|mut room| {
            drop(room.push(&body));
            room.body()
        });
        debug_assert!(placed.as_ref().is_none_or(|placed| **placed == *body), "other bytes than came");
        placed.unwrap_or_else(|| Bytes::copy_from_slice(&body).into())
    }

    /// The object, counting as a hit for replacement. Allocates nothing.
    #[inline]
    pub fn get(&self, key: Key) -> Option<Arc<V>> {
        self.shard(key).lock().hit(key)
    }

    /// The object, without counting a hit.
    pub fn peek(&self, key: Key) -> Option<Arc<V>> {
        self.shard(key).lock().peek(key)
    }

    /// Keeps `value`, replacing what the key had. False, and nothing kept, when the budget cannot
    /// take `weight_bytes` and [`ENTRY_OVERHEAD_BYTES`]; what the key had is gone then too.
    pub fn insert(&self, key: Key, value: Arc<V>, weight_bytes: u64) -> bool {
        self.insert_if(key, value, weight_bytes, || true)
    }

    /// The same if it still may: asked under the lock that [`Self::remove`] takes, so that who
    /// makes it false and then removes the key leaves nothing there, not for a moment.
    pub fn insert_if(
        &self,
        key: Key,
        value: Arc<V>,
        weight_bytes: u64,
        still_may: impl FnOnce() -> bool,
    ) -> bool {
        // The older object goes first: its bytes may be what the newer one needs.
        self.remove(key);
        let bytes = weight_bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.ledger.try_reserve(bytes).is_some_and(|reservation| self.put(key, value, reservation, still_may))
    }

    /// Keeps `value` at the expense of a reservation that already covers it, such as that of a body
    /// that was in flight; grown by [`ENTRY_OVERHEAD_BYTES`]. False, and nothing kept, when it
    /// cannot grow, or may not be kept any more, as with [`Self::insert_if`].
    pub fn insert_reserved(
        &self,
        key: Key,
        value: Arc<V>,
        mut reservation: Reservation,
        still_may: impl FnOnce() -> bool,
    ) -> bool {
        self.remove(key);
        let fits = Arc::ptr_eq(reservation.ledger(), &self.ledger) && reservation.grow(ENTRY_OVERHEAD_BYTES);
        fits && self.put(key, value, reservation, still_may)
    }

    /// Puts `value` in the place of what the key has, if `replaces` says so of that; looked at and
    /// replaced under one lock, so that nothing comes between. For a value that takes over the bulk
    /// of its predecessor, which leaves the books at once, while the place in the order of
    /// replacement stays. False, and nothing changed, when the key has nothing or something else,
    /// or the budget cannot take what `value` weighs more.
    pub fn replace_if(
        &self,
        key: Key,
        value: Arc<V>,
        weight_bytes: u64,
        replaces: impl Fn(&V) -> bool,
    ) -> bool {
        let bytes = weight_bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        let Some(charged) = self.shard(key).lock().charged(key, &replaces) else { return false };
        // Without the lock, which giving back takes.
        let Some(more) = self.ledger.try_reserve(bytes.saturating_sub(charged)) else { return false };
        let Some(before) = self.shard(key).lock().replace_if(key, value, (charged, bytes), &replaces) else {
            return false;
        };
        self.bytes.fetch_add(more.transfer(), Relaxed);
        self.uncharge(charged.saturating_sub(bytes));
        drop(before);
        true
    }

    /// Puts what `make` makes, a copy of what the key has that weighs so many bytes, in its place,
    /// if `replaces` says so of that: before it is made, and when it is exchanged, under the lock.
    /// It is charged before it is made; what was there stays charged until it has been let go and
    /// [swept up](Self::sweep). False, and nothing changed, when the key has nothing or something
    /// else, the budget cannot take both, or nothing is made.
    pub fn replace_copy_if(
        &self,
        key: Key,
        weight_bytes: u64,
        replaces: impl Fn(&V) -> bool,
        make: impl FnOnce() -> Option<Arc<V>>,
    ) -> bool {
        let bytes = weight_bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        if !self.peek(key).is_some_and(|now| replaces(&now)) {
            return false;
        }
        let Some((reservation, value)) =
            self.ledger.try_reserve(bytes).and_then(|reservation| Some((reservation, make()?)))
        else {
            return false;
        };
        let exchanged = self.shard(key).lock().exchange_if(key, value, bytes, replaces);
        if exchanged {
            self.bytes.fetch_add(reservation.transfer(), Relaxed);
        }
        exchanged
    }

    /// Strikes off the books what was removed or exchanged and has been let go since. Whoever
    /// removes something does so for its shard; to be called now and then for the others.
    pub fn sweep(&self) {
        self.shards.iter().for_each(|shard| self.release_lingering(shard));
    }

    /// Removes the object; who holds it keeps it. False when it was absent.
    pub fn remove(&self, key: Key) -> bool {
        let shard = self.shard(key);
        let removed = shard.lock().remove(key);
        self.release_lingering(shard);
        removed
    }

    fn release_lingering(&self, shard: &Mutex<Shard<V>>) {
        let released = shard.lock().release_lingering();
        let bytes = released.bytes;
        // Not under the lock: a drop may be long.
        drop(released);
        self.uncharge(bytes);
    }

    /// What the tier holds.
    pub fn usage(&self) -> MemoryUsage {
        MemoryUsage {
            objects: self.shards.iter().map(|shard| shard.lock().len() as u64).sum(),
            bytes: self.bytes.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            span_bytes: self.spans.taken_bytes(),
            moved_bytes: self.emptying.moved_bytes(),
        }
    }

    fn put(
        &self,
        key: Key,
        value: Arc<V>,
        reservation: Reservation,
        still_may: impl FnOnce() -> bool,
    ) -> bool {
        let mut shard = self.shard(key).lock();
        if !still_may() {
            // What was reserved is given back without the lock.
            drop(shard);
            return false;
        }
        debug_assert!(reservation.bytes() >= ENTRY_OVERHEAD_BYTES);
        debug_assert!(Arc::ptr_eq(reservation.ledger(), &self.ledger), "bytes of another budget");
        let bytes = reservation.transfer();
        self.bytes.fetch_add(bytes, Relaxed);
        // Of two inserts of one key at once the later wins; its predecessor goes the way of the
        // removed.
        shard.insert(key, value, bytes);
        true
    }

    /// What was charged so many bytes is gone.
    fn uncharge(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.bytes.fetch_sub(bytes, Relaxed);
            debug_assert!(before >= bytes, "more struck off than was charged");
            self.ledger.release(bytes);
            // Whoever takes them next may want them for something else than a body in a span.
            self.empty_spans(bytes);
        }
    }

    fn shard(&self, key: Key) -> &Mutex<Shard<V>> {
        debug_assert!(self.shards.len().is_power_of_two());
        // The high bits of the low half: bucket choices below use other bits.
        &self.shards[(key.low() >> 48) as usize & (self.shards.len() - 1)]
    }
}

/// Has the allocator of this process give freed memory back to the system, so that what the budget
/// allows is about what the process takes. To be called once, before threads are started.
pub fn return_freed_bytes() {
    crate::sys::return_freed_bytes();
}

/// Gives what is free between blocks of the allocator back to the system, whole pages of it. To be
/// called about once a second: bodies on their way leave such gaps, which would be there for good.
pub fn return_free_pages() {
    crate::sys::return_free_pages();
}

impl<V: TierValue> Reclaim for MemoryTier<V> {
    fn reclaimable_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        let mut given = 0;
        let mut fruitless = 0;
        while given < bytes && fruitless < self.shards.len() {
            let index = self.next_shard.fetch_add(1, Relaxed) % self.shards.len();
            // What is let go is dropped after the lock: a drop may be long.
            let (lingering, victim) = {
                let mut shard = self.shards[index].lock();
                (shard.release_lingering(), shard.evict())
            };
            let freed = lingering.bytes + victim.as_ref().map_or(0, |(_, bytes)| *bytes);
            self.evictions.fetch_add(u64::from(victim.is_some()), Relaxed);
            drop((lingering, victim));
            self.uncharge(freed);
            given += freed;
            fruitless = if freed == 0 { fruitless + 1 } else { 0 };
        }
        given
    }
}

impl<V> Drop for MemoryTier<V> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !std::thread::panicking() {
            self.invariants();
        }
        self.ledger.release(*self.bytes.get_mut());
    }
}

impl<V> MemoryTier<V> {
    /// Checks the books of a tier that nobody else uses.
    fn invariants(&mut self) {
        let mut charged = 0;
        for shard in &mut self.shards {
            shard.get_mut().invariants();
            charged += shard.get_mut().charged_bytes();
        }
        assert_eq!(*self.bytes.get_mut(), charged, "bytes of all shards");
        assert!(charged <= self.ledger.used(), "bytes that were not reserved");
        self.spans.invariants();
    }
}

/// What an entry costs beside its value: its place in the map, in the policy, and among the ghosts,
/// each with the slack of a table that has just doubled.
pub const ENTRY_OVERHEAD_BYTES: u64 = 256;
/// The longest body that stands in a span: an eighth of the shortest span at most is left free at
/// its end.
const SPANNED_MAX: usize = 64 << 10;
/// More shards than this gain nothing.
const SHARDS_MAX: usize = 1024;

const _: () = {
    assert!(SHARDS_MAX.is_power_of_two());
    // A body that is too long for a span is long enough for pages of its own.
    assert!(SPANNED_MAX >= LENT_MIN);
    assert!(SPANNED_MAX * 8 <= spans::SPAN_BYTES_MIN as usize);
};
