//! Steps of a miss: the next peer to ask, or the origin, from the answers so far.
//!
//! A node has one of these parts in a request:
//!
//! ```text
//!  client ─► entry ── home ──► home ── holder ──► previous home, or another probable holder
//!              │                 └─► origin           └─ answers from what it has, else "miss"
//!              └─► own flight as home, or origin
//! ```
//!
//! With placement by digests, the entry asks at most two probable holders, then the origin.
//!
//! In a hierarchy, a node asks siblings that probably hold the object, then its parents, then the
//! origin; a node that was asked by a node below does the same. See [`crate::ParentRule`].
//!
//! The kinds of an ask make circles impossible. An ask as home leads to asks as holder only, and an
//! ask as holder to none; in a hierarchy hops take the place of kinds. Views may therefore differ
//! in any way. A node has two kinds of flights
//! for a key: the entry's, which may wait for a peer, and the home's, which waits for a holder or
//! the origin. [`Step::Here`] and [`Step::Origin`] both mean the home's kind.
//!
//! All asks of one miss share one budget of time, so that slow peers delay a request once. The
//! time-out of an ask is the longest wait for a sign of life: the answer's head, or an interim
//! response by which a home says that it fetches.

use crate::directory::HOLDERS_MAX;
use crate::route::NodeId;
use crate::view::{HOMES_MAX, Homes};
use std::time::Duration;

/// Part that a node has in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A client asked this node.
    Entry,
    /// A client asked this node, and digests name probable holders. They stand in the place of the
    /// homes.
    Directory,
    /// A peer asked this node as home, or the node is its own home.
    Home,
    /// A peer asked this node for a stored copy.
    Holder,
}

/// Kind of an ask between nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AskKind {
    /// Answer, and fetch from the origin if needed.
    Home,
    /// Answer from the cache, or from a flight that is at the origin already.
    Holder,
}

/// Ask that the node should send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Node to ask.
    pub node: NodeId,
    /// Kind of the ask.
    pub kind: AskKind,
    /// Hops for the ask to carry: 1 from an entry node, at most [`HOPS_MAX`].
    pub hops: u8,
    /// Longest wait for a sign of life of the node.
    pub timeout: Duration,
}

/// Next step of a node that misses an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send this ask, then report its result with [`MissSteps::answered`].
    Ask(Ask),
    /// Join or start this node's own flight as home of the key.
    Here,
    /// Ask the origin, in a flight of the home's kind.
    Origin,
    /// Answer 504 (or "miss" to a peer): nobody may be asked.
    Unanswered,
}

/// Result of an ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskResult {
    /// The node answered with the object, or with the origin's error. The miss is over.
    Served,
    /// The node has no copy, and fetches none.
    Missing,
    /// The node has too many asks in flight.
    Busy,
    /// The node's purges do not cover ours.
    Behind,
    /// No connection, or the connection broke.
    Refused,
    /// No sign of life in time.
    TimedOut,
    /// The node does not know us, our protocol version or the ask's kind.
    Unknown,
}

/// Miss, as the node sees it when it begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Miss {
    /// This node.
    pub here: NodeId,
    /// Part of this node.
    pub part: Part,
    /// Node that the client asked.
    pub entry: NodeId,
    /// Homes of the key in this node's view.
    pub homes: Homes,
    /// Node to ask as holder before the origin: see [`HomeHistory`](crate::HomeHistory).
    pub previous_home: Option<NodeId>,
    /// Hops that the request has made: 0 at the entry node.
    pub hops: u8,
    /// Time for all asks of this miss together: the setting `cluster.peer_timeout`. For a request
    /// of a peer, at most the time that its ask leaves.
    pub budget: Duration,
    /// `false` if the client wants a stored answer only (`only-if-cached`).
    pub origin_allowed: bool,
}

/// State of one miss: the peers that may still be asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MissSteps {
    miss: Miss,
    /// Peers left, in order; the first comes next.
    left: [Option<(NodeId, AskKind)>; LEFT_MAX],
    /// Kind of the last ask.
    kind: AskKind,
    /// Set when the rest of the list must not be asked.
    over: bool,
    /// Set when the node's own turn in the list of homes has come.
    here: bool,
}

impl MissSteps {
    /// Begins a miss.
    pub fn new(miss: Miss) -> Self {
        let mut left = [None; LEFT_MAX];
        let mut here = false;
        let kind = match miss.part {
            Part::Entry if miss.origin_allowed => AskKind::Home,
            _ => AskKind::Holder,
        };
        match miss.part {
            Part::Entry => {
                let before_own = miss.homes.iter().take_while(|node| *node != miss.here);
                left.iter_mut().zip(before_own).for_each(|(slot, node)| *slot = Some((node, kind)));
                here = miss.homes.contains(miss.here);
            }
            Part::Directory => {
                let others = miss.homes.iter().filter(|node| *node != miss.here);
                let others = others.take(HOLDERS_MAX);
                left.iter_mut().zip(others).for_each(|(slot, node)| *slot = Some((node, kind)));
            }
            Part::Home => {
                let previous = miss.previous_home.filter(|node| ![miss.here, miss.entry].contains(node));
                left[0] = previous.map(|node| (node, kind));
            }
            Part::Holder => {}
        }
        let over = miss.hops >= HOPS_MAX;
        Self { miss, left, kind, over, here }
    }

    /// Begins a miss in a hierarchy. Siblings are asked for stored copies, then the parents, which
    /// stand in the place of the homes. A node that was asked by a node below does so as well,
    /// within the hops that are left.
    pub fn upward(miss: Miss, siblings: Homes) -> Self {
        let to_parents = if miss.origin_allowed { AskKind::Home } else { AskKind::Holder };
        let beside = siblings.iter().take(HOLDERS_MAX).map(|node| (node, AskKind::Holder));
        let above = miss.homes.iter().take(PARENTS_ASKED).map(|node| (node, to_parents));
        let mut left = [None; LEFT_MAX];
        let asked = beside.chain(above).filter(|(node, _)| ![miss.here, miss.entry].contains(node));
        left.iter_mut().zip(asked).for_each(|(slot, ask)| *slot = Some(ask));
        let over = miss.hops >= HOPS_MAX;
        Self { miss, left, kind: to_parents, over, here: false }
    }

    /// Returns the next step. `elapsed` is the time since the miss began. `timeout` returns the
    /// time-out for a peer, or `None` if that peer must not be asked now. The function is called
    /// for a peer only if the peer's turn has come.
    pub fn next(&mut self, elapsed: Duration, mut timeout: impl FnMut(NodeId) -> Option<Duration>) -> Step {
        let budget = self.miss.budget.saturating_sub(elapsed);
        if budget < ASK_TIME_MIN {
            self.over = true;
        }
        while let Some((node, kind)) = self.left.iter_mut().filter(|_| !self.over).find_map(Option::take) {
            debug_assert_ne!(node, self.miss.here, "a node does not ask itself");
            if let Some(timeout) = timeout(node) {
                let hops = self.miss.hops + 1;
                assert!(hops <= HOPS_MAX, "an ask makes at most {HOPS_MAX} hops");
                self.kind = kind;
                return Step::Ask(Ask { node, kind, hops, timeout: timeout.min(budget) });
            }
        }
        self.last_step()
    }

    /// Takes the result of the last ask. After [`AskResult::Served`] there is no next step.
    pub fn answered(&mut self, result: AskResult) {
        match result {
            // The body comes; or the home said itself that it fetches nothing.
            AskResult::Served => self.over = true,
            AskResult::Missing if self.kind == AskKind::Home => self.over = true,
            // One time-out is all that a request waits for peers.
            AskResult::TimedOut => self.over = true,
            AskResult::Missing
            | AskResult::Busy
            | AskResult::Behind
            | AskResult::Refused
            | AskResult::Unknown => {}
        }
    }

    fn last_step(&self) -> Step {
        match self.miss.part {
            Part::Holder => Step::Unanswered,
            _ if !self.miss.origin_allowed => Step::Unanswered,
            Part::Entry if self.here => Step::Here,
            Part::Entry | Part::Directory | Part::Home => Step::Origin,
        }
    }
}

/// Most hops of a request between nodes: to the home, and from there to a holder.
pub const HOPS_MAX: u8 = 2;

/// Most parents that one miss asks.
const PARENTS_ASKED: usize = 2;

/// Most peers that one miss asks.
const LEFT_MAX: usize = 4;

const _: () = assert!(LEFT_MAX >= HOMES_MAX && LEFT_MAX >= HOLDERS_MAX + PARENTS_ASKED);

/// Least time for which a peer is asked at all.
pub const ASK_TIME_MIN: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests;
