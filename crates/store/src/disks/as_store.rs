//! Several disks as one store: each call goes to the disk that has the key.

use super::serving::OpenStore;
use super::watched::{BegunInsert, MeteredBody, MeteredInsert};
use super::{Disk, Disks, ServiceState, close_in_background};
use crate::patience::all_within;
use crate::{
    Error, EvictionCallback, Insert, ObjectSummary, OpenObject, Peek, PromptStore, Store, StoreUpkeep,
    StoreView, TryInsert, Usage,
};
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

impl Store for Disks {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        let Some((at, store)) = self.shared.holder(key) else { return Ok(None) };
        let Some(stored) = self.shared.record_result((at, &store), store.open(key))? else { return Ok(None) };
        let body = Arc::new(MeteredBody::new(stored.body, at, &self.shared, store));
        Ok(Some(OpenObject { metadata: stored.metadata, body }))
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        let Some((at, _)) = self.shared.writable(key) else {
            return self.shared.begin_late(key, metadata, body_bytes);
        };
        let begun = BegunInsert::new(at, &self.shared);
        // A disk that is released meanwhile waits for this insert, or gets none.
        if self.shared.disks[at].is_released() {
            return self.shared.begin_late(key, metadata, body_bytes);
        }
        // From here on the disk's store stays the same, or is released by waiting for this insert.
        let Some(store) = self.shared.disks[at].store() else {
            return self.shared.begin_late(key, metadata, body_bytes);
        };
        let insert = self.shared.record_result((at, &store), store.insert(key, metadata, body_bytes))?;
        Ok(Box::new(MeteredInsert::new(insert, (key.clone(), begun), &self.shared, store)))
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let (shared, turn) = (&self.shared, self.shared.carrying.now());
        let holder = shared.holder(key).filter(|(at, _)| !shared.disks[*at].is_released());
        let Some((at, store)) = holder else { return Ok(false) };
        let is_updated =
            shared.record_result((at, &store), store.update_metadata(key, metadata, replaces))?;
        if is_updated {
            // A copy of the object has the earlier metadata.
            shared.supersede(key, (at, &store), turn);
        }
        Ok(is_updated)
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        self.shared.remove(key, None)
    }

    /// Closes all disks in parallel. A slow disk does not delay the others, nor the caller for
    /// ever.
    fn close(&self) -> Result<(), Error> {
        let own = self.shared.disks.iter().filter(|disk| !disk.is_released());
        let stores = own.filter_map(Disk::store);
        let close = |store: Arc<OpenStore>| move || store.close();
        // `close` waits for each disk, even after another has failed.
        let closed = all_within(CLOSE_WAIT_MAX, "shoal-close", stores.map(close).collect());
        let no_answer = || Error::Unusable("a disk does not answer and was not closed".into());
        closed.into_iter().try_for_each(|closed| closed.unwrap_or_else(|| Err(no_answer())))
    }
}

impl PromptStore for Disks {
    fn try_open(&self, key: &ObjectKey) -> Option<OpenObject> {
        let (at, store) = self.shared.holder(key)?;
        let OpenObject { metadata, body } = store.try_open(key)?;
        Some(OpenObject { metadata, body: Arc::new(MeteredBody::new(body, at, &self.shared, store)) })
    }

    fn try_insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body: &Bytes,
        still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        let Some((at, _)) = self.shared.writable(key) else {
            return self.shared.bequeath_if((key, metadata, body), still);
        };
        let Some(_inserting) = self.shared.disks[at].insert_at_once() else {
            return self.shared.bequeath_if((key, metadata, body), still);
        };
        // The store cannot be released or replaced while the guard lives.
        let Some(store) = self.shared.disks[at].store() else {
            return self.shared.bequeath_if((key, metadata, body), still);
        };
        // An older object on another disk must be removed there, and the removal may need that
        // disk's device.
        if self.shared.is_elsewhere(key, at) {
            return Ok(TryInsert::WouldBlock);
        }
        debug_assert!(!self.shared.disks[at].is_released(), "the guard keeps it");
        let turn = self.shared.carrying.now();
        let made = store.try_insert(key, metadata, body, still)?;
        if made != TryInsert::WouldBlock {
            self.shared.supersede(key, (at, &store), turn);
        }
        Ok(made)
    }
}

impl StoreView for Disks {
    fn name(&self) -> &'static str {
        let store = self.shared.disks.iter().find_map(Disk::store);
        store.map_or("none", |store| store.name())
    }

    fn is_in_service(&self) -> bool {
        self.shared.disks.iter().any(Disk::is_in_service)
    }

    fn object_max_bytes(&self) -> u64 {
        let open = self.shared.disks.iter().filter_map(Disk::store);
        open.map(|store| store.object_max_bytes()).min().unwrap_or(0)
    }

    fn disk_index(&self, key: Key) -> usize {
        self.shared.disk_for(key).map_or(0, |(at, _)| at)
    }

    fn holder_index(&self, key: &ObjectKey) -> usize {
        self.shared.holder(key).map_or_else(|| self.disk_index(key.hash()), |(at, _)| at)
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.shared.holder(key).is_some_and(|(_, store)| store.may_contain(key))
    }

    fn index_is_complete(&self) -> bool {
        self.shared.disks.iter().filter_map(Disk::store).all(|store| store.index_is_complete())
    }

    fn position(&self, key: &ObjectKey) -> Option<u64> {
        self.shared.holder(key)?.1.position(key)
    }

    /// Returns `false` while a disk is out of service: it learns nothing of removals. Only this
    /// process's RAM remembers them.
    fn removals_last(&self) -> bool {
        self.shared.disks.iter().all(|disk| disk.is_in_service() || disk.is_removed())
    }

    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        let store = self.shared.disks.iter().find_map(Disk::store);
        store.map_or(0, |store| store.largest_body_within(stored_bytes, key_bytes, metadata_bytes))
    }

    fn usage(&self) -> Usage {
        let usages = self.shared.disks.iter().filter_map(Disk::store).map(|store| store.usage());
        usages.fold(Usage::default(), |all, one| Usage {
            objects: all.objects + one.objects,
            objects_max: all.objects_max + one.objects_max,
            bytes: all.bytes + one.bytes,
            bytes_max: all.bytes_max + one.bytes_max,
            evictions: all.evictions + one.evictions,
            crowded_out: all.crowded_out + one.crowded_out,
            corrupt: all.corrupt + one.corrupt,
            spared_reads: all.spared_reads + one.spared_reads,
            failures: all.failures + one.failures,
            unwritten: all.unwritten + one.unwritten,
        })
    }
}

impl StoreUpkeep for Disks {
    fn flush_due(&self, key: Key) -> Result<(), Error> {
        let Some((at, store)) = self.shared.disk_for(key) else { return Ok(()) };
        if self.shared.disks[at].is_released() {
            return Ok(());
        }
        self.shared.record_result((at, &store), store.flush_due(key))
    }

    fn fail_disk(&self, lane: usize, key: &ObjectKey) -> bool {
        let Some(disk) = self.shared.disks.get(lane) else { return false };
        if let Some(store) = disk.take_offline(ServiceState::Failed, "it did not answer") {
            error!(
                disk = disk.path(),
                "the disk has not answered for long and is out of service; the rest goes on"
            );
            close_in_background(store);
        }
        disk.note_unremoved(key);
        true
    }

    fn on_evicted(&self, gave_up: EvictionCallback) {
        for store in self.shared.disks.iter().filter_map(Disk::store) {
            store.on_evicted(Arc::clone(&gave_up));
        }
        // The first callback is set, and disks that come back use it too.
        let _ = self.shared.gave_up.set(gave_up);
    }
}

impl Peek for Disks {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        self.shared.holder(key).map_or(Ok(None), |(_, store)| store.peek(key))
    }
}

/// Longest wait of the process for its disks before it ends. A disk not closed in order is searched
/// at the next start.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(60);
