//! Words of memory servers about themselves, as they ride on answers between nodes.
//!
//! Voelker 2000, section 3.6.3: ages, loads and unused capacity are piggybacked on replies. A
//! report is believed for a while and within limits. A server that lies about its age or its memory
//! gets more pages than it should, at most its share in [`PutPlan`](super::PutPlan).

use super::AGE_MAX;
use crate::NodeId;
use std::collections::HashMap;
use std::time::Duration;

/// Part that a node plays in shared memory (Voelker 2000, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has memory to give, and time.
    Idle,
    /// Uses its own memory, and no other.
    Local,
    /// Evicts objects that it will need again, and asks others for memory.
    Global,
}

/// Report of a node about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerReport {
    /// Part that the node plays.
    pub role: Role,
    /// Age of the memory that it would give up next.
    pub age: Duration,
    /// Bytes that it can give without harm to itself: G.
    pub spare_bytes: u64,
    /// Share of its time that it gives to requests of others: U*, in thousandths.
    pub most_permille: u16,
    /// Part of it that is unused: U_e, in thousandths.
    pub unused_permille: u16,
    /// Time of the node for one request: S, in microseconds.
    pub service_us: u32,
}

/// Latest reports of all servers.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    told: HashMap<NodeId, (ServerReport, Duration)>,
}

impl Role {
    /// Returns the role of a node: Idle if it has time, and memory older than that of the node that
    /// needs memory most; Global if its own memory is the youngest by far.
    pub fn of(own_age: Duration, told_ages: impl Iterator<Item = Duration>, has_time: bool) -> Self {
        let (youngest, oldest) =
            told_ages.fold((AGE_MAX, Duration::ZERO), |(least, most), age| (least.min(age), most.max(age)));
        if own_age.saturating_mul(AGE_MARGIN) < oldest {
            return Self::Global;
        }
        if has_time && own_age > youngest { Self::Idle } else { Self::Local }
    }
}

impl ServerReport {
    /// Returns the report within the limits of believable nodes.
    pub fn clamped(self) -> Self {
        Self {
            role: self.role,
            age: self.age.min(AGE_MAX),
            spare_bytes: self.spare_bytes.min(SPARE_MAX),
            most_permille: self.most_permille.min(1000),
            unused_permille: self.unused_permille.min(self.most_permille).min(1000),
            service_us: self.service_us.clamp(SERVICE_US_MIN, SERVICE_US_MAX),
        }
    }
}

impl Reports {
    /// Records a report. Ages and loads that cannot be are clamped. Further nodes than
    /// [`SERVERS_MAX`] are ignored.
    pub fn heard(&mut self, node: NodeId, report: ServerReport, now: Duration) {
        if self.told.len() < SERVERS_MAX || self.told.contains_key(&node) {
            self.told.insert(node, (report.clamped(), now));
        }
        debug_assert!(self.told.len() <= SERVERS_MAX);
    }

    /// Forgets nodes that are no members any more.
    pub fn keep(&mut self, is_member: impl Fn(NodeId) -> bool) {
        self.told.retain(|node, _| is_member(*node));
    }

    /// Forgets the report of a node that does not answer.
    pub fn forget(&mut self, node: NodeId) {
        self.told.remove(&node);
    }

    /// Returns the reports that still count, by node, each aged by the time since.
    pub fn fresh(&self, now: Duration) -> Vec<(NodeId, ServerReport)> {
        let is_fresh = |at: Duration| now.saturating_sub(at) <= REPORT_LIFE;
        let told = self.told.iter().filter(|(_, (_, at))| is_fresh(*at));
        let mut fresh: Vec<_> = told.map(|(node, (report, _))| (*node, *report)).collect();
        fresh.sort_by_key(|(node, _)| node.0);
        fresh
    }

    /// Returns a node's report, if it still counts.
    pub fn of(&self, node: NodeId, now: Duration) -> Option<ServerReport> {
        let (report, at) = self.told.get(&node)?;
        (now.saturating_sub(*at) <= REPORT_LIFE).then_some(*report)
    }

    /// Returns N_g: the nodes that ask others for memory, with this one if it `is_global`.
    pub fn global_nodes(&self, now: Duration, is_global: bool) -> u32 {
        let others = self.fresh(now).iter().filter(|(_, report)| report.role == Role::Global).count();
        u32::try_from(others).unwrap_or(u32::MAX).saturating_add(u32::from(is_global)).max(1)
    }
}

/// Bytes that can be replaced without harm: free ones, those of others, and of the own ones the
/// share that is older than the memory of the node that needs memory most.
pub fn spare_bytes(
    (free, guests, own): (u64, u64, u64),
    (own_age, youngest): (Duration, Duration),
    most: u64,
) -> u64 {
    let share = match own_age > youngest {
        true => 1.0 - youngest.as_secs_f64() / own_age.as_secs_f64(),
        false => 0.0,
    };
    debug_assert!((0.0..=1.0).contains(&share));
    free.saturating_add(guests).saturating_add((own as f64 * share) as u64).min(most)
}

/// Time for which a report counts.
pub const REPORT_LIFE: Duration = Duration::from_secs(10);

/// Most servers that are known.
pub const SERVERS_MAX: usize = 256;

/// Times by which another node's memory is older than that of a node that counts as global.
const AGE_MARGIN: u32 = 2;

/// Most memory that a node is believed to spare: 4 TiB.
const SPARE_MAX: u64 = 1 << 42;

/// Shortest and longest service time that is believed.
const SERVICE_US_MIN: u32 = 1;
const SERVICE_US_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: ServerReport = ServerReport {
        role: Role::Idle,
        age: Duration::from_secs(100),
        spare_bytes: 1 << 20,
        most_permille: 700,
        unused_permille: 500,
        service_us: 50,
    };

    #[test]
    fn lies_are_clamped() {
        let lie = ServerReport {
            age: Duration::MAX,
            spare_bytes: u64::MAX,
            most_permille: u16::MAX,
            unused_permille: u16::MAX,
            service_us: 0,
            ..REPORT
        };
        let believed = lie.clamped();
        assert_eq!((believed.age, believed.most_permille, believed.unused_permille), (AGE_MAX, 1000, 1000));
        assert_eq!((believed.spare_bytes, believed.service_us), (1 << 42, 1));
        let mut reports = Reports::default();
        for node in 0..1000 {
            reports.heard(NodeId(node), lie, Duration::ZERO);
        }
        assert_eq!(reports.fresh(Duration::ZERO).len(), SERVERS_MAX);
    }

    #[test]
    fn reports_count_for_a_while() {
        let (mut reports, node) = (Reports::default(), NodeId(7));
        reports.heard(node, REPORT, Duration::from_secs(1));
        assert!(reports.of(node, Duration::from_secs(11)).is_some());
        assert!(reports.of(node, Duration::from_secs(12)).is_none());
        assert!(reports.fresh(Duration::from_secs(12)).is_empty());
        reports.heard(NodeId(8), ServerReport { role: Role::Global, ..REPORT }, Duration::from_secs(1));
        assert_eq!(reports.global_nodes(Duration::from_secs(2), true), 2);
        assert_eq!(reports.global_nodes(Duration::from_secs(20), false), 1, "a rate needs one");
        reports.keep(|member| member == node);
        reports.forget(node);
        assert!(reports.fresh(Duration::ZERO).is_empty());
    }

    #[test]
    fn roles_follow_ages_and_time() {
        let role = |own: u64, told: &[u64], has_time| {
            Role::of(Duration::from_secs(own), told.iter().map(|age| Duration::from_secs(*age)), has_time)
        };
        assert_eq!(role(100, &[3, 200], true), Role::Idle);
        assert_eq!(role(100, &[3, 200], false), Role::Local, "memory alone serves nobody");
        assert_eq!(role(3, &[100], true), Role::Global);
        assert_eq!(role(100, &[100, 101], true), Role::Local, "all need the same");
        assert_eq!(role(100, &[], true), Role::Local);
    }

    #[test]
    fn spare_memory_is_the_older_part() {
        let ages = |own, youngest| (Duration::from_secs(own), Duration::from_secs(youngest));
        assert_eq!(spare_bytes((10, 20, 1000), ages(100, 10), 10_000), 930);
        assert_eq!(spare_bytes((10, 20, 1000), ages(100, 10), 500), 500);
        assert_eq!(spare_bytes((10, 20, 1000), ages(10, 100), 10_000), 30);
        assert_eq!(spare_bytes((0, 0, 1000), ages(0, 0), 10_000), 0);
    }
}
