//! A disk's store, open until its last user drops it, even after the disk was taken out.

use crate::Store;
use parking_lot::{Condvar, Mutex};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Store that serves, or that was taken out and is still read. A holder of this, or of a body of
/// the store, keeps the store open.
pub(super) struct OpenStore {
    store: Arc<dyn Store>,
    // Declared after the store, so that it drops after the store has closed.
    closing: CloseReporter,
}

/// Reports on drop that the store is closed.
struct CloseReporter(Arc<CloseState>);

#[derive(Default)]
struct CloseState {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

/// Handle for waiting until a store that was taken out has closed.
pub(super) struct ClosingStore {
    users: Weak<OpenStore>,
    closed: Arc<CloseState>,
}

impl OpenStore {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, closing: CloseReporter(Arc::default()) })
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

impl Drop for CloseReporter {
    fn drop(&mut self) {
        let was_closed = std::mem::replace(&mut *self.0.is_closed.lock(), true);
        debug_assert!(!was_closed, "a store that is closed twice");
        self.0.changed.notify_all();
    }
}

impl ClosingStore {
    /// Waits at most `limit` until the store is closed. Fails with the number of its remaining
    /// users.
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
