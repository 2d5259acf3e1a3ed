//! Every system of chapter 2 by its name, with its options.

use super::pager::{Mirrors, NoRedundancy, Parity, ParityLog};
use super::{
    Central, ClusterScheme, ClusterSize, Direct, DiskPlacement, Dodo, FrontEnd, Gms, Greedy,
    HashDistribution, NChance, Pager, RegionReplacement, WeightedLru,
};

/// Systems by name, with their constructors.
pub const SYSTEMS: [(&str, SchemeConstructor); 19] = [
    ("direct", |size, options| Box::new(Direct::new(size, &options.is_idle(size)))),
    ("greedy", |_, _| Box::new(Greedy)),
    ("central", |size, options| Box::new(Central::new(size, options.coordinated))),
    ("hashed", |size, options| Box::new(HashDistribution::new(size, options.coordinated))),
    ("n_chance", |_, options| {
        let exact = NChance::new(options.chances, options.seed);
        Box::new(if options.searched > 0 { exact.searching(options.searched) } else { exact })
    }),
    ("weighted_lru", |_, _| Box::new(WeightedLru)),
    ("gms", |_, options| Box::new(Gms::new(options.b, options.seed, DiskPlacement::Server))),
    ("pager", |size, options| {
        Box::new(Pager::new(size, &options.is_idle(size), NoRedundancy::new(size.objects)))
    }),
    ("pager_mirroring", |size, options| {
        Box::new(Pager::new(size, &options.is_idle(size), Mirrors::new(size.objects)))
    }),
    ("pager_parity", |size, options| {
        Box::new(Pager::new(size, &options.is_idle(size), Parity::new(size.objects, options.idle)))
    }),
    ("pager_parity_logging", |size, options| {
        Box::new(Pager::new(size, &options.is_idle(size), ParityLog::new(size.objects, options.idle)))
    }),
    ("dodo", |size, options| {
        Box::new(Dodo::new(size, &options.is_idle(size), options.region, RegionReplacement::Lru))
    }),
    ("dodo_first_in", |size, options| {
        Box::new(Dodo::new(size, &options.is_idle(size), options.region, RegionReplacement::FirstIn))
    }),
    ("wrr", |_, _| Box::new(FrontEnd::wrr())),
    ("wrr_gms", |_, options| Box::new(FrontEnd::wrr_gms(options.seed))),
    ("lb", |_, _| Box::new(FrontEnd::lb())),
    ("lb_gc", |_, _| Box::new(FrontEnd::lb_gc())),
    ("lard", |size, _| Box::new(FrontEnd::lard(size.objects))),
    ("lard_replicated", |size, _| Box::new(FrontEnd::lard_replicated(size.objects))),
];

/// Constructor of a system.
pub type SchemeConstructor = fn(&ClusterSize, &SchemeOptions) -> Box<dyn ClusterScheme>;

/// Makes the system of a name for a cluster.
pub fn named(name: &str, size: &ClusterSize, options: &SchemeOptions) -> Option<Box<dyn ClusterScheme>> {
    SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, make)| make(size, options))
}

/// Options of all systems; each system reads its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeOptions {
    /// Nodes, the last ones, that lend their memory (direct, the pagers, dodo).
    pub idle: usize,
    /// The share of each memory that is coordinated (central, hashed).
    pub coordinated: f64,
    /// Times that a singlet is passed on (n_chance).
    pub chances: u8,
    /// Oldest blocks that a receiver searches for a duplicate to evict, 0 for all (n_chance).
    pub searched: usize,
    /// The load balancing rate (gms).
    pub b: f64,
    /// Pages of a region (dodo).
    pub region: usize,
    /// Seed of random draws (n_chance, gms, wrr_gms).
    pub seed: u64,
}

impl Default for SchemeOptions {
    fn default() -> Self {
        Self { idle: 0, coordinated: 0.8, chances: 2, searched: 0, b: 0.0, region: 16, seed: 1 }
    }
}

impl SchemeOptions {
    fn is_idle(&self, size: &ClusterSize) -> Vec<bool> {
        let active = size.nodes.len().saturating_sub(self.idle);
        (0..size.nodes.len()).map(|node| node >= active).collect()
    }
}
