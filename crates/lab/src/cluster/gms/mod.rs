//! The global memory service: by epochs, evicted pages go to the nodes that hold the oldest.
//!
//! Feeley, Morgan, Pighin, Karlin, Levy, Thekkath, *Implementing global memory management in a
//! workstation cluster*, SOSP 1995; Voelker 2000, section 2.1.3. At the start of an epoch an
//! initiator learns the ages of all pages. The initiator tells each node the share of the M oldest
//! pages on every node. A node that evicts the last copy of a page draws its target by those
//! shares; a duplicate is dropped. A page got from another node's memory moves when its holder does
//! not use it itself. [`shoal_cooperation::global_memory`] selects the target, with the load
//! balancing rate b as an option: 0 is GMS.
//!
//! [`Gms::by_replies`] has no initiator (Sarkar and Hartman 1996; Voelker 2000, section 3.6.3). A
//! node that serves or takes a page tells the age of its oldest pages with its reply. Each node
//! puts pages by the latest ages that it heard.
//!
//! A page is found by the three directories of [`shoal_cooperation::global_memory`]. The asking
//! node's page-frame directory says whether the page is here. Its page-ownership directory names
//! the page's manager. The manager's part of the global-cache directory knows the other holders, as
//! far as nodes told it. The manager passes the request on to a holder, or to the disk. A getpage
//! tells its manager in passing; [`Gms::told`] counts all changes that nodes tell, which delay
//! nobody here.

mod directories;

use super::{BackgroundOp, Cluster, ClusterScheme, LocatedBy, NodeMemory, ServedFrom};
use directories::{Directories, ManagedPage, kind};
use shoal_cooperation::global_memory::{
    AgeGroup, FrameKind, Frequencies, ReplacementEpoch, ReportedAges, epoch_pages, select, target_weights,
};
use shoal_trace::Random;

/// Global memory service.
pub struct Gms {
    b: f64,
    disks: DiskPlacement,
    directories: Directories,
    /// Ages that each node was told with replies; `None` with an initiator.
    reported: Option<Vec<ReportedAges>>,
    random: Random,
    frequencies: Frequencies,
    epoch: ReplacementEpoch,
}

/// Place of the disk that serves pages no memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPlacement {
    /// The server's memory and disk.
    Server,
    /// The asking node's own disk.
    Own,
}

impl Gms {
    /// Creates GMS with a load balancing rate from 0 to 1, and the seed of its random draws.
    pub fn new(b: f64, seed: u64, disks: DiskPlacement) -> Self {
        assert!(!b.is_nan(), "a rate is a number");
        Self {
            b: b.clamp(0.0, 1.0),
            disks,
            directories: Directories::default(),
            reported: None,
            random: Random::new(seed),
            frequencies: Frequencies { of: Vec::new(), unplaced: 1.0 },
            epoch: ReplacementEpoch::default(),
        }
    }

    /// Lets nodes learn ages from replies instead of an initiator.
    #[must_use]
    pub fn by_replies(self) -> Self {
        Self { reported: Some(Vec::new()), ..self }
    }

    /// Returns the number of pages that nodes told to another node as come or gone.
    pub fn told(&self) -> u64 {
        self.directories.told
    }

    /// Asks along the directories for a page that the node does not hold.
    fn ask(&mut self, cluster: &mut Cluster, node: usize, managed: ManagedPage) -> ServedFrom {
        let ManagedPage { page, manager } = managed;
        let asking = u32::from(manager != node);
        if let Some(from) = self.directories.holder(cluster, page, node) {
            let hops = asking + u32::from(manager != from) + 1;
            let asked = if asking == 0 { LocatedBy::Nobody } else { LocatedBy::Node(manager) };
            return ServedFrom::Remote { from, hops, asked };
        }
        if asking > 0 {
            cluster.chore(BackgroundOp::Message(manager));
        }
        match self.disks {
            DiskPlacement::Server => cluster.ask_server(page, 2 + asking).0,
            DiskPlacement::Own => ServedFrom::OwnDisk,
        }
    }

    fn begin_epoch(&mut self, cluster: &Cluster) {
        let capacity =
            |node: usize| if cluster.serves(node) { cluster.nodes[node].capacity() as u64 } else { 0 };
        let capacities: Vec<u64> = (0..cluster.nodes.len()).map(capacity).collect();
        let oldest = epoch_pages(&capacities);
        let ages = |node: usize| match cluster.serves(node) {
            true => oldest_ages(&cluster.nodes[node], cluster.now, oldest as usize),
            false => Vec::new(),
        };
        let nodes: Vec<Vec<AgeGroup>> = (0..cluster.nodes.len()).map(ages).collect();
        self.epoch = ReplacementEpoch::begin(&nodes, oldest);
        self.frequencies = self.epoch.unbounded(&target_weights(&capacities), self.b);
        debug_assert!(capacities.len() == cluster.nodes.len(), "a weight for each node");
    }

    fn evict(&mut self, cluster: &mut Cluster, node: usize) {
        let Some(object) = cluster.nodes[node].oldest() else { return };
        let last_used = cluster.nodes[node].last_used(object);
        let managed = self.directories.managed(object);
        if self.directories.remove(cluster, node, managed) {
            return;
        }
        let to = match self.reported {
            Some(_) => self.target_by_replies(cluster, node),
            None => self.target_of_epoch(cluster, last_used),
        };
        let Some(to) = to.filter(|to| *to != node && cluster.serves(*to)) else { return };
        if cluster.nodes[to].is_full()
            && let Some(oldest) = cluster.nodes[to].oldest()
        {
            let oldest = self.directories.managed(oldest);
            self.directories.remove(cluster, to, oldest);
        }
        self.directories.insert(cluster, to, managed, (last_used, FrameKind::Global));
        cluster.forward(node, to);
        self.hear(cluster, node, to);
    }

    /// Returns the node that the epoch's frequencies draw for a page; `None` for a page to drop.
    fn target_of_epoch(&mut self, cluster: &Cluster, last_used: u32) -> Option<usize> {
        if self.epoch.is_over() {
            self.begin_epoch(cluster);
        }
        // A dropped page is one of the oldest too. An epoch that did not count it would last as
        // long as all evicted pages are old.
        self.epoch.replaced();
        if !self.epoch.is_worth_putting(u64::from(cluster.now - last_used)) {
            return None;
        }
        self.frequencies.choose(self.random.unit())
    }

    /// Returns the node that a node draws by the ages that it was told.
    fn target_by_replies(&mut self, cluster: &Cluster, node: usize) -> Option<usize> {
        self.hear(cluster, node, node);
        let ages = self.reported.as_ref()?.get(node)?.weights(u64::from(cluster.now));
        let capacities: Vec<u64> = cluster.nodes.iter().map(|memory| memory.capacity() as u64).collect();
        let (unbounded, none) = (vec![f64::INFINITY; ages.len()], vec![0.0; ages.len()]);
        let frequencies = select(&target_weights(&capacities), &ages, self.b, &unbounded, &none).ok()?;
        frequencies.choose(self.random.unit())
    }

    /// Tells a node the age of another node's oldest pages, with a reply.
    fn hear(&mut self, cluster: &Cluster, node: usize, from: usize) {
        let Some(reported) = &mut self.reported else { return };
        if reported.is_empty() {
            *reported = vec![ReportedAges::new(cluster.nodes.len()); cluster.nodes.len()];
        }
        let memory = &cluster.nodes[from];
        let age = match memory.from_oldest().take(REPORTED_PAGE).last() {
            Some((_, last_used)) if memory.is_full() => cluster.now - last_used,
            // A free frame is older than any page.
            _ => u32::MAX,
        };
        debug_assert!(node < reported.len(), "node {node} hears");
        reported[node].report(from, u64::from(age), u64::from(cluster.now));
    }
}

/// Returns a node's report of its oldest pages. Neighbours in age form one group, which is enough
/// for weights.
fn oldest_ages(memory: &NodeMemory, now: u32, most: usize) -> Vec<AgeGroup> {
    debug_assert!(memory.len() <= memory.capacity(), "more pages than frames");
    let free = AgeGroup { age: u64::MAX, pages: (memory.capacity() - memory.len()) as u64 };
    let group =
        |(last_used, pages): (u32, usize)| AgeGroup { age: u64::from(now - last_used), pages: pages as u64 };
    std::iter::once(free).chain(memory.runs_from_oldest(most, PAGES_A_GROUP).map(group)).collect()
}

impl ClusterScheme for Gms {
    fn name(&self) -> &'static str {
        if self.reported.is_some() { "gms, ages by replies" } else { "gms" }
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        self.directories.know(cluster);
        if self.epoch.is_over() && self.reported.is_none() {
            self.begin_epoch(cluster);
        }
        let managed = self.directories.managed(object);
        let served = self.ask(cluster, node, managed);
        if let ServedFrom::Remote { from, .. } = served {
            if kind(&cluster.nodes[from], object).is_left_by_getpage() {
                self.directories.remove(cluster, from, managed);
            }
            self.hear(cluster, node, from);
        }
        if cluster.nodes[node].is_full() {
            self.evict(cluster, node);
        }
        let now = cluster.now;
        self.directories.insert(cluster, node, managed, (now, FrameKind::Local));
        debug_assert!(cluster.nodes[node].has(object), "the node has what it asked for");
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        self.directories.written(cluster, node, object);
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        self.directories.lose(cluster, node);
        // The epoch's facts about the node are out of date.
        self.epoch.end();
    }
}

/// x: the x-th oldest page, of which a reply tells the age.
const REPORTED_PAGE: usize = 16;
/// Pages in one group of an initiator's report.
const PAGES_A_GROUP: usize = 16;
