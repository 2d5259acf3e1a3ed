//! Warming of a node: files of a list are fetched on the first worker.

use super::Node;
use crate::warming::{WarmJobs, WarmRefusal, WarmReport, WarmRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

impl Node {
    /// Starts to fetch the files of a list. Reads the list before it returns.
    ///
    /// # Errors
    /// If the list cannot be read, or too many jobs wait.
    pub fn warm(&self, request: WarmRequest) -> Result<WarmReport, WarmRefusal> {
        let runtime = self.first_worker().ok_or(WarmRefusal::Starting)?;
        let settings = Arc::clone(&self.settings.lock());
        self.warming.start(request, &self.exchange, (&settings, &self.addresses), runtime)
    }

    /// Returns the runtime of the first worker. Waits a moment for it: the admin listener answers
    /// before the workers run.
    pub(super) fn first_worker(&self) -> Option<&Handle> {
        let deadline = Instant::now() + WORKER_PATIENCE;
        while self.checks.get().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.checks.get()
    }

    /// Returns the jobs of [`Node::warm`].
    pub fn warming(&self) -> &WarmJobs {
        &self.warming
    }
}

/// Longest wait for the first worker after the start.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);
