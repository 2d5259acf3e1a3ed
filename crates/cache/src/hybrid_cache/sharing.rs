//! The cache's part in the memory of a cluster: turns of objects, and pages that come back.

use super::entry::tick_of;
use super::{CachedObject, HybridCache, MemoryEntry, offer_to_disk};
use crate::clock;
use crate::invalidations::ValiditySnapshot;
use crate::io_pool::Urgency;
use crate::metadata::ObjectMetadata;
use crate::shared_memory::{PlacedPage, SharedMemory, read_page};
use shoal_core::ObjectKey;
use shoal_memory::{MemoryBody, MemoryTier};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl HybridCache {
    /// Makes an entry of RAM, with its turn if memory is shared.
    pub(super) fn entry(&self, key: &ObjectKey, record: ObjectMetadata, body: MemoryBody) -> MemoryEntry {
        let turn = self.shared.get().map_or(0, |shared| shared.begin(key.hash()));
        MemoryEntry::new(key, record, body).with_turn(turn)
    }

    /// Forgets the page of an object that is removed, also one that is on its way. RAM has dropped
    /// the object before.
    pub(super) fn end_turns(&self, key: &ObjectKey) {
        self.shared.get().into_iter().for_each(|shared| shared.end(key.hash()));
    }

    /// Brings an object back from another node, into RAM if it has room. A page that cannot be read
    /// is no object.
    pub(super) async fn bring(
        &self,
        key: &ObjectKey,
        placed: PlacedPage,
        validity: &ValiditySnapshot,
    ) -> Option<CachedObject> {
        // Charged before the bytes come.
        let reservation = self.ledger.try_reserve(placed.bytes)?;
        let page = placed.bring.await?;
        let (record, body) = read_page(key, &page)?;
        if !validity.is_unchanged() {
            return None;
        }
        debug_assert!(record.is_for_everybody(), "pages hold shared responses alone");
        let kept = self.insert_read(key, &record, (body, reservation), validity)?;
        if self.disk.is_some() && !self.on_disk(key) {
            offer_to_disk(&self.memory, key.hash(), |_| true);
        }
        Some(CachedObject { record, body: kept, in_memory: false })
    }

    /// Reads an object from the disk, and tells shared memory the time that it took. A read for a
    /// prefetch waits for those of clients, so that its time tells nothing.
    pub(super) async fn timed<T>(
        &self,
        urgency: Urgency,
        reading: impl Future<Output = Option<T>>,
    ) -> Option<T> {
        let begun = Instant::now();
        let read = reading.await?;
        self.metrics.disk_object_reads.increment();
        if urgency == Urgency::Ahead {
            return Some(read);
        }
        self.shared.get().into_iter().for_each(|shared| shared.disk_took(begun.elapsed()));
        Some(read)
    }

    /// Returns the function that an eviction calls: hits have the time of the last eviction.
    pub(crate) fn eviction_tick(&self) -> impl Fn() + Send + Sync + 'static {
        let tick = Arc::clone(&self.tick);
        move || tick.store(tick_of(clock::now()), Relaxed)
    }

    pub(crate) fn memory_tier(&self) -> &Arc<MemoryTier<MemoryEntry>> {
        &self.memory
    }

    pub(crate) fn set_shared_memory(&self, shared: Arc<dyn SharedMemory>) {
        let is_first = self.shared.set(shared).is_ok();
        assert!(is_first, "memory is shared once");
    }
}
