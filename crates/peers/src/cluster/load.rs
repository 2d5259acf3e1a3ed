//! Load of this node as home: asks in flight, and the limit above which it answers "busy".

use crate::access::PeerTurn;
use parking_lot::Mutex;
use shoal_cooperation::{BoundedLoad, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Asks in flight at this node.
pub struct HomeLoad {
    in_flight: AtomicU32,
    /// Limit as computed last; `u32::MAX` without one.
    limit: AtomicU32,
    /// Time of the next computation, in milliseconds since `epoch`.
    due_ms: AtomicU64,
    epoch: Instant,
    others: Mutex<BoundedLoad>,
}

/// An ask in flight, until dropped.
pub struct AskInFlight {
    home: Arc<HomeLoad>,
    /// Place of the node that asks.
    _turn: Option<PeerTurn>,
}

impl HomeLoad {
    /// Creates an idle home that knows no other load.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            in_flight: AtomicU32::new(0),
            limit: AtomicU32::new(u32::MAX),
            due_ms: AtomicU64::new(0),
            epoch: Instant::now(),
            others: Mutex::default(),
        })
    }

    /// Takes an ask in, unless the node is busy. `weight_share` returns this node's weight over the
    /// mean weight. A node that asks with a `turn` is answered beyond the limit too, if it has less
    /// than its equal part of it in flight. A greedy node makes this one busy for itself alone.
    pub fn begin(
        self: &Arc<Self>,
        turn: Option<PeerTurn>,
        weight_share: impl FnOnce() -> f64,
    ) -> Option<AskInFlight> {
        let own = self.in_flight.load(Relaxed);
        let now = self.epoch.elapsed();
        let (now_ms, due) = (now.as_millis() as u64, self.due_ms.load(Relaxed));
        if now_ms >= due && self.due_ms.compare_exchange(due, now_ms + REFRESH_MS, Relaxed, Relaxed).is_ok() {
            let limit = self.others.lock().limit(own, weight_share(), now);
            self.limit.store(limit.unwrap_or(u32::MAX), Relaxed);
        }
        let limit = self.limit.load(Relaxed);
        let is_within = |turn: &PeerTurn| turn.own <= limit / turn.active.max(1);
        if own >= limit && !turn.as_ref().is_some_and(is_within) {
            return None;
        }
        self.in_flight.fetch_add(1, Relaxed);
        Some(AskInFlight { home: Arc::clone(self), _turn: turn })
    }

    /// Returns the number of asks in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Records the load that another node has told.
    pub fn heard(&self, node: NodeId, in_flight: u32) {
        self.others.lock().heard(node, in_flight, self.epoch.elapsed());
    }
}

impl Drop for AskInFlight {
    fn drop(&mut self) {
        let before = self.home.in_flight.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "each ask is counted once");
    }
}

/// Interval between two computations of the limit, in milliseconds.
const REFRESH_MS: u64 = 50;

const _: () = assert!(Duration::from_millis(REFRESH_MS).as_secs() == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{PeerAddresses, PeerPlace, PeerShares};
    use shoal_core::Timestamp;

    #[test]
    fn home_beside_idle_ones_becomes_busy() {
        let load = HomeLoad::new();
        (1..4).for_each(|node| load.heard(NodeId(node), 0));
        let asks: Vec<_> = (0..1000).map_while(|_| load.begin(None, || 1.0)).collect();
        assert!((256..1000).contains(&asks.len()), "{}", asks.len());
    }

    #[test]
    fn greedy_node_makes_the_home_busy_for_itself() {
        let members: Arc<PeerAddresses> = Arc::default();
        members.note([1_u8, 2].map(|last| ([10, 0, 0, last], 3131).into()).into_iter());
        let (load, shares) = (HomeLoad::new(), PeerShares::new(members));
        load.heard(NodeId(1), 0);
        let now = Timestamp::from_seconds(1);
        let begin = |last: u8| {
            let turn = shares.admit(([10, 0, 0, last], 1).into(), PeerPlace::Ask, now).ok()?;
            load.begin(Some(turn), || 1.0)
        };
        let greedy: Vec<_> = (0..1000).map_while(|_| begin(1)).collect();
        assert!((256..1000).contains(&greedy.len()), "{}", greedy.len());
        assert!(begin(1).is_none());
        let other: Vec<_> = (0..1000).map_while(|_| begin(2)).collect();
        assert!((100..=greedy.len()).contains(&other.len()), "{}", other.len());
        assert!(begin(1).is_none() && load.in_flight() as usize == greedy.len() + other.len());
    }

    #[test]
    fn asks_leave_with_their_guards() {
        let load = HomeLoad::new();
        let asks: Vec<_> = (0..100).filter_map(|_| load.begin(None, || 1.0)).collect();
        assert_eq!((asks.len(), load.in_flight()), (100, 100), "nobody else's load is known");
        drop(asks);
        assert_eq!(load.in_flight(), 0);
    }
}
