//! Lease of the purges: a node without word from most nodes validates all that it has stored.
//!
//! A node that is cut off serves purged responses until it is reached again. With
//! `cluster.validate_after` it waits that long for word from a majority. Then it demands a
//! validation of all responses stored so far, and again at each half of the time. A purge is thus
//! true everywhere after the time, confirmed or not. Word is a comparison of purges that
//! found nothing lacking. Nodes that have been seen within an hour count, also those that are out.

use super::ClusterPurges;
use super::turn::TurnJob;
use shoal_cooperation::{Member, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Nodes of the last hour, with the last word of each.
#[derive(Debug, Default)]
pub(super) struct Roster {
    nodes: BTreeMap<NodeId, LastWord>,
    /// Time of the last demand for validation.
    demanded: Option<Instant>,
}

/// Times of a node.
#[derive(Clone, Copy, Debug)]
struct LastWord {
    /// Last comparison, or the time at which the node was seen first.
    heard: Instant,
    /// Last time at which the node was a member.
    seen: Instant,
}

impl Roster {
    /// Notes the members at this time.
    fn see(&mut self, members: &[Member], now: Instant) {
        for member in members {
            self.nodes.entry(member.id).or_insert(LastWord { heard: now, seen: now }).seen = now;
        }
        self.nodes.retain(|_, word| now - word.seen < REMEMBERED);
    }

    /// Notes word of a node.
    fn hear(&mut self, node: NodeId, now: Instant) {
        self.nodes.insert(node, LastWord { heard: now, seen: now });
    }

    /// Returns `true` if all must be validated now: most nodes were silent for `period`, and the
    /// last demand is half of it ago.
    fn is_due(&mut self, period: Duration, now: Instant) -> bool {
        let heard = 1 + self.nodes.values().filter(|word| now - word.heard < period).count();
        debug_assert!(heard <= 1 + self.nodes.len(), "each node counts once");
        if 2 * heard > 1 + self.nodes.len() {
            self.demanded = None;
            return false;
        }
        debug_assert!(!period.is_zero(), "a lease has a time");
        let is_due = self.demanded.is_none_or(|last| now - last >= period / 2);
        if is_due {
            self.demanded = Some(now);
        }
        is_due
    }

    /// Returns the members that were silent for a quarter of the period.
    fn silent<'m>(&self, members: &'m [Member], period: Duration, now: Instant) -> Vec<&'m Member> {
        let is_silent =
            |member: &&Member| self.nodes.get(&member.id).is_none_or(|word| now - word.heard >= period / 4);
        members.iter().filter(is_silent).take(AT_ONCE).collect()
    }
}

impl ClusterPurges {
    /// Sets the time without word after which all is validated; `None` for never.
    pub fn set_validate_after(&self, after: Option<Duration>) {
        self.validate_after_ms.store(after.map_or(0, |after| after.as_millis() as u64), Relaxed);
    }

    fn lease(&self) -> Option<Duration> {
        let period = Duration::from_millis(self.validate_after_ms.load(Relaxed));
        (!period.is_zero()).then_some(period)
    }

    /// Notes word of a node.
    pub(super) fn heard(&self, node: NodeId) {
        if self.lease().is_some() {
            self.state.lock().roster.hear(node, Instant::now());
        }
    }

    /// Returns the members to compare with so that the lease holds.
    pub(super) fn due_for_lease(&self, members: &[Member]) -> Vec<Member> {
        let Some(period) = self.lease() else { return Vec::new() };
        let state = self.state.lock();
        state.roster.silent(members, period, Instant::now()).into_iter().cloned().collect()
    }

    /// Demands a validation if most nodes have been silent for too long.
    pub(super) fn check_lease(&self) {
        let Some(period) = self.lease() else { return };
        let (members, now) = (self.others(), Instant::now());
        let is_due = {
            let mut state = self.state.lock();
            state.roster.see(&members, now);
            state.roster.is_due(period, now)
        };
        if is_due && self.jobs.try_send(TurnJob::Validate).is_ok() {
            self.metrics.cluster_purges_leases.increment();
            tracing::warn!(
                seconds = period.as_secs(),
                "most nodes of the cluster are silent: all that is stored is validated"
            );
        }
    }
}

/// Time for which a node that is no member any more counts.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Most comparisons that a lease begins at a time.
const AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_cooperation::MemberState;

    const PERIOD: Duration = Duration::from_secs(20);

    fn members(count: u64) -> Vec<Member> {
        let member = |number: u64| Member {
            id: NodeId(number),
            name: "a".into(),
            address: ([127, 0, 0, 1], 1).into(),
            weight: 1.0,
            state: MemberState::In,
            life: 1,
            level: 0,
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn silence_of_most_nodes_demands_validation() {
        let (mut roster, start) = (Roster::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        roster.see(&members(4), start);
        assert!(!roster.is_due(PERIOD, at(19)), "all were heard of a moment ago");
        for node in 0..2 {
            roster.hear(NodeId(node), at(19));
        }
        // This node and two of four others are three of five.
        assert!(!roster.is_due(PERIOD, at(30)));
        roster.see(&[], at(30));
        assert!(roster.is_due(PERIOD, at(39)), "nodes that are out count too");
        assert!(!roster.is_due(PERIOD, at(48)) && roster.is_due(PERIOD, at(49)), "again after half of it");
        roster.hear(NodeId(2), at(50));
        roster.hear(NodeId(3), at(50));
        assert!(!roster.is_due(PERIOD, at(51)));
        assert_eq!(roster.silent(&members(4), PERIOD, at(51)).len(), 2);
    }

    #[test]
    fn nodes_that_left_are_forgotten_after_an_hour() {
        let (mut roster, start) = (Roster::default(), Instant::now());
        roster.see(&members(4), start);
        assert!(roster.is_due(PERIOD, start + PERIOD));
        roster.see(&[], start + REMEMBERED);
        assert!(!roster.is_due(PERIOD, start + REMEMBERED), "a node alone is all that there is");
    }
}
