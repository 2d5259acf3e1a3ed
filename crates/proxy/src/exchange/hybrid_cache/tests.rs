//! A disk that hangs, beside one that does not.

use super::super::invalidations::Invalidations;
use super::super::{CacheEngine, CacheEngineParts, ExchangeSettings, PurgeTable};
use super::disk_queues::PATIENCE;
use super::*;
use crate::access_log::AccessLog;
use crate::upstream::Upstreams;
use parking_lot::{Condvar, Mutex};
use shoal_core::Timestamp;
use shoal_settings::Settings;
use shoal_store::{EvictionCallback, OpenObject, PromptStore, StoreUpkeep, StoreView, StoredBody, Usage};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Two disks that hold only keys. The first answers once the test releases it.
struct Hanging {
    is_free: Arc<(Mutex<bool>, Condvar)>,
    keys: Arc<Mutex<HashSet<Key>>>,
    is_given_up: AtomicBool,
}

impl Hanging {
    fn lane_of(key: Key) -> usize {
        (key.low() % 2) as usize
    }

    fn wait(&self, key: Key) {
        if Self::lane_of(key) == 0 {
            wait_for(&self.is_free);
        }
    }
}

fn wait_for(is_free: &(Mutex<bool>, Condvar)) {
    let mut free = is_free.0.lock();
    while !*free {
        is_free.1.wait(&mut free);
    }
}

impl Store for Hanging {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        self.wait(key.hash());
        Err(Error::Corrupt { part: "body" })
    }

    fn insert(&self, key: &ObjectKey, _: &[u8], _: Option<u64>) -> Result<Box<dyn Insert>, Error> {
        let (is_free, keys) = (Arc::clone(&self.is_free), Arc::clone(&self.keys));
        Ok(Box::new(HangingInsert { is_free, keys, key: key.hash() }))
    }

    fn update_metadata(&self, key: &ObjectKey, _: &[u8], _: &dyn Fn(&[u8]) -> bool) -> Result<bool, Error> {
        self.wait(key.hash());
        Ok(false)
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        if !self.is_given_up.load(SeqCst) {
            self.wait(key.hash());
        }
        if *key == self::key(1, UNWRITABLE) {
            return Err(Error::Corrupt { part: "sector" });
        }
        Ok(self.keys.lock().remove(&key.hash()))
    }

    fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl PromptStore for Hanging {}

impl StoreView for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    fn disk_index(&self, key: Key) -> usize {
        if self.is_given_up.load(SeqCst) { 1 } else { Self::lane_of(key) }
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.keys.lock().contains(&key.hash())
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

impl StoreUpkeep for Hanging {
    fn fail_disk(&self, lane: usize, _: &ObjectKey) -> bool {
        assert_eq!(lane, 0, "this one answers");
        self.is_given_up.store(true, SeqCst);
        self.keys.lock().retain(|key| Self::lane_of(*key) != 0);
        true
    }

    fn on_evicted(&self, _: EvictionCallback) {}
}

impl shoal_store::Peek for Hanging {
    fn peek(&self, _: &ObjectKey) -> Result<Option<shoal_store::ObjectSummary>, Error> {
        Ok(None)
    }
}

struct HangingInsert {
    is_free: Arc<(Mutex<bool>, Condvar)>,
    keys: Arc<Mutex<HashSet<Key>>>,
    key: Key,
}

impl Insert for HangingInsert {
    fn append(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        unreachable!("nobody reads what is written here")
    }

    fn commit(self: Box<Self>, _: Option<&[u8]>) -> Result<(), Error> {
        if Hanging::lane_of(self.key) == 0 {
            wait_for(&self.is_free);
        }
        self.keys.lock().insert(self.key);
        Ok(())
    }
}

/// The second disk fails to remove this key.
const UNWRITABLE: u32 = 7777;

/// A cache over these disks, and its metrics.
struct World {
    objects: Arc<HybridCache>,
    metrics: Arc<Metrics>,
    is_free: Arc<(Mutex<bool>, Condvar)>,
    keys: Arc<Mutex<HashSet<Key>>>,
}

impl World {
    /// Creates disks with `objects` objects each. Each disk's pool has two threads, and two places
    /// in the queue.
    fn new(objects: u32) -> Self {
        let ledger = MemoryBudget::new(1 << 20);
        let memory = MemoryTier::new(Arc::clone(&ledger), 1);
        let is_free = Arc::new((Mutex::new(false), Condvar::new()));
        let keys = (0..2).flat_map(|lane| (0..objects).map(move |number| key(lane, number).hash())).collect();
        let keys = Arc::new(Mutex::new(keys));
        let is_given_up = AtomicBool::new(false);
        let disk = Arc::new(Hanging { is_free: Arc::clone(&is_free), keys: Arc::clone(&keys), is_given_up });
        let pools: Vec<_> = (0..2).map(|_| Arc::new(IoPool::new(2, 8).expect("threads"))).collect();
        let metrics = Arc::new(Metrics::default());
        let limits = ObjectSizeLimits { memory_object_max: 1 << 10, disk_object_max: 1 << 20 };
        let objects =
            HybridCache::new((memory, ledger, None), Some(disk), pools, Arc::clone(&metrics), limits);
        Self { objects: Arc::new(objects), metrics, is_free, keys }
    }

    fn answer(&self) {
        *self.is_free.0.lock() = true;
        self.is_free.1.notify_all();
    }

    fn close(self) {
        self.answer();
        self.objects.pools().for_each(|pool| pool.close());
    }

    /// Waits until the disk has hung for a client's patience, and is known to hang.
    async fn hang(&self) {
        assert!(find(&self.objects, &key(0, 0)).await && self.objects.disk_queue(0).hangs());
    }
}

/// Waits for the work of the pools' threads.
async fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never comes");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn key(lane: usize, number: u32) -> ObjectKey {
    let mut keys = (0..).map(|salt: u32| ObjectKey::new(format!("http://a/{number}/{salt}").into_bytes()));
    keys.find(|key| Hanging::lane_of(key.hash()) == lane).expect("half of all keys")
}

/// Returns `true` if the lookup misses the object.
async fn find(objects: &HybridCache, key: &ObjectKey) -> bool {
    let invalidations = Invalidations::new();
    objects.find(key, || invalidations.snapshot(key)).await.is_none()
}

#[tokio::test]
async fn hanging_disk_delays_no_other_disk() {
    let world = World::new(100);
    let hung: Vec<_> = (0..8)
        .map(|number| {
            let objects = Arc::clone(&world.objects);
            tokio::spawn(async move { find(&objects, &key(0, number)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let begun = Instant::now();
    for number in 0..100 {
        assert!(find(&world.objects, &key(1, number)).await);
    }
    assert_eq!(world.metrics.disk_corrupt.value(), 100, "the other disk has answered");
    assert!(begun.elapsed() < PATIENCE, "and nobody waited for the one that hangs");
    for waiting in hung {
        assert!(waiting.await.expect("it ends"), "a miss");
    }
    assert_eq!(world.metrics.disk_slow.value() + world.metrics.disk_busy.value(), 8);
    world.close();
}

#[tokio::test]
async fn known_hanging_disk_is_skipped_until_it_answers() {
    let world = World::new(100);
    world.hang().await;
    let begun = Instant::now();
    for number in 0..100 {
        assert!(find(&world.objects, &key(0, number)).await, "a miss");
        let other = key(0, 200 + number);
        world.objects.insert_marker(&other, note(), &valid(&other)).await;
    }
    assert!(begun.elapsed() < 20 * PATIENCE, "two hundred did not wait");
    assert!(world.metrics.disk_busy.value() >= 200, "each is counted");
    world.answer();
    until(|| !world.objects.disk_queue(0).hangs()).await;
    let (asked, other) = (world.metrics.disk_corrupt.value(), key(0, 300));
    find(&world.objects, &key(0, 99)).await;
    assert_eq!(world.metrics.disk_corrupt.value(), asked + 1, "the disk is asked again");
    world.objects.insert_marker(&other, note(), &valid(&other)).await;
    assert!(world.keys.lock().contains(&other.hash()), "and takes objects again");
    world.close();
}

#[tokio::test]
async fn removal_on_hanging_disk_hides_at_once() {
    let world = World::new(10);
    world.hang().await;
    let begun = Instant::now();
    for number in 0..5 {
        let hidden = RemovalResult { was_there: true, lasts: false };
        assert_eq!(world.objects.remove(&key(0, number)).await, hidden, "the disk has not been told");
    }
    assert!(begun.elapsed() < 4 * PATIENCE, "five did not wait");
    world.answer();
    until(|| !world.objects.disk_queue(0).hangs()).await;
    let corrupt = world.metrics.disk_corrupt.value();
    for number in 0..5 {
        assert!(find(&world.objects, &key(0, number)).await, "{number} has been removed");
    }
    assert_eq!(world.metrics.disk_corrupt.value(), corrupt, "and the disk has not been asked for it");
    until(|| (0..5).all(|number| !world.keys.lock().contains(&key(0, number).hash()))).await;
    assert!((5..10).all(|number| world.keys.lock().contains(&key(0, number).hash())));
    until(|| (0..5).all(|number| !world.objects.removals.is_hidden(&key(0, number)))).await;
    world.close();
}

/// The result tells the caller: the object may be there again after the next start.
#[tokio::test]
async fn removals_that_fail_do_not_pass_for_done() {
    let world = World::new(10);
    assert_eq!(world.objects.remove(&key(1, 3)).await, RemovalResult { was_there: true, lasts: true });
    assert_eq!(world.objects.remove(&key(1, 3)).await, RemovalResult { was_there: false, lasts: true });
    assert!(!world.objects.remove(&key(1, UNWRITABLE)).await.lasts);
    world.close();
}

#[tokio::test]
async fn removals_beyond_limit_fail_hanging_disk() {
    let world = World::new(3);
    world.hang().await;
    for number in 0_u64.. {
        if world.objects.removals.hide(&ObjectKey::new(number.to_le_bytes()))
            == removals::HideOutcome::Refused
        {
            break;
        }
    }
    for number in 0..3 {
        let removed = tokio::time::timeout(3 * PATIENCE, world.objects.remove(&key(0, number))).await;
        assert!(removed.is_ok(), "nobody waits for it without a limit");
        assert!(!world.objects.on_disk(&key(0, number)));
    }
    assert!(world.objects.on_disk(&key(1, 0)), "the other disk is not given up");
    assert!(world.objects.remove(&key(1, 0)).await.was_there);
    world.close();
}

#[tokio::test]
async fn late_insert_is_undone() {
    let world = World::new(0);
    let begun = Instant::now();
    let wanted = key(0, 1);
    world.objects.insert_marker(&wanted, note(), &valid(&wanted)).await;
    assert!(begun.elapsed() < 3 * PATIENCE, "the client waits no longer than that");
    assert_eq!(world.metrics.disk_slow.value(), 1);
    // Meanwhile a newer object may exist that the disk does not accept.
    world.answer();
    let pool = world.objects.disk_queue(0).pool().finished();
    until(|| world.objects.disk_queue(0).pool().finished() > pool || !world.objects.disk_queue(0).hangs())
        .await;
    assert!(world.keys.lock().is_empty(), "the older one is not left on the disk");
    world.close();
}

/// An invalidation completes even if its client leaves while the disk is slow.
#[tokio::test]
async fn an_invalidation_goes_on_without_its_client() {
    let world = World::new(1);
    let exchange = exchange(&world);
    let wanted = key(0, 0);
    let left =
        tokio::time::timeout(PATIENCE / 10, exchange.cache.invalidate_apart(vec![wanted.clone()])).await;
    assert!(left.is_err(), "the disk is waited for");
    world.answer();
    until(|| !world.keys.lock().contains(&wanted.hash())).await;
    world.close();
}

/// An invalidated marker led to objects that a later marker of the same number would find again.
#[test]
fn marker_numbers_are_unique() {
    let numbers: std::collections::HashSet<u64> =
        (0..1000).map(|_| crate::exchange::store_plan::generation()).collect();
    assert_eq!(numbers.len(), 1000);
}

fn exchange(world: &World) -> Arc<CacheEngine> {
    let (settings, metrics) = (Settings::default(), &world.metrics);
    CacheEngine::new(CacheEngineParts {
        cluster: None,
        neighbours: None,
        live: ExchangeSettings::new(&settings, &[], 1).expect("the defaults"),
        objects: Arc::clone(&world.objects),
        purge_table: Arc::new(PurgeTable::in_memory(Timestamp::from_seconds(10))),
        upstreams: Arc::new(Upstreams::new(&settings, Arc::clone(metrics)).expect("the defaults")),
        metrics: Arc::clone(metrics),
        log: AccessLog::open(&settings.log, Arc::clone(metrics)).expect("no log"),
    })
}

fn note() -> ObjectMetadata {
    let head = super::super::metadata::VaryMarker { generation: 1, lists: Vec::new(), is_pinned: false };
    ObjectMetadata::Vary(Arc::new(head))
}

fn valid(key: &ObjectKey) -> ValiditySnapshot {
    Invalidations::new().snapshot(key)
}
