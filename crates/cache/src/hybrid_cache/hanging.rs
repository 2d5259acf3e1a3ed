//! A disk that hangs, beside one that answers: for tests.

use super::{HybridCache, ObjectSizeLimits};
use crate::io_pool::IoPool;
use crate::metrics::Metrics;
use parking_lot::{Condvar, Mutex};
use shoal_core::{Key, ObjectKey};
use shoal_memory::{MemoryBudget, MemoryTier};
use shoal_store::{
    Error, EvictionCallback, Insert, OpenObject, PromptStore, Store, StoreUpkeep, StoreView, StoredBody,
    Usage,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Two disks that hold only keys. The first answers once the test releases it.
struct HangingDisks {
    is_free: Arc<(Mutex<bool>, Condvar)>,
    keys: Arc<Mutex<HashSet<Key>>>,
    is_given_up: AtomicBool,
}

impl HangingDisks {
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

impl Store for HangingDisks {
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

impl PromptStore for HangingDisks {}

impl StoreView for HangingDisks {
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

impl StoreUpkeep for HangingDisks {
    fn fail_disk(&self, lane: usize, _: &ObjectKey) -> bool {
        assert_eq!(lane, 0, "this one answers");
        self.is_given_up.store(true, SeqCst);
        self.keys.lock().retain(|key| Self::lane_of(*key) != 0);
        true
    }

    fn on_evicted(&self, _: EvictionCallback) {}
}

impl shoal_store::Peek for HangingDisks {
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
        if HangingDisks::lane_of(self.key) == 0 {
            wait_for(&self.is_free);
        }
        self.keys.lock().insert(self.key);
        Ok(())
    }
}

/// The second disk fails to remove this key.
pub(super) const UNWRITABLE: u32 = 7777;

/// A cache over these disks, and its metrics.
pub struct World {
    /// The cache.
    pub objects: Arc<HybridCache>,
    /// Metrics of the cache.
    pub metrics: Arc<Metrics>,
    is_free: Arc<(Mutex<bool>, Condvar)>,
    /// Keys on both disks.
    pub keys: Arc<Mutex<HashSet<Key>>>,
}

impl World {
    /// Creates disks with `objects` objects each. Each disk's pool has two threads, and two places
    /// in the queue.
    pub fn new(objects: u32) -> Self {
        let ledger = MemoryBudget::new(1 << 20);
        let memory = MemoryTier::new(Arc::clone(&ledger), 1);
        let is_free = Arc::new((Mutex::new(false), Condvar::new()));
        let keys = (0..2).flat_map(|lane| (0..objects).map(move |number| key(lane, number).hash())).collect();
        let keys = Arc::new(Mutex::new(keys));
        let is_given_up = AtomicBool::new(false);
        let disk =
            Arc::new(HangingDisks { is_free: Arc::clone(&is_free), keys: Arc::clone(&keys), is_given_up });
        let pools: Vec<_> = (0..2).map(|_| Arc::new(IoPool::new(2, 8).expect("threads"))).collect();
        let metrics = Arc::new(Metrics::default());
        let limits = ObjectSizeLimits { memory_object_max: 1 << 10, disk_object_max: 1 << 20 };
        let objects =
            HybridCache::new((memory, ledger, None), Some(disk), pools, Arc::clone(&metrics), limits);
        Self { objects: Arc::new(objects), metrics, is_free, keys }
    }

    /// Lets the first disk answer.
    pub fn answer(&self) {
        *self.is_free.0.lock() = true;
        self.is_free.1.notify_all();
    }

    /// Ends the threads of the pools.
    pub fn close(self) {
        self.answer();
        self.objects.pools().for_each(|pool| pool.close());
    }
}

/// Waits for the work of the pools' threads.
pub async fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never comes");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns a key of this disk.
pub fn key(lane: usize, number: u32) -> ObjectKey {
    let mut keys = (0..).map(|salt: u32| ObjectKey::new(format!("http://a/{number}/{salt}").into_bytes()));
    keys.find(|key| HangingDisks::lane_of(key.hash()) == lane).expect("half of all keys")
}
