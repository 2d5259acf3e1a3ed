//! Where objects are kept: RAM in front of the disk store.
//!
//! Lookups go to RAM first and touch the disk only when its index holds an entry. Small objects
//! found on disk are read in one job and move to RAM. A disk that fails, is busy or declines costs
//! hits, never answers.

mod at_once;
mod disk_queues;
mod found;
mod held;
mod jobs;
mod large_pages;
mod refreshes;
mod removals;

pub use disk_queues::{DiskJobError, DiskQueue};
pub use found::{CachedBody, CachedObject};
pub use jobs::commit_valid;
pub use refreshes::{Pace, Renewal};
pub use removals::Removed;

use super::blocks::DiskBlockBudget;
use super::invalidations::ValiditySnapshot;
use super::metadata::ObjectMetadata;
use crate::holds::Holds;
use crate::io_pool::{IoPool, JobKind};
use crate::metrics::Metrics;
use bytes::Bytes;
use jobs::{LoadedObject, open};
use refreshes::PendingHeadUpdates;
use removals::PendingRemovals;
use shoal_core::{Key, ObjectKey};
use shoal_store::memory::{MemoryBody, MemoryBudget, MemoryTier, Reservation, TierValue};
use shoal_store::{Declined, Error, Insert, Store};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// RAM and disk together.
pub struct HybridCache {
    memory: Arc<MemoryTier<MemoryEntry>>,
    ledger: Arc<MemoryBudget>,
    blocks: Arc<DiskBlockBudget>,
    holds: Arc<Holds>,
    gathered: Arc<Holds>,
    disk: Option<Arc<dyn Store>>,
    /// One for each disk.
    lanes: Vec<DiskQueue>,
    /// What should be gone from disks that do not answer.
    removals: PendingRemovals,
    /// Heads that are on their way to the disk.
    refreshes: Arc<PendingHeadUpdates>,
    metrics: Arc<Metrics>,
    limits: ObjectSizeLimits,
    /// What the disk store holds of RAM.
    _windows: Option<Reservation>,
}

/// What is kept where.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSizeLimits {
    /// Largest body kept in RAM, in bytes.
    pub memory_object_max: u64,
    /// Largest body kept on disk, in bytes.
    pub disk_object_max: u64,
}

/// An object in RAM.
pub struct MemoryEntry {
    key: ObjectKey,
    /// What its metadata says.
    pub record: ObjectMetadata,
    /// Its body.
    pub body: MemoryBody,
    /// The disk has it, or takes none of it.
    is_settled: AtomicBool,
    /// Replies that hold the body.
    replies: AtomicU32,
}

impl TierValue for MemoryEntry {
    fn body(&self) -> Option<&MemoryBody> {
        Some(&self.body)
    }

    fn body_mut(&mut self) -> Option<&mut MemoryBody> {
        Some(&mut self.body)
    }
}

impl MemoryEntry {
    fn new(key: &ObjectKey, record: ObjectMetadata, body: MemoryBody) -> Self {
        debug_assert!(record.is_for_everybody(), "what is stored is sent to others");
        Self { key: key.clone(), record, body, is_settled: AtomicBool::new(true), replies: AtomicU32::new(0) }
    }

    /// Whether it is the same object, perhaps with its body elsewhere in memory.
    fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.record.is_same(&other.record)
    }

    /// What it is charged.
    fn weight(&self) -> u64 {
        self.body.room_bytes() + (self.record.weight() + self.key.full().len() + RESIDENT_BYTES) as u64
    }
}

impl HybridCache {
    /// A cache over these parts: there is at least one pool, and one for each disk; the reservation
    /// is what the disk store holds of RAM, if anything.
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
        let lanes = pools
            .into_iter()
            .enumerate()
            .map(|(number, pool)| DiskQueue::new(number, pool, &metrics))
            .collect();
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
            _windows: windows,
        }
    }

    /// A disk as who waits for it sees it, by what the store calls its lane: one that hangs fills
    /// its own pool only.
    pub fn disk_queue(&self, lane: usize) -> &DiskQueue {
        &self.lanes[lane % self.lanes.len()]
    }

    /// All pools for disk jobs.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<IoPool>> {
        self.lanes.iter().map(DiskQueue::pool)
    }

    /// The disk for jobs with this key.
    pub fn disk_queue_for(&self, key: &ObjectKey) -> &DiskQueue {
        self.disk_queue(self.disk.as_ref().map_or(0, |disk| disk.disk_index(key.hash())))
    }

    /// Does a job for a disk that a client waits for. One that takes too long goes on alone: the
    /// client is served from the origin, which is faster than a disk that hangs.
    pub async fn run<T: Send + 'static>(
        &self,
        (lane, kind): (usize, JobKind),
        job: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Option<T> {
        self.ok_or_count(self.disk_queue(lane).run(kind, job).await)
    }

    /// Does a job that makes an object visible. When it is not done in time it is undone later: by
    /// then a newer one may have come that the disk does not take.
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
            // Whoever is too late sees this, or its object is seen by who sets it, and removes it.
            if late.load(SeqCst) { store.remove(&key).map(drop) } else { Ok(()) }
        };
        let outcome = self.disk_queue(lane).run(kind, job).await;
        is_late.store(outcome.is_err(), SeqCst);
        outcome
    }

    /// The account of all RAM for bodies.
    pub fn ledger(&self) -> &Arc<MemoryBudget> {
        &self.ledger
    }

    /// What replies hold of bodies on disk.
    pub fn blocks(&self) -> &DiskBlockBudget {
        &self.blocks
    }

    /// What is kept where.
    pub fn limits(&self) -> ObjectSizeLimits {
        self.limits
    }

    /// The disk store, when there is one.
    pub fn disk(&self) -> Option<&Arc<dyn Store>> {
        self.disk.as_ref()
    }

    /// The RAM tier.
    pub fn memory(&self) -> &MemoryTier<MemoryEntry> {
        &self.memory
    }

    /// Whether a body of this length would be kept somewhere. `None` means that the length is not
    /// known.
    pub fn accepts_length(&self, length: Option<u64>) -> bool {
        let disk_max = if self.disk.as_ref().is_some_and(|disk| disk.is_in_service()) {
            self.limits.disk_object_max
        } else {
            0
        };
        length.unwrap_or(0) <= disk_max.max(self.limits.memory_object_max)
    }

    /// The object when it is in RAM.
    pub fn memory_entry(&self, key: &ObjectKey) -> Option<Arc<MemoryEntry>> {
        self.memory_entry_by_key(key.hash(), key.full())
    }

    /// The same for who has the full key and its hash apart.
    pub fn memory_entry_by_key(&self, hash: Key, full: &[u8]) -> Option<Arc<MemoryEntry>> {
        let found = self.memory.get(hash).filter(|resident| resident.key.full() == full)?;
        self.promote(&found);
        if found.body.hit() {
            self.put_into_large_pages(&found);
        }
        Some(found)
    }

    /// The record of an object in RAM, which is not asked for by that.
    pub fn record_in_memory(&self, key: &ObjectKey) -> Option<ObjectMetadata> {
        let found = self.memory.peek(key.hash()).filter(|resident| resident.key == *key)?;
        Some(found.record.clone())
    }

    /// The object, wherever it is. `begin` tells from when on its validity counts while the disk is
    /// read.
    pub async fn find(
        &self,
        key: &ObjectKey,
        begin: impl FnOnce() -> ValiditySnapshot + Send,
    ) -> Option<CachedObject> {
        if let Some(resident) = self.memory_entry(key) {
            let body = self.hold(&resident);
            return Some(CachedObject { record: resident.record.clone(), body, in_memory: true });
        }
        self.disk.as_ref().filter(|_| self.on_disk(key))?;
        let disk = self.disk.as_ref().filter(|_| !self.removals.is_hidden(key))?;
        let validity = begin();
        if let Some(found) = self.try_find(&**disk, key, &validity) {
            return Some(found);
        }
        let (store, wanted, small) = (Arc::clone(disk), key.clone(), self.limits.memory_object_max);
        let read = JobKind::Read { at: disk.position(key) };
        let (lane, ledger) = ((disk.disk_index(key.hash()), read), Arc::clone(&self.ledger));
        // Boxed: what needs no disk shall not carry the room for it.
        let opened = Box::pin(self.run(lane, move || open(&*store, &wanted, small, &ledger))).await??;
        Some(self.found(key, opened, &validity))
    }

    fn found(&self, key: &ObjectKey, opened: LoadedObject, validity: &ValiditySnapshot) -> CachedObject {
        let LoadedObject { record, body, whole } = opened;
        let kept = whole.and_then(|whole| self.insert_read(key, &record, whole, validity));
        // Who is sent it from there may take long.
        let on_disk = || CachedBody::Disk(body.detached().unwrap_or(body));
        CachedObject { record, body: kept.unwrap_or_else(on_disk), in_memory: false }
    }

    /// Puts an object that was read whole into RAM, with what was reserved for it. Its body as
    /// replies hold it there, or `None` when RAM does not take it.
    fn insert_read(
        &self,
        key: &ObjectKey,
        record: &ObjectMetadata,
        (body, mut reservation): (Bytes, Reservation),
        validity: &ValiditySnapshot,
    ) -> Option<CachedBody> {
        let body = self.memory.place(key.hash(), body);
        let resident = Arc::new(MemoryEntry::new(key, record.clone(), body));
        let beside = resident.weight().saturating_sub(reservation.bytes());
        let kept = reservation.grow(beside)
            && self
                .memory
                .insert_reserved(key.hash(), Arc::clone(&resident), reservation, || validity.is_unchanged());
        kept.then(|| self.hold(&resident))
    }

    /// Puts a complete object into RAM: its body as replies hold it there. `None` when it is too
    /// large, its budget does not allow it, or it is not valid.
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
        let resident = Arc::new(MemoryEntry::new(key, record.clone(), body));
        let weight = resident.weight();
        let kept =
            self.memory.insert_if(key.hash(), Arc::clone(&resident), weight, || validity.is_unchanged());
        kept.then(|| self.hold(&resident))
    }

    /// Writes a complete object to the disk unless it is not valid, and waits for that. An older
    /// object of the key goes when the new one cannot be written: it must not come back when RAM
    /// gives the new one up.
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
        // On probation, or taken for purged since another URL was whose slot it shares: the disk
        // takes it with its next hit.
        let is_left_out =
            matches!(outcome, Ok(Err(Error::Declined(Declined::OnProbation)))) || !validity.is_unchanged();
        if is_left_out {
            offer_to_disk(&self.memory, key.hash(), |_| true);
        }
        if self.ok_or_count(outcome).is_none() && self.may_come(key) {
            self.remove_from_disk(key).await;
        }
    }

    /// Whether the disk has an object of this key, or may turn out to have one that its index does
    /// not name yet.
    fn may_come(&self, key: &ObjectKey) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.may_contain(key) || !disk.index_is_complete())
    }

    /// Whether the disk holds an object of this key, as far as its index tells.
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

    /// Starts to write a body that is still arriving. `None` when it cannot be kept on disk.
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

    /// Counts what went wrong on the disk; passes on what went well.
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
            Error::Declined(Declined::OnProbation) => self.metrics.disk_on_probation.increment(),
            Error::Declined(_) => self.metrics.disk_declined.increment(),
            Error::Corrupt { .. } => self.metrics.disk_corrupt.increment(),
            _ => self.metrics.disk_errors.increment(),
        }
        tracing::debug!(%error, "the disk store answered with an error");
    }
}

/// Has the object offered to the disk with its next hit, if it is one of those, wherever its body
/// is by now.
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

/// An object in RAM, its key's and its body's allocations, and what an allocator adds to each.
const RESIDENT_BYTES: usize = size_of::<MemoryEntry>() + 3 * 24;

/// Replies hold at most this part of the ledger in bodies of the RAM tier.
const HELD_PART: u64 = 4;

/// Bodies that are gathered in RAM while they arrive take at most this part of it.
const GATHERED_PART: u64 = 2;

#[cfg(test)]
mod tests;

const _: () = assert!(HELD_PART > 1 && GATHERED_PART > 1);
