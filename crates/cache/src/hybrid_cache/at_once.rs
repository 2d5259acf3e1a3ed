//! Store operations that need no device run in place, and not on an I/O pool's thread.
//!
//! An object that waits to be written, or was read with its neighbour, is already in memory. An
//! inserted object waits in memory until there is enough to write. Handing such a job to another
//! thread takes several times as long as the job: the thread must be woken, and must wake the
//! worker in turn.
//!
//! Changes keep their order: while a change is in progress on the pool, later changes also go to
//! the pool.

use super::super::invalidations::ValiditySnapshot;
use super::super::metadata::ObjectMetadata;
use super::jobs::{read, write_resident};
use super::{CachedObject, HybridCache, MemoryEntry, offer_to_disk};
use crate::io_pool::JobKind;
use bytes::Bytes;
use shoal_core::ObjectKey;
use shoal_memory::MemoryTier;
use shoal_store::{Error, Store, TryInsert};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl HybridCache {
    /// Returns the object if the disk is not needed for it.
    pub(super) fn try_find(
        &self,
        disk: &dyn Store,
        key: &ObjectKey,
        validity: &ValiditySnapshot,
    ) -> Option<CachedObject> {
        let stored = disk.try_open(key)?;
        let record = ObjectMetadata::decode(&stored.metadata).filter(ObjectMetadata::is_for_everybody)?;
        let opened = read(stored, record, self.limits.memory_object_max, &self.ledger).ok()?;
        Some(self.found(key, opened, validity))
    }

    /// Gives a complete object to the disk if this needs no wait.
    ///
    /// Does nothing while a change that must come first is in progress. Calls `still` once the
    /// object is visible; if `still` returns `false`, the object is removed again.
    pub(super) fn try_insert(
        &self,
        store: &Arc<dyn Store>,
        (key, record, body): (&ObjectKey, &ObjectMetadata, &Bytes),
        still: &dyn Fn() -> bool,
    ) -> Option<Result<(), Error>> {
        let lane = self.disk_queue_for(key);
        if lane.hangs() || lane.pool().is_changing() {
            return None;
        }
        match store.try_insert(key, &record.encode(), body, still) {
            Ok(TryInsert::WouldBlock) => None,
            Ok(TryInsert::Inserted) => Some(Ok(())),
            Ok(TryInsert::InsertedFlushDue) => {
                let (store, key) = (Arc::clone(store), key.hash());
                // The store has counted a failure, and writes within a second by itself anyway.
                let write = move || {
                    store.flush_due(key).inspect_err(|error| tracing::debug!(%error, "could not write"))
                };
                let _ = lane.pool().submit(JobKind::READ, write);
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Offers an object in RAM to the disk if a client asks for it and the disk lacks it. The
    /// object was on probation, or the disk has evicted it. No client waits, and a failed offer is
    /// repeated with the next hit.
    pub(super) fn promote(&self, resident: &Arc<MemoryEntry>) {
        if resident.is_settled.load(Relaxed)
            || resident.is_settled.swap(true, Relaxed)
            || !resident.record.is_for_disk()
        {
            return;
        }
        let (Some(store), lane) = (self.disk.clone(), self.disk_queue_for(&resident.key)) else { return };
        let (memory, resident) = (Arc::clone(&self.memory), Arc::clone(resident));
        let key = &resident.key;
        let failed = |memory: &MemoryTier<MemoryEntry>, resident: &MemoryEntry| {
            offer_to_disk(memory, resident.key.hash(), |now| now.is_same(resident));
        };
        let is_there = || memory.peek(key.hash()).is_some_and(|now| now.is_same(&resident));
        match self.try_insert(&store, (key, &resident.record, &resident.body.bytes()), &is_there) {
            Some(Ok(())) => return,
            Some(Err(_)) => return failed(&memory, &resident),
            None => {}
        }
        let (unsettled, shared) = (Arc::clone(&resident), Arc::clone(&memory));
        let work = move || {
            if let Err(error) = write_resident(&*store, &memory, &resident) {
                tracing::debug!(%error, "an object in RAM could not be written to disk");
                failed(&memory, &resident);
            }
        };
        if lane.hangs() || lane.pool().submit(JobKind::ChangeSoon, work).is_err() {
            failed(&shared, &unsettled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::identity::Identity;
    use super::super::super::invalidations::Invalidations;
    use super::super::super::metadata::{Provenance, ResponseMetadata, ResponseScope, VaryMarker};
    use super::super::super::purge_table::Sequence;
    use super::super::{IoPool, MemoryBudget, Metrics, ObjectSizeLimits, Urgency};
    use super::*;
    use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
    use shoal_core::Timestamp;
    use shoal_semantics::CacheRules;
    use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};
    use shoal_store::architectures::VolumeSettings;
    use shoal_store::{OpenOptions, open};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    /// A cache over a volume; its pool has one thread.
    struct World {
        objects: Arc<HybridCache>,
        store: Arc<dyn Store>,
        invalidations: Arc<Invalidations>,
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let options = OpenOptions {
                directory: folder.path().to_owned(),
                architecture: "volume".into(),
                disk_bytes: 16 << 20,
                max_objects: 0,
                object_max_bytes: 1 << 20,
                files_per_folder: 0,
                replacement: "clock".into(),
                segments: Default::default(),
                volume: VolumeSettings::default(),
                tally: None,
                now: Timestamp::from_seconds(1_000_000),
            };
            let store = open(&options).expect("a new volume");
            let ledger = MemoryBudget::new(1 << 20);
            let memory = MemoryTier::new(Arc::clone(&ledger), 1);
            let pool = Arc::new(IoPool::new(1, 100).expect("a thread"));
            let limits = ObjectSizeLimits { memory_object_max: 1 << 16, disk_object_max: 1 << 20 };
            let disk = Some(Arc::clone(&store));
            let objects = HybridCache::new(
                (memory, ledger, None),
                disk,
                vec![pool],
                Arc::new(Metrics::default()),
                limits,
            );
            Self { objects: Arc::new(objects), store, invalidations: Invalidations::new(), folder }
        }

        fn jobs(&self) -> u64 {
            self.objects.disk_queue(0).pool().finished()
        }

        async fn keep(&self, number: u64) {
            let (key, validity) = (key(number), self.invalidations.snapshot(&key(number)));
            self.objects.insert_disk(JobKind::ChangeSoon, &key, &note(number), Bytes::new(), &validity).await;
        }

        async fn find(&self, number: u64) -> Option<u64> {
            let found = self
                .objects
                .find((&key(number), Urgency::Demand), || self.invalidations.snapshot(&key(number)))
                .await?;
            let ObjectMetadata::Vary(note) = found.record else { panic!("a note was kept") };
            Some(note.generation)
        }

        fn close(self) {
            self.objects.disk_queue(0).pool().close();
            self.store.close().expect("a disk that takes it");
            drop(self.folder);
        }
    }

    fn key(number: u64) -> ObjectKey {
        ObjectKey::new(format!("http://a/{number}").into_bytes())
    }

    fn note(generation: u64) -> ObjectMetadata {
        ObjectMetadata::Vary(Arc::new(VaryMarker { generation, lists: Vec::new(), is_pinned: false }))
    }

    #[tokio::test]
    async fn access_without_device_uses_no_pool_thread() {
        let world = World::new();
        for number in 0..100 {
            world.keep(number).await;
            assert_eq!(world.find(number).await, Some(number));
        }
        assert_eq!(world.jobs(), 0);
        world.close();
    }

    /// Earlier versions stored responses with their cookies.
    #[tokio::test]
    async fn stored_cookies_are_removed_when_found() {
        let world = World::new();
        let head = |name: &'static str| {
            let fields = HeaderMap::from_iter([
                (HeaderName::from_static("cache-control"), HeaderValue::from_static("max-age=60")),
                (HeaderName::from_static(name), HeaderValue::from_static("sid=1")),
            ]);
            let exchanged = ForwardedExchange {
                method: &Method::GET,
                query: None,
                request: &HeaderMap::new(),
                status: StatusCode::OK,
                response: &fields,
                request_time: Timestamp::from_seconds(10),
                response_time: Timestamp::from_seconds(10),
            };
            let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
                panic!("storable")
            };
            let names = ResponseScope { slots: Box::new([]), groups: Box::new([]), via_site: true };
            let origin = Provenance { requested: Sequence::new(10), names, identity: Identity::unique() };
            ObjectMetadata::Response(Arc::new(ResponseMetadata::new(
                StatusCode::OK,
                fields.clone(),
                policy,
                origin,
            )))
            .encode()
        };
        for (name, begins, is_found) in
            [("xet-cookie", b'x', true), ("xet-cookie", b's', false), ("xet-cookie2", b's', false)]
        {
            let mut written = head(name);
            let at = written.windows(3).position(|bytes| bytes == b"xet").expect("the name is there");
            written[at] = begins;
            for _ in 0..2 {
                let insert = world.store.insert(&key(1), &written, Some(0)).expect("it is taken");
                insert.commit(None).expect("it is kept");
                let found = world
                    .objects
                    .find((&key(1), Urgency::Demand), || world.invalidations.snapshot(&key(1)))
                    .await;
                assert_eq!(found.is_some(), is_found, "{begins} {name}");
                assert_eq!(world.store.may_contain(&key(1)), is_found, "{begins} {name}");
            }
            world.objects.memory().remove(key(1).hash());
        }
        assert_eq!(world.objects.metrics.disk_corrupt.value(), 0, "it is no damage");
        world.close();
    }

    #[tokio::test]
    async fn insert_waits_for_earlier_change() {
        let world = World::new();
        let (opened, gate) = mpsc::channel::<()>();
        let store = Arc::clone(&world.store);
        let older = move || {
            gate.recv().expect("it is opened");
            let insert = store.insert(&key(1), &note(7).encode(), Some(0)).expect("it is taken");
            insert.commit(None).expect("it is kept");
        };
        let older = world.objects.disk_queue(0).pool().submit(JobKind::Change, older).expect("room");
        let (objects, validity) = (Arc::clone(&world.objects), world.invalidations.snapshot(&key(1)));
        let newer = tokio::spawn(async move {
            objects.insert_disk(JobKind::Change, &key(1), &note(8), Bytes::new(), &validity).await;
        });
        tokio::task::yield_now().await;
        assert!(!world.store.may_contain(&key(1)), "it waits for its turn");
        opened.send(()).expect("the older one waits for it");
        older.await.expect("it is done");
        newer.await.expect("it is done");
        assert_eq!(world.find(1).await, Some(8));
        world.close();
    }

    #[tokio::test]
    async fn invalidated_object_is_not_kept() {
        let world = World::new();
        let validity = world.invalidations.snapshot(&key(1));
        world.invalidations.mark(&key(1));
        world.objects.insert_disk(JobKind::ChangeSoon, &key(1), &note(1), Bytes::new(), &validity).await;
        assert_eq!(world.find(1).await, None);
        world.close();
    }

    #[tokio::test]
    async fn kept_objects_are_written_soon() {
        let world = World::new();
        for number in 0..50_u64 {
            let validity = world.invalidations.snapshot(&key(number));
            let body = Bytes::from(vec![number as u8; 60_000]);
            world
                .objects
                .insert_disk(JobKind::ChangeSoon, &key(number), &note(number), body, &validity)
                .await;
        }
        let begun = Instant::now();
        let is_written = |number| world.store.try_open(&key(number)).is_none();
        while !(0..50).all(is_written) {
            assert!(begun.elapsed() < Duration::from_secs(10), "it is never written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!((0..50).all(|number| world.store.may_contain(&key(number))));
        world.close();
    }
}
