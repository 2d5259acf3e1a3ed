//! Bounded load: a home judges from the others' loads if it has too many asks in flight.
//!
//! After Mirrokni, Thorup, Zadimoghaddam, *Consistent hashing with bounded loads*, SODA 2018. A
//! node takes at most `ceil(1.25 × mean × weight share)` asks, where the mean is over the nodes of
//! known load. Beyond that the node answers "busy", and the asker takes the key's next home. The
//! loaded node knows its own load exactly, so that no herd follows stale numbers.
//!
//! Loads ride on replies between nodes. A load that is older than ten seconds does not count. The
//! limit is computed now and then, O(nodes); the check at an ask compares two integers.

use crate::route::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Loads of the other nodes, as they said themselves.
#[derive(Clone, Debug)]
pub struct BoundedLoad {
    loads: BTreeMap<NodeId, Load>,
    /// Least limit: below this, a node is idle even beside idle others.
    least: u32,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    in_flight: u32,
    heard: Duration,
}

impl Default for BoundedLoad {
    fn default() -> Self {
        Self::with_least(LEAST_LIMIT)
    }
}

impl BoundedLoad {
    /// Makes a table without loads, for a node that takes at least this number of asks.
    pub fn with_least(least: u32) -> Self {
        Self { loads: BTreeMap::new(), least }
    }

    /// Records the load that a node reported in a reply which came at `now`.
    pub fn heard(&mut self, node: NodeId, in_flight: u32, now: Duration) {
        let room = self.loads.len() < LOADS_MAX || self.loads.contains_key(&node);
        if room {
            self.loads.insert(node, Load { in_flight, heard: now });
        }
        assert!(self.loads.len() <= LOADS_MAX, "loads are bounded");
    }

    /// Forgets loads that are old, and a node that is gone.
    pub fn forget(&mut self, gone: impl Fn(NodeId) -> bool, now: Duration) {
        self.loads.retain(|node, load| !gone(*node) && load.counts(now));
    }

    /// Returns the most asks that this node may have in flight. `own` is the number now, and
    /// `weight_share` is the node's weight over the mean weight. `None` means that no other load is
    /// known, and that there is no such limit.
    pub fn limit(&self, own: u32, weight_share: f64, now: Duration) -> Option<u32> {
        let known = self.loads.values().filter(|load| load.counts(now));
        let (count, sum) = known.fold((0_u32, 0_u64), |(count, sum), load| {
            (count + 1, sum + u64::from(load.in_flight.min(LOAD_MAX)))
        });
        if count == 0 || !weight_share.is_finite() {
            return None;
        }
        let mean = (sum + u64::from(own)) as f64 / f64::from(count + 1);
        let limit = (LOAD_FACTOR * mean * weight_share.max(0.0)).ceil();
        Some((limit as u32).max(self.least))
    }

    /// Returns `true` if one more ask makes the node busy. The asks in flight do not count it yet.
    pub fn is_busy(&self, own: u32, weight_share: f64, now: Duration) -> bool {
        self.limit(own, weight_share, now).is_some_and(|limit| own >= limit)
    }
}

impl Load {
    fn counts(&self, now: Duration) -> bool {
        now.saturating_sub(self.heard) < LOAD_COUNTS
    }
}

/// Share of the mean that a node takes at most.
pub const LOAD_FACTOR: f64 = 1.25;

/// Time for which a reported load counts.
const LOAD_COUNTS: Duration = Duration::from_secs(10);

/// Least limit of a node. Asks that wait for a slow origin are in flight too. A home that sends
/// them away makes the next home ask that origin again.
const LEAST_LIMIT: u32 = 256;

/// Highest load believed of one node, so that no number drowns the mean.
const LOAD_MAX: u32 = 1 << 20;

/// Most loads of nodes that are kept.
const LOADS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn loads(values: &[u32]) -> BoundedLoad {
        let mut loads = BoundedLoad::default();
        for (number, load) in values.iter().enumerate() {
            loads.heard(NodeId(number as u64), *load, at(0));
        }
        loads
    }

    #[test]
    fn limit_is_the_factor_of_the_mean_by_weight() {
        let loads = loads(&[1_000, 1_000, 1_000]);
        assert_eq!(loads.limit(1_000, 1.0, at(1)), Some(1_250));
        assert_eq!(loads.limit(1_000, 2.0, at(1)), Some(2_500));
        assert_eq!(loads.limit(1_004, 1.0, at(1)), Some(1_252), "rounded up");
        assert!(loads.is_busy(1_400, 1.0, at(1)) && !loads.is_busy(1_200, 1.0, at(1)));
    }

    #[test]
    fn idle_nodes_and_unknown_loads_set_no_limit() {
        assert!(!loads(&[]).is_busy(1_000_000, 1.0, at(1)));
        assert!(!loads(&[0, 0, 0]).is_busy(LEAST_LIMIT - 1, 1.0, at(1)));
        assert!(loads(&[0, 0, 0]).is_busy(LEAST_LIMIT, 1.0, at(1)));
        assert!(!loads(&[0]).is_busy(1_000, f64::NAN, at(1)));
    }

    #[test]
    fn old_loads_do_not_count() {
        let mut loads = loads(&[0, 0, 0]);
        assert_eq!(loads.limit(1_000, 1.0, at(10)), None);
        loads.heard(NodeId(1), 1_000, at(10));
        assert_eq!(loads.limit(1_000, 1.0, at(10)), Some(1_250));
        loads.forget(|_| false, at(10));
        assert_eq!(loads.loads.len(), 1);
        loads.forget(|node| node == NodeId(1), at(10));
        assert!(loads.loads.is_empty());
    }

    #[test]
    fn loads_are_bounded_in_number_and_size() {
        let mut loads = BoundedLoad::default();
        for number in 0..10_000 {
            loads.heard(NodeId(number), u32::MAX, at(0));
        }
        assert_eq!(loads.loads.len(), LOADS_MAX);
        assert!(loads.limit(0, 1.0, at(0)).is_some_and(|limit| limit <= LOAD_MAX * 5 / 4));
    }
}
