//! Changes that a disk remembers while it is out of service or released.
//!
//! A released disk hides the objects of remembered keys. It forgets them only in the moment when a
//! store without these objects serves.

use super::{Absence, Disk, ServiceState};
use crate::Error;
use crate::disks::missed::MissedChanges;
use crate::disks::serving::OpenStore;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use std::collections::HashSet;
use std::sync::Arc;

impl Disk {
    /// Returns the store that a lookup of the key may ask. Returns `None` if the disk is out of
    /// service, or the object has changed since the disk was released. The store and the changes
    /// belong together: the disk gets no other store in between.
    pub(in crate::disks) fn store_for(&self, key: &ObjectKey) -> Option<Arc<OpenStore>> {
        let state = self.state.read();
        let store = state.as_ref().ok()?;
        let is_hidden = self.is_released() && self.missed.lock().has(key);
        (!is_hidden).then(|| Arc::clone(store))
    }

    /// Removes the missed objects from a store, and then lets `end` put the store in service and
    /// forget the changes. Lookups go on to miss these objects until then. Returns the result of
    /// `end`.
    ///
    /// # Errors
    /// The first failure of the store. The changes stay remembered.
    pub(super) fn repeat_missed(
        &self,
        remove: impl Fn(&ObjectKey) -> Result<(), Error>,
        end: impl FnOnce(&mut Result<Arc<OpenStore>, Absence>, &mut MissedChanges) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut done = HashSet::new();
        loop {
            let keys = self.missed.lock().keys_beside(&done);
            for key in keys {
                remove(&key)?;
                done.insert(key);
            }
            // Changes are noted while the state is locked.
            let mut state = self.state.write();
            let mut missed = self.missed.lock();
            debug_assert!(missed.count() >= done.len(), "a change that was forgotten");
            if missed.count() == done.len() {
                return end(&mut state, &mut missed);
            }
        }
    }

    /// Keeps a disk in service that could not be released. Changes made meanwhile reach its store.
    pub(in crate::disks) fn stay(&self, store: &OpenStore) {
        let failed = Mutex::new(Vec::new());
        let remove = |key: &ObjectKey| {
            if store.remove(key).is_err() {
                failed.lock().push(key.clone());
            }
            Ok(())
        };
        let stayed = self.repeat_missed(remove, |_, missed| {
            self.set_released(false);
            missed.forget_keys();
            Ok(true)
        });
        debug_assert!(stayed.is_ok(), "failures are noted");
        failed.into_inner().iter().for_each(|key| self.note_unremoved(key));
    }

    /// Remembers a removed or replaced object for a disk that is out of service or released.
    /// Returns `false` if the disk is in service: its store must be told.
    pub(in crate::disks) fn note_if_out(&self, key: &ObjectKey, is_removed: bool) -> bool {
        let state = self.state.read();
        if state.is_ok() && !self.is_released() {
            return false;
        }
        let is_removed_disk = matches!(&*state, Err(absence) if absence.service == ServiceState::Removed);
        if !is_removed_disk {
            self.missed.lock().record(key, is_removed);
        }
        true
    }

    /// Remembers an object that the disk failed to remove, for its next opening.
    pub(in crate::disks) fn note_unremoved(&self, key: &ObjectKey) {
        self.missed.lock().record(key, true);
    }
}
