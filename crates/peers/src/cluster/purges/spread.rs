//! Spreading: each member gets the purges of this node in order, one batch on the way at a time.

use super::ClusterPurges;
use shoal_cooperation::invalidation::Message;
use shoal_cooperation::{Member, NodeId};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Members that have applied a purge and written it down, and those that have not said so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// Names of members that confirmed.
    pub confirmed: Vec<String>,
    /// Names of members that did not confirm in time.
    pub missing: Vec<String>,
}

impl Confirmation {
    /// Returns the confirmation that none of these members gave.
    pub(super) fn nobody(members: &[Member]) -> Self {
        Self {
            confirmed: Vec::new(),
            missing: members.iter().map(|member| member.name.to_string()).collect(),
        }
    }
}

impl ClusterPurges {
    /// Starts to send to each member that has not confirmed all purges of this node.
    pub(super) fn spread_to_all(self: &Arc<Self>) {
        let members = self.others();
        let count = members.len() as u64 + 1;
        let mut furthest = 0;
        for member in members {
            let mut state = self.state.lock();
            let acked = state.acked.get(&member.id).copied().unwrap_or(0);
            let behind = state.ledger.vector().number(self.node, state.ledger.life()).saturating_sub(acked);
            furthest = behind.max(furthest);
            if behind > 0 && state.spreading.insert(member.id) {
                let purges = Arc::clone(self);
                self.runtime.spawn(async move { purges.spread(&member).await });
            }
        }
        self.show(furthest, count);
    }

    /// Shows the lag, and the number of members.
    fn show(&self, lag: u64, members: u64) {
        let mut state = self.state.lock();
        debug_assert!(members >= 1, "this node is a member");
        self.metrics.cluster_members.add(members);
        self.metrics.cluster_members.subtract(state.members);
        state.members = members;
        self.metrics.cluster_purges_lag.add(lag);
        self.metrics.cluster_purges_lag.subtract(state.lag);
        state.lag = lag;
    }

    /// Sends batches to a member until it has confirmed all, or makes no progress.
    async fn spread(&self, member: &Member) {
        while self.send_batch(member).await {}
    }

    /// Sends a batch. Returns `true` if more is to be sent at once.
    async fn send_batch(&self, member: &Member) -> bool {
        let (batch, acked) = {
            let mut state = self.state.lock();
            let acked = state.acked.get(&member.id).copied().unwrap_or(0);
            let (ledger, life) = (&state.ledger, state.ledger.life());
            let batch = ledger.log().after(self.node, life, acked, BATCH_BYTES);
            if batch.is_empty() {
                state.spreading.remove(&member.id);
                return false;
            }
            (batch, acked)
        };
        self.metrics.cluster_purges_sent.add(batch.len() as u64);
        let body = Message::Apply { from: self.node, purges: batch }.encode();
        let answer = self.calls.call(member.address, "purges/apply", body.into()).await;
        let answer = answer.ok().and_then(|bytes| Message::decode(&bytes));
        let is_further = match answer {
            Some(Message::Applied { number, .. }) => {
                self.note_acked(member.id, number);
                number > acked
            }
            _ => false,
        };
        // Without progress, the next comparison begins again.
        if !is_further {
            self.state.lock().spreading.remove(&member.id);
        }
        is_further
    }

    /// Notes the last number of this life that a member has applied.
    pub(super) fn note_acked(&self, member: NodeId, number: u64) {
        let mut state = self.state.lock();
        let issued = state.ledger.issued();
        let acked = state.acked.entry(member).or_default();
        // A member cannot confirm more than there is.
        *acked = number.min(issued).max(*acked);
        drop(state);
        self.confirmed.send_modify(|count| *count += 1);
    }

    /// Returns the purges of this node that a member has not confirmed.
    pub fn lag_of(&self, member: NodeId) -> u64 {
        let state = self.state.lock();
        let acked = state.acked.get(&member).copied().unwrap_or(0);
        state.ledger.vector().number(self.node, state.ledger.life()).saturating_sub(acked)
    }

    /// Waits until all members have confirmed this number, or until the time has come. A node that
    /// came meanwhile is asked too, and a node that was declared dead meanwhile is still named.
    pub(super) async fn wait_confirmed(self: &Arc<Self>, number: u64, until: Instant) -> Confirmation {
        let mut asked = self.others();
        let mut changes = self.confirmed.subscribe();
        let mut is_late = false;
        loop {
            changes.borrow_and_update();
            let is_new = |member: &Member| asked.iter().all(|known| known.id != member.id);
            let new: Vec<Member> = self.others().into_iter().filter(is_new).collect();
            if !new.is_empty() {
                asked.extend(new);
                self.spread_to_all();
            }
            let confirmation = self.confirmation(&asked, number);
            if confirmation.missing.is_empty() {
                self.metrics.cluster_purges_confirmed.increment();
                return confirmation;
            }
            if is_late {
                self.metrics.cluster_purges_late.increment();
                self.tell_late(&confirmation.missing);
                return confirmation;
            }
            is_late = !matches!(timeout_at(until, changes.changed()).await, Ok(Ok(())));
        }
    }

    /// Names the nodes that have not confirmed in the log, once in a while.
    fn tell_late(&self, missing: &[String]) {
        let now = std::time::Instant::now();
        let mut state = self.state.lock();
        if missing.is_empty() || state.told_late.is_some_and(|last| now - last < TOLD_AGAIN_AFTER) {
            return;
        }
        state.told_late = Some(now);
        drop(state);
        let named = missing.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if missing.len() > NAMED_MAX { " and others" } else { "" };
        tracing::warn!(
            "a purge is not confirmed by {named}{more}: they may serve what was purged until they are reached"
        );
    }

    fn confirmation(&self, members: &[Member], number: u64) -> Confirmation {
        let state = self.state.lock();
        let has = |member: &&Member| state.acked.get(&member.id).is_some_and(|acked| *acked >= number);
        let (confirmed, missing): (Vec<&Member>, Vec<&Member>) = members.iter().partition(has);
        let names = |members: Vec<&Member>| members.iter().map(|member| member.name.to_string()).collect();
        Confirmation { confirmed: names(confirmed), missing: names(missing) }
    }
}

/// Pause between two lines about purges that are not confirmed.
const TOLD_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// Most nodes named in such a line.
const NAMED_MAX: usize = 8;

/// Most bytes of purges in a batch.
const BATCH_BYTES: usize = 256 << 10;
