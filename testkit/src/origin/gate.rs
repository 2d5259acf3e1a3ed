//! Points at which the origin waits until the test says go on.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A gate: closed until opened, then open for good. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it; everyone who waits goes on.
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether it has been opened.
    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is open or `limit` has passed; says whether it is open.
    pub fn wait(&self, limit: Duration) -> bool {
        let opened = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(opened, limit, |opened| !*opened);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
