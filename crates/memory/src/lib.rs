//! RAM tier: objects by key, shared by all workers, within a byte budget that holds even in a
//! burst.
//!
//! The tier is sharded by key; a lookup holds a shard's lock for the time of a pointer copy. The
//! budget is a [`MemoryBudget`], from which bodies in flight reserve as well. When the budget runs
//! short, the tier evicts objects, by S3-FIFO unless told otherwise.
//!
//! Small bodies share a few large stretches of memory that are kept dense, the spans. Large bodies
//! have pages of their own.
//!
//! Evicting an object that a caller still holds would free no memory, so its bytes stay charged.
//! The object is passed over as a victim. Once removed or replaced, it lingers on the books until
//! the last holder drops it. A reply holds an object's body and not the object, so [`TierValue`]
//! tells whether any part is held.

#![deny(unsafe_code)]

mod body;
mod cleaner;
mod ledger;
mod pieces;
mod shard;
mod spans;
mod sys;
#[cfg(test)]
mod tests;
mod zero_copy;

pub use crate::sys::page_arena::{PageArenaUsage, gives_large_pages, tracts};
pub use body::{IncomingBody, MemoryBody};
pub use ledger::{MemoryBudget, Reclaim, Reservation};
pub use pieces::PieceMemory;
pub use zero_copy::{BodyBuilder, LENT_MIN, lend, room_bytes};

use bytes::Bytes;
use cleaner::SpanCleaner;
use parking_lot::Mutex;
use shard::Shard;
use shoal_core::Key;
use shoal_policy::{Replacement, S3Fifo};
use spans::{BodyOrigin, Spans};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// Function that is told of each evicted value.
type EvictionListener<V> = Box<dyn Fn(&Arc<V>) + Send + Sync>;

/// RAM tier; see the module's head.
pub struct MemoryTier<V> {
    ledger: Arc<MemoryBudget>,
    shards: Box<[Mutex<Shard<V>>]>,
    /// Memory of small bodies.
    spans: Spans,
    emptying: SpanCleaner,
    /// Bytes charged: objects that can be found, and lingering ones.
    bytes: AtomicU64,
    evictions: AtomicU64,
    /// Index of the shard at which the next search for a victim starts.
    next_shard: AtomicUsize,
    on_evicted: OnceLock<EvictionListener<V>>,
}

/// Value kept in the tier. A caller without the whole value may hold its body, but no other part.
pub trait TierValue: Send + Sync + 'static {
    /// Returns the value's body, if the value has one.
    fn body(&self) -> Option<&MemoryBody>;

    /// Returns the body for moving it in memory. Called while no other caller holds the value or
    /// the body.
    fn body_mut(&mut self) -> Option<&mut MemoryBody>;
}

/// Contents of the tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Objects that can be found.
    pub objects: u64,
    /// Bytes charged for them, overhead included.
    pub bytes: u64,
    /// Objects evicted to make room, since start.
    pub evictions: u64,
    /// Bytes of memory in spans, with the gaps that dead bodies have left.
    pub span_bytes: u64,
    /// Bytes of bodies moved to close such gaps, since start.
    pub moved_bytes: u64,
}

impl<V: TierValue> MemoryTier<V> {
    /// Creates an empty tier that replaces by S3-FIFO. `shards` is rounded up to a power of two; a
    /// few per core is right. Keys have a secret, so that an attacker cannot choose keys that meet
    /// in one shard.
    pub fn new(ledger: Arc<MemoryBudget>, shards: usize) -> Arc<Self> {
        Self::with_policy(ledger, shards, || Box::new(S3Fifo::new()))
    }

    /// Creates an empty tier with a replacement policy for each shard.
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
            on_evicted: OnceLock::new(),
        });
        let giver: Weak<Self> = Arc::downgrade(&tier);
        ledger.register(giver);
        tier
    }

    /// Calls `listener` with each value that is evicted to make room, after it has left its shard.
    /// The listener must be quick. If it keeps the value, it accounts for the value's bytes: they
    /// are uncharged when it returns.
    ///
    /// # Panics
    /// If there is a listener already.
    pub fn on_evicted(&self, listener: impl Fn(&Arc<V>) + Send + Sync + 'static) {
        let is_first = self.on_evicted.set(Box::new(listener)).is_ok();
        assert!(is_first, "one listener");
    }

    /// Reserves the memory in which an object's body will stay, so that its bytes can be put there
    /// while they arrive. Returns `None` if the body will stay elsewhere: it is empty, or there is
    /// no memory.
    ///
    /// A holder of a piece of a large body keeps all its pages. Charge the whole body before its
    /// first piece.
    pub fn room(&self, key: Key, length: u64) -> Option<IncomingBody> {
        let length = usize::try_from(length).ok()?;
        if let Some(room) = zero_copy::room(length) {
            return Some(IncomingBody::in_pages(room));
        }
        // A body of 32 to 64 KiB for which the system gives no pages goes into a span: better there
        // than among the program's allocations.
        if !(1..=SPANNED_MAX).contains(&length) {
            return None;
        }
        let room = self.spans.room(key, length, BodyOrigin::Arrived);
        // Also for a body that is not kept in the end: some that arrive are not.
        self.empty_spans(length as u64);
        room.map(IncomingBody::packed)
    }

    /// Returns the body of an object in the memory where it will stay. A copy does not keep the
    /// larger buffer that `body` is part of.
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

    /// Returns the object, counting as a hit for replacement. Allocates nothing.
    #[inline]
    pub fn get(&self, key: Key) -> Option<Arc<V>> {
        self.shard(key).lock().hit(key)
    }

    /// Returns the object without counting a hit.
    pub fn peek(&self, key: Key) -> Option<Arc<V>> {
        self.shard(key).lock().peek(key)
    }

    /// Looks at every object for people, without counting a hit. Returns the first `limit` answers
    /// of `look`, and the number of further ones. Each shard is locked in turn, for a millisecond
    /// with ten thousand objects.
    pub fn look_at_all<T>(&self, limit: usize, look: impl Fn(&V) -> Option<T>) -> (Vec<T>, usize) {
        let (mut found, mut left_out) = (Vec::new(), 0);
        for shard in &self.shards {
            for seen in shard.lock().values().filter_map(&look) {
                match found.len() < limit {
                    true => found.push(seen),
                    false => left_out += 1,
                }
            }
        }
        debug_assert!(found.len() <= limit);
        (found, left_out)
    }

    /// Keeps `value`, replacing the key's present object. Returns `false` and keeps nothing if the
    /// budget cannot take `weight_bytes` and [`ENTRY_OVERHEAD_BYTES`]; the present object is gone
    /// then too.
    pub fn insert(&self, key: Key, value: Arc<V>, weight_bytes: u64) -> bool {
        self.insert_if(key, value, weight_bytes, || true)
    }

    /// Keeps `value` like [`Self::insert`] if `still_may` returns `true`. `still_may` runs under
    /// the lock that [`Self::remove`] takes. A caller that makes it `false` and then removes the
    /// key therefore leaves nothing there, not for a moment.
    pub fn insert_if(
        &self,
        key: Key,
        value: Arc<V>,
        weight_bytes: u64,
        still_may: impl FnOnce() -> bool,
    ) -> bool {
        // Remove the older object first: the newer one may need its bytes.
        self.remove(key);
        let bytes = weight_bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        self.ledger.try_reserve(bytes).is_some_and(|reservation| self.put(key, value, reservation, still_may))
    }

    /// Keeps `value`, charged to a reservation that already covers it, such as that of a body in
    /// flight. Grows the reservation by [`ENTRY_OVERHEAD_BYTES`]. Returns `false` and keeps nothing
    /// if the reservation cannot grow, or `still_may` returns `false`, as with [`Self::insert_if`].
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

    /// Replaces the key's value with `value` if `replaces` accepts the present one. Both happen
    /// under one lock, so that no change comes between.
    ///
    /// Meant for a value that takes over the bulk of its predecessor. The predecessor leaves the
    /// books at once; the place in the order of replacement stays. Returns `false` and changes
    /// nothing if the key has no value or another one, or the budget cannot take the additional
    /// weight.
    pub fn replace_if(
        &self,
        key: Key,
        value: Arc<V>,
        weight_bytes: u64,
        replaces: impl Fn(&V) -> bool,
    ) -> bool {
        let bytes = weight_bytes.saturating_add(ENTRY_OVERHEAD_BYTES);
        let Some(charged) = self.shard(key).lock().charged(key, &replaces) else { return false };
        // Without the shard's lock, since the budget may take it to reclaim bytes.
        let Some(more) = self.ledger.try_reserve(bytes.saturating_sub(charged)) else { return false };
        let Some(before) = self.shard(key).lock().replace_if(key, value, (charged, bytes), &replaces) else {
            return false;
        };
        self.bytes.fetch_add(more.transfer(), Relaxed);
        self.uncharge(charged.saturating_sub(bytes));
        drop(before);
        true
    }

    /// Replaces the key's value with a copy from `make` that weighs `weight_bytes`, if `replaces`
    /// accepts the present value. `replaces` runs before `make`, and again under the lock at the
    /// exchange.
    ///
    /// The copy is charged before it is made. The former value stays charged until its last holder
    /// drops it and a [sweep](Self::sweep) finds it. Returns `false` and changes nothing if the key
    /// has no value or another one, the budget cannot take both, or `make` returns `None`.
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

    /// Uncharges removed and exchanged values that their last holders have dropped. A removal does
    /// so for its own shard; call this now and then for the others.
    pub fn sweep(&self) {
        self.shards.iter().for_each(|shard| self.release_lingering(shard));
    }

    /// Removes the object; callers that hold it keep it. Returns `false` if it was absent.
    pub fn remove(&self, key: Key) -> bool {
        let shard = self.shard(key);
        let removed = shard.lock().remove(key);
        self.release_lingering(shard);
        removed
    }

    fn release_lingering(&self, shard: &Mutex<Shard<V>>) {
        let released = shard.lock().release_lingering();
        let bytes = released.bytes;
        // Outside the lock, since a drop may take long.
        drop(released);
        self.uncharge(bytes);
    }

    /// Returns the tier's contents.
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
            // Release the lock first: dropping the reservation runs without it.
            drop(shard);
            return false;
        }
        debug_assert!(reservation.bytes() >= ENTRY_OVERHEAD_BYTES);
        debug_assert!(Arc::ptr_eq(reservation.ledger(), &self.ledger), "bytes of another budget");
        let bytes = reservation.transfer();
        self.bytes.fetch_add(bytes, Relaxed);
        // Of two concurrent inserts of one key the later wins; its predecessor is treated as
        // removed.
        shard.insert(key, value, bytes);
        true
    }

    /// Uncharges `bytes` of an object that is gone.
    fn uncharge(&self, bytes: u64) {
        self.release(bytes);
        if bytes > 0 {
            // The next user of these bytes may need them for other things than a body in a span.
            self.empty_spans(bytes);
        }
    }

    /// Gives back `bytes` of an object that is gone, and leaves the spans as they are.
    fn release(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "more struck off than was charged");
        self.ledger.release(bytes);
    }

    fn shard(&self, key: Key) -> &Mutex<Shard<V>> {
        debug_assert!(self.shards.len().is_power_of_two());
        // High bits of the low half: bucket choices below use other bits.
        &self.shards[(key.low() >> 48) as usize & (self.shards.len() - 1)]
    }
}

/// Has this process's allocator return freed memory to the system, so that the process takes about
/// as much as the budget allows. Call once, before threads start.
pub fn return_freed_bytes() {
    crate::sys::return_freed_bytes();
}

/// Returns whole free pages between the allocator's blocks to the system. Call about once a second:
/// bodies in flight leave such gaps, which would stay for good otherwise.
pub fn return_free_pages() {
    crate::sys::return_free_pages();
}

/// Unmaps pages of the program that the start alone needed. Call once, some seconds after the
/// start. Pages that are needed again come from the page cache.
pub fn return_program_pages() {
    #[cfg(target_os = "linux")]
    crate::sys::program::return_program_pages();
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
            // Drop the values after the lock, since a drop may take long.
            let (lingering, victim) = {
                let mut shard = self.shards[index].lock();
                (shard.release_lingering(), shard.evict())
            };
            let freed = lingering.bytes + victim.as_ref().map_or(0, |(_, bytes)| *bytes);
            self.evictions.fetch_add(u64::from(victim.is_some()), Relaxed);
            if let (Some((value, _)), Some(listener)) = (&victim, self.on_evicted.get()) {
                listener(value);
            }
            drop((lingering, victim));
            self.release(freed);
            given += freed;
            fruitless = if freed == 0 { fruitless + 1 } else { 0 };
        }
        // Once for all, so that one that needs much room does not move bodies for each that leaves.
        self.empty_spans(given);
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

/// Bytes that an entry costs beside its value: its place in the map, in the policy, and among the
/// ghosts. Each includes the slack of a table that has just doubled.
pub const ENTRY_OVERHEAD_BYTES: u64 = 256;
/// Longest body that goes into a span. At most an eighth of the shortest span is left free at its
/// end.
const SPANNED_MAX: usize = 64 << 10;
/// Most shards: more gain nothing.
const SHARDS_MAX: usize = 1024;

const _: () = {
    assert!(SHARDS_MAX.is_power_of_two());
    // A body that is too long for a span is long enough for pages of its own.
    assert!(SPANNED_MAX >= LENT_MIN);
    assert!(SPANNED_MAX * 8 <= spans::SPAN_BYTES_MIN as usize);
};
