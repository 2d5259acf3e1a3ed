//! Another node as this one knows it: the way there, and how its answers were.

use super::hit_share::HitShares;
use crate::upstream::PeerTarget;
use parking_lot::Mutex;
use shoal_cooperation::{Member, NodeId, PeerAdmission, PeerHealth, PeerStatus};
use shoal_core::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Another node.
pub struct PeerNode {
    /// Number of the node.
    pub node: NodeId,
    /// Number of this value, unique in the process: another address of the node has another one.
    pub serial: u64,
    /// Name of the node.
    pub name: Arc<str>,
    /// Way to the node.
    pub target: Arc<PeerTarget>,
    /// Start of the clock of `health`.
    epoch: Instant,
    health: Mutex<PeerHealth>,
    /// Answers of the node, for operators.
    pub tally: PeerTally,
    /// Shares of asks in messages that were hits.
    pub hit_shares: HitShares,
    /// Time in milliseconds of `epoch` before which no list is exchanged for another view.
    exchange_after_ms: AtomicU64,
    /// Time in milliseconds of `epoch` before which no hits are asked for in messages.
    hits_after_ms: AtomicU64,
    /// Time in milliseconds at which a message got no answer in time; 0 before.
    late_ms: AtomicU64,
}

/// Answers of a node to asks of this one.
#[derive(Debug, Default)]
pub struct PeerTally {
    /// Asks answered with a response.
    pub served: AtomicU64,
    /// Asks that the node did not answer with a response: busy, another view, no copy.
    pub declined: AtomicU64,
    /// Asks for which the node could not reach the origin.
    pub failed: AtomicU64,
    /// Bytes of bodies received.
    pub bytes: AtomicU64,
}

/// An ask under way. If it is dropped without a result, it says nothing about the peer.
pub struct PeerTrial<'a> {
    peer: &'a PeerNode,
    began: Instant,
    is_over: bool,
}

impl PeerNode {
    /// Creates a peer of which nothing is known. `longest` is the longest time-out.
    pub fn new(member: &Member, longest: Duration) -> Self {
        Self {
            node: member.id,
            serial: SERIALS.fetch_add(1, Relaxed),
            name: Arc::clone(&member.name),
            target: Arc::new(PeerTarget::new(member.address)),
            epoch: Instant::now(),
            health: Mutex::new(PeerHealth::new(longest)),
            tally: PeerTally::default(),
            hit_shares: HitShares::default(),
            exchange_after_ms: AtomicU64::new(0),
            hits_after_ms: AtomicU64::new(0),
            late_ms: AtomicU64::new(0),
        }
    }

    /// Returns `true` at most once a second: lists may be exchanged for another view.
    pub fn may_exchange(&self) -> bool {
        let now = self.epoch.elapsed().as_millis() as u64;
        let due = self.exchange_after_ms.load(Relaxed);
        let next = now + EXCHANGE_PAUSE.as_millis() as u64;
        due <= now && self.exchange_after_ms.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    /// Returns the time-out for an ask; `None` if the peer is not asked now.
    pub fn admit(&self) -> Option<Duration> {
        match self.health.lock().admit(self.epoch.elapsed()) {
            PeerAdmission::Ask(timeout) => Some(timeout),
            PeerAdmission::Skip(_) => None,
        }
    }

    /// Returns `true` if the node is asked for hits in messages now. First requests and repeats are
    /// counted apart.
    pub fn answers_hits(&self, is_repeat: bool) -> bool {
        self.hits_after_ms.load(Relaxed) <= self.epoch.elapsed().as_millis() as u64
            && self.health.lock().is_closed()
            && self.hit_shares.of(is_repeat).pays()
    }

    /// Records that the node does not know messages for hits. They are tried again after a while,
    /// since the node may be upgraded.
    pub fn takes_no_hits(&self) {
        let after = (self.epoch.elapsed() + HITS_PAUSE).as_millis() as u64;
        self.hits_after_ms.store(after, Relaxed);
    }

    /// Records that a message got no answer in time.
    pub fn was_late(&self, now: Timestamp) {
        self.late_ms.store(now.millis(), Relaxed);
    }

    /// Returns `true` if a request that came at this time may have waited for the node in vain.
    pub fn was_late_for(&self, received: Timestamp) -> bool {
        received.millis() < self.late_ms.load(Relaxed)
    }

    /// Begins an ask that was admitted.
    pub fn begin(&self) -> PeerTrial<'_> {
        PeerTrial { peer: self, began: Instant::now(), is_over: false }
    }

    /// Sets the peer aside, since it sent a wrong object.
    pub fn lied(&self) {
        self.health.lock().lied(self.epoch.elapsed());
    }

    /// Returns the state for operators.
    pub fn status(&self) -> PeerStatus {
        self.health.lock().status()
    }

    /// Sets the longest time-out, after a reload.
    pub fn set_longest(&self, longest: Duration) {
        self.health.lock().set_longest(longest);
    }
}

impl PeerTrial<'_> {
    /// Records the first sign of life. Later signs of the same ask say nothing more.
    pub fn answered(&mut self) -> Option<Duration> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        let latency = self.began.elapsed();
        self.peer.health.lock().answered(latency, self.peer.epoch.elapsed());
        Some(latency)
    }

    /// Records that the connection was refused, or broke.
    pub fn refused(mut self) {
        self.is_over = true;
        self.peer.health.lock().refused(self.peer.epoch.elapsed());
    }

    /// Records that no sign of life came within `timeout`.
    pub fn timed_out(mut self, timeout: Duration) {
        self.is_over = true;
        self.peer.health.lock().timed_out(timeout, self.peer.epoch.elapsed());
    }

    /// Records a wrong answer.
    pub fn lied(mut self) {
        self.is_over = true;
        self.peer.lied();
    }
}

impl Drop for PeerTrial<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.peer.health.lock().abandoned(self.peer.epoch.elapsed());
        }
    }
}

/// Time for which a node that does not know messages for hits gets none.
const HITS_PAUSE: Duration = Duration::from_secs(60);

/// Next number of a peer.
static SERIALS: AtomicU64 = AtomicU64::new(0);

/// Shortest time between two exchanges of lists with one node for its other view.
const EXCHANGE_PAUSE: Duration = Duration::from_secs(1);
