//! Warming of a node: files of a list are fetched on the first worker.

use super::Node;
use crate::warming::{WarmJobs, WarmRefusal, WarmReport, WarmRequest};
use std::sync::Arc;

impl Node {
    /// Starts to fetch the files of a list. Reads the list before it returns.
    ///
    /// # Errors
    /// If the list cannot be read, or too many jobs wait.
    pub fn warm(&self, request: WarmRequest) -> Result<WarmReport, WarmRefusal> {
        let runtime = self.checks.get().ok_or(WarmRefusal::Starting)?;
        let settings = Arc::clone(&self.settings.lock());
        self.warming.start(request, &self.exchange, (&settings, &self.addresses), runtime)
    }

    /// Returns the jobs of [`Node::warm`].
    pub fn warming(&self) -> &WarmJobs {
        &self.warming
    }
}
