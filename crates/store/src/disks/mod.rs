//! One store over several disks: each disk is a store of its own, with its share of the keys.
//!
//! ```text
//! key ─► weighted rendezvous over the disks in service ─► a disk ─► its store (any architecture)
//! ```
//!
//! A disk's share of the keys follows its configured bytes. A failing disk loses its own objects
//! only. It is taken out of service with one line in the log; its keys go to the others, and no
//! other key moves.
//!
//! An operator may take a disk out and bring it back. Removals made while a disk is out are
//! remembered, and repeated on it before it serves again, so that a purge holds. An object stored
//! on one disk is removed from the others. Another disk may have an older one, from a time when a
//! third was out. While no disk is in service, the store misses and declines until an operator
//! brings one back. A disk may also be released to another process: see `handed_over`. Disks come,
//! go and change their size while the store serves: see `changing`.
//!
//! Invariant: when an insert, update or removal of a key has ended, no lookup finds an earlier
//! version on any disk. Four rules keep it:
//!
//! 1. A change reaches each disk: its store removes the object, or the disk remembers the key. The
//!    disk decides which under its lock `state`; a store replaced in between is asked anew.
//! 2. A disk shows no object of a remembered key while it is released. The keys stay remembered
//!    until a store without these objects takes the place of the released one. A lookup takes store
//!    and remembered keys together, under `state`.
//! 3. A copy yields to each change since its original was read: see `carrying`.
//! 4. A store that closes or is released writes each insert that it acknowledges. An insert that
//!    ends on a store without a disk is removed from all disks.
//!
//! A change may cost all versions of its key: a miss is always right. A removal that fails at a
//! disk's device is repeated only at that disk's next opening.
//!
//! A call costs that of the disk's own store, plus a logarithm for each disk. With any number of
//! disks, a call goes to one device only. A removal goes to each disk that has the key.

mod as_store;
mod carrying;
mod changing;
mod disk;
mod handed_over;
mod heir;
mod missed;
#[cfg(test)]
mod scripted;
mod serving;
mod slots;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod versions;
mod watched;

pub use changing::{DiskChange, DrainStep};
pub use disk::{ChangeKind, DiskState, ServiceState};
pub use heir::{Heir, LATE_BODY_MAX, LateObject};

use crate::patience::{all_within, within};
use crate::{Error, EvictionCallback, InsertRefusal, Store};
use carrying::CarryTurns;
use disk::Disk;
use parking_lot::RwLock;
use serving::OpenStore;
use shoal_core::{Key, ObjectKey, rendezvous_score};
use slots::DiskSlots;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::{error, info};

/// A store over several disks.
pub struct Disks {
    shared: Arc<DisksState>,
}

/// State shared by the store, its bodies and its inserts.
struct DisksState {
    disks: DiskSlots,
    gave_up: OnceLock<EvictionCallback>,
    /// Receiver of objects while another process has the disks.
    heir: RwLock<Option<Arc<dyn Heir>>>,
    /// Bytes gathered for the receiver.
    gathered: Arc<AtomicU64>,
    /// Turns of objects that are copied from one disk to another.
    carrying: CarryTurns,
}

/// A disk as an operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Path of the disk. Its hash decides which keys go to the disk, so that the order of disks
    /// does not matter.
    pub path: String,
    /// Bytes of the disk that may be used: its weight.
    pub bytes: u64,
}

/// Opens a disk's store.
pub type DiskOpener = Arc<dyn Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync>;

/// Called when a disk's store is open, before it serves.
pub type Ready = Arc<dyn Fn() -> Result<(), Error> + Send + Sync>;

impl Disks {
    /// Opens all disks that can be opened. A disk that cannot is logged once and is out of service.
    /// Its share goes to the others until an operator brings it online. All disks may be out.
    pub fn open(disks: impl IntoIterator<Item = (DiskSpec, DiskOpener)>) -> Self {
        Self::open_within(Duration::MAX, disks)
    }

    /// Opens all disks in parallel, for at most `limit`. A disk that has not answered in time is
    /// out of service too, until it is [opened again](Self::open_again).
    pub fn open_within(limit: Duration, disks: impl IntoIterator<Item = (DiskSpec, DiskOpener)>) -> Self {
        let disks: Vec<Disk> = disks.into_iter().map(|(share, opener)| Disk::new(share, opener)).collect();
        for (at, disk) in disks.iter().enumerate() {
            let same = disks[..at].iter().find(|other| other.path() == disk.path());
            debug_assert!(same.is_none(), "two disks of one name");
        }
        let (gave_up, heir, gathered) = (OnceLock::new(), RwLock::default(), Arc::default());
        let (disks, carrying) = (DiskSlots::new(disks), CarryTurns::default());
        let shared = Arc::new(DisksState { disks, gave_up, heir, gathered, carrying });
        let start = |at: usize| {
            let shared = Arc::clone(&shared);
            move || shared.disks[at].start()
        };
        all_within(limit, "shoal-open", (0..shared.disks.len()).map(start).collect());
        for disk in shared.disks.iter() {
            if let Err(why) = disk.end_start() {
                error!(disk = disk.path(), %why, "this disk cannot be used");
            }
        }
        Self { shared }
    }

    /// Returns the state of each disk, in the order of their coming. A disk that has been removed
    /// is none any more.
    pub fn states(&self) -> Vec<DiskState> {
        let disks = self.shared.disks.iter().enumerate().filter(|(_, disk)| !disk.is_removed());
        disks.map(|(number, disk)| DiskState { number, ..disk.state() }).collect()
    }

    /// Takes a disk out of service: writes its unwritten objects, and closes it once its last body
    /// has been read. Returns `false` if the disk was out already.
    ///
    /// # Errors
    /// [`Error::Unusable`] if no disk has this path, or the disk does not answer. An error of its
    /// store if that cannot be closed in order.
    pub fn take_offline(&self, path: &str) -> Result<bool, Error> {
        let disk = self.shared.named(path)?;
        let Some(store) = disk.take_offline(ServiceState::Offline, "an operator took it out") else {
            disk.stay_out();
            return Ok(false);
        };
        info!(disk = path, "the disk is out of service, as asked for");
        let closed = within(ANSWER_WAIT_MAX, "shoal-leave", move || store.close());
        closed.unwrap_or_else(|| {
            Err(Error::Unusable(format!(
                "{path} is out of service and does not answer: what it has not written yet is written when it answers, or lost"
            )))
        })?;
        Ok(true)
    }

    /// Brings a disk back into service, for any reason it was out. Returns `false` if it was in
    /// service.
    ///
    /// # Errors
    /// [`Error::Unusable`] if no disk has this path, or more removals were missed than are
    /// remembered. An error of its store if that cannot be opened.
    pub fn bring_online(&self, path: &str) -> Result<bool, Error> {
        self.bring_online_after(path, &(Arc::new(|| Ok(())) as Ready))
    }

    /// Brings a disk back like [`bring_online`](Self::bring_online), and calls `ready` once its
    /// store is open, before it serves.
    ///
    /// # Errors
    /// As [`bring_online`](Self::bring_online), and any error of `ready`.
    pub fn bring_online_after(&self, path: &str, ready: &Ready) -> Result<bool, Error> {
        self.shared.named(path)?;
        let (shared, ready, name) = (Arc::clone(&self.shared), Arc::clone(ready), path.to_owned());
        let come = move || {
            let has_come = shared.named(&name)?.bring_online(shared.gave_up.get(), &*ready)?;
            if has_come {
                info!(disk = name, "the disk is in service again");
            }
            Ok(has_come)
        };
        let come = within(COME_WAIT_MAX, "shoal-open", come);
        come.unwrap_or_else(|| {
            Err(Error::Unusable(format!("{path} does not answer; it comes into service once it does")))
        })
    }

    /// Tries again to open a disk that could not be opened since the start. Returns `false` if the
    /// disk serves, or an operator keeps it out.
    ///
    /// # Errors
    /// As [`bring_online_after`](Self::bring_online_after).
    pub fn open_again(&self, path: &str, ready: &Ready) -> Result<bool, Error> {
        let disk = self.shared.named(path)?;
        let has_come = disk.open_again(self.shared.gave_up.get(), &**ready)?;
        if has_come {
            info!(disk = path, "the disk could be opened and is in service");
        }
        Ok(has_come)
    }
}

impl DisksState {
    fn named(&self, path: &str) -> Result<&Disk, Error> {
        self.disks.iter().find(|disk| disk.path() == path).ok_or_else(|| {
            let known: Vec<_> = self.disks.iter().map(Disk::path).collect();
            Error::Unusable(format!(
                "no disk of the store is called {path:?}; there are: {}",
                known.join(", ")
            ))
        })
    }

    /// Returns the disk in service that takes objects of this key, with its number.
    fn disk_for(&self, key: Key) -> Option<(usize, Arc<OpenStore>)> {
        if self.disks.len() == 1 {
            let only = &self.disks[0];
            return Some((0, only.store().filter(|_| only.takes_keys())?));
        }
        let scored = |(at, disk): (usize, &Disk)| {
            disk.takes_keys().then(|| (at, rendezvous_score(key, disk.number(), disk.weight())))
        };
        let best = self.disks.iter().enumerate().filter_map(scored);
        let (at, score) = best.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        debug_assert!(score.is_finite(), "a disk that always wins");
        Some((at, self.disks[at].store()?))
    }

    /// Returns the disk in service that may hold an object of the key, and does not hide it: the
    /// one that takes the key, or another from a time when that one was out or not there.
    fn holder(&self, key: &ObjectKey) -> Option<(usize, Arc<OpenStore>)> {
        let turn = self.carrying.now();
        let found = self.holder_once(key);
        if found.is_some() || self.carrying.now() == turn {
            return found;
        }
        // The object may have been copied to a disk that was asked before, and its own disk has
        // left since.
        self.holder_once(key)
    }

    fn holder_once(&self, key: &ObjectKey) -> Option<(usize, Arc<OpenStore>)> {
        let home = self.disk_for(key.hash()).map(|(at, _)| at);
        let is_only = self.disks.len() == 1;
        let at_home = home.and_then(|at| Some((at, self.disks[at].store_for(key)?)));
        if let Some((_, store)) = &at_home
            && (is_only || store.may_contain(key))
        {
            return at_home;
        }
        // The home may come to know the key. Until then another disk that surely knows it answers:
        // its index is complete, so that no removal is still to be read there.
        let coming = at_home.filter(|(_, store)| !store.index_is_complete());
        let is_sure = |store: &Arc<OpenStore>| coming.is_none() || store.index_is_complete();
        let mut leaving = None;
        for (at, disk) in self.disks.iter().enumerate().filter(|(at, _)| Some(*at) != home) {
            let store = disk.store_for(key).filter(|store| store.may_contain(key) && is_sure(store));
            match store {
                // The copy stays.
                Some(store) if !disk.is_leaving() => return Some((at, store)),
                Some(store) => leaving = leaving.or(Some((at, store))),
                None => {}
            }
        }
        leaving.or(coming)
    }

    /// Declines an object, since no disk is in service. Notes that objects of its key on the disks
    /// are now older. A disk that has come into service is told by the caller's removal.
    fn declined(&self, key: &ObjectKey) -> Error {
        for disk in self.disks.iter() {
            disk.note_if_out(key, false);
        }
        Error::Declined(InsertRefusal::OutOfService)
    }

    /// Returns the disk's result, and takes the disk out of service if it keeps failing.
    fn record_result<T>(
        &self,
        (at, store): (usize, &Arc<OpenStore>),
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        assert!(at < self.disks.len());
        let disk = &self.disks[at];
        if disk.is_released() {
            return outcome;
        }
        match &outcome {
            Ok(_) => disk.succeeded(),
            // A store that another one has replaced says nothing about the disk.
            Err(_) if !disk.has(store) => {}
            Err(error) => {
                if disk.count_failure(error)
                    && let Some(store) = disk.take_offline(ServiceState::Failed, &error.to_string())
                {
                    error!(disk = disk.path(), %error, "the disk keeps failing and is out of service; the rest goes on");
                    close_in_background(store);
                }
            }
        }
        outcome
    }

    /// Removes the object from every disk except `but`. Disks that are out of service learn of it
    /// when they come back. A copy that became visible meanwhile is removed too.
    fn remove(&self, key: &ObjectKey, but: Option<usize>) -> Result<bool, Error> {
        let turn = self.carrying.now();
        let found = self.remove_once(key, but);
        match self.carrying.end_change(key.hash(), turn) {
            None => found,
            Some(_no_copy) => {
                let again = self.remove_once(key, but);
                Ok(found? | again?)
            }
        }
    }

    fn remove_once(&self, key: &ObjectKey, but: Option<usize>) -> Result<bool, Error> {
        let mut found = Ok(false);
        let is_told = self.remove_late(key);
        // The key's own disk gets the removal even if it does not find the object. Only then does
        // the removal hold after a crash.
        let home = but.or_else(|| self.disk_for(key.hash()).map(|(at, _)| at));
        for (at, disk) in self.disks.iter().enumerate().filter(|(at, _)| Some(*at) != but) {
            let removed = self.remove_on(disk, at, (key, but.is_none()), Some(at) == home);
            found = match (found, removed) {
                (Ok(before), Ok(now)) => Ok(before | now),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        if !is_told {
            // A disk released meanwhile may have been written before its removal.
            self.remove_late(key);
        }
        found
    }

    /// Removes the object from a disk; again if another store took the place of the disk's
    /// meanwhile.
    fn remove_on(
        &self,
        disk: &Disk,
        at: usize,
        (key, is_removed): (&ObjectKey, bool),
        is_home: bool,
    ) -> Result<bool, Error> {
        loop {
            let Some(store) = disk.store() else {
                if disk.note_if_out(key, is_removed) {
                    return Ok(false);
                }
                // The disk has come into service.
                continue;
            };
            let was_released = disk.is_released();
            let removed = if was_released {
                Ok(self.remove_released(at, &**store, key))
            } else if is_home || may_come(&**store, key) {
                let removed = store.remove(key);
                if removed.is_err() && disk.has(&store) {
                    disk.note_unremoved(key);
                }
                self.record_result((at, &store), removed)
            } else {
                Ok(false)
            };
            // A disk that was taken out or released during the call may have written its index
            // before the removal.
            let is_noted = disk.note_if_out(key, is_removed);
            if is_noted || (disk.has(&store) && !was_released) {
                return removed;
            }
        }
    }

    /// Returns `true` if a disk other than `but` may have an object of the key.
    fn is_elsewhere(&self, key: &ObjectKey, but: usize) -> bool {
        let others = self.disks.iter().enumerate().filter(|(at, _)| *at != but);
        others.filter_map(|(_, disk)| disk.store()).any(|store| may_come(&**store, key))
    }

    /// Removes older objects of the key from the other disks, now that this store of disk `at` has
    /// the object. If the copy of an older one may have become visible since the turn, all of them
    /// are removed. All are removed too if the disk has lost the store since: the disk may have got
    /// an older object of the key in the meantime.
    fn supersede(&self, key: &ObjectKey, (at, store): (usize, &Arc<OpenStore>), turn: u64) {
        let no_copy = self.carrying.end_change(key.hash(), turn);
        let removed = if no_copy.is_some() {
            self.remove_once(key, None)
        } else if !self.disks[at].has(store) {
            self.remove(key, None)
        } else if self.disks.len() > 1 {
            self.remove(key, Some(at))
        } else {
            return;
        };
        if let Err(error) = removed {
            tracing::debug!(%error, "an older object may be left on a disk");
        }
    }
}

/// Drops a disk's store on a thread of its own. The drop waits for the store's threads, which may
/// wait for a device that does not answer.
fn close_in_background(store: Arc<OpenStore>) {
    // If the system grants no thread, this thread drops it.
    let _ = std::thread::Builder::new().name("shoal-leave".into()).spawn(move || drop(store));
}

/// Returns `true` if the store may have an object of the key, now or after its recovery.
fn may_come(store: &dyn Store, key: &ObjectKey) -> bool {
    store.may_contain(key) || !store.index_is_complete()
}

/// Longest wait of an operator for a disk to close and go out of service.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Longest wait of an operator for a disk to come back. The disk's store is opened, and missed
/// removals are repeated on it.
const COME_WAIT_MAX: Duration = Duration::from_secs(20);

const _: () = assert!(ANSWER_WAIT_MAX.as_millis() > 0 && COME_WAIT_MAX.as_millis() > 0);
