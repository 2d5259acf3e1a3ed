//! Moves large bodies in RAM that are requested often into large pages.
//!
//! A thread of an I/O pool does this: it copies the body, and the kernel may first compact memory.

use super::{HybridCache, MemoryEntry, offer_to_disk};
use crate::io_pool::JobKind;
use shoal_memory::MemoryTier;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

impl HybridCache {
    /// Submits a job that copies the object into large pages, if a pool has time.
    pub(super) fn put_into_large_pages(&self, resident: &Arc<MemoryEntry>) {
        let (lane, memory, object) =
            (self.disk_queue_for(&resident.key), Arc::clone(&self.memory), Arc::clone(resident));
        let is_busy = lane.hangs() || lane.pool().waiting() > lane.pool().limit() / 2;
        if is_busy || lane.pool().submit(JobKind::READ, move || exchange(&memory, &object)).is_err() {
            resident.body.count_hits_anew();
        }
    }
}

/// Replaces an object in RAM by a copy with its body in large pages. Readers of the old body keep
/// its charge meanwhile.
fn exchange(memory: &MemoryTier<MemoryEntry>, resident: &MemoryEntry) {
    let is_settled = AtomicBool::new(true);
    let is_it = |now: &MemoryEntry| {
        is_settled.store(now.is_settled.load(Relaxed), Relaxed);
        now.is_same(resident) && now.body.as_ptr() == resident.body.as_ptr()
    };
    let copy = || {
        let body = resident.body.in_large_pages()?;
        let copy = MemoryEntry::new(&resident.key, resident.record.clone(), body);
        Some(Arc::new(copy.with_turn(resident.turn())))
    };
    if !memory.replace_copy_if(resident.key.hash(), resident.weight(), is_it, copy) {
        resident.body.count_hits_anew();
    } else if !is_settled.load(Relaxed) {
        offer_to_disk(memory, resident.key.hash(), |now| now.is_same(resident));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::invalidations::Invalidations;
    use super::super::super::metadata::{ObjectMetadata, VaryMarker};
    use super::super::{MemoryBudget, ObjectSizeLimits};
    use super::*;
    use crate::io_pool::IoPool;
    use crate::metrics::Metrics;
    use shoal_core::ObjectKey;
    use shoal_memory::{BodyBuilder, LENT_MIN, gives_large_pages};
    use std::time::{Duration, Instant};

    const LENGTH: usize = 2 * LENT_MIN;

    fn objects(ram: u64) -> (HybridCache, Arc<MemoryBudget>) {
        let ledger = MemoryBudget::new(ram);
        let memory = MemoryTier::new(Arc::clone(&ledger), 1);
        let pools = vec![Arc::new(IoPool::new(1, 100).expect("a thread"))];
        let limits = ObjectSizeLimits { memory_object_max: 1 << 20, disk_object_max: 0 };
        let objects = HybridCache::new(
            (memory, Arc::clone(&ledger), None),
            None,
            pools,
            Arc::new(Metrics::default()),
            limits,
        );
        (objects, ledger)
    }

    fn keep(objects: &HybridCache, key: &ObjectKey) {
        let mut whole = BodyBuilder::with_capacity(LENGTH);
        (0..LENGTH / 1024).for_each(|number| whole.push(&[number as u8; 1024]));
        let record =
            ObjectMetadata::Vary(Arc::new(VaryMarker { generation: 7, lists: Vec::new(), is_pinned: false }));
        let validity = Invalidations::new().snapshot(key);
        assert!(objects.insert_memory(key, &record, whole.into_bytes().into(), &validity).is_some());
    }

    fn place(objects: &HybridCache, key: &ObjectKey) -> usize {
        objects.memory.peek(key.hash()).expect("it is there").body.as_ptr().addr()
    }

    /// Asks for the object `times` times, and waits until the pool has done the resulting jobs.
    fn ask(objects: &HybridCache, key: &ObjectKey, times: usize, jobs: u64) {
        (0..times).for_each(|_| assert!(objects.memory_entry(key).is_some()));
        let begun = Instant::now();
        while objects.disk_queue(0).pool().finished() < jobs {
            assert!(begun.elapsed() < Duration::from_secs(10), "nothing is done");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(objects.disk_queue(0).pool().finished(), jobs);
    }

    #[test]
    fn frequent_body_moves_to_large_pages_once() {
        if !gives_large_pages() {
            return eprintln!("left out: this system gives no large pages");
        }
        let (objects, ledger) = objects(4 << 20);
        let key = ObjectKey::new(b"http://a/1".to_vec());
        keep(&objects, &key);
        let (before, charged) = (place(&objects, &key), ledger.used());
        ask(&objects, &key, 15, 0);
        assert_eq!(place(&objects, &key), before);
        let held = objects.memory_entry(&key).expect("it is there");
        offer_to_disk(&objects.memory, key.hash(), |_| true);
        let read = held.body.bytes();
        ask(&objects, &key, 0, 1);
        let after = objects.memory.peek(key.hash()).expect("it is there");
        assert!(after.body.as_ptr().addr() != before && *after.body == read[..] && after.is_same(&held));
        assert!(!after.is_settled.load(Relaxed), "what it is to do for the disk is still to be done");
        assert!(ledger.used() >= 2 * LENGTH as u64, "what is read stays charged");
        drop((held, read, after));
        objects.memory.sweep();
        assert_eq!(ledger.used(), charged, "and no longer");
        let after = place(&objects, &key);
        ask(&objects, &key, 100, 1);
        assert_eq!(place(&objects, &key), after, "once");
        objects.disk_queue(0).pool().close();
    }

    #[test]
    fn replaced_or_oversized_body_is_not_moved() {
        let (objects, ledger) = objects(LENGTH as u64 * 3 / 2);
        let key = ObjectKey::new(b"http://a/1".to_vec());
        keep(&objects, &key);
        let before = place(&objects, &key);
        let held = objects.memory_entry(&key).expect("it is there");
        exchange(&objects.memory, &held);
        assert_eq!(place(&objects, &key), before, "no room for both");
        drop(held);
        objects.memory.remove(key.hash());
        assert_eq!(ledger.used(), 0);
        let (objects, _) = self::objects(4 << 20);
        keep(&objects, &key);
        let held = objects.memory_entry(&key).expect("it is there");
        keep(&objects, &key);
        let newer = place(&objects, &key);
        exchange(&objects.memory, &held);
        assert_eq!(place(&objects, &key), newer);
        objects.memory.remove(key.hash());
        exchange(&objects.memory, &held);
        assert!(objects.memory.peek(key.hash()).is_none(), "what is gone does not come back");
    }
}
