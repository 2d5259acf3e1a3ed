//! Shared memory of a cluster, by the access logs of its nodes: RAM hits and disk reads without it,
//! with it, and of one node with all the memory.
//!
//! The decisions are those of a running node:
//! [`PutPlan`](shoal_cooperation::global_memory::PutPlan) and its companions (Voelker 2000, chapter
//! 3), S3-FIFO for the RAM, placement by digests that are pulled each second. The disk of each node
//! holds all that the node has stored. No message is lost, and no server is short of CPU: the
//! results are a bound from above.
//!
//! Messages take no time in the decisions. With [`FleetTimes`] their times are counted beside, and
//! the tuner of the load balancing rate runs as in a node.
//!
//! Each request that RAM does not answer has its reason. Cost: O(log pages) a request.

mod ideal;
mod node;
mod table;
#[cfg(test)]
mod tests;
mod timing;

pub use ideal::ideal_disk_reads;
pub use table::fleet_text;
pub use timing::{FleetTimes, PageTraffic};

use node::{Evicted, FleetLookup, FleetNode};
use shoal_cooperation::NodeId;
use shoal_core::Key;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use timing::FleetClock;

/// Request to one of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetRequest {
    /// Time since the start. Requests are in the order of their times.
    pub time: Duration,
    /// Number of the node.
    pub node: usize,
    /// Object.
    pub object: Key,
    /// Bytes of the body.
    pub bytes: u64,
}

/// Settings of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// Number of nodes.
    pub nodes: usize,
    /// RAM of each node, in bytes.
    pub ram_bytes: u64,
    /// Bytes of RAM for an object beside its body.
    pub beside_body: u64,
    /// Largest body in RAM.
    pub ram_object_max: u64,
    /// First requests that are not counted.
    pub warm_up: usize,
    /// Source of the load balancing rate b.
    pub balance: FleetBalance,
    /// Times of pages and disks; `None` if they are not of interest.
    pub times: Option<FleetTimes>,
    /// Seed of the draws.
    pub seed: u64,
}

/// Source of the load balancing rate of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FleetBalance {
    /// A fixed rate.
    Fixed(f64),
    /// The tuner of each node, by the times of its faults.
    Tuned,
}

/// Setting of a fleet that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetForm {
    /// Each node has its own memory.
    Apart,
    /// Nodes share memory.
    Shared,
    /// One node has the memory of all.
    One,
}

/// Source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetSource {
    /// RAM of the node that was asked.
    Ram,
    /// RAM of the node that has the object.
    PeerRam,
    /// Page of shared memory.
    Page,
    /// Disk: the object left RAM, and no node had older memory.
    DiskUnwanted,
    /// Disk: the node that was offered the page declined it.
    DiskDeclined,
    /// Disk: the page was given up later.
    DiskGivenUp,
    /// Disk: memory is not shared, or the object is too large for it.
    DiskAlone,
    /// Origin: the first request for the object.
    OriginFirst,
    /// Origin: another node has the object, and the digests do not tell yet.
    OriginAgain,
}

impl FleetSource {
    /// Returns `true` if neither a disk nor the origin was asked.
    pub fn is_ram(self) -> bool {
        matches!(self, Self::Ram | Self::PeerRam | Self::Page)
    }

    /// Returns `true` if a disk was read.
    pub fn is_disk(self) -> bool {
        matches!(self, Self::DiskUnwanted | Self::DiskDeclined | Self::DiskGivenUp | Self::DiskAlone)
    }
}

/// Counts of a fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetOutcome {
    /// Requests that count.
    pub requests: u64,
    /// Requests by the source of their answers.
    pub sources: BTreeMap<FleetSource, u64>,
    /// Pages that nodes took, with the warm-up.
    pub pages_put: u64,
    /// Pages that replaced free memory, own objects, and older pages.
    pub replaced: [u64; 3],
    /// Different objects in all memory at the end, and all objects with their copies.
    pub distinct: (usize, usize),
    /// Traffic of pages, if times are of interest.
    pub traffic: Option<PageTraffic>,
    /// Load balancing rate of the first node at the end.
    pub balance: f64,
}

impl FleetOutcome {
    /// Returns the share of the requests that RAM answered.
    pub fn ram_hit_ratio(&self) -> f64 {
        self.sum(FleetSource::is_ram) as f64 / (self.requests.max(1)) as f64
    }

    /// Returns the number of disk reads.
    pub fn disk_reads(&self) -> u64 {
        self.sum(FleetSource::is_disk)
    }

    /// Returns the number of requests from one source.
    pub fn of(&self, source: FleetSource) -> u64 {
        self.sources.get(&source).copied().unwrap_or(0)
    }

    fn sum(&self, counts: impl Fn(FleetSource) -> bool) -> u64 {
        self.sources.iter().filter(|(source, _)| counts(**source)).map(|(_, count)| count).sum()
    }
}

/// Runs requests through a fleet.
pub fn run_fleet(requests: &[FleetRequest], settings: &FleetSettings, form: FleetForm) -> FleetOutcome {
    let mut fleet = Fleet::new(settings, form);
    let mut outcome = FleetOutcome::default();
    for (number, request) in requests.iter().enumerate() {
        debug_assert!(request.node < settings.nodes);
        fleet.tick_until(request.time);
        if number == settings.warm_up {
            fleet.clock.iter_mut().for_each(|clock| clock.count_from(request.time));
        }
        let node = if form == FleetForm::One { 0 } else { request.node % settings.nodes };
        let source = fleet.request(node, request);
        if number >= settings.warm_up {
            outcome.requests += 1;
            *outcome.sources.entry(source).or_default() += 1;
        }
    }
    outcome.pages_put = fleet.pages_put;
    outcome.replaced = fleet.replaced;
    outcome.distinct = fleet.distinct();
    outcome.balance = fleet.nodes.first().map_or(0.0, |node| node.balance(settings.balance));
    outcome.traffic = fleet.clock.map(|clock| clock.traffic(fleet.now));
    outcome
}

struct Fleet {
    settings: FleetSettings,
    form: FleetForm,
    nodes: Vec<FleetNode>,
    /// Time of the latest reports, plans and digests.
    ticked: Duration,
    now: Duration,
    draws: u64,
    pages_put: u64,
    replaced: [u64; 3],
    clock: Option<FleetClock>,
}

impl Fleet {
    fn new(settings: &FleetSettings, form: FleetForm) -> Self {
        let (nodes, ram) = match form {
            FleetForm::One => (1, settings.ram_bytes * settings.nodes as u64),
            _ => (settings.nodes, settings.ram_bytes),
        };
        let mut fleet = Self {
            settings: *settings,
            form,
            nodes: (0..nodes).map(|_| FleetNode::new(ram, nodes, settings.times)).collect(),
            ticked: Duration::ZERO,
            now: Duration::ZERO,
            draws: settings.seed,
            pages_put: 0,
            replaced: [0; 3],
            clock: settings.times.map(|times| FleetClock::new(times, nodes)),
        };
        fleet.tick(Duration::ZERO);
        fleet
    }

    /// Does the work of each second until a time. In a long pause the last seconds suffice.
    fn tick_until(&mut self, now: Duration) {
        debug_assert!(now >= self.now, "requests are in order");
        if now.saturating_sub(self.ticked) > TICK * TICKS_MAX {
            self.ticked = now - TICK * TICKS_MAX;
        }
        while self.ticked + TICK <= now {
            self.tick(self.ticked + TICK);
        }
        self.now = now;
    }

    fn tick(&mut self, now: Duration) {
        self.ticked = now;
        if self.form != FleetForm::Shared {
            return;
        }
        let reports: Vec<_> = self.nodes.iter().map(|node| node.report(now)).collect();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let others = reports.iter().enumerate().filter(|(other, _)| *other != number);
            others.for_each(|(other, report)| node.reports.heard(node_id(other), *report, now));
            node.make_plan(reports[number].role, self.settings.balance, now);
        }
    }

    fn request(&mut self, node: usize, request: &FleetRequest) -> FleetSource {
        if let FleetLookup::Found(source) = self.look(node, request) {
            return source;
        }
        // Digests are as old as the latest pull.
        let told =
            |holder: &FleetNode| holder.stored.get(&request.object).is_some_and(|at| *at <= self.ticked);
        let count = self.nodes.len();
        let holder = (1..count).map(|step| (node + step) % count).find(|other| told(&self.nodes[*other]));
        if let Some(holder) = holder
            && let FleetLookup::Found(source) = self.look(holder, request)
        {
            return if source == FleetSource::Ram { FleetSource::PeerRam } else { source };
        }
        let is_known = self.nodes.iter().any(|other| other.stored.contains_key(&request.object));
        self.nodes[node].stored.insert(request.object, self.now);
        self.bring_in(node, request);
        if is_known { FleetSource::OriginAgain } else { FleetSource::OriginFirst }
    }

    /// Looks for an object in the memory and on the disk of a node.
    fn look(&mut self, node: usize, request: &FleetRequest) -> FleetLookup {
        let now = self.now;
        let Some(found) = self.nodes.get_mut(node) else { return FleetLookup::Absent };
        if found.hit(request.object, now) {
            return FleetLookup::Found(FleetSource::Ram);
        }
        if let Some(server) = found.placed.take(request.object).map(|place| place.node.0 as usize) {
            let page = page_number(request.object);
            let back = self.nodes[server].guests.take(node_id(node), page);
            if back.is_some() {
                let seconds = self.clock.as_mut().map(|clock| clock.getpage(server, now));
                self.nodes[node].got_page(seconds);
                self.bring_in(node, request);
                return FleetLookup::Found(FleetSource::Page);
            }
        }
        let found = &self.nodes[node];
        if !found.stored.contains_key(&request.object) {
            return FleetLookup::Absent;
        }
        let reason = found.fates.get(&request.object).copied().unwrap_or(FleetSource::DiskAlone);
        let seconds = self.clock.as_ref().map(FleetClock::disk_seconds);
        self.nodes[node].read_disk(seconds);
        self.bring_in(node, request);
        FleetLookup::Found(reason)
    }

    /// Takes an object into RAM. Objects that leave for it are offered to other nodes.
    fn bring_in(&mut self, node: usize, request: &FleetRequest) {
        let weight = request.bytes.saturating_add(self.settings.beside_body);
        let now = self.now;
        self.nodes[node].forget(request.object);
        if request.bytes > self.settings.ram_object_max || weight > self.nodes[node].ram_bytes {
            return;
        }
        let left = self.nodes[node].make_room(weight, now);
        self.tell_owners(node);
        self.nodes[node].insert(request.object, weight, now);
        // An offer may push objects out of its server's RAM, which are offered in turn.
        let mut offers: VecDeque<_> = left.into_iter().map(|evicted| (node, evicted)).collect();
        for _ in 0..OFFERS_MAX {
            let Some((owner, evicted)) = offers.pop_front() else { break };
            offers.extend(self.offer(owner, evicted));
        }
    }

    /// Offers an object that has left RAM. Returns the objects that left the server's RAM for it.
    fn offer(&mut self, node: usize, (object, weight, age, turn): Evicted) -> Vec<(usize, Evicted)> {
        if self.form != FleetForm::Shared {
            return Vec::new();
        }
        self.draws += 1;
        let draw = (shoal_core::mixed(self.draws) >> 11) as f64 / (1u64 << 53) as f64;
        let owner = &mut self.nodes[node];
        if !owner.placed.leaves(object, turn) {
            return Vec::new();
        }
        let Some(server) = owner.plan.choose(age, draw, &[]) else {
            owner.stays(object, turn, FleetSource::DiskUnwanted);
            return Vec::new();
        };
        let server = server.0 as usize;
        let Some((replaced, left)) = self.nodes[server].room_for(node_id(node), weight, (age, self.now))
        else {
            self.nodes[node].stays(object, turn, FleetSource::DiskDeclined);
            return Vec::new();
        };
        self.pages_put += 1;
        self.replaced[replaced] += 1;
        self.clock.iter_mut().for_each(|clock| clock.putpage(server, self.now));
        let used = self.now.saturating_sub(age);
        self.nodes[server].guests.put(node_id(node), page_number(object), (), (weight, used));
        self.nodes[node].is_placed(object, turn, node_id(server), weight);
        self.tell_owners(server);
        left.into_iter().map(|evicted| (server, evicted)).collect()
    }

    /// Tells owners of the pages that a node has given up. A running node does so with answers.
    fn tell_owners(&mut self, server: usize) {
        for owner in 0..self.nodes.len() {
            for page in self.nodes[server].guests.take_gone(node_id(owner), usize::MAX) {
                let object = Key::from_bytes(page.to_le_bytes());
                if self.nodes[owner].placed.gone(object, node_id(server)) {
                    self.nodes[owner].fates.insert(object, FleetSource::DiskGivenUp);
                }
            }
        }
    }

    fn distinct(&self) -> (usize, usize) {
        let objects = self.nodes.iter().flat_map(FleetNode::objects);
        let mut all: Vec<Key> = objects.collect();
        let copies = all.len();
        all.sort_unstable();
        all.dedup();
        (all.len(), copies)
    }
}

fn node_id(number: usize) -> NodeId {
    NodeId(number as u64)
}

fn page_number(object: Key) -> u128 {
    u128::from_le_bytes(object.to_bytes())
}

/// Interval of reports, plans and digests.
const TICK: Duration = Duration::from_secs(1);

/// Seconds of a pause that are worked through: reports and rates have settled by then.
const TICKS_MAX: u32 = 30;

/// Offers of one request at most.
const OFFERS_MAX: usize = 4096;
