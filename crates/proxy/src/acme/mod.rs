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
use crate::upstream::{SetupError, Upstreams};
use driver::Driver;
use parking_lot::Mutex;
use shoal_acme::Challenges;
use shoal_settings::{Acme, AcmeCertificate, Settings};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

/// Handle of the thread that orders certificates. The thread begins with the first settings that
/// name an authority.
pub(crate) struct AcmeThread {
    desk: Arc<OrderDesk>,
    parts: AcmeParts,
    has_begun: AtomicBool,
}

/// Parts of the node that the thread uses.
#[derive(Clone)]
pub(crate) struct AcmeParts {
    /// Table of open challenges.
    pub challenges: Arc<Challenges>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Number of this node, by which times are spread.
    pub identity: u64,
}

/// Settings of the orders, with the connections to the authority under its own trust.
pub(crate) struct OrderPlan {
    acme: Acme,
    /// Certificates of all listeners; each set of names once.
    wanted: Vec<AcmeCertificate>,
    upstreams: Arc<Upstreams>,
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
struct OrderDesk {
    plan: Mutex<Arc<OrderPlan>>,
    /// States by the certificate's file.
    states: Mutex<HashMap<PathBuf, OrderState>>,
    is_stopping: AtomicBool,
    /// Told of new settings, and of the end.
    changed: Notify,
    /// Told of the end alone.
    ended: Notify,
}

impl OrderPlan {
    /// Reads the authorities that are trusted for the directory's host.
    ///
    /// # Errors
    /// If `acme.ca_file` cannot be used.
    pub fn new(settings: &Settings, metrics: &Arc<Metrics>) -> Result<Self, SetupError> {
        let upstreams = Arc::new(Upstreams::for_orders(settings, Arc::clone(metrics))?);
        Ok(Self { acme: settings.acme.clone(), wanted: wanted(settings), upstreams })
    }
}

impl AcmeThread {
    /// Starts the thread, if the plan names an authority.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(plan: OrderPlan, parts: AcmeParts) -> io::Result<Self> {
        let desk = OrderDesk {
            plan: Mutex::new(Arc::new(plan)),
            states: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            changed: Notify::new(),
            ended: Notify::new(),
        };
        let thread = Self { desk: Arc::new(desk), parts, has_begun: AtomicBool::new(false) };
        thread.begin()?;
        Ok(thread)
    }

    /// Starts the thread once an authority is named.
    fn begin(&self) -> io::Result<()> {
        if self.desk.plan.lock().acme.directory.is_empty() || self.has_begun.swap(true, SeqCst) {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let driver = Driver::new(self.parts.clone(), Arc::clone(&self.desk));
        let run = move || runtime.block_on(driver.run());
        // The thread ends by itself: a stop does not wait for the authority.
        std::thread::Builder::new().name("acme".into()).spawn(run)?;
        Ok(())
    }

    /// Orders by this plan from now on. An order under way ends by the plan before.
    pub fn follow(&self, plan: OrderPlan) {
        debug_assert!(!self.desk.is_stopping.load(SeqCst), "a stopped node takes no settings");
        *self.desk.plan.lock() = Arc::new(plan);
        if let Err(error) = self.begin() {
            self.has_begun.store(false, SeqCst);
            tracing::error!(%error, "no thread orders certificates; the next reload tries again");
        }
        self.desk.changed.notify_one();
    }

    /// Ends the thread. An order that is under way is given up.
    pub fn stop(&self) {
        self.desk.is_stopping.store(true, SeqCst);
        self.desk.changed.notify_one();
        self.desk.ended.notify_one();
    }

    /// Returns the state of the orders for the certificate in this file.
    pub fn state(&self, file: &std::path::Path) -> Option<OrderState> {
        self.desk.states.lock().get(file).cloned()
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
