//! Decision about a page that leaves RAM: the server that is offered it, or none.
//!
//! Joins the parts of Voelker 2000, section 3.6: target weights from the servers' spare memory, age
//! weights from their reported ages, bounds from U*, borrowing from U_e. A server takes part if it
//! has memory to spare. A page goes to a server only if the memory there is older than the page by
//! a sixteenth: it is worth more than the memory that it replaces.
//!
//! A draw picks the server, so that equal nodes do not run to the same one (section 3.6.1). One
//! that has refused is left out, and the others share its part.

use super::reports::ServerReport;
use super::{Frequencies, FrequencyError, RequestRate, select, target_weights};
use crate::NodeId;
use std::time::Duration;

/// Servers and their shares, until the next reports.
#[derive(Clone, Debug, Default)]
pub struct PutPlan {
    servers: Vec<(NodeId, Duration)>,
    frequencies: Option<Frequencies>,
}

/// Rate of this node's requests.
#[derive(Clone, Copy, Debug)]
pub struct OwnRate {
    /// Mean time between requests of this node to all servers: T.
    pub seconds_between: f64,
    /// Nodes that ask others for memory: N_g.
    pub global_nodes: u32,
}

impl PutPlan {
    /// Makes the plan from the servers' reports and the load balancing rate `b`.
    ///
    /// # Errors
    /// If `b` or the rate is out of range.
    pub fn new(reports: &[(NodeId, ServerReport)], rate: OwnRate, b: f64) -> Result<Self, FrequencyError> {
        let usable: Vec<&(NodeId, ServerReport)> =
            reports.iter().filter(|(_, report)| report.spare_bytes > 0 && report.most_permille > 0).collect();
        let list = |of: &dyn Fn(&ServerReport) -> Result<f64, FrequencyError>| {
            usable.iter().map(|(_, report)| of(report)).collect::<Result<Vec<f64>, _>>()
        };
        let spare: Vec<u64> = usable.iter().map(|(_, report)| report.spare_bytes).collect();
        let ages = list(&|report| Ok(report.age.as_secs_f64()))?;
        let pace = |report: &ServerReport| {
            RequestRate::new(rate.seconds_between, rate.global_nodes, f64::from(report.service_us) / 1e6)
        };
        let bounds = list(&|report| Ok(pace(report)?.bound(f64::from(report.most_permille) / 1e3)))?;
        let borrowing = list(&|report| Ok(pace(report)?.borrowed(f64::from(report.unused_permille) / 1e3)))?;
        let frequencies = select(&target_weights(&spare), &ages, b, &bounds, &borrowing)?;
        let servers = usable.iter().map(|(node, report)| (*node, report.age)).collect();
        debug_assert_eq!(frequencies.of.len(), usable.len(), "a share for each server");
        Ok(Self { servers, frequencies: Some(frequencies) })
    }

    /// Returns the server that is offered a page of this age; `None` if the page is dropped. `draw`
    /// is uniform from 0 up to 1. Servers in `refused` have declined the page already. If the draw
    /// hits such a server, or one with younger memory, the others share its part. O(servers).
    pub fn choose(&self, page_age: Duration, draw: f64, refused: &[NodeId]) -> Option<NodeId> {
        debug_assert!((0.0..1.0).contains(&draw));
        let frequencies = self.frequencies.as_ref()?;
        let takes = |(node, age): &(NodeId, Duration)| !refused.contains(node) && is_worth(page_age, *age);
        let first = &self.servers[frequencies.choose(draw)?];
        if takes(first) {
            return Some(first.0);
        }
        let others = || {
            let shares = self.servers.iter().zip(&frequencies.of);
            shares.filter(|(server, share)| takes(server) && **share > 0.0)
        };
        let sum: f64 = others().map(|(_, share)| share).sum();
        let mut left = draw * sum;
        let chosen = others().find(|(_, share)| {
            left -= **share;
            left < 0.0
        });
        Some(chosen.or_else(|| others().next_back())?.0.0)
    }

    /// Returns `true` if some server would take a page of this age.
    pub fn takes(&self, page_age: Duration) -> bool {
        self.servers.iter().any(|(_, age)| is_worth(page_age, *age))
    }

    /// Returns the share of a server, for operators.
    pub fn share(&self, node: NodeId) -> f64 {
        let place = self.servers.iter().position(|(server, _)| *server == node);
        place.zip(self.frequencies.as_ref()).map_or(0.0, |(place, frequencies)| frequencies.of[place])
    }
}

/// Returns `true` if a page is worth more than the memory that it would replace.
fn is_worth(page_age: Duration, server_age: Duration) -> bool {
    page_age.saturating_add(page_age / AGE_MARGIN_PART) < server_age
}

/// Part of a page's age by which memory must be older, so that noise moves no pages.
const AGE_MARGIN_PART: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;
    use proptest::prelude::*;

    fn report(age: u64, spare: u64, most: u16) -> ServerReport {
        ServerReport {
            role: Role::Idle,
            age: Duration::from_secs(age),
            spare_bytes: spare,
            most_permille: most,
            unused_permille: most,
            service_us: 100,
        }
    }

    const SLOW: OwnRate = OwnRate { seconds_between: 0.1, global_nodes: 1 };

    #[test]
    fn pages_go_where_memory_is_older() {
        let reports = [(NodeId(1), report(1000, 100, 500)), (NodeId(2), report(10, 100, 500))];
        let plan = PutPlan::new(&reports, SLOW, 0.0).expect("a plan");
        let page = Duration::from_secs(20);
        let chosen: Vec<_> = (0..100).map(|draw| plan.choose(page, f64::from(draw) / 100.0, &[])).collect();
        assert!(chosen.iter().all(|server| *server != Some(NodeId(2))), "its memory is younger");
        assert!(chosen.iter().all(|server| *server == Some(NodeId(1))), "it takes the others' part");
        assert!(plan.takes(page) && !plan.takes(Duration::from_secs(990)));
        assert_eq!(plan.choose(Duration::from_secs(990), 0.5, &[]), None, "it is older than all memory");
    }

    #[test]
    fn refusal_leads_to_another_server() {
        let reports: Vec<_> = (1..4).map(|node| (NodeId(node), report(1000, 100, 500))).collect();
        let plan = PutPlan::new(&reports, SLOW, 1.0).expect("a plan");
        for draw in 0..100 {
            let draw = f64::from(draw) / 100.0;
            let first = plan.choose(Duration::ZERO, draw, &[]).expect("a server");
            let next = plan.choose(Duration::ZERO, draw, &[first]).expect("another");
            assert_ne!(first, next);
        }
        let all = [NodeId(1), NodeId(2), NodeId(3)];
        assert_eq!(plan.choose(Duration::ZERO, 0.3, &all), None);
    }

    #[test]
    fn nobody_is_chosen_without_reports() {
        assert_eq!(PutPlan::default().choose(Duration::ZERO, 0.0, &[]), None);
        let full = [(NodeId(1), report(1000, 0, 500)), (NodeId(2), report(1000, 10, 0))];
        let plan = PutPlan::new(&full, SLOW, 0.5).expect("a plan");
        assert_eq!((plan.choose(Duration::ZERO, 0.0, &[]), plan.share(NodeId(1))), (None, 0.0));
        assert!(PutPlan::new(&[], SLOW, 1.5).is_err());
    }

    proptest! {
        #[test]
        fn liar_gets_its_bound_at_most(age in 0..u64::MAX / 2, spare in 1..u64::MAX, pace in 0.000_05..0.01f64) {
            let reports = [
                (NodeId(1), report(age, spare, 100).clamped()),
                (NodeId(2), report(100, 1 << 20, 700)),
                (NodeId(3), report(100, 1 << 20, 700)),
            ];
            let rate = OwnRate { seconds_between: pace, global_nodes: 2 };
            let plan = PutPlan::new(&reports, rate, 0.5).expect("a plan");
            let bound = pace / 100e-6 * 0.1 / 2.0 + pace / 100e-6 * 0.1;
            prop_assert!(plan.share(NodeId(1)) <= bound + 1e-9);
        }
    }
}
