//! A disk that hangs, beside one that does not.

use super::super::invalidations::Invalidations;
use super::*;
use parking_lot::{Condvar, Mutex};
use shoal_store::{GaveUp, Stored, Usage};
use std::time::Instant;

/// Two disks, the first of which answers once it is let go.
struct Hanging {
    is_free: Arc<(Mutex<bool>, Condvar)>,
}

impl Hanging {
    fn lane_of(key: Key) -> usize {
        (key.low() % 2) as usize
    }
}

impl Store for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    fn lane(&self, key: Key) -> usize {
        Self::lane_of(key)
    }

    fn may_contain(&self, _key: Key) -> bool {
        true
    }

    fn open(&self, key: &ObjectKey) -> Result<Option<Stored>, Error> {
        if Self::lane_of(key.hash()) == 0 {
            let (lock, freed) = &*self.is_free;
            let mut is_free = lock.lock();
            while !*is_free {
                freed.wait(&mut is_free);
            }
        }
        Err(Error::Corrupt { part: "body" })
    }

    fn insert(&self, _: &ObjectKey, _: &[u8], _: Option<u64>) -> Result<Box<dyn Insert>, Error> {
        Err(Error::Declined(Declined::NoSpace))
    }

    fn update_metadata(&self, _: &ObjectKey, _: &[u8], _: &dyn Fn(&[u8]) -> bool) -> Result<bool, Error> {
        Ok(false)
    }

    fn remove(&self, _: &ObjectKey) -> Result<bool, Error> {
        Ok(false)
    }

    fn tell(&self, _: GaveUp) {}

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

fn key(lane: usize, number: u32) -> ObjectKey {
    let mut keys = (0..).map(|salt: u32| ObjectKey::new(format!("http://a/{number}/{salt}").into_bytes()));
    keys.find(|key| Hanging::lane_of(key.hash()) == lane).expect("half of all keys")
}

/// Whether the object is missed.
async fn find(shelf: &Shelf, key: &ObjectKey) -> bool {
    let invalidations = Invalidations::new();
    shelf.find(key, || invalidations.begin(key)).await.is_none()
}

#[tokio::test]
async fn a_disk_that_hangs_keeps_neither_another_nor_its_own_clients_waiting() {
    let ledger = Ledger::new(1 << 20);
    let memory = MemoryTier::new(Arc::clone(&ledger), 1, 1);
    let is_free = Arc::new((Mutex::new(false), Condvar::new()));
    let disk = Arc::new(Hanging { is_free: Arc::clone(&is_free) });
    let pools: Vec<_> = (0..2).map(|_| Arc::new(IoPool::new(2, 8).expect("threads"))).collect();
    let metrics = Arc::new(Metrics::default());
    let limits = Limits { memory_object_max: 1 << 10, disk_object_max: 1 << 20 };
    let shelf = Arc::new(Shelf::new((memory, ledger, None), Some(disk), pools, Arc::clone(&metrics), limits));
    let hung: Vec<_> = (0..8)
        .map(|number| {
            let shelf = Arc::clone(&shelf);
            tokio::spawn(async move { find(&shelf, &key(0, number)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let begun = Instant::now();
    for number in 0..100 {
        assert!(find(&shelf, &key(1, number)).await);
    }
    assert_eq!(metrics.disk_corrupt.value(), 100, "the other disk has answered");
    assert!(begun.elapsed() < PATIENCE, "and nobody waited for the one that hangs");
    for waiting in hung {
        assert!(waiting.await.expect("it ends"), "a miss");
    }
    assert_eq!(metrics.disk_slow.value() + metrics.disk_busy.value(), 8);
    *is_free.0.lock() = true;
    is_free.1.notify_all();
    shelf.pools().iter().for_each(|pool| pool.close());
}
