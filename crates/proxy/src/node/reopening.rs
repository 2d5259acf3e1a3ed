//! Retries disks that could not be opened at the start, until each serves or the node stops. The
//! purge table is retried likewise if it could not be read.
//!
//! A disk comes into service by itself after another process has released it, after a late mount,
//! or when it answers again. The first try comes after 1 s; the pause doubles up to one minute.
//! Each try has its own thread, since a disk may hang. Other disks are tried meanwhile, and a
//! hanging disk only after it has answered. Failures were reported once, at the start. Later ones
//! are counted (`shoal_store_open_retries_total`), and the newest reason stands in the status. A
//! disk that an operator takes out stays out.

use crate::metrics::Metrics;
use crate::purge_table::PurgeTable;
use crate::storage::attach_purge_table;
use parking_lot::{Condvar, Mutex};
use shoal_store::disks::{Disks, Ready, ServiceState};
use shoal_store::{Error, StoreView};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::Duration;

/// Callback for a disk that has come into service.
pub(super) struct OpenedUp(Box<dyn Fn() + Send + Sync>);

/// Handle of the thread that retries.
pub(super) struct RetryThread(Arc<RetryState>);

#[derive(Default)]
struct RetryState {
    is_stopped: Mutex<bool>,
    changed: Condvar,
    told: Mutex<Option<OpenedUp>>,
}

struct Work {
    state: Arc<RetryState>,
    disks: Weak<Disks>,
    metrics: Arc<Metrics>,
    purges: Purges,
    /// `true` while a thread reads the purge table.
    are_purges_read: Arc<AtomicBool>,
}

/// Place of the purge table, and the table in use.
pub(super) struct Purges {
    pub purge_table: Weak<PurgeTable>,
    pub folder: PathBuf,
    /// The store's only disk holds the table: both come into service together.
    pub come_with_disk: bool,
}

impl Purges {
    /// Returns the place of the table of these settings.
    pub fn of(purge_table: &Arc<PurgeTable>, store: &shoal_settings::Store) -> Self {
        let come_with_disk = super::purges_at(store).is_some();
        Self { purge_table: Arc::downgrade(purge_table), folder: store.directory.clone(), come_with_disk }
    }
}

impl RetryThread {
    /// Starts the thread. Returns `None`, and logs, if no thread can be started.
    pub fn start(disks: &Arc<Disks>, metrics: &Arc<Metrics>, purges: Purges) -> Option<Self> {
        let state = Arc::new(RetryState::default());
        let work = Work {
            state: Arc::clone(&state),
            disks: Arc::downgrade(disks),
            metrics: Arc::clone(metrics),
            purges,
            are_purges_read: Arc::default(),
        };
        let started = Builder::new().name("shoal-reopen".into()).spawn(move || work.run());
        if let Err(error) = &started {
            tracing::error!(%error, "no thread to try the disks again: shoal store online brings one into service");
        }
        started.ok().map(|_| Self(state))
    }

    pub fn tell(&self, told: OpenedUp) {
        *self.0.told.lock() = Some(told);
    }

    /// Stops the retries. One try may still be in progress.
    pub fn stop(&self) {
        *self.0.is_stopped.lock() = true;
        self.0.changed.notify_all();
    }
}

impl Drop for RetryThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl OpenedUp {
    pub fn new(told: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(told))
    }
}

impl Work {
    fn run(&self) {
        let (mut pause, mut next) = (PAUSE_FIRST, PAUSE_FIRST);
        while self.waits(pause) {
            let Some(disks) = self.disks.upgrade() else { return };
            let unopened = unopened(&disks);
            let has_purges =
                self.purges.purge_table.upgrade().is_none_or(|purge_table| !purge_table.are_lost());
            unopened.iter().for_each(|path| self.try_again(&disks, path));
            if !has_purges && (disks.is_in_service() || !self.purges.come_with_disk) {
                self.read_purges();
            }
            (pause, next) = match unopened.is_empty() && has_purges {
                true => (PAUSE_MOST, PAUSE_FIRST),
                false => (next, (next * 2).min(PAUSE_MOST)),
            };
        }
    }

    /// Waits. Returns `false` when the node stops.
    fn waits(&self, pause: Duration) -> bool {
        let mut is_stopped = self.state.is_stopped.lock();
        self.state.changed.wait_while_for(&mut is_stopped, |is_stopped| !*is_stopped, pause);
        !*is_stopped
    }

    /// Tries to open a disk. Does not wait for a try that is already in progress.
    fn try_again(&self, disks: &Arc<Disks>, path: &str) {
        let folder = self.purges.come_with_disk.then(|| self.purges.folder.clone());
        let ready = ready_with(self.purges.purge_table.clone(), folder);
        let (disks, state, metrics) = (Arc::clone(disks), Arc::clone(&self.state), Arc::clone(&self.metrics));
        let path = path.to_owned();
        in_a_thread(move || match disks.open_again(&path, &ready) {
            Ok(true) => {
                if let Some(OpenedUp(told)) = &*state.told.lock() {
                    told();
                }
            }
            Ok(false) => {}
            Err(error) => {
                metrics.disk_open_retries.increment();
                tracing::debug!(disk = path, %error, "this disk still cannot be used");
            }
        });
    }

    fn read_purges(&self) {
        let Some(purge_table) = self.purges.purge_table.upgrade() else { return };
        if self.are_purges_read.swap(true, SeqCst) {
            return;
        }
        let (folder, are_read) = (self.purges.folder.clone(), Arc::clone(&self.are_purges_read));
        let is_begun = in_a_thread(move || {
            match attach_purge_table(&purge_table, &folder) {
                Ok(()) => tracing::info!("what was purged is known again"),
                Err(error) => tracing::debug!(%error, "what was purged still cannot be read"),
            }
            are_read.store(false, SeqCst);
        });
        if !is_begun {
            self.are_purges_read.store(false, SeqCst);
        }
    }
}

/// Runs work on a new thread. Returns `false` without a thread: a later round does the work.
fn in_a_thread(work: impl FnOnce() + Send + 'static) -> bool {
    Builder::new().name("shoal-reopen".into()).spawn(work).is_ok()
}

/// Returns the step that loads the purges in the folder, if one is given, before an open store
/// serves.
pub(super) fn ready(purge_table: &Arc<PurgeTable>, folder: Option<PathBuf>) -> Ready {
    ready_with(Arc::downgrade(purge_table), folder)
}

fn ready_with(purge_table: Weak<PurgeTable>, folder: Option<PathBuf>) -> Ready {
    Arc::new(move || {
        let Some(folder) = &folder else { return Ok(()) };
        let gone = || Error::Unusable("the node has stopped".into());
        take_up(&*purge_table.upgrade().ok_or_else(gone)?, folder)
    })
}

fn take_up(purge_table: &PurgeTable, folder: &Path) -> Result<(), Error> {
    attach_purge_table(purge_table, folder).map_err(|error| {
        let folder = folder.display();
        Error::Unusable(format!("{folder}: what was purged cannot be read there: {error}"))
    })
}

/// Returns the disks that could not be opened.
fn unopened(disks: &Disks) -> Vec<String> {
    let states = disks.states().into_iter();
    states.filter(|disk| disk.service == ServiceState::Unopened).map(|disk| disk.path).collect()
}

/// Pause before the first try.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Longest pause between two tries.
const PAUSE_MOST: Duration = Duration::from_secs(60);
