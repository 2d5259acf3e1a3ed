//! Estimates of N_g and U* that a memory server makes itself and tells with its replies.
//!
//! Voelker 2000, section 3.6.3. The number of global nodes (N_g) "can be estimated by each memory
//! server and piggybacked on responses". The bound U* of a local node "might be adjusted according
//! to the measured recent utilization of node i by its local jobs".
//!
//! ```text
//!  requests of an epoch ──► distinct askers ──► N_g ─┐
//!  own work of an epoch ──► smoothed ──► cap − it = U* ┴─► reply ─► bound
//! ```
//!
//! A server that few nodes ask counts too few. An asker therefore takes the largest of the numbers
//! that it was told. O(1) a request, O(askers) an epoch.

use crate::NodeId;
use std::collections::HashSet;

/// Distinct nodes that ask a server, epoch by epoch.
#[derive(Clone, Debug, Default)]
pub struct AskerCount {
    asked: HashSet<NodeId>,
    last: u32,
}

impl AskerCount {
    /// Counts a request of a node. Nodes beyond [`ASKERS_MAX`] in one epoch are not counted.
    pub fn asked(&mut self, by: NodeId) {
        if self.asked.len() < ASKERS_MAX {
            self.asked.insert(by);
        }
    }

    /// Ends an epoch. Returns N_g as this server sees it: one node at least.
    pub fn end_epoch(&mut self) -> u32 {
        // A node may have sent all its requests of one short epoch to other servers.
        let count = u32::try_from(self.asked.len()).unwrap_or(u32::MAX);
        let last = std::mem::replace(&mut self.last, count);
        self.asked.clear();
        count.max(last).max(1)
    }
}

/// U* of a node: the share of its time that it gives to others, from the own work that it measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpareTime {
    cap: f64,
    own: f64,
}

impl SpareTime {
    /// Creates the estimate of a node that may be busy for this share of its time altogether.
    pub fn new(cap: f64) -> Self {
        Self { cap: if cap.is_finite() { cap.clamp(0.0, 1.0) } else { 0.0 }, own: 0.0 }
    }

    /// Records the share of an epoch that the node worked for itself. A rise counts at once and a
    /// fall by and by: jobs that come back must not find their node given away.
    pub fn worked(&mut self, own: f64) {
        let own = if own.is_finite() { own.clamp(0.0, 1.0) } else { 1.0 };
        self.own = if own > self.own { own } else { self.own + (own - self.own) * FALL };
    }

    /// Returns U*.
    pub fn most_for_others(&self) -> f64 {
        most_for_others(self.cap, self.own)
    }
}

/// Returns U* of a node that may be busy for the share `cap` and works for itself for `own`.
pub fn most_for_others(cap: f64, own: f64) -> f64 {
    (cap - own).clamp(0.0, 1.0)
}

/// Most nodes that a server counts in an epoch.
pub const ASKERS_MAX: usize = 4096;
/// Weight of the latest epoch while own work falls.
const FALL: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askers_of_two_epochs_count_once_each() {
        let mut askers = AskerCount::default();
        assert_eq!(askers.end_epoch(), 1, "a rate needs one");
        for node in [1, 2, 3, 2, 1] {
            askers.asked(NodeId(node));
        }
        assert_eq!(askers.end_epoch(), 3);
        askers.asked(NodeId(9));
        assert_eq!((askers.end_epoch(), askers.end_epoch()), (3, 1));
        (0..10_000).for_each(|node| askers.asked(NodeId(node)));
        assert_eq!(askers.end_epoch() as usize, ASKERS_MAX);
    }

    #[test]
    fn own_work_takes_time_from_others_at_once() {
        let mut spare = SpareTime::new(0.8);
        assert_eq!(spare.most_for_others(), 0.8);
        spare.worked(0.5);
        assert!((spare.most_for_others() - 0.3).abs() < 1e-12);
        spare.worked(0.0);
        assert!((spare.most_for_others() - 0.425).abs() < 1e-12, "a pause is no end");
        spare.worked(f64::NAN);
        assert_eq!(spare.most_for_others(), 0.0, "a doubt is for the own work");
        assert_eq!(SpareTime::new(f64::NAN).most_for_others(), 0.0);
    }
}
