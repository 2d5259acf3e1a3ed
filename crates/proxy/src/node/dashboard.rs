//! A node's dashboard: the parts that it reads, and the folder that keeps its history.

use super::{Node, NodeError};
use crate::dashboard::{Dashboard, KeptHistory, NodeView};
use shoal_settings::Settings;
use shoal_store::fs::CallTally;
use std::path::PathBuf;
use std::sync::Arc;

impl Node {
    /// Returns the dashboard.
    pub fn dashboard(&self) -> Option<&Arc<Dashboard>> {
        self.dashboard.get()
    }

    /// Starts the dashboard. `calls` count the calls to each disk.
    pub(super) fn start_dashboard(&self, calls: Vec<Arc<CallTally>>) -> Result<(), NodeError> {
        let kept = history_folder(&self.settings.lock()).map(|folder| KeptHistory::in_folder(&folder));
        let view = NodeView {
            exchange: Arc::clone(&self.exchange),
            objects: Arc::clone(&self.objects),
            disks: self.disks.clone(),
            calls,
            cluster: self.cluster.clone(),
            membership: self.membership.as_ref().map(Arc::downgrade).unwrap_or_default(),
            metrics: Arc::clone(&self.metrics),
            settings: Arc::clone(&self.settings),
            draining: Arc::clone(&self.draining),
            started: self.started,
        };
        let dashboard = Dashboard::start(view, kept).map_err(NodeError::Threads)?;
        let is_first = self.dashboard.set(dashboard).is_ok();
        assert!(is_first, "a node has one dashboard");
        Ok(())
    }

    /// Ends live events and keeps the history.
    pub(super) fn stop_dashboard(&self) {
        self.dashboard.get().inspect(|dashboard| dashboard.stop());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_dashboard();
    }
}

/// Returns the store's folder, which keeps the history; `None` without a store.
fn history_folder(settings: &Settings) -> Option<PathBuf> {
    let folder = &settings.store.directory;
    let has_folder = !folder.as_os_str().is_empty() && !settings.store.all_disks().is_empty();
    has_folder.then(|| folder.clone())
}
