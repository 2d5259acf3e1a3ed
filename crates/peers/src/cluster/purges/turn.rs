//! Turns: purges are shown, applied, written down and recorded, those that wait together.

use super::journal::{Journal, JournalRecord, JournalState, RECORD_PURGES};
use super::{ClusterPurges, PurgeState};
use crate::clock;
use crate::purge::PurgeOutcome;
use shoal_cooperation::invalidation::{Purge, Scope, Vector, VectorChange};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, oneshot};

/// Receiver of a purge's outcome, with its number.
type PurgeReply = oneshot::Sender<(PurgeOutcome, Option<u64>)>;

/// Purge of this node.
type OwnPurge = (Scope, PurgeReply);

/// Work for a turn.
pub(super) enum TurnJob {
    /// A purge of this node. The answer has its number, if it could be numbered and written down.
    Own {
        /// Responses to purge.
        scope: Scope,
        /// Receiver of the outcome.
        reply: PurgeReply,
    },
    /// Purges of peers. The answer is `true` once they are written down.
    Foreign {
        /// The purges.
        purges: Vec<Purge>,
        /// Receiver of the outcome.
        reply: oneshot::Sender<bool>,
    },
    /// A vector to take whole. The answer is `true` once that is written down.
    Whole {
        /// The vector.
        vector: Vector,
        /// Receiver of the outcome.
        reply: oneshot::Sender<bool>,
    },
    /// All that is stored is to be validated.
    Validate,
    /// A comparison has succeeded at this time.
    Compared,
}

/// The journal, with the part of its state that the ledger does not have.
pub(super) struct JournalKeeper {
    journal: Option<Journal>,
    state: JournalState,
    /// `true` if the node stores on disk.
    is_needed: bool,
    pen: Arc<JournalPen>,
    /// Times that the pen had come back when the file was last written.
    returns: u64,
    /// Purges of this node that could not be written down. They hold here, and a later turn numbers
    /// them again for the other nodes.
    unwritten: Vec<Scope>,
}

/// Right to write the journal, which one of two processes of a node has.
#[derive(Default)]
pub(super) struct JournalPen {
    is_lent: AtomicBool,
    /// Times that another process has given the right back.
    returns: AtomicU64,
}

impl JournalPen {
    /// Lends the pen to another process, or takes it back.
    pub fn lend(&self, is_lent: bool) {
        if !is_lent {
            self.returns.fetch_add(1, SeqCst);
        }
        self.is_lent.store(is_lent, SeqCst);
    }
}

impl JournalKeeper {
    /// Creates a keeper over this journal.
    pub fn new(journal: Option<Journal>, state: JournalState, pen: Arc<JournalPen>) -> Self {
        Self { is_needed: journal.is_some(), journal, state, pen, returns: 0, unwritten: Vec::new() }
    }

    /// Keeps purges of this node for a later turn.
    fn keep(&mut self, scopes: Vec<Scope>) {
        self.unwritten.extend(scopes);
        if self.unwritten.len() > UNWRITTEN_MAX {
            self.unwritten = vec![Scope::All];
        }
        debug_assert!(self.unwritten.len() <= UNWRITTEN_MAX, "the list is bounded");
    }

    /// Returns the kept purges, if the pen is here to write them down.
    fn take_kept(&mut self) -> Vec<Scope> {
        if self.pen.is_lent.load(SeqCst) { Vec::new() } else { std::mem::take(&mut self.unwritten) }
    }

    /// Writes records, or a new file if the old one is long or broken. `now` has the state that the
    /// records lead to.
    async fn write(
        &mut self,
        records: Vec<JournalRecord>,
        now: impl FnOnce(&JournalState) -> JournalState,
    ) -> bool {
        if !self.is_needed {
            return true;
        }
        if self.pen.is_lent.load(SeqCst) {
            return false;
        }
        let Some(mut journal) = self.journal.take() else { return false };
        // The other process may have replaced the file.
        let returns = self.pen.returns.load(SeqCst);
        if !journal.is_long() && std::mem::replace(&mut self.returns, returns) == returns {
            let work = move || {
                let written = journal.append(&records);
                (journal, written)
            };
            let Ok((returned, written)) = tokio::task::spawn_blocking(work).await else { return false };
            journal = returned;
            if written.is_ok() {
                self.journal = Some(journal);
                return true;
            }
        }
        // A record that was written in part must not stay at the end.
        let whole = now(&self.state);
        let work = move || {
            let written = journal.replace(&whole);
            (journal, written)
        };
        let Ok((journal, written)) = tokio::task::spawn_blocking(work).await else { return false };
        self.journal = Some(journal);
        if let Err(error) = &written {
            tracing::warn!(%error, "purges of the cluster could not be written down");
        }
        written.is_ok()
    }
}

/// Takes turns until the node has ended.
pub(super) async fn work(
    purges: Weak<ClusterPurges>,
    mut queue: mpsc::Receiver<TurnJob>,
    mut keeper: JournalKeeper,
) {
    let mut jobs = Vec::new();
    while queue.recv_many(&mut jobs, TURN_MAX).await > 0 {
        let Some(purges) = purges.upgrade() else { return };
        purges.turn(std::mem::take(&mut jobs), &mut keeper).await;
    }
}

impl ClusterPurges {
    async fn turn(self: &Arc<Self>, jobs: Vec<TurnJob>, keeper: &mut JournalKeeper) {
        let (mut own, mut foreign, mut foreign_replies) = (Vec::new(), Vec::new(), Vec::new());
        for job in jobs {
            match job {
                TurnJob::Own { scope, reply } => own.push((scope, reply)),
                TurnJob::Foreign { purges, reply } => {
                    foreign.extend(purges);
                    foreign_replies.push(reply);
                }
                TurnJob::Whole { vector, reply } => drop(reply.send(self.take_whole(&vector, keeper).await)),
                TurnJob::Validate => drop(self.demand_validation(keeper).await),
                TurnJob::Compared => self.note_compared(keeper).await,
            }
        }
        // Nobody waits for the outcome of a purge that was kept.
        own.extend(keeper.take_kept().into_iter().map(|scope| (scope, oneshot::channel().0)));
        if own.is_empty() && foreign_replies.is_empty() {
            return;
        }
        let (purges, numbers) = self.admit(&own, foreign);
        let outcomes = self.apply(&purges).await;
        let is_written = self.write_down(&purges, &outcomes, keeper).await;
        if is_written {
            self.record(purges.clone(), keeper).await;
        } else {
            self.state.lock().ledger.withdraw();
            keeper.keep(own.iter().map(|(scope, _)| scope.clone()).collect());
        }
        for ((_, reply), number) in own.into_iter().zip(numbers) {
            let at =
                purges.iter().position(|purge| purge.id.number == number && purge.id.origin == self.node);
            let outcome = at.map(|at| outcomes[at].clone());
            let outcome = outcome.unwrap_or_else(|| PurgeOutcome::Failed(super::ENDED.into()));
            let _ = match (outcome, is_written) {
                (PurgeOutcome::Purged { .. }, false) => {
                    reply.send((PurgeOutcome::Failed(NOT_WRITTEN.into()), None))
                }
                (outcome, _) => reply.send((outcome, is_written.then_some(number))),
            };
        }
        for reply in foreign_replies {
            let _ = reply.send(is_written);
        }
        if is_written {
            self.spread_to_all();
        }
    }

    /// Numbers the purges of this node, lets those of peers in, and shows the hash that follows.
    /// Returns all purges that are due, and the numbers of this node's.
    fn admit(&self, own: &[OwnPurge], foreign: Vec<Purge>) -> (Vec<Purge>, Vec<u64>) {
        let mut state = self.state.lock();
        let PurgeState { ledger, is_caught_up, .. } = &mut *state;
        let mut purges = ledger.admit(foreign);
        let mut numbers = Vec::new();
        for (scope, _) in own {
            purges.extend(ledger.issue(scope.clone(), *is_caught_up));
            numbers.push(ledger.issued());
        }
        self.shown.store(ledger.hash_with(&purges), SeqCst);
        (purges, numbers)
    }

    /// Applies purges, some at a time, in their order as far as they touch the same responses: all
    /// only remove.
    async fn apply(&self, purges: &[Purge]) -> Vec<PurgeOutcome> {
        let mut outcomes = Vec::with_capacity(purges.len());
        for part in purges.chunks(APPLIED_AT_ONCE) {
            let tasks: Vec<_> = part
                .iter()
                .map(|purge| {
                    let (target, scope) = (Arc::clone(&self.target), purge.scope.clone());
                    tokio::spawn(async move { target.apply(&scope).await })
                })
                .collect();
            for task in tasks {
                let outcome = task.await;
                outcomes.push(outcome.unwrap_or_else(|_| PurgeOutcome::Failed(super::ENDED.into())));
            }
        }
        outcomes
    }

    async fn write_down(
        &self,
        purges: &[Purge],
        outcomes: &[PurgeOutcome],
        keeper: &mut JournalKeeper,
    ) -> bool {
        // The response may come back with its disk: the next start validates all.
        let is_uncertain = outcomes.iter().any(|outcome| matches!(outcome, PurgeOutcome::Failed(_)));
        keeper.state.is_uncertain |= is_uncertain;
        let mut records: Vec<JournalRecord> =
            purges.chunks(RECORD_PURGES).map(|purges| JournalRecord::Applied(purges.to_vec())).collect();
        records.extend(is_uncertain.then_some(JournalRecord::Uncertain));
        let written = purges.to_vec();
        keeper
            .write(records, |state| {
                let mut ledger = self.state.lock().ledger.clone();
                let _ = ledger.record(written, clock::now());
                state.with_ledger(&ledger)
            })
            .await
    }

    async fn record(&self, purges: Vec<Purge>, keeper: &mut JournalKeeper) {
        let foreign = purges.iter().filter(|purge| purge.id.origin != self.node).count();
        self.metrics.cluster_purges_applied.add(foreign as u64);
        let change = {
            let mut state = self.state.lock();
            let change = state.ledger.record(purges, clock::now());
            self.publish(&state);
            change
        };
        if change == VectorChange::Uncertain {
            self.metrics.cluster_purges_wholes.increment();
            self.demand_validation(keeper).await;
        }
    }

    /// Takes a peer's vector, after all that is stored needs validation.
    async fn take_whole(&self, vector: &Vector, keeper: &mut JournalKeeper) -> bool {
        if self.state.lock().ledger.vector().covers(vector) {
            return true;
        }
        if !self.demand_validation(keeper).await {
            return false;
        }
        let mut ledger = self.state.lock().ledger.clone();
        ledger.take_whole(vector);
        let records = vec![JournalRecord::Vector(ledger.vector().clone())];
        // A new file: the entries of the old one no longer reach up to the vector.
        let is_written = keeper.write(records, |state| state.with_ledger(&ledger)).await;
        if is_written {
            self.metrics.cluster_purges_wholes.increment();
            let mut state = self.state.lock();
            state.ledger.take_whole(vector);
            self.publish(&state);
        }
        is_written
    }

    async fn demand_validation(&self, keeper: &mut JournalKeeper) -> bool {
        let before = self.target.require_validation();
        keeper.state.validate_before = keeper.state.validate_before.max(before);
        let ledger = self.state.lock().ledger.clone();
        keeper.write(vec![JournalRecord::ValidateBefore(before)], |state| state.with_ledger(&ledger)).await
    }

    /// Writes the time of a comparison, at most once a minute.
    async fn note_compared(&self, keeper: &mut JournalKeeper) {
        let now = clock::now();
        let is_due = keeper.state.compared.is_none_or(|last| last > now || now.since(last) >= COMPARED_EVERY);
        if is_due {
            keeper.state.compared = Some(now);
            let ledger = self.state.lock().ledger.clone();
            let record = JournalRecord::Compared(now);
            keeper.write(vec![record], |state| state.with_ledger(&ledger)).await;
        }
    }

    /// Shows the hash of the recorded vector.
    fn publish(&self, state: &PurgeState) {
        let hash = state.ledger.vector().hash();
        self.recorded.store(hash, SeqCst);
        self.shown.store(hash, SeqCst);
    }
}

/// Most jobs of a turn.
const TURN_MAX: usize = 1024;

/// Most purges applied at the same time.
const APPLIED_AT_ONCE: usize = 64;

/// Interval at which the time of comparisons is written.
const COMPARED_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Most purges that are kept for a later turn; of more, everything counts as purged.
const UNWRITTEN_MAX: usize = 1024;

const NOT_WRITTEN: &str = "purged on this node until its next start only, and sent to no other: the purge could not be written down";
