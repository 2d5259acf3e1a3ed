//! Pulling: asks the members for their digests, each in its turn.

use super::{ClusterDigests, PULL_BYTES, TICK, set_gauge};
use shoal_cluster::{CallError, PeerCalls};
use shoal_cooperation::directory::{DigestAnswer, DigestPull, DigestReceipt, KnownDigests};
use shoal_cooperation::{Member, NodeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Turns of the members.
#[derive(Default)]
pub(super) struct PullTurns(HashMap<NodeId, PullTurn>);

/// Turn of one member.
#[derive(Clone, Copy)]
struct PullTurn {
    /// Time of the last pull.
    last: Duration,
    /// Time to wait after it.
    wait: Duration,
}

impl PullTurns {
    /// Returns `Some` if the member is to be pulled from now; `true` if that must be paid for.
    /// With a hint that the member has a newer digest, the wait without news does not count.
    fn is_due(&self, node: NodeId, now: Duration, is_hinted: bool) -> Option<bool> {
        let Some(turn) = self.0.get(&node) else { return Some(true) };
        let since = now.saturating_sub(turn.last);
        let wait = if is_hinted && turn.wait <= WAIT_MAX { TICK } else { turn.wait };
        (since >= wait).then_some(since < FREE_AFTER)
    }

    /// Records the outcome of a pull. News come soon again, their absence lets the wait grow.
    fn done(&mut self, node: NodeId, now: Duration, receipt: Option<DigestReceipt>) {
        let before = self.0.get(&node).map_or(TICK, |turn| turn.wait);
        let wait = match receipt {
            Some(DigestReceipt::Changed | DigestReceipt::Gap) => TICK,
            Some(DigestReceipt::Unchanged) => (before * 2).min(WAIT_MAX),
            Some(DigestReceipt::Off | DigestReceipt::Refused) | None => FREE_AFTER,
        };
        self.0.insert(node, PullTurn { last: now, wait });
    }
}

impl ClusterDigests {
    /// Pulls from all members that are due.
    pub(super) async fn pull_due(self: &Arc<Self>, turns: &mut PullTurns) {
        let members = self.others();
        let is_member = |node| members.iter().any(|member| member.id == node);
        turns.0.retain(|node, _| is_member(*node));
        self.trust.lock().retain(|node, _| is_member(*node));
        let mut known = KnownDigests::clone(&self.known.load());
        let now = self.started.elapsed();
        known.keep(now, is_member);
        let mut calls = JoinSet::new();
        let hints = std::mem::take(&mut *self.hints.lock());
        let is_due = |member: &Member| match turns.is_due(member.id, now, hints.contains(&member.id)) {
            Some(true) => self.pays(PULL_BYTES),
            Some(false) => {
                self.metrics.cluster_digest_bytes.add(PULL_BYTES);
                true
            }
            None => false,
        };
        let due: Vec<Member> = members.iter().filter(|member| is_due(member)).cloned().collect();
        let mut due = due.into_iter();
        loop {
            while calls.len() < CALLS_MAX
                && let Some(member) = due.next()
            {
                let body = DigestPull { from: self.node, known: known.version(member.id) }.encode();
                let way = Arc::clone(&self.calls);
                calls.spawn(async move { pull(&*way, &member, body).await });
            }
            let Some(done) = calls.join_next().await else { break };
            let Ok((node, answer)) = done else { continue };
            let receipt = answer.ok().map(|answer| self.take(&mut known, node, answer));
            turns.done(node, now, receipt);
        }
        set_gauge(&self.metrics.cluster_digest_age, known.age(now).as_secs());
        self.known.store(Arc::new(known));
    }

    /// Takes the answer of a node.
    fn take(&self, known: &mut KnownDigests, node: NodeId, answer: Option<DigestAnswer>) -> DigestReceipt {
        let Some(answer) = answer else {
            self.metrics.cluster_digest_refused.increment();
            known.forget(node);
            return DigestReceipt::Refused;
        };
        let before = known.digest(node).cloned();
        let receipt = known.receive(node, answer, self.started.elapsed());
        match receipt {
            DigestReceipt::Refused => self.metrics.cluster_digest_refused.increment(),
            DigestReceipt::Gap => self.metrics.cluster_digest_gaps.increment(),
            DigestReceipt::Changed => {
                self.metrics.cluster_digest_versions.increment();
                if let (Some(before), Some(now)) = (before, known.digest(node)) {
                    let mut missed = self.missed.lock();
                    let asked = missed.len();
                    missed.retain(|key| before.contains(*key) || !now.contains(*key));
                    self.metrics.cluster_digest_false_misses.add((asked - missed.len()) as u64);
                }
            }
            DigestReceipt::Unchanged | DigestReceipt::Off => {}
        }
        receipt
    }
}

/// Pulls from a member. The answer is `None` if it cannot be read.
async fn pull(
    calls: &dyn PeerCalls,
    member: &Member,
    body: Vec<u8>,
) -> (NodeId, Result<Option<DigestAnswer>, CallError>) {
    let answer = match calls.call(member.address, "digests/pull", body.into()).await {
        Ok(bytes) => Ok(DigestAnswer::decode(&bytes)),
        // A node of an earlier version.
        Err(CallError::Unknown) => Ok(Some(DigestAnswer::Off)),
        Err(error) => Err(error),
    };
    (member.id, answer)
}

/// Longest wait for news while the budget pays.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// Time after which a pull is made even if the budget does not cover it.
const FREE_AFTER: Duration = Duration::from_secs(30);

/// Most pulls at the same time.
const CALLS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_slow_down_without_news() {
        let (node, mut turns) = (NodeId(1), PullTurns::default());
        let mut now = Duration::ZERO;
        assert_eq!(turns.is_due(node, now, false), Some(true));
        for seconds in [2, 4, 8, 8] {
            turns.done(node, now, Some(DigestReceipt::Unchanged));
            assert_eq!(turns.is_due(node, now + Duration::from_secs(seconds - 1), false), None);
            now += Duration::from_secs(seconds);
            assert_eq!(turns.is_due(node, now, false), Some(true));
        }
        turns.done(node, now, Some(DigestReceipt::Changed));
        assert_eq!(turns.is_due(node, now + TICK, false), Some(true));
        turns.done(node, now, None);
        assert_eq!(turns.is_due(node, now + WAIT_MAX, false), None);
        assert_eq!(turns.is_due(node, now + FREE_AFTER, false), Some(false));
    }

    #[test]
    fn hint_of_a_newer_digest_ends_the_wait() {
        let (node, mut turns) = (NodeId(1), PullTurns::default());
        (0..4).for_each(|_| turns.done(node, Duration::ZERO, Some(DigestReceipt::Unchanged)));
        assert_eq!(turns.is_due(node, TICK, false), None);
        assert_eq!(turns.is_due(node, TICK, true), Some(true), "the budget pays for it");
        assert_eq!(turns.is_due(node, TICK / 2, true), None, "once a tick");
        turns.done(node, Duration::ZERO, Some(DigestReceipt::Refused));
        assert_eq!(turns.is_due(node, TICK, true), None, "its digests cannot be used");
    }
}
