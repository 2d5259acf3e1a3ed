//! A run: requests under way, and the tallies of each node.

use super::clock::QueueClock;
use super::journey::{QueuedRequest, RequestStage};
use super::{NodeUtilization, ServiceTimes, ThroughputResult};
use crate::cluster::{
    Access, BackgroundOp, Cluster, ClusterCounts, ClusterScheme, ClusterSize, RunPlan, SERVER,
};
use shoal_cooperation::distribution::{OUT_OF_SERVICE, Thresholds};

/// A run of requests with queues.
pub(super) struct QueueRun {
    cluster: Cluster,
    service: ServiceTimes,
    plan: RunPlan,
    pub(super) clock: QueueClock,
    journeys: Vec<QueuedRequest>,
    free: Vec<u32>,
    /// For each object the journey, plus one, that reads it from disk.
    reading: Vec<u32>,
    tallies: Vec<NodeTally>,
    /// Start of the measured time, with the counts and each station's busy time at the start.
    began: Option<(u64, ClusterCounts, Vec<u64>)>,
    answered: u64,
    delay_us: u64,
}

/// Running tally of a node.
#[derive(Clone, Copy, Default)]
struct NodeTally {
    requests: u64,
    underused_us: u64,
    /// Start of the current underused time, if any.
    since: Option<u64>,
}

impl QueueRun {
    pub(super) fn new(size: &ClusterSize, service: ServiceTimes, plan: RunPlan) -> Self {
        let mut cluster = Cluster::new(size);
        cluster.chores = Some(Vec::new());
        let nodes = cluster.nodes.len();
        Self {
            service,
            plan,
            clock: QueueClock::new(2 * nodes + 1 + service.server_disks.max(1)),
            journeys: Vec::new(),
            free: Vec::new(),
            reading: vec![0; size.objects],
            tallies: vec![NodeTally { since: Some(0), ..NodeTally::default() }; nodes],
            began: None,
            answered: 0,
            delay_us: 0,
            cluster,
        }
    }

    /// Begins the next request that a node answers. Returns `false` when there is none.
    pub(super) fn begin_next(
        &mut self,
        system: &mut dyn ClusterScheme,
        requests: &mut impl Iterator<Item = Access>,
    ) -> bool {
        for access in requests {
            if self.began.is_none() && self.cluster.counts.requests == self.plan.warm_up {
                self.measure();
            }
            self.cluster.clock_us = self.clock.now();
            let performed = self.cluster.perform(system, access);
            self.cluster.fail(system, self.plan.failure);
            self.do_chores();
            if let Some((node, served)) = performed {
                self.begin(QueuedRequest::new(node, access.object, served, self.clock.now()));
                return true;
            }
        }
        false
    }

    /// Returns `true` if the measured time is longer than zero.
    pub(super) fn has_lasted(&self) -> bool {
        self.answered > 0 && self.began.as_ref().is_some_and(|(began, ..)| self.clock.now() > *began)
    }

    /// Starts the measured time.
    fn measure(&mut self) {
        let now = self.clock.now();
        self.began = Some((now, self.cluster.counts, self.clock.busy()));
        for tally in &mut self.tallies {
            *tally = NodeTally { since: tally.since.map(|_| now), ..NodeTally::default() };
        }
    }

    fn begin(&mut self, journey: QueuedRequest) {
        let node = journey.node;
        self.tallies[node].requests += 1;
        if self.cluster.serves(node) {
            self.cluster.loads[node] += 1;
            if self.cluster.loads[node] == underused_below()
                && let Some(since) = self.tallies[node].since.take()
            {
                self.tallies[node].underused_us += self.clock.now() - since;
            }
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.journeys[at as usize] = journey;
                at
            }
            None => {
                self.journeys.push(journey);
                (self.journeys.len() - 1) as u32
            }
        };
        let object = journey.object as usize;
        if journey.reads() {
            self.reading[object] = at + 1;
        } else if journey.is_local() && self.reading[object] != 0 {
            let reader = self.reading[object] - 1;
            if self.journeys[reader as usize].node == node {
                self.journeys[at as usize].follow(reader);
            }
        }
        self.next_stage(at);
    }

    /// Moves a journey to its next leg. Returns `true` when the journey was at its last.
    pub(super) fn next_stage(&mut self, at: u32) -> bool {
        let leg = self.journeys[at as usize].next(&self.service);
        match leg {
            RequestStage::Processor(node, us) => self.visit(self.processor(node), us, at),
            RequestStage::Disk(node, us) => {
                let object = self.journeys[at as usize].object;
                self.visit(self.disk(node, object), us, at);
            }
            RequestStage::Way(us) => self.clock.travel(us, at),
            RequestStage::Wait(reader) => {
                // The read may be over, and the journey's place reused.
                let object = self.journeys[at as usize].object as usize;
                if self.reading[object] != reader + 1 {
                    return self.next_stage(at);
                }
                let first = self.journeys[reader as usize].waiting.replace(at);
                self.journeys[at as usize].behind = first;
            }
            RequestStage::Read => {
                let QueuedRequest { object, .. } = self.journeys[at as usize];
                if self.reading[object as usize] == at + 1 {
                    self.reading[object as usize] = 0;
                }
                let mut waiting = self.journeys[at as usize].waiting.take();
                while let Some(other) = waiting {
                    waiting = self.journeys[other as usize].behind.take();
                    self.next_stage(other);
                }
                return self.next_stage(at);
            }
            RequestStage::Over => {
                self.end(at);
                return true;
            }
        }
        false
    }

    fn end(&mut self, at: u32) {
        let QueuedRequest { node, began, .. } = self.journeys[at as usize];
        let now = self.clock.now();
        if self.cluster.loads[node] != OUT_OF_SERVICE {
            self.cluster.loads[node] -= 1;
            if self.cluster.loads[node] + 1 == underused_below() {
                self.tallies[node].since = Some(now);
            }
        }
        if self.began.is_some() {
            self.answered += 1;
            self.delay_us += now - began;
        }
        self.free.push(at);
    }

    fn do_chores(&mut self) {
        let Some(mut chores) = self.cluster.chores.take() else { return };
        for chore in chores.drain(..) {
            match chore {
                BackgroundOp::Message(node) => {
                    self.clock.chore(self.processor(node), self.service.message_us)
                }
                BackgroundOp::Write(node) => self.clock.chore(self.disk(node, 0), self.service.disk_us),
                BackgroundOp::Block { from, to } => {
                    self.clock.chore(self.processor(from), self.service.send_us);
                    self.clock.chore(self.processor(to), self.service.send_us);
                }
            }
        }
        self.cluster.chores = Some(chores);
    }

    fn visit(&mut self, station: usize, us: u64, journey: u32) {
        self.clock.visit(station, us, journey);
    }

    fn processor(&self, node: usize) -> usize {
        if node == SERVER { 2 * self.tallies.len() } else { 2 * node }
    }

    /// Returns the disk where a node, or the server, keeps an object.
    fn disk(&self, node: usize, object: u32) -> usize {
        let one = if node == SERVER { object as usize % self.service.server_disks.max(1) } else { 0 };
        self.processor(node) + 1 + one
    }

    pub(super) fn outcome(self) -> ThroughputResult {
        let Some((began, before, busy_before)) = &self.began else { return ThroughputResult::default() };
        let us = self.clock.now() - began;
        let share = |us_busy: u64| if us > 0 { us_busy as f64 / us as f64 } else { 0.0 };
        let busy: Vec<f64> =
            self.clock.busy().iter().zip(busy_before).map(|(all, before)| share(all - before)).collect();
        let of = |node: usize, tally: &NodeTally| {
            let since = tally.since.map_or(0, |since| self.clock.now() - since);
            NodeUtilization {
                requests: tally.requests,
                processor: busy[2 * node].min(1.0),
                disk: busy[2 * node + 1].min(1.0),
                underused: share(tally.underused_us + since).min(1.0),
            }
        };
        let (server, disks) = (self.tallies.len(), self.service.server_disks.max(1) as f64);
        ThroughputResult {
            counts: self.cluster.counts.since(before),
            answered: self.answered,
            seconds: us as f64 / 1e6,
            delay_ms: self.delay_us as f64 / 1e3 / self.answered.max(1) as f64,
            nodes: self.tallies.iter().enumerate().map(|(node, tally)| of(node, tally)).collect(),
            server: NodeUtilization {
                processor: busy[2 * server].min(1.0),
                disk: (busy[2 * server + 1..].iter().sum::<f64>() / disks).min(1.0),
                ..NodeUtilization::default()
            },
        }
    }
}

/// Returns the number of requests below which a node is underused: 40% of T_low.
const fn underused_below() -> u32 {
    Thresholds::PAI.low * 2 / 5
}
