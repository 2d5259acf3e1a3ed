//! RAM as a part of a cluster's memory: objects that leave it, pages that come back, and room for
//! pages of other nodes.
//!
//! ```text
//!  RAM ── evicted ──► SharedMemory ──► another node
//!  miss in RAM ──► SharedMemory::find ──► page ──► RAM        (judged like an object from disk)
//!  GuestRoom: bytes of other nodes' pages, charged to the same budget, given up first
//! ```
//!
//! A page is the object as the disk would have it: full key, metadata, body. Its numbers of purges
//! are those of the node that wrote it, and no other node reads a page. A purge therefore reaches a
//! page as it reaches the disk: the owner judges the page when it comes back.

use crate::hybrid_cache::{ContentNote, HybridCache, MemoryEntry};
use crate::io_pool::Urgency;
use crate::message::target::FORWARD;
use crate::metadata::ObjectMetadata;
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use shoal_memory::{MemoryBudget, MemoryTier, Reclaim, Reservation};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Memory of other nodes, as the cache uses it.
pub trait SharedMemory: Send + Sync + 'static {
    /// Begins the turn of an object that comes into RAM: the page of an older one is forgotten.
    fn begin(&self, key: Key) -> u64;

    /// Ends all turns of a key: its object is removed, or replaced by one that is not in RAM.
    fn end(&self, key: Key);

    /// Takes an object that leaves RAM. Returns soon: the object is queued or dropped.
    fn evicted(&self, object: EvictedObject);

    /// Returns the way to the page of an object if another node holds one, and asking for it costs
    /// less than the disk. Clients' requests go first.
    fn find(&self, key: &ObjectKey, on_disk: bool, urgency: Urgency) -> Option<PlacedPage>;

    /// Records the time that the disk took for an object.
    fn disk_took(&self, time: Duration);
}

/// Page at another node.
pub struct PlacedPage {
    /// Length of the page.
    pub bytes: u64,
    /// Brings the page, or `None` within one time-out.
    pub bring: Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>,
}

/// Object that leaves RAM.
pub struct EvictedObject(Arc<MemoryEntry>);

impl EvictedObject {
    /// Returns the object as one that may travel to other nodes.
    ///
    /// Only whole responses of plain URLs do that: no variants, parts and notes. A response to an
    /// authorized request stays, as does one that must be validated before each use. So does
    /// `https` of forward mode, since an intercepted client may have asked for it.
    pub fn of(entry: &Arc<MemoryEntry>) -> Option<Self> {
        let ObjectMetadata::Response(head) = &entry.record else { return None };
        let full = entry.key().full();
        let is_intercepted = full.ends_with(FORWARD) && full.starts_with(b"https:");
        let may_travel = entry.turn() > 0
            && !is_intercepted
            && !head.policy.is_authorized()
            && entry.record.is_for_everybody()
            && entry.record.is_for_disk()
            && !entry.body.is_empty()
            && ContentNote::of(entry.key(), &entry.record).is_some();
        may_travel.then(|| Self(Arc::clone(entry)))
    }

    /// Returns the hash of the object's key.
    pub fn key(&self) -> Key {
        self.0.key().hash()
    }

    /// Returns the turn in which the object came into RAM.
    pub fn turn(&self) -> u64 {
        self.0.turn()
    }

    /// Returns the time since the object's last use.
    pub fn age(&self) -> Duration {
        self.0.age()
    }

    /// Returns the bytes of RAM that the object keeps.
    pub fn weight(&self) -> u64 {
        self.0.body.room_bytes() + BESIDE_BODY
    }

    /// Returns `true` if the response is still fresh.
    pub fn is_fresh(&self) -> bool {
        self.0.record.head().is_some_and(|head| head.policy.is_fresh(crate::clock::now()))
    }

    /// Writes the page.
    pub fn page(&self) -> Vec<u8> {
        let (full, metadata) = (self.0.key().full(), self.0.record.encode());
        let mut page = Vec::with_capacity(8 + full.len() + metadata.len() + self.0.body.len());
        for part in [full, &metadata] {
            page.extend((part.len() as u32).to_le_bytes());
            page.extend(part);
        }
        page.extend_from_slice(&self.0.body);
        debug_assert!(page.len() > self.0.body.len(), "a key and metadata come before the body");
        page
    }
}

/// Reads the page of a key. Returns `None` if it is another object's, or damaged.
pub(crate) fn read_page(key: &ObjectKey, page: &Bytes) -> Option<(ObjectMetadata, Bytes)> {
    let part = |start: usize| {
        let length = u32::from_le_bytes(page.get(start..)?.first_chunk().copied()?) as usize;
        let end = (start + 4).checked_add(length).filter(|end| *end <= page.len())?;
        Some((&page[start + 4..end], end))
    };
    let (full, end) = part(0)?;
    let (metadata, end) = part(end)?;
    let record = ObjectMetadata::decode(metadata).filter(ObjectMetadata::is_for_everybody)?;
    (full == key.full()).then(|| (record, page.slice(end..)))
}

/// Room for other nodes' pages, within the budget of this node's RAM.
pub struct GuestRoom {
    ledger: Arc<MemoryBudget>,
    memory: Weak<MemoryTier<MemoryEntry>>,
}

/// Bytes charged for a page of another node, or for a queue. Dropping it returns them.
pub struct GuestCharge {
    reservation: Reservation,
}

impl GuestCharge {
    /// Returns the bytes charged.
    pub fn bytes(&self) -> u64 {
        self.reservation.bytes()
    }

    /// Charges this many bytes instead. More bytes come from pages of other nodes and own objects.
    /// Returns `false`, unchanged, if there are not as many.
    pub fn resize(&mut self, bytes: u64) -> bool {
        let now = self.reservation.bytes();
        if bytes <= now {
            self.reservation.shrink(now - bytes);
            return true;
        }
        self.reservation.grow(bytes - now)
    }
}

/// Holder of other nodes' pages. It gives them up before this node gives up its own objects.
pub trait GuestHolder: Send + Sync + 'static {
    /// Returns the bytes held.
    fn held_bytes(&self) -> u64;

    /// Drops pages of `bytes` or more, if there are as many. Returns the bytes.
    fn give_up(&self, bytes: u64) -> u64;
}

/// Ledger's view of a holder.
struct GuestReclaim(Weak<dyn GuestHolder>);

impl Reclaim for GuestReclaim {
    fn reclaimable_bytes(&self) -> u64 {
        self.0.upgrade().map_or(0, |holder| holder.held_bytes())
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        self.0.upgrade().map_or(0, |holder| holder.give_up(bytes))
    }
}

impl GuestRoom {
    /// Registers the holder of pages. The returned value keeps the registration.
    pub fn register(&self, holder: Weak<dyn GuestHolder>) -> Arc<dyn Send + Sync> {
        let reclaim = Arc::new(GuestReclaim(holder));
        let weak: Weak<GuestReclaim> = Arc::downgrade(&reclaim);
        self.ledger.register_first(weak);
        reclaim
    }

    /// Charges bytes that are free, or that the node's own objects give up if `replaces_own`.
    pub fn charge(&self, bytes: u64, replaces_own: bool) -> Option<GuestCharge> {
        let free = || self.free().1;
        if free() < bytes
            && replaces_own
            && let Some(memory) = self.memory.upgrade()
        {
            memory.reclaim(bytes - free().min(bytes));
        }
        // Otherwise the budget would take pages of other nodes for it.
        if free() < bytes {
            return None;
        }
        self.ledger.try_reserve(bytes).map(|reservation| GuestCharge { reservation })
    }

    /// Returns the limit of the node's RAM for bodies, and the free bytes.
    pub fn free(&self) -> (u64, u64) {
        let (limit, used) = (self.ledger.limit(), self.ledger.used());
        (limit, limit.saturating_sub(used))
    }

    /// Returns the limit of the node's RAM for bodies, the free bytes, and those of own objects.
    pub fn usage(&self) -> (u64, u64, u64) {
        let (limit, free) = self.free();
        (limit, free, self.memory.upgrade().map_or(0, |memory| memory.reclaimable_bytes()))
    }

    /// Returns `true` if RAM has an object of this key.
    pub fn is_in_ram(&self, key: Key) -> bool {
        self.memory.upgrade().is_some_and(|memory| memory.peek(key).is_some())
    }
}

impl HybridCache {
    /// Puts the memory of other nodes to use. Called once, before the first object comes.
    pub fn share_memory(&self, shared: &Arc<dyn SharedMemory>) {
        let (listener, tick) = (Arc::downgrade(shared), self.eviction_tick());
        self.memory_tier().on_evicted(move |entry| {
            if entry.turn() > 0 {
                tick();
            }
            if let (Some(object), Some(shared)) = (EvictedObject::of(entry), listener.upgrade()) {
                shared.evicted(object);
            }
        });
        self.set_shared_memory(Arc::clone(shared));
    }

    /// Returns the room for other nodes' pages.
    pub fn guest_room(&self) -> GuestRoom {
        GuestRoom { ledger: Arc::clone(self.ledger()), memory: Arc::downgrade(self.memory_tier()) }
    }
}

/// Bytes of RAM for an evicted object beside its body, about.
const BESIDE_BODY: u64 = 2048;

#[cfg(test)]
mod tests;
