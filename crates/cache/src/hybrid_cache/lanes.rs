//! Queues of the disks by number; disks come while the node serves.

use super::HybridCache;
use super::disk_queues::DiskQueue;
use crate::io_pool::IoPool;
use crate::metrics::Metrics;
use std::io;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};
use std::sync::{Arc, OnceLock};

/// Queues, one for each disk.
pub(super) struct Lanes {
    queues: Box<[OnceLock<DiskQueue>]>,
    used: AtomicUsize,
}

impl Lanes {
    /// Makes a queue for each pool, and places for further ones.
    pub(super) fn new(pools: Vec<Arc<IoPool>>, metrics: &Arc<Metrics>) -> Self {
        assert!(!pools.is_empty(), "jobs need a queue");
        let used = pools.len();
        let made = pools.into_iter().enumerate();
        let made = made.map(|(number, pool)| OnceLock::from(DiskQueue::new(number, pool, metrics)));
        let further = (0..FURTHER_MIN.max(used)).map(|_| OnceLock::new());
        Self { queues: made.chain(further).collect(), used: AtomicUsize::new(used) }
    }

    /// Returns the queue of a disk. A disk without one shares the first.
    pub(super) fn get(&self, lane: usize) -> &DiskQueue {
        let own = self.queues.get(lane).and_then(OnceLock::get);
        own.or_else(|| self.queues[0].get()).expect("the first queue is made at the start")
    }

    /// Makes the queue of a disk, unless it has one.
    pub(super) fn add(
        &self,
        lane: usize,
        pool: impl FnOnce() -> io::Result<IoPool>,
        metrics: &Arc<Metrics>,
    ) -> io::Result<()> {
        let Some(place) = self.queues.get(lane) else {
            return Err(io::Error::other("there are too many disks"));
        };
        if place.get().is_none() {
            let queue = DiskQueue::new(lane, Arc::new(pool()?), metrics);
            if let Err(second) = place.set(queue) {
                second.pool().close();
            }
        }
        assert!(self.queues[lane].get().is_some(), "a queue that was made");
        self.used.fetch_max(lane + 1, Release);
        Ok(())
    }

    /// Returns all queues.
    pub(super) fn iter(&self) -> impl Iterator<Item = &DiskQueue> {
        self.queues[..self.used.load(Acquire)].iter().filter_map(OnceLock::get)
    }
}

/// Least number of places for further queues.
const FURTHER_MIN: usize = 64;

impl HybridCache {
    /// Adds the queue of a disk that has come, with a pool of its own. A number that has a queue
    /// keeps it.
    ///
    /// # Errors
    /// If there are too many disks.
    pub fn add_lane(
        &self,
        lane: usize,
        pool: impl FnOnce() -> std::io::Result<IoPool>,
    ) -> std::io::Result<()> {
        self.lanes.add(lane, pool, &self.metrics)
    }

    /// Reserves RAM for the windows of a further disk, for good. Returns `false` if there is too
    /// little.
    pub fn hold_windows(&self, bytes: u64) -> bool {
        let reserved = self.ledger.try_reserve(bytes);
        let is_held = reserved.is_some();
        self.windows.lock().extend(reserved);
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_without_queue_shares_the_first() {
        let (metrics, pool) = (Arc::default(), || IoPool::new(1, 1));
        let lanes = Lanes::new(vec![Arc::new(pool().expect("a thread"))], &metrics);
        assert!(std::ptr::eq(lanes.get(0), lanes.get(3)) && std::ptr::eq(lanes.get(0), lanes.get(1000)));
        lanes.add(3, pool, &metrics).expect("a place");
        let third: *const DiskQueue = lanes.get(3);
        assert!(!std::ptr::eq(lanes.get(0), third));
        lanes.add(3, || panic!("it has a queue"), &metrics).expect("nothing to do");
        assert!(std::ptr::eq(lanes.get(3), third) && lanes.iter().count() == 2);
        assert!(lanes.add(1000, pool, &metrics).is_err());
        lanes.iter().for_each(|queue| queue.pool().close());
    }
}
