//! A disk's store for as long as somebody has something of it, also after the disk was taken out.

use crate::Store;
use parking_lot::{Condvar, Mutex};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A store that serves, or that has been taken out and is still read. Who has one, or a body of its
/// store, keeps it open.
pub(super) struct OpenStore {
    store: Arc<dyn Store>,
    // After the store, and so told when that is closed.
    closing: Closing,
}

/// Tells that the store is closed when it is dropped.
struct Closing(Arc<Closed>);

#[derive(Default)]
struct Closed {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

/// What is known of a store that was taken out.
pub(super) struct ClosingStore {
    users: Weak<OpenStore>,
    closed: Arc<Closed>,
}

impl OpenStore {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, closing: Closing(Arc::default()) })
    }

    pub(super) fn left(self: &Arc<Self>) -> ClosingStore {
        ClosingStore { users: Arc::downgrade(self), closed: Arc::clone(&self.closing.0) }
    }
}

impl Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let was_closed = std::mem::replace(&mut *self.0.is_closed.lock(), true);
        debug_assert!(!was_closed, "a store that is closed twice");
        self.0.changed.notify_all();
    }
}

impl ClosingStore {
    /// Waits so long at most until the store is closed. Else, how many still have something of it.
    pub(super) fn wait(&self, limit: Duration) -> Result<(), usize> {
        let mut is_closed = self.closed.is_closed.lock();
        while !*is_closed {
            if self.closed.changed.wait_for(&mut is_closed, limit).timed_out() {
                return if *is_closed { Ok(()) } else { Err(self.users.strong_count()) };
            }
        }
        Ok(())
    }
}
