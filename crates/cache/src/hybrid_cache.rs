//! The hybrid cache: RAM in front of the disk store.
//!
//! Lookups go to RAM first, and touch the disk only if its index holds an entry. Small objects
//! found on disk are read in one job and move to RAM. A disk that fails, is busy or declines costs
//! hits, never answers.

mod at_once;
mod contents;
mod disk_queues;
mod entry;
mod found;
#[cfg(any(test, feature = "testing"))]
pub mod hanging;
mod held;
mod jobs;
mod lanes;
mod large_pages;
mod peek;
mod refreshes;
mod removals;
mod sharing;

pub use contents::{ContentNote, ContentNotes};
pub use disk_queues::{DiskJobError, DiskQueue};
pub use entry::MemoryEntry;
pub use found::{CachedBody, CachedObject};
pub use jobs::commit_valid;
pub use peek::PeekedObject;
pub use refreshes::{Pace, Renewal};
pub use removals::RemovalResult;

use super::blocks::DiskBlockBudget;
use super::invalidations::ValiditySnapshot;
use super::metadata::ObjectMetadata;
use crate::holds::Holds;
use crate::io_pool::{IoPool, JobKind, Urgency};
use crate::metrics::Metrics;
use crate::shared_memory::SharedMemory;
use bytes::Bytes;
use jobs::{LoadedObject, open};
use lanes::Lanes;
use parking_lot::Mutex;
use refreshes::PendingHeadUpdates;
use removals::PendingRemovals;
use shoal_core::{Key, ObjectKey};
use shoal_memory::{MemoryBody, MemoryBudget, MemoryTier, Reservation};
use shoal_store::{Error, Insert, InsertRefusal, Store};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock};

/// RAM and disk together.
pub struct HybridCache {
    memory: Arc<MemoryTier<MemoryEntry>>,
    ledger: Arc<MemoryBudget>,
    blocks: Arc<DiskBlockBudget>,
    holds: Arc<Holds>,
    gathered: Arc<Holds>,
    disk: Option<Arc<dyn Store>>,
    /// One queue per disk.
    lanes: Lanes,
    /// Objects to remove from disks that do not answer.
    removals: PendingRemovals,
    /// Heads on their way to the disk.
    refreshes: Arc<PendingHeadUpdates>,
    metrics: Arc<Metrics>,
    limits: ObjectSizeLimits,
    /// Stored objects, for the digest of this node.
    contents: ContentNotes,
    /// Reservations for the disk store's windows in RAM.
    windows: Mutex<Vec<Reservation>>,
    /// Memory of other nodes, if it is used.
    shared: OnceLock<Arc<dyn SharedMemory>>,
    /// Tick of the last eviction if memory is shared, else 0. Hits take it as their time, so that
    /// they read no clock.
    tick: Arc<AtomicU32>,
}

/// Size limits of the tiers.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSizeLimits {
    /// Largest body kept in RAM, in bytes.
    pub memory_object_max: u64,
    /// Largest body kept on disk, in bytes.
    pub disk_object_max: u64,
}

impl HybridCache {
    /// Creates a cache over these parts. There is at least one pool, and one for each disk. The
    /// reservation covers the disk store's RAM, if any.
    pub fn new(
        memory: (Arc<MemoryTier<MemoryEntry>>, Arc<MemoryBudget>, Option<Reservation>),
        disk: Option<Arc<dyn Store>>,
        pools: Vec<Arc<IoPool>>,
        metrics: Arc<Metrics>,
        limits: ObjectSizeLimits,
    ) -> Self {
        let (memory, ledger, windows) = memory;
        let blocks = Arc::new(DiskBlockBudget::new(&ledger));
        let [holds, gathered] = [HELD_PART, GATHERED_PART].map(|part| Holds::new(ledger.limit() / part));
        if let Some(disk) = &disk {
            let memory = Arc::downgrade(&memory);
            disk.on_evicted(Arc::new(move |key| {
                memory.upgrade().inspect(|memory| offer_to_disk(memory, key, |_| true));
            }));
        }
        let lanes = Lanes::new(pools, &metrics);
        let (removals, refreshes) = (PendingRemovals::default(), Arc::default());
        Self {
            memory,
            ledger,
            blocks,
            holds,
            gathered,
            disk,
            lanes,
            removals,
            refreshes,
            metrics,
            limits,
            contents: ContentNotes::default(),
            windows: Mutex::new(windows.into_iter().collect()),
            shared: OnceLock::new(),
            tick: Arc::default(),
        }
    }

    /// Returns the queue of a disk, by its lane number in the store. A disk that hangs fills only
    /// its own pool.
    pub fn disk_queue(&self, lane: usize) -> &DiskQueue {
        self.lanes.get(lane)
    }

    /// Returns all pools for disk jobs.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<IoPool>> {
        self.lanes.iter().map(DiskQueue::pool)
    }

    /// Returns the disk queue for jobs with this key.
    pub fn disk_queue_for(&self, key: &ObjectKey) -> &DiskQueue {
        self.disk_queue(self.disk.as_ref().map_or(0, |disk| disk.disk_index(key.hash())))
    }

    /// Runs a disk job for which a client waits. A job that takes too long continues alone. The
    /// client is then served from the origin, which is faster than a disk that hangs.
    pub async fn run<T: Send + 'static>(
        &self,
        (lane, kind): (usize, JobKind),
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Option<T> {
        self.ok_or_count(self.disk_queue(lane).run(kind, job).await)
    }

    /// Runs a job that makes an object visible. A job that is not done in time is undone later:
    /// meanwhile a newer object may exist that the disk does not accept.
    pub async fn run_insert(
        &self,
        (lane, kind): (usize, JobKind),
        key: &ObjectKey,
        job: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<Result<(), Error>, DiskJobError> {
        let Some(store) = self.disk.clone() else { return Err(DiskJobError::Refused) };
        let is_late = Arc::new(AtomicBool::new(false));
        let (key, late) = (key.clone(), Arc::clone(&is_late));
        let job = move || {
            job()?;
            // A late job sees this flag and removes its object. Otherwise the thread that sets the
            // flag sees the object.
            if late.load(SeqCst) { store.remove(&key).map(drop) } else { Ok(()) }
        };
        let outcome = self.disk_queue(lane).run(kind, job).await;
        is_late.store(outcome.is_err(), SeqCst);
        outcome
    }

    /// Sets the RAM for bodies. Objects beyond it are evicted before this returns. Returns the
    /// bytes beyond it that replies and arriving bodies still hold.
    pub fn set_ram(&self, bytes: u64) -> u64 {
        self.holds.set_limit(bytes / HELD_PART);
        self.gathered.set_limit(bytes / GATHERED_PART);
        self.ledger.set_limit(bytes)
    }

    /// Returns the account of all RAM for bodies.
    pub fn ledger(&self) -> &Arc<MemoryBudget> {
        &self.ledger
    }

    /// Returns the budget of disk blocks that replies hold.
    pub fn blocks(&self) -> &DiskBlockBudget {
        &self.blocks
    }

    /// Returns the size limits of the tiers.
    pub fn limits(&self) -> ObjectSizeLimits {
        self.limits
    }

    /// Returns the disk store, if there is one.
    pub fn disk(&self) -> Option<&Arc<dyn Store>> {
        self.disk.as_ref()
    }

    /// Returns the RAM tier.
    pub fn memory(&self) -> &MemoryTier<MemoryEntry> {
        &self.memory
    }

    /// Returns `true` if a body of this length would be kept in RAM or on disk. `None` means an
    /// unknown length.
    pub fn accepts_length(&self, length: Option<u64>) -> bool {
        self.is_within(length, u64::MAX)
    }

    /// Returns `true` if RAM or a store in service has room for a body of this length.
    pub fn has_room_for(&self, length: Option<u64>) -> bool {
        self.is_within(length, self.disk.as_ref().map_or(0, |disk| disk.object_max_bytes()))
    }

    fn is_within(&self, length: Option<u64>, disk_max: u64) -> bool {
        let length = length.unwrap_or(0);
        let by_disk = |disk: &Arc<dyn Store>| {
            disk.is_in_service() && length <= self.limits.disk_object_max.min(disk_max)
        };
        length <= self.limits.memory_object_max || self.disk.as_ref().is_some_and(by_disk)
    }

    /// Returns the object if it is in RAM.
    #[inline]
    pub fn memory_entry(&self, key: &ObjectKey) -> Option<Arc<MemoryEntry>> {
        self.memory_entry_by_key(key.hash(), key.full())
    }

    /// Returns the object if it is in RAM, by its full key and the key's hash.
    pub fn memory_entry_by_key(&self, hash: Key, full: &[u8]) -> Option<Arc<MemoryEntry>> {
        let found = self.memory.get(hash).filter(|resident| resident.key.full() == full)?;
        self.promote(&found);
        let tick = self.tick.load(Relaxed);
        if tick != 0 {
            found.used_at(tick);
        }
        if found.body.hit() {
            self.put_into_large_pages(&found);
        }
        Some(found)
    }

    /// Returns the object if it is in RAM. The call does not count as a request for the object.
    pub fn entry_in_memory(&self, key: &ObjectKey) -> Option<Arc<MemoryEntry>> {
        self.memory.peek(key.hash()).filter(|resident| resident.key == *key)
    }

    /// Returns the record of an object in RAM. The call does not count as a request for the object.
    pub fn record_in_memory(&self, key: &ObjectKey) -> Option<ObjectMetadata> {
        let found = self.memory.peek(key.hash()).filter(|resident| resident.key == *key)?;
        Some(found.record.clone())
    }

    /// Finds the object in RAM or on disk. `begin` starts the object's validity before the disk is
    /// read.
    pub async fn find(
        &self,
        (key, urgency): (&ObjectKey, Urgency),
        begin: impl FnOnce() -> ValiditySnapshot + Send,
    ) -> Option<CachedObject> {
        if let Some(resident) = self.memory_entry(key) {
            let body = self.hold(&resident);
            return Some(CachedObject { record: resident.record.clone(), body, in_memory: true });
        }
        let (on_disk, shared) = (self.on_disk(key), self.shared.get());
        if (!on_disk && shared.is_none()) || self.removals.is_hidden(key) {
            return None;
        }
        // Before the page leaves the directory of shared memory, so that a later purge is seen.
        let validity = begin();
        let placed = shared.and_then(|shared| shared.find(key, on_disk, urgency));
        if let Some(placed) = placed {
            // Boxed, as below.
            let found = Box::pin(self.bring(key, placed, &validity)).await;
            if found.is_some() {
                return found;
            }
        }
        if !on_disk {
            return None;
        }
        let disk = self.disk.as_ref()?;
        if let Some(found) = self.try_find(&**disk, key, &validity) {
            return Some(found);
        }
        let (store, wanted, small) = (Arc::clone(disk), key.clone(), self.limits.memory_object_max);
        let read = match urgency {
            Urgency::Demand => JobKind::Read { at: disk.position(key) },
            Urgency::Ahead => JobKind::ReadAhead,
        };
        let (lane, ledger) = ((disk.holder_index(key), read), Arc::clone(&self.ledger));
        // Boxed, so that a lookup without the disk does not carry room for this future.
        let opened =
            Box::pin(self.timed(urgency, self.run(lane, move || open(&*store, &wanted, small, &ledger))))
                .await??;
        Some(self.found(key, opened, &validity))
    }

    fn found(&self, key: &ObjectKey, opened: LoadedObject, validity: &ValiditySnapshot) -> CachedObject {
        let LoadedObject { record, body, whole } = opened;
        let kept = whole.and_then(|whole| self.insert_read(key, &record, whole, validity));
        // Sending the body from disk may take long.
        let on_disk = || CachedBody::Disk(body.detached().unwrap_or(body));
        CachedObject { record, body: kept.unwrap_or_else(on_disk), in_memory: false }
    }

    /// Puts an object that was read whole into RAM, with its reservation. Returns its body for
    /// replies, or `None` if RAM does not accept the object.
    fn insert_read(
        &self,
        key: &ObjectKey,
        record: &ObjectMetadata,
        (body, mut reservation): (Bytes, Reservation),
        validity: &ValiditySnapshot,
    ) -> Option<CachedBody> {
        let body = self.memory.place(key.hash(), body);
        let resident = Arc::new(self.entry(key, record.clone(), body));
        let beside = resident.weight().saturating_sub(reservation.bytes());
        let kept = reservation.grow(beside)
            && self
                .memory
                .insert_reserved(key.hash(), Arc::clone(&resident), reservation, || validity.is_unchanged());
        kept.then(|| {
            self.note_stored(key, record);
            self.hold(&resident)
        })
    }

    /// Puts a complete object into RAM and returns its body for replies. Returns `None` if the
    /// object is too large, over budget, or not valid.
    pub fn insert_memory(
        &self,
        key: &ObjectKey,
        record: &ObjectMetadata,
        body: MemoryBody,
        validity: &ValiditySnapshot,
    ) -> Option<CachedBody> {
        if body.len() as u64 > self.limits.memory_object_max {
            return None;
        }
        let resident = Arc::new(self.entry(key, record.clone(), body));
        let weight = resident.weight();
        let kept =
            self.memory.insert_if(key.hash(), Arc::clone(&resident), weight, || validity.is_unchanged());
        kept.then(|| {
            self.note_stored(key, record);
            self.hold(&resident)
        })
    }

    /// Writes a complete object to the disk unless it is not valid, and waits. If the new object
    /// cannot be written, an older object of the key is removed. The older object must not reappear
    /// when RAM evicts the new one.
    pub async fn insert_disk(
        self: &Arc<Self>,
        kind: JobKind,
        key: &ObjectKey,
        record: &ObjectMetadata,
        body: Bytes,
        validity: &ValiditySnapshot,
    ) {
        let Some(store) = self.disk.clone() else { return };
        if !record.is_for_disk() {
            if self.may_come(key) {
                self.remove_from_disk(key).await;
            }
            return;
        }
        let at_once = match validity.is_unchanged() {
            true => self.try_insert(&store, (key, record, &body), &|| validity.is_unchanged()),
            false => None,
        };
        let outcome = match at_once {
            Some(outcome) => Ok(outcome),
            None => self.write(kind, store, (key, record, body), validity).await,
        };
        // The object is on probation, or was taken for purged because a purged URL shares its slot.
        // The disk is offered the object with its next hit.
        let is_left_out = matches!(outcome, Ok(Err(Error::Declined(InsertRefusal::OnProbation))))
            || !validity.is_unchanged();
        if is_left_out {
            offer_to_disk(&self.memory, key.hash(), |_| true);
        }
        match self.ok_or_count(outcome) {
            Some(()) => self.note_stored(key, record),
            None if self.may_come(key) => drop(self.remove_from_disk(key).await),
            None => {}
        }
    }

    /// Returns `true` if the disk has an object of this key. An incomplete index counts as `true`,
    /// since the object may appear later.
    fn may_come(&self, key: &ObjectKey) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.may_contain(key) || !disk.index_is_complete())
    }

    /// Returns `true` if the disk's index has an object of this key.
    pub fn on_disk(&self, key: &ObjectKey) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.may_contain(key))
    }

    async fn write(
        &self,
        kind: JobKind,
        store: Arc<dyn Store>,
        (key, record, body): (&ObjectKey, &ObjectMetadata, Bytes),
        validity: &ValiditySnapshot,
    ) -> Result<Result<(), Error>, DiskJobError> {
        let lane = store.disk_index(key.hash());
        let (object, metadata, still) = (key.clone(), record.encode(), validity.clone());
        let write = move || {
            let mut insert = store.insert(&object, &metadata, Some(body.len() as u64))?;
            insert.append(&body)?;
            commit_valid(&*store, insert, &object, &still)
        };
        self.run_insert((lane, kind), key, write).await
    }

    /// Keeps a note, an object without a body, in RAM and on disk.
    pub async fn insert_marker(
        self: &Arc<Self>,
        key: &ObjectKey,
        record: ObjectMetadata,
        validity: &ValiditySnapshot,
    ) {
        self.insert_memory(key, &record, Bytes::new().into(), validity);
        self.insert_disk(JobKind::Change, key, &record, Bytes::new(), validity).await;
    }

    /// Starts to write an arriving body. Returns `None` if the body cannot be kept on disk.
    pub async fn start_insert(
        &self,
        key: &ObjectKey,
        record: &ObjectMetadata,
        length: Option<u64>,
    ) -> Option<Box<dyn Insert>> {
        let store = self.disk.clone().filter(|_| record.is_for_disk())?;
        let (lane, key, metadata) = (store.disk_index(key.hash()), key.clone(), record.encode());
        self.run((lane, JobKind::Change), move || store.insert(&key, &metadata, length)).await
    }

    /// Counts failures of the disk; passes on successful results.
    pub fn ok_or_count<T>(&self, outcome: Result<Result<T, Error>, DiskJobError>) -> Option<T> {
        match outcome {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => self.count_failure(&error),
            Err(DiskJobError::Refused) => self.metrics.disk_busy.increment(),
            Err(DiskJobError::Slow) => self.metrics.disk_slow.increment(),
        }
        None
    }

    /// Counts a failure of the disk.
    pub fn count_failure(&self, error: &Error) {
        match error {
            Error::Declined(InsertRefusal::OnProbation) => self.metrics.disk_on_probation.increment(),
            Error::Declined(_) => self.metrics.disk_declined.increment(),
            Error::Corrupt { .. } => self.metrics.disk_corrupt.increment(),
            _ => self.metrics.disk_errors.increment(),
        }
        tracing::debug!(%error, "the disk store answered with an error");
    }
}

/// Marks the object to be offered to the disk with its next hit, if `is_one` accepts it. The body
/// may move meanwhile.
fn offer_to_disk(memory: &MemoryTier<MemoryEntry>, key: Key, is_one: impl Fn(&MemoryEntry) -> bool) {
    let mut before: Option<Arc<MemoryEntry>> = None;
    while let Some(now) = memory.peek(key).filter(|now| is_one(now)) {
        if before.is_some_and(|before| Arc::ptr_eq(&before, &now)) {
            return;
        }
        now.is_settled.store(false, Relaxed);
        before = Some(now);
    }
}

/// Divisor: replies hold at most this part of the ledger in bodies of the RAM tier.
const HELD_PART: u64 = 4;

/// Divisor: bodies gathered in RAM while they arrive take at most this part of the ledger.
const GATHERED_PART: u64 = 2;

#[cfg(test)]
mod tests;

const _: () = assert!(HELD_PART > 1 && GATHERED_PART > 1);
