//! The node within this process: started from a configuration, and reloaded from the same
//! configuration.

use super::logging::ErrorLog;
use crate::configuration::Configuration;
use crate::failure::Failure;
use parking_lot::Mutex;
use shoal_cluster::ClusterError;
use shoal_exchange::Whereabouts;
use shoal_exchange::prefetch::{HintLines, HintsReport};
use shoal_peers::cluster::ClusterReport;
use shoal_proxy::admin::HintsFailure;
use shoal_proxy::admin::{
    Control, DiskRequest, ExplainRequest, Explanation, PurgeOutcome, PurgeRequest, Readiness, Status,
    TopMisses, TopRequest,
};
use shoal_proxy::dashboard::Dashboard;
use shoal_proxy::node::{Inheritance, Node, NodeError};
use shoal_proxy::warming::{WarmRefusal, WarmReport, WarmRequest};
use shoal_server as server;
use shoal_settings::{AdminAddress, Settings};
use shoal_telemetry::metrics::Metrics;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Running node, with its configuration.
pub struct RunningNode {
    node: Node,
    configuration: Configuration,
    error_log: Arc<ErrorLog>,
    /// Settings last read, without changes that wait for the next start. The lock is held only
    /// briefly, never while a file is read.
    settings: Mutex<Settings>,
    /// Serializes reloads: HUP and the admin listener may request one at the same time.
    reloading: Mutex<()>,
    /// Socket at which an upgrade is asked for.
    upgrade_socket: OnceLock<String>,
    /// `true` while a new process is taking over.
    is_upgrading: AtomicBool,
}

impl RunningNode {
    /// Starts the node. `admin` is the bound address of its admin listener.
    pub fn start(
        configuration: Configuration,
        settings: Settings,
        admin: Option<AdminAddress>,
        error_log: Arc<ErrorLog>,
        inherited: Inheritance,
    ) -> Result<Self, Failure> {
        let mut at_work = settings.clone();
        at_work.admin.listen = admin;
        let node = Node::start_after(at_work, inherited).map_err(failure)?;
        let (settings, reloading) = (Mutex::new(settings), Mutex::new(()));
        Ok(Self {
            node,
            configuration,
            error_log,
            settings,
            reloading,
            upgrade_socket: OnceLock::new(),
            is_upgrading: AtomicBool::new(false),
        })
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Shows the socket at which an upgrade is asked for.
    pub fn set_upgrade_socket(&self, path: &Path) {
        let _ = self.upgrade_socket.set(path.display().to_string());
    }

    /// Shows that a new process is taking over, or no longer.
    pub fn set_upgrading(&self, is_upgrading: bool) {
        self.is_upgrading.store(is_upgrading, Relaxed);
    }

    /// Returns the time in which health checks see that the node drains while it accepts clients.
    pub fn lame_duck(&self) -> Duration {
        self.settings.lock().drain.lame_duck
    }

    /// Returns the longest time that a stop may take.
    pub fn stop_time(&self) -> Duration {
        self.settings.lock().stop_time()
    }

    /// Returns the longest wait for each step of a process that is to take over.
    pub fn upgrade_timeout(&self) -> Duration {
        self.settings.lock().upgrade_timeout
    }

    /// Lets health checks see that the node drains.
    pub fn announce_drain(&self) {
        self.node.announce_drain();
    }

    /// Lets running requests end, after another process has taken over.
    pub fn retire(&self) {
        let deadline = self.settings.lock().drain_timeout;
        self.node.retire(deadline);
    }

    /// Returns the addresses that accept clients, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.node.addresses()
    }

    /// Opens the logs again by their names.
    pub fn reopen_logs(&self) {
        self.node.reopen_logs();
    }

    /// Writes the pending lines of the logs and closes the logs.
    pub fn close_logs(&self) {
        self.node.close_logs();
    }

    /// Waits until requests in flight have finished, or until the settings' time for a drain is
    /// over.
    pub fn drain(&self) {
        let deadline = self.settings.lock().drain_timeout;
        self.node.drain(deadline);
    }

    /// Registers a function that runs when a disk serves that could not be opened at the start.
    pub fn on_disk_opened(&self, told: impl Fn() + Send + Sync + 'static) {
        self.node.on_disk_opened(told);
    }

    /// Counts a panic in the metrics.
    pub fn count_panic(&self) {
        self.node.metrics().panics.increment();
    }
}

impl Control for RunningNode {
    fn metrics(&self) -> &Metrics {
        let metrics = self.node.metrics();
        metrics.error_log_lines_dropped.add(self.error_log.lost_lines());
        metrics
    }

    fn readiness(&self) -> Readiness {
        self.node.readiness()
    }

    fn dashboard(&self) -> Option<Arc<Dashboard>> {
        self.node.dashboard().cloned()
    }

    fn status(&self) -> Status {
        let mut status = Status { upgrade_socket: self.upgrade_socket.get().cloned(), ..self.node.status() };
        status.process.is_upgrading = self.is_upgrading.load(Relaxed);
        status
    }

    fn top_misses(&self, request: &TopRequest) -> TopMisses {
        self.node.top_misses(request)
    }

    fn purge(&self, request: PurgeRequest) -> PurgeOutcome {
        self.node.purge(request)
    }

    fn warm(&self, request: WarmRequest) -> Result<WarmReport, WarmRefusal> {
        self.node.warm(request)
    }

    fn warm_reports(&self) -> Vec<WarmReport> {
        self.node.warming().reports()
    }

    fn stop_warm(&self, job: u64) -> bool {
        self.node.warming().stop(job)
    }

    fn hints(&self, lines: HintLines) -> Result<HintsReport, HintsFailure> {
        self.node.take_hints(lines)
    }

    fn explain(&self, request: ExplainRequest) -> Result<Explanation, String> {
        let mut explanation = self.node.explain(&request)?;
        // The file may have changed since it was read; its lines would then mislead.
        let is_current = |read: &Settings| *self.settings.lock() == *read;
        if self.configuration.load().is_ok_and(|read| is_current(&read)) {
            crate::explain::add_lines(&self.configuration, &mut explanation);
        }
        Ok(explanation)
    }

    fn whereabouts(&self, url: &str) -> Result<Whereabouts, String> {
        self.node.whereabouts(url)
    }

    fn cluster(&self) -> Option<ClusterReport> {
        self.node.cluster_report()
    }

    fn drain_cluster(&self) -> bool {
        self.node.drain_cluster()
    }

    fn rejoin_cluster(&self) -> bool {
        self.node.rejoin_cluster()
    }

    fn set_disk(&self, request: DiskRequest) -> Result<bool, String> {
        self.node.set_disk_online(&request.path, request.online)
    }

    fn reload(&self) -> Result<Vec<String>, Vec<String>> {
        // A reload may take as long as a disk or a server hangs.
        let Some(_one_at_a_time) = self.reloading.try_lock_for(PATIENCE) else {
            let why = "another reload is still reading its files; nothing was read for this one";
            tracing::error!("{why}");
            return Err(vec![why.into()]);
        };
        let result = self.configuration.load().map_err(Failure::lines).and_then(|new| {
            let waiting = self.node.reload(new.clone()).map_err(|error| vec![error.to_string()])?;
            Ok((new, waiting))
        });
        match result {
            Ok((mut new, mut waiting)) => {
                self.error_log.apply(&new.log);
                let mut settings = self.settings.lock();
                let kept = new.keep_until_restart(&settings);
                let more: Vec<String> = kept.into_iter().filter(|name| !waiting.contains(name)).collect();
                waiting.extend(more);
                *settings = new;
                drop(settings);
                if !waiting.is_empty() {
                    tracing::warn!(
                        "changes to these take effect with the next start: {}",
                        waiting.join(", ")
                    );
                }
                tracing::info!("settings read again");
                Ok(waiting)
            }
            Err(mistakes) => {
                for mistake in &mistakes {
                    tracing::error!("{mistake}");
                }
                tracing::error!("the old settings stay at work");
                Err(mistakes)
            }
        }
    }
}

/// Longest time that a reload waits for another reload.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the failure of a node error. An unusable file or rule is a mistake in the configuration;
/// any other error concerns the machine.
fn failure(error: NodeError) -> Failure {
    let why = error.to_string();
    match error {
        NodeError::Live(_)
        | NodeError::Cluster(ClusterError::KeyFile { .. } | ClusterError::Options(_))
        | NodeError::Upstream(_)
        | NodeError::Server(server::Error::Certificate { .. }) => Failure::Usage(why),
        _ => Failure::Runtime(why),
    }
}
