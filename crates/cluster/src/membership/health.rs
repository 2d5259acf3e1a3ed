//! Local health: a node that misses its own acknowledgements waits longer before it blames others.
//!
//! From Lifeguard (Dadgar, Phillips and Currey, "Lifeguard: local health awareness for more
//! accurate failure detection", DSN workshops 2018). The score rises when the evidence points at
//! this node, and stretches its time-outs by `1 + score`. foca sends no negative
//! acknowledgements. In their place, two different nodes that fail in a row count against this
//! node, one alone does not.

use shoal_cooperation::NodeId;

/// Score of this node: zero is healthy.
#[derive(Debug, Default)]
pub(super) struct LocalHealth {
    score: u32,
    last_failed: Option<NodeId>,
}

/// Result of one probe of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The probed node answered.
    Direct,
    /// Another node reached the probed node; this one did not hear its answer.
    Indirect,
    /// Nobody reached the probed node.
    Failed,
}

impl LocalHealth {
    /// Notes the result of a probe of a node.
    pub(super) fn on_probe(&mut self, node: NodeId, result: ProbeResult) {
        match result {
            ProbeResult::Direct => {
                self.score = self.score.saturating_sub(1);
                self.last_failed = self.last_failed.filter(|failed| *failed != node);
            }
            ProbeResult::Indirect => self.worsen(),
            ProbeResult::Failed => {
                if self.last_failed.is_some_and(|failed| failed != node) {
                    self.worsen();
                }
                self.last_failed = Some(node);
            }
        }
    }

    /// Notes that this node was suspected, or was stopped for a time.
    pub(super) fn worsen(&mut self) {
        self.score = (self.score + 1).min(SCORE_MAX);
    }

    /// Returns the factor of this node's time-outs.
    pub(super) fn factor(&self) -> u32 {
        assert!(self.score <= SCORE_MAX, "the score is bounded");
        1 + self.score
    }
}

/// Highest score: half of Lifeguard's, so that a node that is cut off alone knows it in minutes.
const SCORE_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dead_node_is_not_our_fault() {
        let mut health = LocalHealth::default();
        for _ in 0..20 {
            health.on_probe(NodeId(1), ProbeResult::Failed);
        }
        assert_eq!(health.factor(), 1);
    }

    #[test]
    fn many_failures_lengthen_and_answers_shorten() {
        let mut health = LocalHealth::default();
        (0..20).for_each(|node| health.on_probe(NodeId(node), ProbeResult::Failed));
        assert_eq!(health.factor(), 1 + SCORE_MAX);
        (0..3).for_each(|node| health.on_probe(NodeId(node), ProbeResult::Direct));
        assert_eq!(health.factor(), SCORE_MAX - 2);
        health.on_probe(NodeId(1), ProbeResult::Indirect);
        assert_eq!(health.factor(), SCORE_MAX - 1);
    }
}
