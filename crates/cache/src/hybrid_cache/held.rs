//! Bodies in RAM that replies hold: whole, within the replies' share of the tier, or in pieces.
//!
//! An object that several replies hold counts once. If the share is used up, a reply gets a
//! [`Window`], which copies each piece. The copies count against the blocks of slow clients (see
//! [`DiskBlockBudget`]). A window reads from RAM while the object is there, and then from the disk.
//! A client that reads nothing therefore keeps nothing in the tier.

use super::super::blocks::{DiskBlockBudget, PIECE};
use super::super::metadata::ObjectMetadata;
use super::{CachedBody, HybridCache, MemoryEntry};
use crate::holds::Holds;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use shoal_memory::MemoryTier;
use shoal_semantics::range;
use shoal_store::{Error, Store, StoredBody};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl HybridCache {
    /// Returns the body of an object in RAM for a reply, which may hold it for long.
    pub fn hold(&self, resident: &Arc<MemoryEntry>) -> CachedBody {
        match CachedBody::share(&self.holds, resident) {
            Some(bytes) => CachedBody::Memory(bytes),
            // The copy is no larger than a piece of a window.
            None if resident.body.len() as u64 <= PIECE => {
                CachedBody::Memory(Bytes::copy_from_slice(&resident.body))
            }
            None => {
                CachedBody::Disk(self.window(&resident.key, &resident.record, resident.body.len() as u64))
            }
        }
    }

    /// Returns a body of `length` bytes that is read in pieces, each from the object's current
    /// place. The body is cut if the object is gone.
    pub fn window(&self, key: &ObjectKey, record: &ObjectMetadata, length: u64) -> Arc<dyn StoredBody> {
        Arc::new(Window {
            memory: Arc::clone(&self.memory),
            blocks: Arc::clone(&self.blocks),
            disk: self.disk.clone(),
            key: key.clone(),
            record: record.clone(),
            length,
            on_disk: Mutex::default(),
        })
    }

    /// Returns the account of bodies in RAM that replies hold.
    pub fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// Returns the account of gathered bodies.
    pub fn gathered(&self) -> &Arc<Holds> {
        &self.gathered
    }
}

impl CachedBody {
    fn share(holds: &Arc<Holds>, resident: &Arc<MemoryEntry>) -> Option<Bytes> {
        if resident.body.is_empty() {
            return Some(Bytes::new());
        }
        if !resident.begin_to_hold(holds) {
            return None;
        }
        Some(Bytes::from_owner(HolderShare { holds: Arc::clone(holds), resident: Arc::clone(resident) }))
    }
}

impl MemoryEntry {
    /// Counts one more reply that holds the body; the first is charged for it. Returns `false` if
    /// the share has no room.
    fn begin_to_hold(&self, holds: &Holds) -> bool {
        let mut replies = self.replies.load(Relaxed);
        loop {
            if replies == 0 && !holds.take(self.body.room_bytes()) {
                return false;
            }
            match self.replies.compare_exchange_weak(replies, replies + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => {
                    if replies == 0 {
                        holds.release(self.body.room_bytes());
                    }
                    replies = now;
                }
            }
        }
    }

    fn end_to_hold(&self, holds: &Holds) {
        if self.replies.fetch_sub(1, Relaxed) == 1 {
            holds.release(self.body.room_bytes());
        }
    }
}

/// One of the holders of an object's body.
struct HolderShare {
    holds: Arc<Holds>,
    resident: Arc<MemoryEntry>,
}

impl AsRef<[u8]> for HolderShare {
    fn as_ref(&self) -> &[u8] {
        &self.resident.body
    }
}

impl Drop for HolderShare {
    fn drop(&mut self) {
        self.resident.end_to_hold(&self.holds);
    }
}

/// A body that was in RAM. Nothing of it is held between two reads.
struct Window {
    memory: Arc<MemoryTier<MemoryEntry>>,
    blocks: Arc<DiskBlockBudget>,
    disk: Option<Arc<dyn Store>>,
    key: ObjectKey,
    record: ObjectMetadata,
    length: u64,
    /// The body on disk, once it was read from there.
    on_disk: Mutex<Option<Arc<dyn StoredBody>>>,
}

impl Window {
    /// Returns `true` if an object of this key has exactly this body.
    fn is_body_of(&self, record: &ObjectMetadata, length: u64) -> bool {
        let is_same = match (&self.record, record) {
            (ObjectMetadata::Response(own), ObjectMetadata::Response(other)) => {
                // A validation gives the object another head.
                own.names.via_site == other.names.via_site
                    && (own.is_of_same_response(other)
                        || range::same_representation(&own.stored.fields(), &other.stored.fields()))
            }
            (own, other) => own.is_same(other),
        };
        length == self.length && is_same
    }

    /// Opens the body on disk. Blocks.
    fn open(&self) -> Result<Arc<dyn StoredBody>, Error> {
        let mut on_disk = self.on_disk.lock();
        if let Some(body) = &*on_disk {
            return Ok(Arc::clone(body));
        }
        let stored = match &self.disk {
            Some(disk) => disk.open(&self.key)?,
            None => None,
        };
        let is_body = |metadata: &[u8], length| {
            ObjectMetadata::decode(metadata).is_some_and(|record| self.is_body_of(&record, length))
        };
        let stored = stored.filter(|stored| is_body(&stored.metadata, stored.body.length()));
        let body = stored.ok_or(Error::Gone)?.body;
        let body = body.detached().unwrap_or(body);
        *on_disk = Some(Arc::clone(&body));
        Ok(body)
    }
}

impl StoredBody for Window {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        self.open()?.read(offset, limit)
    }

    fn read_at_once(&self, offset: u64, limit: usize) -> Option<Bytes> {
        let resident = self.memory.peek(self.key.hash()).filter(|now| now.key == self.key)?;
        let rest = self.length.checked_sub(offset)?.min(limit as u64);
        if !self.is_body_of(&resident.record, resident.body.len() as u64) {
            return None;
        }
        let allowance = self.blocks.allow();
        let (start, bytes) = (offset as usize, allowance.bytes(offset).min(rest) as usize);
        Some(allowance.copy(&resident.body[start..start + bytes]))
    }

    fn disk_index(&self) -> usize {
        self.disk.as_ref().map_or(0, |disk| disk.disk_index(self.key.hash()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::invalidations::Invalidations;
    use super::super::super::metadata::VaryMarker;
    use super::super::{Metrics, ObjectSizeLimits};
    use super::*;
    use crate::io_pool::IoPool;
    use shoal_memory::MemoryBudget;

    impl HybridCache {
        /// A cache of 1 MiB of RAM for objects up to `memory_object_max`, without a disk.
        pub(crate) fn in_ram(memory_object_max: u64) -> Self {
            let ledger = MemoryBudget::new(1 << 20);
            let memory = MemoryTier::new(Arc::clone(&ledger), 1);
            let pools = vec![Arc::new(IoPool::new(1, 100).expect("a thread"))];
            let limits = ObjectSizeLimits { memory_object_max, disk_object_max: 0 };
            Self::new((memory, ledger, None), None, pools, Arc::new(Metrics::default()), limits)
        }
    }

    /// RAM of which replies may hold 256 KiB, and no disk.
    fn objects() -> HybridCache {
        HybridCache::in_ram(1 << 20)
    }

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new(format!("http://a/{number}").into_bytes())
    }

    fn keep(objects: &HybridCache, number: usize, length: usize) -> Arc<MemoryEntry> {
        let key = key(number);
        let record = ObjectMetadata::Vary(Arc::new(VaryMarker {
            generation: number as u64,
            lists: Vec::new(),
            is_pinned: false,
        }));
        let body = Bytes::from(vec![number as u8; length]);
        let validity = Invalidations::new().snapshot(&key);
        drop(objects.insert_memory(&key, &record, body.into(), &validity).expect("room"));
        objects.memory_entry(&key).expect("it is there")
    }

    #[test]
    fn object_that_many_hold_counts_once() {
        let objects = objects();
        let resident = keep(&objects, 1, 100_000);
        let charged = resident.body.room_bytes();
        let held: Vec<CachedBody> = (0..50).map(|_| objects.hold(&resident)).collect();
        assert!(held.iter().all(|held| matches!(held, CachedBody::Memory(bytes) if bytes.len() == 100_000)));
        assert_eq!(objects.holds().held(), charged);
        drop(held);
        assert_eq!((objects.holds().held(), objects.holds().refused()), (0, 0));
    }

    #[test]
    fn body_beyond_share_is_read_in_pieces() {
        let objects = objects();
        let (one, other, small) =
            (keep(&objects, 1, 260_000), keep(&objects, 2, 100_000), keep(&objects, 3, 5_000));
        let first = objects.hold(&one);
        let CachedBody::Disk(window) = objects.hold(&other) else { panic!("both are more than a quarter") };
        let CachedBody::Memory(copy) = objects.hold(&small) else { panic!("a small body is copied") };
        drop((other, small));
        let piece = window.read_at_once(90_000, 1 << 20).expect("it is in RAM");
        assert!(!piece.is_empty() && piece.iter().all(|byte| *byte == 2) && copy[..] == [3; 5_000]);
        assert_eq!(window.read_at_once(99_999, 10).as_deref(), Some(&[2][..]));
        // Another object of the same key has another body.
        keep(&objects, 2, 100_000);
        assert!(window.read_at_once(0, 10).is_none());
        assert!(matches!(window.read(0, 10), Err(Error::Gone)));
        objects.memory.remove(key(3).hash());
        drop((first, one));
        assert_eq!(objects.holds().held(), 0);
    }
}
