//! Opening of a disk that is out of service, or that gets another store.
//!
//! A disk serves only when it has learnt of every change that it missed.

use super::{Absence, Disk, ServiceState};
use crate::disks::may_come;
use crate::disks::missed::MissedChanges;
use crate::disks::serving::OpenStore;
use crate::{Error, EvictionCallback};
use parking_lot::{Condvar, Mutex, MutexGuard};
use shoal_core::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Disk {
    /// Tries again to open a disk that could not be opened. Returns `false` if the disk is in
    /// service, or out for another reason.
    pub(in crate::disks) fn open_again(
        &self,
        gave_up: Option<&EvictionCallback>,
        ready: &dyn Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if !self.is_out_as(ServiceState::Unopened) {
            return Ok(false);
        }
        let coming = self.coming()?;
        if !self.is_out_as(ServiceState::Unopened) {
            return Ok(false);
        }
        let outcome = self.come(gave_up, ready, Some(ServiceState::Unopened));
        if let (Err(error), Err(absence)) = (&outcome, &mut *self.state.write())
            && absence.service == ServiceState::Unopened
        {
            absence.why = error.to_string();
        }
        drop(coming);
        outcome
    }

    /// Brings the disk back into service, once every object removed meanwhile is gone from it.
    /// Returns `false` if it was in service. Calls `ready` when its store is open, before it
    /// serves.
    pub(in crate::disks) fn bring_online(
        &self,
        gave_up: Option<&EvictionCallback>,
        ready: &dyn Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.is_in_service() {
            return Ok(false);
        }
        let _coming = self.coming()?;
        if self.is_in_service() {
            return Ok(false);
        }
        self.come(gave_up, ready, None)
    }

    /// Takes the lock for opening the disk. Fails if another thread holds the lock for long.
    pub(in crate::disks) fn coming(&self) -> Result<MutexGuard<'_, ()>, Error> {
        self.coming.try_lock_for(COMING_WAIT_MAX).ok_or_else(|| {
            let path = self.path();
            Error::Unusable(format!(
                "{path} is being opened and has not answered yet; it comes into service once it does"
            ))
        })
    }

    /// Opens the disk under the lock `coming`, only while the disk is out for the reason `only`.
    pub(in crate::disks) fn come(
        &self,
        gave_up: Option<&EvictionCallback>,
        ready: &dyn Fn() -> Result<(), Error>,
        only: Option<ServiceState>,
    ) -> Result<bool, Error> {
        self.wait_until_it_is_free()?;
        let store = OpenStore::new(self.open_store()?);
        ready()?;
        if let Some(gave_up) = gave_up {
            store.on_evicted(Arc::clone(gave_up));
        }
        if self.is_released() {
            // The earlier store answers until the new one knows its objects: none is missed.
            wait_for_index(&store);
        }
        // Records in the log that the index lacks are found later.
        let is_empty = store.usage().objects == 0 && store.index_is_complete();
        let check = |missed: &MissedChanges| match missed.is_too_much() && !is_empty {
            true => Err(Error::Unusable(format!(
                "more objects were removed while {} was out of service than are remembered, so that some would come \
                 back; it comes back when its store is empty",
                self.path()
            ))),
            false => Ok(()),
        };
        check(&self.missed.lock())?;
        let mut before = None;
        let remove = |key: &ObjectKey| {
            let is_there = may_come(&**store, key);
            if is_there { store.remove(key).map(drop) } else { Ok(()) }
        };
        let serve = |state: &mut Result<Arc<OpenStore>, Absence>, missed: &mut MissedChanges| {
            if matches!((&*state, only), (Err(absence), Some(only)) if absence.service != only) {
                return Ok(false);
            }
            check(missed)?;
            *missed = MissedChanges::default();
            self.strain.store(0, Relaxed);
            assert!(state.is_err() || self.is_released(), "a disk in service that is opened again");
            before = Some(std::mem::replace(state, Ok(Arc::clone(&store))));
            if let Some(Ok(before)) = &before {
                let mut counts = self.before.lock();
                *counts = counts.and(&before.usage());
            }
            self.set_released(false);
            Ok(true)
        };
        let has_come = self.repeat_missed(remove, serve)?;
        // Readers keep the earlier store. It may close here, while no lock is held.
        drop(before);
        Ok(has_come)
    }

    /// Puts a newly opened store in the place of a released one, which is read until then.
    pub(in crate::disks) fn replace_released(
        &self,
        gave_up: Option<&EvictionCallback>,
        ready: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _coming = self.coming()?;
        assert!(self.is_released() && self.is_in_service(), "a store that is still written to");
        let come = self.come(gave_up, ready, None).map(drop);
        debug_assert!(come.is_err() || !self.is_released(), "a new store that is released");
        come
    }

    /// Waits until the last reader of the disk's earlier store has let that store close.
    pub(in crate::disks) fn wait_until_it_is_free(&self) -> Result<(), Error> {
        let Some(left) = &*self.left.lock() else { return Ok(()) };
        left.wait(FREE_WAIT_MAX).map_err(|users| {
            Error::Unusable(format!(
                "{} is not free yet: since before it went out of service {users} are busy with what it held; it comes back once they have done",
                self.path()
            ))
        })
    }
}

/// Waits until a store has read its index, or for some time.
fn wait_for_index(store: &OpenStore) {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    for _ in 0..INDEX_LOOKS_MAX {
        if store.index_is_complete() {
            return;
        }
        never.wait_for(&mut lock.lock(), INDEX_LOOK);
    }
}

/// Looks at the index of a store that takes the place of one that still answers, and the time
/// between two. Meanwhile, for 5 s at most, the disk takes no objects.
const INDEX_LOOKS_MAX: u32 = 2500;
const INDEX_LOOK: Duration = Duration::from_millis(2);

/// Longest wait for the earlier store to close before its disk comes back.
const FREE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest wait for another thread that is opening the same disk.
const COMING_WAIT_MAX: Duration = Duration::from_millis(200);

const _: () = assert!(COMING_WAIT_MAX.as_millis() < FREE_WAIT_MAX.as_millis());
