//! Certificates that the node orders itself: the driver of `shoal_acme`.
//!
//! ```text
//!   driver   a thread of its own: due orders, waits, the lock of the folder
//!   order    one order: account, challenges, request, check of the answer
//!   http     requests to the authority, over the node's connections, each under bounds
//!   folder   files: account, certificates, times of attempts
//! ```
//!
//! Nothing of this is on the way of a client. Listeners read the files of the folder again when
//! they change, so that a certificate of an earlier process is used at once.

mod driver;
mod folder;
mod http;
mod order;

use crate::metrics::Metrics;
use crate::upstream::Upstreams;
use driver::Driver;
use parking_lot::Mutex;
use shoal_acme::Challenges;
use shoal_settings::{AcmeCertificate, Settings};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

/// Handle of the thread that orders certificates.
pub(crate) struct AcmeThread(Arc<OrderDesk>);

/// Parts of the node that the thread uses.
pub(crate) struct AcmeParts {
    /// Connections to the authority.
    pub upstreams: Arc<Upstreams>,
    /// Table of open challenges.
    pub challenges: Arc<Challenges>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Number of this node, by which times are spread.
    pub identity: u64,
}

/// State of the orders for a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderState {
    /// Failures since the last success.
    pub failures: u32,
    /// Time of the next order, in seconds since 1970.
    pub next_at: u64,
    /// Reason of the last failure, in a line; empty after a success.
    pub why: String,
}

/// State that the thread and its handle share.
#[derive(Default)]
struct OrderDesk {
    wanted: Mutex<Vec<AcmeCertificate>>,
    /// States by the certificate's file.
    states: Mutex<HashMap<PathBuf, OrderState>>,
    is_stopping: AtomicBool,
    /// Told of new settings, and of the end.
    changed: Notify,
    /// Told of the end alone.
    ended: Notify,
}

impl AcmeThread {
    /// Starts the thread, if the settings name an authority.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(settings: &Settings, parts: AcmeParts) -> io::Result<Option<Self>> {
        if settings.acme.directory.is_empty() {
            return Ok(None);
        }
        let shared = Arc::new(OrderDesk { wanted: Mutex::new(wanted(settings)), ..OrderDesk::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let driver = Driver::new(settings.acme.clone(), parts, Arc::clone(&shared));
        let run = move || runtime.block_on(driver.run());
        // The thread ends by itself: a stop does not wait for the authority.
        std::thread::Builder::new().name("acme".into()).spawn(run)?;
        Ok(Some(Self(shared)))
    }

    /// Orders the certificates of these settings from now on.
    pub fn want(&self, settings: &Settings) {
        debug_assert!(!self.0.is_stopping.load(SeqCst), "a stopped node takes no settings");
        *self.0.wanted.lock() = wanted(settings);
        self.0.changed.notify_one();
    }

    /// Ends the thread. An order that is under way is given up.
    pub fn stop(&self) {
        self.0.is_stopping.store(true, SeqCst);
        self.0.changed.notify_one();
        self.0.ended.notify_one();
    }

    /// Returns the state of the orders for the certificate in this file.
    pub fn state(&self, file: &std::path::Path) -> Option<OrderState> {
        self.0.states.lock().get(file).cloned()
    }
}

impl OrderDesk {
    /// Waits until the thread is to end.
    async fn stopped(&self) {
        while !self.is_stopping.load(SeqCst) {
            self.ended.notified().await;
        }
    }
}

/// Returns the certificates of all listeners; each set of names once.
fn wanted(settings: &Settings) -> Vec<AcmeCertificate> {
    let mut all: Vec<AcmeCertificate> = Vec::new();
    for certificate in settings.listen.iter().flat_map(|listen| &listen.acme) {
        if all.iter().all(|other| other.stem() != certificate.stem()) {
            all.push(certificate.clone());
        }
    }
    debug_assert!(all.iter().all(|certificate| !certificate.names.is_empty()), "checked with the settings");
    all
}
