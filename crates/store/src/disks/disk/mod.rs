//! One of several disks: in service or out, its failures, and the changes that it missed while out.

mod coming;
mod remembering;
#[cfg(test)]
mod tests;

use super::changing::{ChangeCounts, DiskChange};
use super::missed::MissedChanges;
use super::serving::{ClosingStore, OpenStore};
use super::{DiskOpener, DiskSpec};
use crate::{Error, InsertRefusal, RingView, Usage};
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use shoal_core::Key;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

/// A disk.
pub(super) struct Disk {
    path: String,
    /// Bytes of the disk that may be used: its weight.
    bytes: AtomicU64,
    /// Hash of the disk's path.
    number: u64,
    opener: RwLock<DiskOpener>,
    /// Change that is under way.
    change: RwLock<Option<ChangeKind>>,
    counts: ChangeCounts,
    /// The disk's open store, or the reason why the disk is out of service.
    state: RwLock<Result<Arc<OpenStore>, Absence>>,
    /// Store that the disk had before it went out of service.
    left: Mutex<Option<ClosingStore>>,
    /// Counts of the disk's earlier stores. Written while the state is locked.
    before: Mutex<DiskCounts>,
    /// Changes that the disk missed. Noted while the state is locked, so that a disk that comes
    /// back has learnt of all changes.
    missed: Mutex<MissedChanges>,
    /// Rises with failures and falls with successes.
    strain: AtomicU32,
    failures: AtomicU64,
    /// Held while the disk is opened, so that it is not opened twice.
    coming: Mutex<()>,
    /// `true` while another process has the disk's store, which this process only reads.
    is_released: AtomicBool,
    /// Held for reading by calls that insert at once.
    inserting: RwLock<()>,
    /// Inserts that have begun and not ended.
    inserts: Mutex<usize>,
    /// Notified when the last insert ends.
    inserts_ended: Condvar,
    /// `true` once the start is over: a disk that opens later is dropped. Set while the state is
    /// locked.
    has_started: AtomicBool,
}

struct Absence {
    service: ServiceState,
    why: String,
}

/// Counts of a store since its opening. The disk adds the counts of its successive stores.
#[derive(Clone, Copy, Default)]
struct DiskCounts {
    evictions: u64,
    crowded_out: u64,
    corrupt: u64,
    spared_reads: u64,
    failures: u64,
}

/// Service state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The disk serves.
    InService,
    /// The disk could not be opened.
    Unopened,
    /// The disk kept failing.
    Failed,
    /// An operator has taken the disk out.
    Offline,
    /// Another process has taken the disk over.
    Released,
    /// The disk is no part of the store any more.
    Removed,
}

/// Nature of a change of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The disk takes no keys, and its objects are copied to the others.
    Leaving,
    /// The disk becomes smaller, and objects behind its new end are copied before it.
    Shrinking,
}

impl ChangeKind {
    /// Returns the change as one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Shrinking => "shrinking",
        }
    }
}

/// Condition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskState {
    /// Number of the disk, which it keeps for good.
    pub number: usize,
    /// Path of the disk.
    pub path: String,
    /// Bytes of it that may be used.
    pub bytes: u64,
    /// Service state of the disk.
    pub service: ServiceState,
    /// Reason why the disk is out of service; empty if it serves.
    pub why: String,
    /// Contents, zero while the disk is out of service, and counts since start over all its stores.
    pub usage: Usage,
    /// Calls that failed, since start.
    pub failures: u64,
    /// `true` while the store still searches for the end of its log after a crash.
    pub is_recovering: bool,
    /// State of a volume's ring; `None` for other architectures, or out of service.
    pub ring: Option<RingView>,
    /// Progress of a change that is under way.
    pub change: Option<DiskChange>,
}

impl ServiceState {
    /// Returns the state as one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::InService => "in_service",
            Self::Unopened => "unopened",
            Self::Failed => "failed",
            Self::Offline => "offline",
            Self::Released => "handed_over",
            Self::Removed => "removed",
        }
    }
}

impl Disk {
    /// Makes a disk that has not been opened.
    pub(super) fn new(share: DiskSpec, opener: DiskOpener) -> Self {
        let why = format!("{} does not answer; it comes into service once it does", share.path);
        let absence = Absence { service: ServiceState::Unopened, why };
        Self {
            number: Key::unkeyed(share.path.as_bytes()).low(),
            path: share.path,
            bytes: AtomicU64::new(share.bytes),
            opener: RwLock::new(opener),
            change: RwLock::default(),
            counts: ChangeCounts::default(),
            state: RwLock::new(Err(absence)),
            left: Mutex::new(None),
            before: Mutex::default(),
            missed: Mutex::default(),
            strain: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            coming: Mutex::new(()),
            is_released: AtomicBool::new(false),
            inserting: RwLock::new(()),
            inserts: Mutex::new(0),
            inserts_ended: Condvar::new(),
            has_started: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Gives the disk another size, for its next opening. Returns the earlier one.
    pub(super) fn set_share(&self, bytes: u64, opener: DiskOpener) -> (u64, DiskOpener) {
        let bytes = self.bytes.swap(bytes, Relaxed);
        (bytes, std::mem::replace(&mut *self.opener.write(), opener))
    }

    /// Notes the change that is under way from now on.
    pub(super) fn set_change(&self, change: Option<ChangeKind>) {
        self.counts.clear();
        *self.change.write() = change;
    }

    /// Returns the counts of the change that is under way.
    pub(super) fn counts(&self) -> &ChangeCounts {
        &self.counts
    }

    /// Returns `true` if the disk's objects are copied to others.
    pub(super) fn is_leaving(&self) -> bool {
        *self.change.read() == Some(ChangeKind::Leaving)
    }

    /// Returns `true` if the disk is in service and new objects may go to it.
    pub(super) fn takes_keys(&self) -> bool {
        self.is_in_service() && !self.is_leaving()
    }

    /// Returns `true` if the disk is no part of the store any more.
    pub(super) fn is_removed(&self) -> bool {
        self.is_out_as(ServiceState::Removed)
    }

    /// Makes a disk that is out of service, for any reason, no part of the store any more.
    pub(super) fn end_as_removed(&self) {
        if let Err(absence) = &mut *self.state.write() {
            *absence = Absence { service: ServiceState::Removed, why: "it has been removed".into() };
            *self.missed.lock() = MissedChanges::too_many();
        }
        self.set_change(None);
    }

    /// Returns the number that stands for the disk in the hash that assigns keys.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn weight(&self) -> f64 {
        self.bytes.load(Relaxed).max(1) as f64
    }

    pub(super) fn is_in_service(&self) -> bool {
        self.state.read().is_ok()
    }

    /// Returns the disk's store while it is in service.
    pub(super) fn store(&self) -> Option<Arc<OpenStore>> {
        self.state.read().as_ref().ok().map(Arc::clone)
    }

    /// Returns `true` if the disk serves from this store.
    pub(super) fn has(&self, store: &Arc<OpenStore>) -> bool {
        self.state.read().as_ref().is_ok_and(|own| Arc::ptr_eq(own, store))
    }

    pub(super) fn state(&self) -> DiskState {
        let (service, why, store, before, failures) = {
            let state = self.state.read();
            let (before, failures) = (*self.before.lock(), self.failures.load(Relaxed));
            match &*state {
                Ok(store) => {
                    (ServiceState::InService, String::new(), Some(Arc::clone(store)), before, failures)
                }
                Err(absence) => (absence.service, absence.why.clone(), None, before, failures),
            }
        };
        let is_recovering = store.as_ref().is_some_and(|store| !store.index_is_complete());
        let ring = store.as_ref().and_then(|store| store.ring());
        let usage = store.map(|store| store.usage()).unwrap_or_default();
        debug_assert!(service == ServiceState::InService || usage == Usage::default());
        let usage = before.and(&usage).within(usage);
        debug_assert!(usage.corrupt >= before.corrupt && usage.evictions >= before.evictions);
        let failures = failures + usage.failures;
        let (path, bytes) = (self.path.clone(), self.bytes.load(Relaxed));
        let change = self.change.read().map(|kind| self.counts.view(kind));
        DiskState { number: 0, path, bytes, service, why, usage, failures, is_recovering, ring, change }
    }

    /// Opens the disk for the first time. A store that opens too late is dropped:
    /// [`open_again`](Self::open_again) opens it anew, and it learns of the changes that it missed.
    pub(super) fn start(&self) {
        let _coming = self.coming.lock();
        let opened = self.open_store();
        let mut state = self.state.write();
        if self.has_started.load(Relaxed) {
            return;
        }
        assert!(state.is_err(), "a disk that is started twice");
        *state = match opened {
            Ok(store) => Ok(OpenStore::new(store)),
            Err(error) => Err(Absence { service: ServiceState::Unopened, why: error.to_string() }),
        };
    }

    fn open_store(&self) -> Result<Arc<dyn crate::Store>, Error> {
        let opener = Arc::clone(&*self.opener.read());
        opener()
    }

    /// Ends the start. Returns the reason why the disk is not in service, if it is not.
    pub(super) fn end_start(&self) -> Result<(), String> {
        let state = self.state.read();
        self.has_started.store(true, Relaxed);
        state.as_ref().map(drop).map_err(|absence| absence.why.clone())
    }

    /// Takes the disk out of service. Returns its store, unless the disk was out already.
    pub(super) fn take_offline(&self, service: ServiceState, why: &str) -> Option<Arc<OpenStore>> {
        let store = self.leave(service, why)?;
        *self.left.lock() = Some(store.left());
        Some(store)
    }

    /// Takes the disk out of service like [`Self::take_offline`]. It may be opened again while its
    /// earlier store is still read.
    pub(super) fn leave(&self, service: ServiceState, why: &str) -> Option<Arc<OpenStore>> {
        let mut state = self.state.write();
        if state.is_err() {
            return None;
        }
        let store = std::mem::replace(&mut *state, Err(Absence { service, why: why.to_owned() })).ok()?;
        let mut before = self.before.lock();
        *before = before.and(&store.usage());
        assert_ne!(service, ServiceState::InService);
        if service == ServiceState::Removed {
            // No change is remembered from here on: the disk comes back only after its store has
            // been emptied.
            *self.missed.lock() = MissedChanges::too_many();
        }
        Some(store)
    }

    /// Returns `true` while another process has the disk's store, which this process only reads.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.load(SeqCst)
    }

    pub(super) fn set_released(&self, is_released: bool) {
        self.is_released.store(is_released, SeqCst);
    }

    /// Keeps the disk from being released while an object is inserted at once. Returns `None` if it
    /// is released already.
    pub(super) fn insert_at_once(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.inserting.read();
        (!self.is_released()).then_some(guard)
    }

    /// Notes that an insert has begun, or has ended.
    pub(super) fn count_insert(&self, has_begun: bool) {
        let mut inserts = self.inserts.lock();
        if has_begun {
            *inserts += 1;
            return;
        }
        assert!(*inserts > 0, "an insert that ends twice");
        *inserts -= 1;
        if *inserts == 0 {
            self.inserts_ended.notify_all();
        }
    }

    /// Waits until no call inserts at once, and no insert has begun and not ended. Waits for the
    /// latter for at most `limit`: an arriving body may take long.
    pub(super) fn wait_for_inserts(&self, limit: Duration) {
        debug_assert!(self.is_released(), "further inserts may begin");
        drop(self.inserting.write());
        let mut inserts = self.inserts.lock();
        let _ = self.inserts_ended.wait_while_for(&mut inserts, |inserts| *inserts > 0, limit);
    }

    /// Lets a disk that is out for `service` be opened again like one that could not be opened.
    pub(super) fn retry_later(&self, service: ServiceState, why: &str) {
        assert_ne!(service, ServiceState::InService);
        if let Err(absence) = &mut *self.state.write()
            && absence.service == service
        {
            *absence = Absence { service: ServiceState::Unopened, why: why.to_owned() };
        }
    }

    /// Notes that an operator wants a disk that could not be opened to stay out of service.
    pub(super) fn stay_out(&self) {
        if let Err(absence) = &mut *self.state.write()
            && absence.service == ServiceState::Unopened
        {
            absence.service = ServiceState::Offline;
        }
    }

    /// Returns `true` if the disk is out of service for this reason.
    pub(super) fn is_out_as(&self, service: ServiceState) -> bool {
        self.state.read().as_ref().is_err_and(|absence| absence.service == service)
    }

    pub(super) fn succeeded(&self) {
        if self.strain.load(Relaxed) > 0 {
            let eased = |strain: u32| Some(strain.saturating_sub(1));
            let _ = self.strain.fetch_update(Relaxed, Relaxed, eased);
        }
    }

    /// Counts a failure of the disk. Returns `true` if there have been too many.
    pub(super) fn count_failure(&self, error: &Error) -> bool {
        match error {
            Error::Declined(InsertRefusal::OutOfService) => return true,
            // A full disk is no failing disk.
            Error::Disk { source, .. }
                if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                return false;
            }
            Error::Disk { .. } => {}
            _ => return false,
        }
        self.failures.fetch_add(1, Relaxed);
        self.strain.fetch_add(FAILURE_STRAIN, Relaxed) + FAILURE_STRAIN >= STRAIN_MAX
    }
}

impl DiskCounts {
    /// Returns the sum of these counts and those of a later store.
    fn and(&self, usage: &Usage) -> Self {
        Self {
            evictions: self.evictions + usage.evictions,
            crowded_out: self.crowded_out + usage.crowded_out,
            corrupt: self.corrupt + usage.corrupt,
            spared_reads: self.spared_reads + usage.spared_reads,
            failures: self.failures + usage.failures,
        }
    }

    /// Returns `usage` with these counts in place of its own.
    fn within(self, usage: Usage) -> Usage {
        let Self { evictions, crowded_out, corrupt, spared_reads, failures } = self;
        Usage { evictions, crowded_out, corrupt, spared_reads, failures, ..usage }
    }
}

/// Successes that outweigh one failure. Hits from RAM must not hide a disk that fails every read.
const FAILURE_STRAIN: u32 = 16;
/// Strain of 32 failures in a row, the limit of a disk: a few bad sectors are no reason to give it
/// up.
const STRAIN_MAX: u32 = 32 * FAILURE_STRAIN;

const _: () = {
    assert!(FAILURE_STRAIN > 1 && STRAIN_MAX > FAILURE_STRAIN);
};
