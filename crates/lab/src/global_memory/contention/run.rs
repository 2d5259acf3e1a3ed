//! One run: nodes in the order of time, epochs by putpages.

use super::server::{Held, IdleServer};
use super::{BalancingRate, ContentionResult, ContentionSetup, Targets, UtilizationLimits};
use crate::global_memory::recency::Recency;
use crate::global_memory::{Application, Faults, stack};
use shoal_cooperation::global_memory::{
    Frequencies, PagePlace, PrivatePages, ReplacementEpoch, RequestRate, Tuner, epoch_pages, target_weights,
    unused,
};
use shoal_trace::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A simulation under way.
#[derive(Clone)]
pub(super) struct ContentionRun<'a> {
    setting: &'a ContentionSetup,
    nodes: Vec<GlobalNode<'a>>,
    servers: Vec<IdleServer>,
    random: Random,
    /// Time of each node's next fault, in nanoseconds, the earliest first.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    /// Time of the last step, in nanoseconds.
    now: u64,
    /// References of all nodes so far.
    references: u64,
    /// References of the warm-up.
    warm_references: u64,
    epoch: Epoch,
    tuner: Option<Tuner>,
    found: ContentionResult,
    getpage_seconds: f64,
    fault_seconds: f64,
    busy: Vec<f64>,
}

/// A global node with its program.
#[derive(Clone)]
struct GlobalNode<'a> {
    application: &'a Application,
    /// Index of the next reference; the index wraps around.
    next: usize,
    /// Page of the fault that the node has come to.
    wanted: Option<u32>,
    local_pages: usize,
    /// Computing time between two references, in seconds.
    think_seconds: f64,
    local: Recency,
    /// Frames and entries of the global-cache directory. Pages are private, so that their user
    /// manages them.
    pages: PrivatePages,
    /// Time of each page's last use, in microseconds.
    last_used: Vec<u64>,
    /// Getpages and putpages in this epoch.
    requests: u64,
    frequencies: Rc<Frequencies>,
}

/// Facts known in an epoch, and measurements of it.
#[derive(Clone)]
struct Epoch {
    began: f64,
    known: ReplacementEpoch,
    faults: u64,
    fault_seconds: f64,
}

impl<'a> ContentionRun<'a> {
    pub fn new(applications: &[&'a Application], setting: &'a ContentionSetup) -> Self {
        let servers: Vec<IdleServer> =
            setting.idle_pages.iter().enumerate().map(|(at, pages)| server(setting, at, *pages)).collect();
        let think = applications.iter().map(|one| think_seconds(one, setting.costs.think_seconds));
        let think: Vec<f64> = think.collect();
        let mut random = Random::new(setting.seed);
        let node = |index: usize| {
            let which = index % applications.len();
            GlobalNode::new(applications[which], think[which], random.bits())
        };
        let nodes: Vec<GlobalNode<'a>> = (0..setting.global_nodes).map(node).collect();
        let tuner = match setting.balancing {
            BalancingRate::Fixed(_) => None,
            BalancingRate::Tuned(first) => Some(Tuner::new(first)),
        };
        let mut run = Self {
            setting,
            busy: vec![0.0; servers.len() + usize::from(setting.newcomer_pages.is_some())],
            agenda: (0..nodes.len()).map(|node| Reverse((0, node))).collect(),
            nodes,
            servers,
            random,
            now: 0,
            references: 0,
            warm_references: 0,
            epoch: Epoch::new(),
            tuner,
            found: ContentionResult::default(),
            getpage_seconds: 0.0,
            fault_seconds: 0.0,
        };
        run.begin_epoch(0.0);
        run
    }

    /// Fills memories, and lets the newcomer in. Returns the time.
    pub fn warm_up(&mut self) -> f64 {
        let began = self.advance(self.nodes.len() as u64 * self.setting.warm_up as u64);
        if let Some(pages) = self.setting.newcomer_pages {
            self.servers.push(server(self.setting, self.servers.len(), pages));
        }
        self.begin_epoch(began);
        self.found = ContentionResult::default();
        (self.getpage_seconds, self.fault_seconds) = (0.0, 0.0);
        self.busy.iter_mut().for_each(|busy| *busy = 0.0);
        for server in &mut self.servers {
            server.take_own_waits();
        }
        self.warm_references = self.references;
        began
    }

    /// Goes on until each node has had this many references since the warm-up, on average. Returns
    /// the time.
    pub fn measure(&mut self, references: usize) -> f64 {
        self.advance(self.warm_references + self.nodes.len() as u64 * references as u64)
    }

    /// Ends a run that began to measure at `began`. Returns its results over `measured` references
    /// of a node.
    pub fn end(mut self, measured: usize, began: f64, ended: f64) -> ContentionResult {
        let nodes = self.nodes.len() as u64;
        self.begin_epoch(ended);
        let elapsed = ended - began;
        assert!(elapsed >= 0.0, "the measured part took {elapsed} s");
        let run_over = (self.references - self.warm_references) as f64 / (nodes * measured as u64) as f64;
        let Faults { getpages, disk } = self.found.faults;
        let per = |seconds: f64, count: u64| seconds / count.max(1) as f64;
        let own = self.servers.iter_mut().map(IdleServer::take_own_waits);
        let (pieces, waited) =
            own.fold((0, 0.0), |(pieces, waited), (more, longer)| (pieces + more, waited + longer));
        ContentionResult {
            seconds: elapsed / run_over,
            getpage_seconds: per(self.getpage_seconds, getpages),
            fault_seconds: per(self.fault_seconds, getpages + disk),
            own_wait_seconds: per(waited, pieces),
            // Work that is queued at the end is done after it.
            utilizations: self
                .busy
                .iter()
                .map(|busy| (busy / elapsed.max(f64::MIN_POSITIVE)).min(1.0))
                .collect(),
            ..self.found
        }
    }

    /// Runs nodes until `references` references are done. Returns the time.
    fn advance(&mut self, references: u64) -> f64 {
        while self.references < references
            && let Some(Reverse((at, node))) = self.agenda.pop()
        {
            debug_assert!(at >= self.now, "time goes on: {at} after {}", self.now);
            self.now = at;
            let until = self.step(node, at as f64 / NANOSECONDS);
            self.agenda.push(Reverse(((until * NANOSECONDS) as u64, node)));
        }
        self.now as f64 / NANOSECONDS
    }

    /// Takes the fault that a node has come to, and computes up to its next. Returns the time of
    /// the next fault, in seconds.
    fn step(&mut self, index: usize, now: f64) -> f64 {
        let until = match self.nodes[index].wanted.take() {
            Some(page) => self.fault(index, page, now),
            None => now,
        };
        let node = &mut self.nodes[index];
        debug_assert!(until >= now, "a fault ends before it began");
        let done = node.run_to_fault(until);
        debug_assert!(done > 0, "every step refers to a page");
        self.references += done;
        until + done as f64 * node.think_seconds
    }

    /// Fetches a page that a node does not have. Returns the time of its arrival, in seconds.
    fn fault(&mut self, index: usize, page: u32, now: f64) -> f64 {
        let node = &mut self.nodes[index];
        let until = match node.pages.place(page) {
            PagePlace::Server(server) => {
                node.requests += 1;
                self.servers[server as usize].remove((node.last_used[page as usize], index as u32, page));
                let until =
                    self.servers[server as usize].serve(index, now, self.setting.costs.getpage_seconds);
                self.found.faults.getpages += 1;
                self.getpage_seconds += until - now;
                until
            }
            _ => {
                self.found.faults.disk += 1;
                now + self.setting.costs.disk_seconds
            }
        };
        self.fault_seconds += until - now;
        self.epoch.faults += 1;
        self.epoch.fault_seconds += until - now;
        if let Some(evicted) = self.nodes[index].take_in(page, now) {
            self.put(index, evicted, now);
        }
        until
    }

    /// Sends an evicted page away from its node.
    fn put(&mut self, index: usize, page: u32, now: f64) {
        let draw = self.random.unit();
        let node = &mut self.nodes[index];
        let held: Held = (node.last_used[page as usize], index as u32, page);
        let age = microseconds(now).saturating_sub(held.0);
        if !self.epoch.known.is_worth_putting(age) {
            return node.pages.left(page, None);
        }
        let Some(server) = node.frequencies.choose(draw) else {
            self.found.unplaced += 1;
            return node.pages.left(page, None);
        };
        node.requests += 1;
        node.pages.left(page, Some(server as u16));
        self.servers[server].serve(index, now, self.setting.costs.getpage_seconds);
        if let Some((_, owner, gone)) = self.servers[server].put(held) {
            self.nodes[owner as usize].pages.given_up(gone, server as u16);
        }
        self.found.putpages += 1;
        if self.epoch.known.replaced() {
            self.begin_epoch(now);
        }
    }

    /// Gathers ages and loads for the initiator, and gives every node new frequencies.
    fn begin_epoch(&mut self, now: f64) {
        let elapsed = now - self.epoch.began;
        if let Some(tuner) = self.tuner.as_mut().filter(|_| self.epoch.faults > 0) {
            tuner.epoch(self.epoch.fault_seconds / self.epoch.faults as f64);
        }
        let b = match (&self.tuner, self.setting.balancing) {
            (Some(tuner), _) => tuner.b(),
            (None, BalancingRate::Fixed(b) | BalancingRate::Tuned(b)) => b,
        };
        let capacities: Vec<u64> = self.servers.iter().map(|server| server.capacity() as u64).collect();
        let oldest = epoch_pages(&capacities).max(LEAST_EPOCH);
        let ages: Vec<_> =
            self.servers.iter().map(|server| server.ages(microseconds(now), oldest as usize)).collect();
        let known = ReplacementEpoch::begin(&ages, oldest);
        let (nodes, most) = self.limits(now, elapsed);
        let unused = self.unused(elapsed, &most);
        let weights = match self.setting.targets {
            Targets::Memory => target_weights(&capacities),
            Targets::Equal => target_weights(&vec![1; capacities.len()]),
        };
        self.found.global_nodes = nodes;
        let unbounded = Rc::new(known.unbounded(&weights, b));
        for node in &mut self.nodes {
            node.frequencies = Rc::clone(&unbounded);
            if self.setting.bounded {
                let (bounds, borrowing) =
                    node.bounds(elapsed, nodes, self.setting.costs.getpage_seconds, (&most, &unused));
                node.frequencies = Rc::new(known.frequencies(&weights, b, (&bounds, &borrowing)));
            }
            node.requests = 0;
        }
        self.found.rates.push(b);
        self.epoch = Epoch { began: now, known, ..Epoch::new() };
    }

    /// Returns N_g, and U* of each server.
    fn limits(&mut self, now: f64, elapsed: f64) -> (u32, Vec<f64>) {
        let told: Vec<(u32, f64)> =
            self.servers.iter_mut().map(|server| server.end_epoch(now, elapsed)).collect();
        let nodes = self.nodes.len() as u32;
        match self.setting.limits {
            UtilizationLimits::AllIdle => (nodes, vec![1.0; self.servers.len()]),
            UtilizationLimits::Given => {
                (nodes, self.servers.iter().map(IdleServer::most_for_others).collect())
            }
            UtilizationLimits::Estimated => {
                let most_askers = told.iter().map(|(askers, _)| *askers).max().unwrap_or(1);
                (most_askers, told.iter().map(|(_, most)| *most).collect())
            }
        }
    }

    /// Returns the share of its time for others that each server did not use in the epoch, and adds
    /// up the work.
    fn unused(&mut self, elapsed: f64, most: &[f64]) -> Vec<f64> {
        let mut of = Vec::with_capacity(self.servers.len());
        for ((server, busy), most) in self.servers.iter_mut().zip(&mut self.busy).zip(most) {
            let worked = server.take_busy();
            *busy += worked;
            of.push(if elapsed > 0.0 { unused(*most, worked / elapsed) } else { 0.0 });
        }
        of
    }
}

impl<'a> GlobalNode<'a> {
    fn new(application: &'a Application, think_seconds: f64, draw: u64) -> Self {
        Self {
            application,
            next: (draw % application.references.len() as u64) as usize,
            wanted: None,
            local_pages: application.part(1, 4),
            think_seconds,
            local: Recency::new(application.pages, 1),
            pages: PrivatePages::new(application.pages),
            last_used: vec![0; application.pages],
            requests: 0,
            frequencies: Rc::new(Frequencies { of: Vec::new(), unplaced: 1.0 }),
        }
    }

    /// Moves on to the next page that is not local, or by `LONGEST_STEP` references. Returns the
    /// number of references done, the faulting one included.
    fn run_to_fault(&mut self, now: f64) -> u64 {
        let references = &self.application.references;
        for done in 1..=LONGEST_STEP {
            let page = references[self.next];
            self.next = if self.next + 1 == references.len() { 0 } else { self.next + 1 };
            if self.pages.place(page) != PagePlace::Local {
                self.wanted = Some(page);
                return done;
            }
            self.local.remove(0, page);
            self.local.push(0, page);
            self.last_used[page as usize] = microseconds(now + done as f64 * self.think_seconds);
        }
        LONGEST_STEP
    }

    /// Takes a page in. Returns the page that must leave for it.
    fn take_in(&mut self, page: u32, now: f64) -> Option<u32> {
        self.local.push(0, page);
        self.pages.came(page);
        self.last_used[page as usize] = microseconds(now);
        let oldest = self.local.oldest(0).filter(|_| self.local.len(0) > self.local_pages)?;
        self.local.remove(0, oldest);
        debug_assert!(self.local.len(0) <= self.local_pages, "more pages than frames");
        Some(oldest)
    }

    /// Returns the bounds on a node's frequencies by the servers' U*, and the shares that it may
    /// borrow by their U_e.
    fn bounds(
        &self,
        elapsed: f64,
        nodes: u32,
        service_seconds: f64,
        (most, unused): (&[f64], &[f64]),
    ) -> (Vec<f64>, Vec<f64>) {
        let between = elapsed / self.requests.max(1) as f64;
        match RequestRate::new(between, nodes, service_seconds) {
            Ok(pace) => (
                most.iter().map(|most| pace.bound(*most)).collect(),
                unused.iter().map(|unused| pace.borrowed(*unused)).collect(),
            ),
            // An epoch of no length tells no request rate, and so bounds nothing.
            Err(_) => (vec![f64::INFINITY; unused.len()], vec![0.0; unused.len()]),
        }
    }
}

impl Epoch {
    fn new() -> Self {
        Self { began: 0.0, known: ReplacementEpoch::default(), faults: 0, fault_seconds: 0.0 }
    }
}

/// Returns the server of this number.
fn server(setting: &ContentionSetup, number: usize, pages: usize) -> IdleServer {
    IdleServer::new(pages, setting.own_work.get(number).copied().unwrap_or(0.0))
}

/// Returns a program's computing time between references. With a quarter of its pages local, the
/// program then computes for the think time between faults.
fn think_seconds(application: &Application, between_faults: f64) -> f64 {
    let faults = stack::distances(application).beyond(application.part(1, 4));
    between_faults * faults as f64 / application.references.len() as f64
}

fn microseconds(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

const NANOSECONDS: f64 = 1e9;
/// Least putpages of an epoch; fewer say little.
const LEAST_EPOCH: u64 = 48;
/// References after which a node without faults lets the others go on.
const LONGEST_STEP: u64 = 10_000;
