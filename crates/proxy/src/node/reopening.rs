//! Disks that could not be opened at the start are tried again, until each serves or the node stops.
//!
//! A disk that another process has, or that is mounted late, comes into service by itself. The first try comes after a second, the
//! pause doubles up to a minute, and one thread tries all disks in turn. Failures were told once, at the start; they are counted
//! (`shoal_store_open_retries_total`), and the newest reason stands in the status. A disk that an operator takes out stays out.

use crate::exchange::{Epochs, Exchange};
use crate::metrics::Metrics;
use crate::storage::take_up_purges;
use parking_lot::{Condvar, Mutex};
use shoal_store::Error;
use shoal_store::disks::{Disks, Service};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Called when a disk has come into service.
pub(super) struct OpenedUp(Box<dyn Fn() + Send + Sync>);

/// The thread that tries again.
pub(super) struct Reopening(Arc<State>);

#[derive(Default)]
struct State {
    is_stopped: Mutex<bool>,
    changed: Condvar,
    told: Mutex<Option<OpenedUp>>,
}

struct Work {
    state: Arc<State>,
    disks: Weak<Disks>,
    metrics: Arc<Metrics>,
    /// Where the table of purges is, and who heeds it, where one disk has it.
    purges: Option<(PathBuf, Weak<Exchange>)>,
}

impl Reopening {
    /// Starts the thread if a disk could not be opened.
    pub fn start(
        disks: &Arc<Disks>,
        metrics: &Arc<Metrics>,
        purges: Option<(PathBuf, Arc<Exchange>)>,
    ) -> Option<Self> {
        if unopened(disks).is_empty() {
            return None;
        }
        let state = Arc::new(State::default());
        let work = Work {
            state: Arc::clone(&state),
            disks: Arc::downgrade(disks),
            metrics: Arc::clone(metrics),
            purges: purges.map(|(folder, exchange)| (folder, Arc::downgrade(&exchange))),
        };
        let started = std::thread::Builder::new().name("shoal-reopen".into()).spawn(move || work.run());
        if let Err(error) = started {
            tracing::error!(%error, "no thread to try the disks again: shoal store online brings one into service");
        }
        Some(Self(state))
    }

    pub fn tell(&self, told: OpenedUp) {
        *self.0.told.lock() = Some(told);
    }

    /// Tries no more. One try may be under way.
    pub fn stop(&self) {
        *self.0.is_stopped.lock() = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Reopening {
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
        let mut pause = PAUSE_FIRST;
        while self.waits(pause) {
            pause = (pause * 2).min(PAUSE_MOST);
            let Some(disks) = self.disks.upgrade() else { return };
            for path in unopened(&disks) {
                self.try_again(&disks, &path);
            }
            if unopened(&disks).is_empty() {
                return;
            }
        }
    }

    /// Waits. False when the node stops.
    fn waits(&self, pause: Duration) -> bool {
        let mut is_stopped = self.state.is_stopped.lock();
        self.state.changed.wait_while_for(&mut is_stopped, |is_stopped| !*is_stopped, pause);
        !*is_stopped
    }

    fn try_again(&self, disks: &Disks, path: &str) {
        let ready = || match &self.purges {
            None => Ok(()),
            Some((folder, exchange)) => {
                let gone = || Error::Unusable("the node has stopped".into());
                let exchange = exchange.upgrade().ok_or_else(gone)?;
                take_up(exchange.epochs(), Some(folder))
            }
        };
        match disks.open_again(path, &ready) {
            Ok(true) => {
                if let Some(OpenedUp(told)) = &*self.state.told.lock() {
                    told();
                }
            }
            Ok(false) => {}
            Err(error) => {
                self.metrics.disk_open_retries.count();
                tracing::debug!(disk = path, %error, "this disk still cannot be used");
            }
        }
    }
}

/// Takes up the purges in the folder of a store that is open and does not serve yet, where it has any.
pub(super) fn take_up(epochs: &Epochs, folder: Option<&Path>) -> Result<(), Error> {
    let Some(folder) = folder else { return Ok(()) };
    take_up_purges(epochs, folder).map_err(|error| {
        let folder = folder.display();
        Error::Unusable(format!("{folder}: what was purged cannot be read there: {error}"))
    })
}

/// The disks that could not be opened.
fn unopened(disks: &Disks) -> Vec<String> {
    let states = disks.states().into_iter();
    states.filter(|disk| disk.service == Service::Unopened).map(|disk| disk.path).collect()
}

/// The pause before the first try.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const PAUSE_MOST: Duration = Duration::from_secs(60);
