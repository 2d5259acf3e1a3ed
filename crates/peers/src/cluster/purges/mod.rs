//! Purges of the whole cluster: sent to all members, confirmed, written down, and made up for.
//!
//! ```text
//!  operator, client, origin server ─► turn ─► spread to each member until it confirms
//!  purges/apply, purges/pull ───────►  │
//!                                      └ show the new vector, apply, write down, record
//! ```
//!
//! One thread with its own runtime takes the turns, spreads, and compares with a random member each
//! second. A turn shows the hash of its purges to peers from before it applies them. A peer that
//! lacks them then gives no body to be stored after its purge.

mod journal;
mod lease;
mod repair;
mod service;
mod spread;
mod turn;

pub use journal::{Journal, JournalRecord, JournalState};
pub use service::PurgeService;
pub use spread::Confirmation;

use crate::clock;
use crate::metrics::Metrics;
use crate::purge::PurgeOutcome;
use parking_lot::Mutex;
use shoal_cluster::PeerCalls;
use shoal_cooperation::invalidation::{
    Coverage, LogLimits, PurgeLedger, PurgeLog, PurgeShare, Scope, absence_needs_validation,
};
use shoal_cooperation::{Member, MemberState, NodeId, View};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use turn::TurnJob;

/// Cache that purges reach.
pub trait PurgeTarget: Send + Sync + 'static {
    /// Removes the responses that the scope names, and waits until that is written down.
    fn apply<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = PurgeOutcome> + Send + 'a>>;

    /// Demands a validation of all responses stored so far. Returns the number for the journal.
    fn require_validation(&self) -> u64;

    /// Demands a validation of responses that an earlier process stored before this number.
    fn validate_before(&self, number: u64);

    /// Demands a validation of all responses of earlier processes, or lifts this demand.
    fn validate_earlier_processes(&self, is_demanded: bool);
}

/// Purges of the cluster, as this node takes part in them.
pub struct ClusterPurges {
    node: NodeId,
    state: Mutex<PurgeState>,
    /// Hash of the recorded vector.
    recorded: AtomicU64,
    /// Hash of the vector that this node shows when it asks for bodies.
    shown: AtomicU64,
    jobs: mpsc::Sender<TurnJob>,
    /// Counts confirmations; each change wakes waiting purges.
    confirmed: watch::Sender<u64>,
    view: Box<dyn Fn() -> Arc<View> + Send + Sync>,
    calls: Arc<dyn PeerCalls>,
    target: Arc<dyn PurgeTarget>,
    metrics: Arc<Metrics>,
    runtime: Handle,
    pen: Arc<turn::JournalPen>,
    started: Instant,
    /// Time without word from most nodes after which all is validated, in milliseconds; 0 for none.
    validate_after_ms: AtomicU64,
}

/// Parts that one lock guards.
struct PurgeState {
    ledger: PurgeLedger,
    share: PurgeShare,
    /// Last number of this life that each member has confirmed.
    acked: BTreeMap<NodeId, u64>,
    /// Members to which purges are on their way.
    spreading: BTreeSet<NodeId>,
    /// Members to which the last try brought nothing.
    unreached: BTreeSet<NodeId>,
    /// Members that are compared with because they asked.
    comparing: BTreeSet<NodeId>,
    /// Members compared with in this life, by their own lives.
    compared: BTreeMap<NodeId, u64>,
    /// `true` once all members were compared with.
    is_caught_up: bool,
    /// Lag of the member furthest behind, as the gauge shows it.
    lag: u64,
    /// Members as the gauge shows them.
    members: u64,
    /// Time of the last word of each node.
    roster: lease::Roster,
    /// Time at which the log last told of a purge that is not confirmed.
    told_late: Option<Instant>,
}

/// Parts from which the purges of a cluster are built.
pub struct ClusterPurgesParts {
    /// This node.
    pub node: NodeId,
    /// Returns the members as this node sees them now.
    pub view: Box<dyn Fn() -> Arc<View> + Send + Sync>,
    /// Way to the other nodes.
    pub calls: Arc<dyn PeerCalls>,
    /// Cache of this node.
    pub target: Arc<dyn PurgeTarget>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl ClusterPurges {
    /// Starts the thread. `journal` is the path of the file, for a node that stores on disk.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(parts: ClusterPurgesParts, journal: Option<&Path>) -> io::Result<Arc<Self>> {
        let (state, journal) = open(&parts, journal);
        let ledger = {
            let log = PurgeLog::restored(&state.vector, state.purges.clone(), clock::now());
            PurgeLedger::new(parts.node, state.life, state.vector.clone(), log, LIMITS)
        };
        // Responses stored earlier are validated until all members were compared with.
        parts.target.validate_earlier_processes(true);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .thread_name("cluster-purges-disk")
            .build()?;
        let (jobs, queue) = mpsc::channel(JOBS_MAX);
        let purges = Arc::new(Self {
            node: parts.node,
            recorded: AtomicU64::new(ledger.vector().hash()),
            shown: AtomicU64::new(ledger.vector().hash()),
            state: Mutex::new(PurgeState {
                ledger,
                share: PurgeShare::new(SHARE_BURST, SHARE_PER_SECOND),
                acked: BTreeMap::new(),
                spreading: BTreeSet::new(),
                unreached: BTreeSet::new(),
                comparing: BTreeSet::new(),
                compared: BTreeMap::new(),
                is_caught_up: false,
                lag: 0,
                members: 0,
                roster: lease::Roster::default(),
                told_late: None,
            }),
            jobs,
            confirmed: watch::Sender::new(0),
            view: parts.view,
            calls: parts.calls,
            target: parts.target,
            metrics: parts.metrics,
            runtime: runtime.handle().clone(),
            pen: Arc::default(),
            started: Instant::now(),
            validate_after_ms: AtomicU64::new(0),
        });
        let (weak, pen) = (Arc::downgrade(&purges), Arc::clone(&purges.pen));
        let thread = std::thread::Builder::new().name("cluster-purges".into());
        thread.spawn(move || {
            runtime.block_on(async {
                let ticks = tokio::spawn(tick(weak.clone()));
                turn::work(weak, queue, turn::JournalKeeper::new(journal, state, pen)).await;
                ticks.abort();
            });
            runtime.shutdown_background();
        })?;
        Ok(purges)
    }

    /// Returns the hash of the purges that this node has applied, or is about to. Asks for bodies
    /// carry it.
    pub fn vector_hash(&self) -> u64 {
        self.shown.load(SeqCst)
    }

    /// Returns the hash of the purges that this node has recorded.
    pub fn recorded_hash(&self) -> u64 {
        self.recorded.load(SeqCst)
    }

    /// Leaves the journal to another process, or takes it back. Meanwhile no purge counts as
    /// written down, so that peers send theirs again, to the process that writes.
    pub fn freeze(&self, is_frozen: bool) {
        self.pen.lend(is_frozen);
    }

    /// Judges a peer that asks for a body, by the hash in its ask. Lock-free if both are equal.
    pub fn covers(&self, theirs: u64) -> Coverage {
        if self.recorded.load(SeqCst) == theirs {
            return Coverage::Covered;
        }
        self.state.lock().ledger.coverage(theirs)
    }

    /// Returns `true` if all members were compared with in this life.
    pub fn is_caught_up(&self) -> bool {
        self.state.lock().is_caught_up
    }

    /// Returns the other members that can hold bodies.
    fn others(&self) -> Vec<Member> {
        let view = (self.view)();
        let is_other = |member: &&Member| member.id != self.node && member.state != MemberState::Out;
        view.members().iter().filter(is_other).cloned().collect()
    }

    /// Purges in the whole cluster. Returns the outcome here, and the nodes that have confirmed
    /// within `patience`.
    pub async fn purge(self: &Arc<Self>, scope: Scope, patience: Duration) -> (PurgeOutcome, Confirmation) {
        let begun = tokio::time::Instant::now();
        let (reply, told) = oneshot::channel();
        let queued = self.jobs.send_timeout(TurnJob::Own { scope: scope.clone(), reply }, patience).await;
        if queued.is_err() {
            self.metrics.cluster_purges_unsent.increment();
            return (self.target.apply(&scope).await, Confirmation::nobody(&self.others()));
        }
        match told.await {
            Ok((outcome, Some(number))) => {
                let confirmation = self.wait_confirmed(number, begun + patience).await;
                (outcome, confirmation)
            }
            Ok((outcome, None)) => (outcome, Confirmation::nobody(&self.others())),
            Err(_) => (PurgeOutcome::Failed(ENDED.into()), Confirmation::nobody(&self.others())),
        }
    }
}

/// Compares with a random member once a second, and with new members more often. Sends purges that
/// a member lacks. Ends with the node.
async fn tick(purges: Weak<ClusterPurges>) {
    let mut ticks = tokio::time::interval(COMPARE_EVERY / TRIES_BETWEEN);
    let mut count = 0_u32;
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(purges) = purges.upgrade() else { return };
        purges.compare_new();
        if count.is_multiple_of(TRIES_BETWEEN) {
            purges.compare_some();
            purges.check_lease();
        }
        count = count.wrapping_add(1);
        purges.spread_to_all();
    }
}

/// Reads the journal and makes a new one. Demands the validations that follow from its state.
fn open(parts: &ClusterPurgesParts, path: Option<&Path>) -> (JournalState, Option<Journal>) {
    let now = clock::now();
    let first_life = JournalState { life: now.millis(), ..JournalState::default() };
    let Some(path) = path else { return (first_life, None) };
    let read = Journal::read(path, parts.node);
    if let Err(error) = &read {
        tracing::error!(%error, "the cluster's purges cannot be read: all that was stored before is validated");
    }
    let mut state = match read.ok().flatten() {
        Some(state) if !state.is_uncertain && !absence_needs_validation(state.compared, now, LIMITS.age) => {
            parts.target.validate_before(state.validate_before);
            state
        }
        known => {
            let state = known.unwrap_or_default();
            JournalState { validate_before: parts.target.require_validation(), is_uncertain: false, ..state }
        }
    };
    state.life = now.millis().max(state.life + 1);
    match Journal::create(path, parts.node, &state) {
        Ok(journal) => (state, Some(journal)),
        Err(error) => {
            tracing::error!(%error, "the cluster's purges cannot be written: each purge will say so");
            (state, None)
        }
    }
}

const ENDED: &str = "the node ends";

/// Limits of the log, in RAM and on disk.
const LIMITS: LogLimits = LogLimits { entries: 20_000, bytes: 4 << 20, age: Duration::from_secs(3600) };

/// Interval of comparisons with a random member.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// Tries to send purges that a member lacks, in the time between two comparisons. Purges that a cut
/// kept back are thus made up for within a second of its end.
const TRIES_BETWEEN: u32 = 4;

/// Time for which a node without other members waits for them before it counts as caught up.
const ALONE_FOR: Duration = Duration::from_secs(10);

/// Most turns that wait.
const JOBS_MAX: usize = 16_384;

/// Purges that a member may send in a burst, and per second after that.
const SHARE_BURST: u64 = 20_000;
const SHARE_PER_SECOND: u64 = 2_000;

#[cfg(test)]
mod tests;
